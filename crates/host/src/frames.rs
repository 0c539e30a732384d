//! Where the kernel puts base pages: how many of their frames lie scattered, and how densely.
//!
//! Walks read page-table entries by the cache line, eight pages each, and a hypervisor's entries by the guest's frames.
//! So scattered frames cost more lines. Only root sees frame numbers (/proc/self/pagemap).

use crate::region::PAGE;
use serde::{Deserialize, Serialize};
use std::{
    collections::HashMap,
    fs::File,
    io::{Read, Seek, SeekFrom},
};

/// Base pages whose entries share a cache line.
const GROUP: u64 = 8;
/// Of an entry of pagemap (Documentation/admin-guide/mm/pagemap.rst): the page is in memory, and its frame.
const PRESENT: u64 = 1 << 63;
const FRAME: u64 = (1 << 55) - 1;
/// Bytes of such an entry.
const ENTRY: usize = 8;

/// The frames of some base pages.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Frames {
    /// Base pages.
    pub pages: u64,
    /// Those in aligned groups of eight frames of which they do not have all.
    pub scattered: u64,
    /// These as a share of their groups' frames; 1 where there are none.
    pub density: f64,
}

impl Frames {
    /// Counts frames by number. None of no frames, and where the system hides all numbers as 0.
    pub fn of(frames: impl IntoIterator<Item = u64>) -> Option<Self> {
        let (mut pages, mut is_seen) = (0, false);
        let mut groups: HashMap<u64, u64> = HashMap::new();
        for frame in frames {
            pages += 1;
            is_seen |= frame != 0;
            *groups.entry(frame / GROUP).or_default() += 1;
        }
        let parts = || groups.values().filter(|&&count| count < GROUP);
        let (scattered, in_part) = (parts().sum(), parts().count() as u64);
        let density = if in_part == 0 { 1.0 } else { scattered as f64 / (GROUP * in_part) as f64 };
        is_seen.then_some(Self { pages, scattered, density })
    }

    /// Those of `bytes` of this process from `start` on; None where they cannot be seen.
    pub fn of_memory(start: usize, bytes: usize) -> Option<Self> {
        let mut entries = vec![0; bytes / PAGE * ENTRY];
        let mut file = File::open("/proc/self/pagemap").ok()?;
        file.seek(SeekFrom::Start((start / PAGE * ENTRY) as u64)).ok()?;
        file.read_exact(&mut entries).ok()?;
        let (words, _) = entries.as_chunks::<ENTRY>();
        Self::of(words.iter().map(|&word| u64::from_le_bytes(word)).filter(|e| e & PRESENT > 0).map(|e| e & FRAME))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_in_groups_that_the_memory_does_not_have_whole_are_scattered() {
        let found = |frames: &[u64]| Frames::of(frames.iter().copied());
        assert_eq!(found(&[8, 9, 10, 11, 12, 13, 14, 15]), Some(Frames { pages: 8, scattered: 0, density: 1.0 }));
        assert_eq!(found(&[8, 24, 40, 41]), Some(Frames { pages: 4, scattered: 4, density: 4.0 / 24.0 }));
        assert_eq!(found(&[0, 0]), None, "hidden");
        assert_eq!(found(&[]), None);
    }
}
