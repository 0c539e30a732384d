//! Where the kernel puts base pages: how many of their frames lie scattered, how densely, and over how much of memory.
//!
//! Walks read page-table entries by the cache line, eight pages each, and a hypervisor's entries by the guest's frames.
//! So scattered frames cost more lines. Entries of the level above are of 2 MiB each: walks read more of them where
//! frames lie in many such regions. Only root sees frame numbers (/proc/self/pagemap).

use crate::region::PAGE;
use serde::{Deserialize, Serialize};
use std::{
    collections::{HashMap, HashSet},
    fs::File,
    io::{Read, Seek, SeekFrom},
};

/// Entries of a page table that share a cache line.
const GROUP: u64 = 8;
/// Groups of base pages in 2 MiB, which an entry of the level above stands for.
const REGION: u64 = 512 / GROUP;
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
    /// Regions of 2 MiB that have scattered ones; 0 in what was probed before they were counted.
    #[serde(default)]
    pub regions: u64,
    /// Cache lines with the entries of these regions.
    #[serde(default)]
    pub region_lines: u64,
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
        let parts = || groups.iter().filter(|&(_, &count)| count < GROUP);
        let (scattered, in_part) = (parts().map(|(_, count)| count).sum(), parts().count() as u64);
        let density = if in_part == 0 { 1.0 } else { scattered as f64 / (GROUP * in_part) as f64 };
        let regions: HashSet<u64> = parts().map(|(group, _)| group / REGION).collect();
        let lines: HashSet<u64> = regions.iter().map(|region| region / GROUP).collect();
        let (regions, region_lines) = (regions.len() as u64, lines.len() as u64);
        is_seen.then_some(Self { pages, scattered, density, regions, region_lines })
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
        let whole = Frames { pages: 8, scattered: 0, density: 1.0, regions: 0, region_lines: 0 };
        assert_eq!(found(&[8, 9, 10, 11, 12, 13, 14, 15]), Some(whole));
        let parts = Frames { pages: 4, scattered: 4, density: 4.0 / 24.0, regions: 1, region_lines: 1 };
        assert_eq!(found(&[8, 24, 40, 41]), Some(parts));
        // Pages 0 to 511 are the first region, and the ninth one is the first of another line.
        let far = Frames { pages: 4, scattered: 4, density: 1.0 / 8.0, regions: 3, region_lines: 2 };
        assert_eq!(found(&[8, 511, 512, 8 * 512]), Some(far));
        assert_eq!(found(&[0, 0]), None, "hidden");
        assert_eq!(found(&[]), None);
    }
}
