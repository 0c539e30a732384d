//! Residual code: the base pages of a code segment that no whole superpage covers. Code is rarely a whole number of
//! superpages, so nearly every program has residual code. Each of its pages needs a TLB entry of its own (paper 2,
//! section VI-A).
//!
//! ```text
//!  0x400000    0x600000    0x800000       0x9f4000 0xa00000             0xbf4000
//!  | superpage | superpage | 500 pages    | 12 short |  gap: 2 MB in all | data
//!                          '-- residual --'
//! ```

use crate::Segment;
use mmulab_addr::{BASE_BYTES, BASE_SHIFT, PageOrder};
use serde::Serialize;

/// The superpage that code is mapped with.
pub const SUPERPAGE: PageOrder = PageOrder::P2M;

/// How a segment stands to whole superpages. At most 511 pages are residual; on a TLB that holds them all they take as
/// many entries.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct Residual {
    /// Aligned superpages that lie whole in the segment.
    pub superpages: u64,
    /// Base pages before the first of them; all pages, if the segment reaches no multiple of 2 MB.
    pub head_pages: u64,
    /// Base pages behind the last of them.
    pub pages: u64,
    /// Base pages that these are short of one more superpage.
    pub short_pages: u64,
    /// Bytes of unused addresses behind the segment; none if no segment follows.
    pub gap: Option<u64>,
}

/// How segment `at` of `segments`, lowest address first, stands to superpages.
pub fn residual_of(segments: &[Segment], at: usize) -> Residual {
    let page_up = |address: u64| address.div_ceil(BASE_BYTES);
    let segment = &segments[at];
    let n = SUPERPAGE.base_pages();
    let (first, end) = (segment.address >> BASE_SHIFT, page_up(segment.address.saturating_add(segment.bytes)));
    let next = segments.get(at + 1).map(|next| (next.address >> BASE_SHIFT).saturating_sub(end) << BASE_SHIFT);
    let (from, to) = (first.div_ceil(n), end / n);
    let (superpages, head_pages, pages) =
        if from <= to { (to - from, from * n - first, end - to * n) } else { (0, end - first, 0) };
    Residual { superpages, head_pages, pages, short_pages: (n - pages % n) % n, gap: next }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn segment(address: u64, bytes: u64, flags: u32) -> Segment {
        Segment { address, bytes, offset: 0, file_bytes: bytes, flags, align: 4096 }
    }

    /// PostgreSQL as Table V of paper 2 has it: S1-042, S1-045 and S1-046.
    #[test]
    fn postgresql_has_500_residual_pages() {
        let segments = [segment(0x40_0000, 0x5f_4000, 5), segment(0xbf_4000, 0xc000, 6)];
        let expected = Residual { superpages: 2, head_pages: 0, pages: 500, short_pages: 12, gap: Some(0x20_0000) };
        assert_eq!(residual_of(&segments, 0), expected);
    }

    proptest! {
        #[test]
        fn residual_pages_are_those_that_counting_finds(first in 0u64..2000, pages in 1u64..2000, gap in 0u64..1000) {
            let segments = [segment(first << 12, pages << 12, 5), segment((first + pages + gap) << 12, 4096, 6)];
            let found = residual_of(&segments, 0);
            let whole = |page: u64| page / 512 * 512 >= first && page / 512 * 512 + 512 <= first + pages;
            let covered = (first..first + pages).filter(|&page| whole(page)).count() as u64;
            prop_assert_eq!(found.superpages * 512, covered);
            prop_assert_eq!(found.superpages * 512 + found.head_pages + found.pages, pages);
            prop_assert!(found.pages <= 511);
            prop_assert_eq!(found.gap, Some(gap << 12));
            if found.pages > 0 {
                prop_assert_eq!((first + pages + found.short_pages) % 512, 0);
            }
        }
    }
}
