//! A prefetcher by instruction: it follows loads whose addresses differ by a constant distance, over the ends of pages
//! too.
//!
//! What it fetches is what the load will ask for, only sooner. So it needs no cache or TLB of its own. A load that it
//! follows begins its walk and its miss when the load some steps before it was made. It waits for what is left of them.
//!
//! ```text
//! load n-3    load n-2    load n-1    load n         (3 steps ahead)
//!   |---- walk ----|---- miss ------------|----| first level
//! ```

use crate::{desc::MemoryTiming, tables::place};

/// Equal steps after which a stride is believed in.
const BELIEVED: u64 = 2;
/// Times kept of each load: as many steps as it can be ahead.
const KEPT: usize = 64;

#[derive(Clone, Copy, Default, Debug)]
struct Stride {
    /// The load instruction and 1; 0 for none.
    load: u64,
    /// The line it asked for last, by virtual address.
    line: u64,
    /// Lines from one to the next.
    step: i64,
    /// Equal steps seen.
    seen: u64,
}

/// A line that was asked for before its load.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Prefetched {
    /// The cycle in which it was asked for.
    pub at: u64,
    /// The load goes from each line to the next.
    pub is_stream: bool,
}

/// The loads that a core follows.
#[derive(Clone, Debug)]
pub struct Strides {
    loads: Box<[Stride]>,
    /// By load: when its last steps were made.
    times: Box<[[u64; KEPT]]>,
    distance: u64,
    stream_distance: u64,
}

impl Strides {
    /// As many loads, and as far ahead, as `desc` says. A step of one line is a stream.
    pub fn new(desc: &MemoryTiming) -> Self {
        let most = KEPT as u64;
        Self {
            loads: vec![Stride::default(); usize::from(desc.strides)].into(),
            times: vec![[0; KEPT]; usize::from(desc.strides)].into(),
            distance: u64::from(desc.stride_distance).min(most),
            stream_distance: u64::from(desc.stream_distance).min(most),
        }
    }

    /// The instruction `load` asks for `line` at `at`. Its prefetch, if there was one.
    #[inline]
    pub fn see(&mut self, load: u64, line: u64, at: u64) -> Option<Prefetched> {
        if self.loads.is_empty() {
            return None;
        }
        let place = place(load, self.loads.len());
        let stride = &mut self.loads[place];
        if stride.load != load + 1 {
            *stride = Stride { load: load + 1, line, ..Stride::default() };
            return None;
        }
        let step = line.wrapping_sub(stride.line) as i64;
        if step == 0 {
            return None;
        }
        stride.line = line;
        if step != stride.step {
            (stride.step, stride.seen) = (step, 1);
            return None;
        }
        stride.seen += 1;
        let is_stream = step.unsigned_abs() == 1;
        let ahead = if is_stream { self.stream_distance } else { self.distance };
        let begun = stride.seen.saturating_sub(ahead).max(BELIEVED);
        let times = &mut self.times[place];
        let began = times[begun as usize % KEPT];
        times[stride.seen as usize % KEPT] = at;
        (begun < stride.seen).then(|| Prefetched { at: began.min(at), is_stream })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn strides(strides: u16) -> Strides {
        Strides::new(&MemoryTiming { strides, stride_distance: 3, stream_distance: 64, ..MemoryTiming::default() })
    }

    #[test]
    fn a_load_with_a_stride_begins_three_steps_sooner() {
        let mut strides = strides(1);
        // The stride is believed in at the third load, from when its prefetches begin.
        let begun: Vec<_> = (0..8).map(|n| strides.see(7, 1000 + 65 * n, 10 * n)).collect();
        let began = [None, None, None, Some(20), Some(20), Some(20), Some(30), Some(40)];
        assert_eq!(begun, began.map(|at: Option<u64>| at.map(|at| Prefetched { at, is_stream: false })));
        // Another step, and back: it is learnt anew.
        assert_eq!(strides.see(7, 5000, 90), None);
        assert_eq!(strides.see(7, 5065, 100), None);
    }

    #[test]
    fn lines_one_after_the_other_are_a_stream_up_or_down() {
        let mut strides = strides(1);
        let down: Vec<_> = (0..100).filter_map(|n| strides.see(7, 1000 - n, n)).collect();
        assert_eq!(down.len(), 97);
        let stream = |at| Prefetched { at, is_stream: true };
        assert_eq!((down[0], down[96]), (stream(2), stream(99 - 64)));
    }

    #[test]
    fn the_same_line_again_is_no_step_and_random_lines_have_no_stride() {
        let mut strides = strides(4);
        assert!(
            [5, 5, 6, 6, 7, 7]
                .into_iter()
                .enumerate()
                .filter_map(|(n, line)| strides.see(1, line, n as u64))
                .next()
                .is_none()
        );
        assert!([9, 2, 700, 33, 8, 1].into_iter().all(|line| strides.see(2, line, 0).is_none()));
    }

    #[test]
    fn two_loads_in_one_place_forget_each_other_and_without_places_none_is_followed() {
        let mut strides = strides(1);
        for n in 0..10 {
            assert_eq!((strides.see(1, n, n), strides.see(2, n, n)), (None, None));
        }
        let mut none = self::strides(0);
        assert!((0..10).all(|n| none.see(1, n, n).is_none()));
    }
}
