//! Alignment of ELF segments with groups of pages. A group can become one translation only if its pages have the same
//! place in two aligned groups: of the file and of memory. For each group size, the analysis gives the misalignment in
//! pages and the number of groups that can be coalesced.

use crate::Segment;
use mmulab_addr::{BASE_SHIFT, PageOrder};
use serde::Serialize;

/// The groups that hardware or an operating system may translate by one entry. They are 16 KB (Zen 2 and later), 32 KB
/// (Zen+ and before), 64 KB, and 2 MB superpages (S0-M050).
pub const GROUPS: [PageOrder; 4] = [PageOrder::P16K, PageOrder::P32K, PageOrder::P64K, PageOrder::P2M];

/// How a segment stands to groups of one size.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct Groups {
    /// The group's size.
    pub size: PageOrder,
    /// By how many base pages the segment's address is misaligned with its offset in the file, modulo the group.
    pub shift: u64,
    /// Aligned groups that lie whole in the segment, if it is aligned with the file. Each could be one translation if
    /// the file is in memory that is contiguous and aligned like the file.
    pub coalescible: u64,
}

/// How a segment stands to all of them.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Phase {
    /// Base pages of the file it maps.
    pub pages: u64,
    /// By group size.
    pub groups: Vec<Groups>,
}

/// How `segment` stands to groups of pages, for a program loaded at a multiple of 2 MB.
pub fn phase_of(segment: &Segment) -> Phase {
    let page = |bytes: u64| bytes >> BASE_SHIFT;
    let (first, offset) = (page(segment.address), page(segment.offset));
    let end = page((segment.address + segment.file_bytes).next_multiple_of(1 << BASE_SHIFT));
    let pages = if segment.file_bytes == 0 { 0 } else { end - first };
    let groups = GROUPS.iter().map(|&size| {
        let n = size.base_pages();
        let shift = first.wrapping_sub(offset) % n;
        let (from, to) = (first.div_ceil(n), end / n);
        Groups { size, shift, coalescible: if shift == 0 { to.saturating_sub(from) } else { 0 } }
    });
    Phase { pages, groups: groups.collect() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn segment(first: u64, offset: u64, pages: u64) -> Segment {
        let bytes = pages << 12;
        Segment { address: first << 12, bytes, offset: offset << 12, file_bytes: bytes, flags: 5, align: 4096 }
    }

    proptest! {
        #[test]
        fn groups_are_those_that_counting_finds(first in 0u64..3000, offset in 0u64..3000, pages in 0u64..2000) {
            for found in phase_of(&segment(first, offset, pages)).groups {
                let n = found.size.base_pages();
                let file_page = |page: u64| page - first + offset;
                let counted = (0..=(first + pages) / n)
                    .map(|g| g * n)
                    .filter(|&g| g >= first && g + n <= first + pages && file_page(g) % n == 0)
                    .count() as u64;
                prop_assert_eq!(found.coalescible, counted);
            }
        }
    }

    #[test]
    fn a_shift_of_one_page_leaves_nothing() {
        let phase = phase_of(&segment(7, 6, 1000));
        assert!(phase.groups.iter().all(|g| g.shift == 1 && g.coalescible == 0));
    }
}
