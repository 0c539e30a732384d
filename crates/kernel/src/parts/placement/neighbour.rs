//! Placement *neighbour*: a page gets the frame beside its neighbour's, so that mappings grow in runs of frames.
//!
//! This is the best-effort contiguity of CA paging, without its offsets by mapping. CA paging: Alverti and others,
//! "Enhancing and Exploiting Contiguity for Fast Memory Virtualization", ISCA 2020. The page table alone leads to the
//! neighbour, as in Elastic Translations' CoalaPaging. Nothing is reserved, so others may take the frame first.
//!
//! ```text
//! pages    n-1   n   n+1           1. the frame above that of page n-1, or below that of page n+1
//!           |    ?    |            2. else as far from the frame of the first page in the same 2 MiB as the pages are
//! frames   f-1   f   f+1              from each other
//!                                  3. else the frame at the page's own offset in a free block of 2 MiB, whose other
//!                                     frames go back: neighbours find room on both sides
//!                                  4. else any frame
//! ```

use crate::memory::pages::Use;
use crate::parts::part::{Part, Wrong};
use crate::parts::traits::Placement;
use crate::ranges::Span;
use crate::space::vma::Vma;
use crate::space::{AddressSpace, Cx};
use mmulab_addr::{BASE_BYTES, BASE_SHIFT, PageOrder, Pfn};
use mmulab_frames::Rest;
use std::ops::Range;

/// Frames beside those of neighbouring pages.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Neighbour;

impl Part for Neighbour {
    const NAME: &'static str = "neighbour";
    const ABOUT: &'static str = "The frame beside that of a neighbouring page, if it is free.";

    fn new(_: &()) -> Result<Self, Wrong> {
        Ok(Self)
    }
}

impl Neighbour {
    /// The first private page of the mapping in a range of addresses, and its frame.
    fn first_private(space: &AddressSpace, cx: &Cx, span: &Span<Vma>, range: Range<u64>) -> Option<(u64, Pfn)> {
        let (start, end) = (range.start.max(span.start), range.end.min(span.end));
        let is_private = |pfn| cx.memory.pages.get(pfn).used == Use::Anon && !cx.memory.is_zero(pfn);
        let (at, leaf) = space.leaves(cx.mem, start, end).find(|(_, leaf)| is_private(leaf.pfn))?;
        // A larger page may begin before the range.
        let va = at.max(start);
        Some((va, Pfn(leaf.pfn.0 + ((va - at) >> BASE_SHIFT))))
    }
}

impl Placement for Neighbour {
    fn take(&self, space: &mut AddressSpace, cx: &mut Cx, span: &Span<Vma>, at: u64, order: PageOrder) -> Option<Pfn> {
        let whole = PageOrder::P2M;
        let around = at & !(whole.bytes() - 1);
        let behind = at.saturating_add(order.bytes());
        let anchors = [
            at.saturating_sub(BASE_BYTES)..at,
            behind..behind.saturating_add(BASE_BYTES),
            around..around.saturating_add(whole.bytes()),
        ];
        for range in anchors {
            let Some((va, frame)) = Self::first_private(space, cx, span, range) else { continue };
            let pages = (at as i64).wrapping_sub(va as i64) >> BASE_SHIFT;
            if let Some(pfn) = frame.0.checked_add_signed(pages).map(Pfn)
                && cx.memory.take_anon_at(pfn, order)
            {
                return Some(pfn);
            }
        }
        let offset = (at - around) >> BASE_SHIFT;
        cx.memory.take_anon_within(whole, offset, order, Rest::Usual).or_else(|| cx.memory.take_anon(order))
    }
}
