//! A stream prefetcher: it sees a core's misses, and asks for the lines that follow, up to the end of the page.

use crate::{desc::MemoryTiming, tables::PAGE_SHIFT};

/// Steps in one direction after which a stream is believed in.
const BELIEVED: u8 = 2;

#[derive(Clone, Copy, Default, Debug)]
struct Stream {
    /// The page's number and 1; 0 for none.
    page: u64,
    /// The line asked for last, in the page.
    last: i64,
    /// 1 or -1, or 0 before it is known.
    step: i64,
    seen: u8,
    /// The furthest line prefetched.
    ahead: i64,
}

/// The streams a core follows, the latest first.
#[derive(Clone, Debug)]
pub struct Streams {
    streams: Vec<Stream>,
    distance: i64,
}

impl Streams {
    /// As many streams as `desc` says.
    pub fn new(desc: &MemoryTiming) -> Self {
        let streams = vec![Stream::default(); usize::from(desc.streams)];
        Self { streams, distance: i64::from(desc.stream_distance) }
    }

    /// A miss of the first level, or the first use of a line that was prefetched, at line `line` of physical memory.
    /// The lines to be brought: from and to which, both included.
    #[inline]
    pub fn see(&mut self, line: u64) -> Option<(u64, u64)> {
        let (page, offset) = (line >> PAGE_SHIFT, (line & ((1 << PAGE_SHIFT) - 1)) as i64);
        let Some(at) = self.streams.iter().position(|s| s.page == page + 1) else {
            if let Some(oldest) = self.streams.last_mut() {
                *oldest = Stream { page: page + 1, last: offset, ahead: offset, ..Stream::default() };
                self.streams.rotate_right(1);
            }
            return None;
        };
        self.streams[..=at].rotate_right(1);
        let distance = self.distance;
        let stream = self.streams.first_mut()?;
        let step = (offset - stream.last).signum();
        if step == 0 {
            return None;
        }
        if step == stream.step {
            stream.seen = stream.seen.saturating_add(1);
        } else {
            (stream.step, stream.seen, stream.ahead) = (step, 1, offset);
        }
        stream.last = offset;
        if stream.seen < BELIEVED {
            return None;
        }
        let most = (1 << PAGE_SHIFT) - 1;
        let from = if step > 0 { (offset + 1).max(stream.ahead + 1) } else { (offset - 1).min(stream.ahead - 1) };
        let to = (offset + step * distance).clamp(0, most);
        if (to - from) * step < 0 || from < 0 || from > most {
            return None;
        }
        stream.ahead = to;
        let base = page << PAGE_SHIFT;
        Some((base + from.min(to) as u64, base + from.max(to) as u64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn streams() -> Streams {
        Streams::new(&MemoryTiming { streams: 2, stream_distance: 4, ..MemoryTiming::default() })
    }

    #[test]
    fn a_stream_is_followed_up_to_the_end_of_its_page() {
        let mut streams = streams();
        assert_eq!([streams.see(64), streams.see(65)], [None, None]);
        assert_eq!(streams.see(66), Some((67, 70)));
        assert_eq!(streams.see(67), Some((71, 71)));
        // Line 127 is the last of the page.
        assert_eq!(streams.see(125), Some((126, 127)));
        assert_eq!(streams.see(126), None);
        // The next page begins anew.
        assert_eq!(streams.see(128), None);
    }

    #[test]
    fn a_stream_may_go_down_and_random_misses_are_none() {
        let mut streams = streams();
        assert_eq!([streams.see(90), streams.see(89)], [None, None]);
        assert_eq!(streams.see(88), Some((84, 87)));
        let mut streams = self::streams();
        assert!([3, 900, 5, 7000, 1, 77].into_iter().all(|line| streams.see(line * 64).is_none()));
    }
}
