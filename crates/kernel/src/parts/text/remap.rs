//! Which text a program moves onto huge pages of its own.
//!
//! ```text
//!            0x200000      0x400000      0x600000      0x800000
//!       text    [--|-------------|-------------|----]    .  nothing mapped
//!      whole       |=============|=============|            the ends keep the page cache's base pages
//!     padded       |=============|=============|=========|  and what lies behind the text becomes part of it
//! ```
//!
//! Hugify, Intel's iodlr (`large_page-c`) and Chromium's large text do the first. They copy whole, aligned 2M of the
//! text to anonymous memory with MADV_HUGEPAGE, and put the copy in its place by mremap. BOLT's `--hugify` rounds the
//! end up, for its linker leaves the rest of that 2M free.

use crate::ranges::Span;
use crate::space::vma::Vma;
use mmulab_addr::PageOrder;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Which part of a mapping of text is copied.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Remap {
    /// None of it.
    #[default]
    None,
    /// Whole, aligned 2M.
    Whole,
    /// These, and the rest behind them, where nothing else that can be accessed is mapped up to the next multiple of
    /// 2M.
    Padded,
}

impl Remap {
    /// The addresses to move of a mapping: from where, to where. `is_free` says whether nothing is lost if a range is
    /// mapped over.
    pub(crate) fn piece(self, span: &Span<Vma>, is_free: impl Fn(u64, u64) -> bool) -> Option<(u64, u64)> {
        let size = PageOrder::P2M.bytes();
        let start = span.start.checked_next_multiple_of(size)?;
        let whole = span.end & !(size - 1);
        let padded = span.end.checked_next_multiple_of(size);
        let end = match (self, padded) {
            (Self::None, _) => return None,
            (Self::Padded, Some(padded)) if start < span.end && is_free(span.end, padded) => padded,
            (Self::Whole | Self::Padded, _) => whole,
        };
        (start < end).then_some((start, end))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mmulab_addr::Prot;

    fn piece(remap: Remap, start: u64, end: u64, free_to: u64) -> Option<(u64, u64)> {
        remap.piece(&Span { start, end, value: Vma::anon(Prot::RX) }, |_, to| to <= free_to)
    }

    #[test]
    fn whole_pieces_lie_inside_and_padding_needs_room() {
        assert_eq!(piece(Remap::Whole, 0x1ff000, 0x801000, u64::MAX), Some((0x200000, 0x800000)));
        assert_eq!(piece(Remap::Padded, 0x1ff000, 0x801000, u64::MAX), Some((0x200000, 0xa00000)));
        assert_eq!(piece(Remap::Padded, 0x1ff000, 0x801000, 0x9ff000), Some((0x200000, 0x800000)));
        assert_eq!(piece(Remap::Whole, 0x201000, 0x5ff000, u64::MAX), None);
        assert_eq!(piece(Remap::Padded, 0x400000, 0x401000, u64::MAX), Some((0x400000, 0x600000)));
        assert_eq!(piece(Remap::Padded, 0x401000, 0x402000, u64::MAX), None);
        assert_eq!(piece(Remap::None, 0, 0x800000, u64::MAX), None);
        let top = !0xfff_u64;
        assert_eq!(piece(Remap::Padded, 0, top, u64::MAX), Some((0, top & !0x1fffff)));
    }
}
