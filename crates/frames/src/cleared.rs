//! Free frames that are known to hold zeros: what a daemon that clears memory ahead of faults leaves behind.
//!
//! Linux itself keeps no such record; HawkEye (Panwar and others, ASPLOS 2019) and FreeBSD up to 10 (`PG_ZERO`) do.

use std::collections::HashMap;

/// Log2 of the frames that one entry of the record is for.
const GROUP: u32 = 9;
const WORDS: usize = (1 << GROUP) / 64;

/// The record: a bit for each frame, kept for the groups of frames that have any.
#[derive(Default)]
pub struct Cleared {
    groups: HashMap<u32, Box<[u64; WORDS]>>,
    /// How many bits are set.
    frames: u64,
}

impl Cleared {
    /// Adds up to `most` of the `count` frames from `first` on; how many of those were not there.
    pub fn add(&mut self, first: u32, count: u32, most: u64) -> u64 {
        let mut added = 0;
        for pfn in first..first + count {
            if added == most {
                break;
            }
            let group = self.groups.entry(pfn >> GROUP).or_insert_with(|| Box::new([0; WORDS]));
            let (word, bit) = place(pfn);
            added += u64::from(group[word] & bit == 0);
            group[word] |= bit;
        }
        self.frames += added;
        added
    }

    /// Takes `count` frames from `first` on out; how many were there.
    pub fn remove(&mut self, first: u32, count: u32) -> u64 {
        if self.frames == 0 {
            return 0;
        }
        let mut removed = 0;
        for pfn in first..first + count {
            let Some(group) = self.groups.get_mut(&(pfn >> GROUP)) else { continue };
            let (word, bit) = place(pfn);
            removed += u64::from(group[word] & bit != 0);
            group[word] &= !bit;
            if group.iter().all(|&word| word == 0) {
                self.groups.remove(&(pfn >> GROUP));
            }
        }
        self.frames -= removed;
        removed
    }
}

/// The word of a frame in its group, and its bit there.
fn place(pfn: u32) -> (usize, u64) {
    let index = pfn & ((1 << GROUP) - 1);
    (index as usize / 64, 1 << (index % 64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_counted_once_and_no_more_than_asked_for() {
        let mut cleared = Cleared::default();
        assert_eq!(cleared.add(500, 100, 30), 30, "the most that was asked for, across the border of a group");
        assert_eq!(cleared.add(500, 100, 100), 70, "the rest of them");
        assert_eq!((cleared.frames, cleared.remove(0, 512), cleared.remove(0, 512)), (100, 12, 0));
        assert_eq!((cleared.remove(512, 512), cleared.frames, cleared.groups.len()), (88, 0, 0));
    }
}
