//! Placement *ca*: contiguity-aware paging. Sources: Alverti and others, "Enhancing and Exploiting Contiguity for Fast
//! Memory Virtualization", ISCA 2020, and the published kernel (github.com/cslab-ntua/contiguity-isca2020: `capaging_`
//! in mm/mempolicy.c and mm/page_alloc.c).
//!
//! ```text
//! mapping   [ . . . . . . . . | . . . . . . ]      page - offset = frame
//!             |               '-- a page whose frame was in use: from here on another offset
//! memory    ##[ free region   ]##[ free region  ]###
//!
//! first page of a mapping    the next region, from where the last search ended, of free blocks of the largest size
//!                            that has room for the whole mapping; if none has, the largest one. Its first frame is
//!                            that of the mapping's first page.
//! later pages                the frame at the offset, if it is free
//! else, a page of 2 MiB      a region for what is left of the mapping, and another offset from this page on
//! else, a base page          any frame
//! ```
//!
//! Nothing is reserved, but the offsets are kept with each mapping, which CoalaPaging does without. The search is not
//! charged to the fault: no source says what it takes.

use crate::parts::part::{Part, Wrong};
use crate::parts::traits::Placement;
use crate::ranges::Span;
use crate::report::counts::{EventKind, Refusal};
use crate::space::vma::Vma;
use crate::space::{AddressSpace, Cx};
use mmulab_addr::{BASE_SHIFT, PageOrder, Pfn};

/// Frames at the offsets of mappings.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ca;

impl Part for Ca {
    const NAME: &'static str = "ca";
    const ABOUT: &'static str =
        "The frame at the offset of the mapping, which is placed in a free region as a whole: CA paging.";

    fn new(_: &()) -> Result<Self, Wrong> {
        Ok(Self)
    }
}

impl Ca {
    /// The first frame of a free region for `bytes` bytes of a mapping; the next search begins behind it.
    fn place(cx: &mut Cx, bytes: u64, at: u64) -> Option<Pfn> {
        let wanted = bytes >> BASE_SHIFT;
        let Some((first, frames)) = cx.memory.frames.next_fit(wanted, cx.memory.rover) else {
            cx.refuse(Refusal::CaNoRegion, at);
            return None;
        };
        cx.memory.rover = Pfn(first.0 + frames);
        cx.counts.events.add(EventKind::CaPlaced, 1);
        Some(first)
    }

    /// The pages from `at` on lie `offset` above their frames.
    fn begin(space: &mut AddressSpace, at: u64, offset: i64) {
        if let Some(vma) = space.vmas.value_mut(at) {
            vma.offsets.begin(at, offset);
        }
    }

    /// The offset that `page` has in frame `pfn`.
    fn offset(page: u64, pfn: Pfn) -> i64 {
        page.wrapping_sub(pfn.0) as i64
    }

    /// The frame of `page` at `offset`, on the alignment of `order`: rounded up, as the published kernel does.
    fn target(page: u64, offset: i64, order: PageOrder) -> Pfn {
        let frame = page.wrapping_sub(offset as u64);
        Pfn(frame.checked_next_multiple_of(order.base_pages()).unwrap_or(u64::MAX))
    }
}

impl Placement for Ca {
    fn take(&self, space: &mut AddressSpace, cx: &mut Cx, span: &Span<Vma>, at: u64, order: PageOrder) -> Option<Pfn> {
        let page = at >> BASE_SHIFT;
        // The mapping may have got its offset since `span` was looked up.
        let known = space.vmas.find(at).and_then(|span| span.value.offsets.at(at));
        let (offset, next) = match known {
            Some(found) => found,
            None => {
                let Some(first) = Self::place(cx, span.end - span.start, at) else {
                    return cx.memory.take_anon(order);
                };
                let offset = Self::offset(span.start >> BASE_SHIFT, first);
                Self::begin(space, at, offset);
                (offset, None)
            }
        };
        let target = Self::target(page, offset, order);
        if cx.memory.take_anon_at(target, order) {
            cx.counts.events.add(EventKind::CaInPlace, order.base_pages());
            if Self::offset(page, target) != offset {
                Self::begin(space, at, Self::offset(page, target));
            }
            return Some(target);
        }
        cx.refuse(Refusal::CaTargetTaken, at);
        if order >= PageOrder::P2M
            && let Some(first) = Self::place(cx, next.unwrap_or(span.end) - at, at)
        {
            let target = Self::target(first.0, 0, order);
            if cx.memory.take_anon_at(target, order) {
                Self::begin(space, at, Self::offset(page, target));
                return Some(target);
            }
        }
        cx.memory.take_anon(order)
    }
}
