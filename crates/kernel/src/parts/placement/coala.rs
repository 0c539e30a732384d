//! Placement *coala*: CoalaPaging, the coalescing-aware placement of Elastic Translations (paper 3, section IV-B and
//! Figure 5). Sixteen pages of an aligned range get sixteen frames of an aligned block, fault by fault. So one entry of
//! hardware can translate them: 16 base pages are 64 KiB, 16 huge pages 32 MiB.
//!
//! ```text
//! entries of the range   [ . | . | . | ? | . | . | A | . | ... ]     ?: the fault   A: an entry that is populated
//!
//! no entry is populated  take a free block as large as the range (or cut it out of a larger one), keep the frame at
//!                        the place of ?, and give the others back, to the ends of their lists
//! A's frame lies at A's  the target is the frame at the place of ? in the same block, if it is free
//! own place in a block
//! else                   any frame
//! ```
//!
//! Nothing is reserved and nothing is remembered but the page table: others may take the frames first.

use crate::WorkKind;
use crate::parts::part::{Part, Wrong};
use crate::parts::traits::Placement;
use crate::ranges::Span;
use crate::space::vma::Vma;
use crate::space::{AddressSpace, Cx};
use mmulab_addr::{BASE_SHIFT, PageOrder, Pfn, VirtAddr};
use mmulab_frames::Rest;
use mmulab_pagetable::Leaf;

/// Log2 of the pages that one entry of a TLB can translate together: 16 with Armv8's contiguous bit.
const GROUP: u8 = 4;

/// Frames at their own places of aligned blocks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Coala;

impl Part for Coala {
    const NAME: &'static str = "coala";
    const ABOUT: &'static str = "The frame at the page's own place in the aligned block of 64 KiB (base pages) or 32 \
         MiB (pages of 2 MiB) that the other pages of its range lie in: CoalaPaging of Elastic Translations.";

    fn new(_: &()) -> Result<Self, Wrong> {
        Ok(Self)
    }
}

impl Coala {
    /// The range that pages of `order` are to fill; none for sizes that hardware does not coalesce.
    fn range_of(order: PageOrder) -> Option<PageOrder> {
        (order == PageOrder::P4K || order == PageOrder::P2M).then(|| PageOrder::new(order.get() + GROUP))
    }

    /// The first page of `order` in the range from `start` on, and where it is mapped. The shared pages of zeros do not
    /// count: they lie nowhere (ours: the paper does not say).
    fn anchor(
        space: &AddressSpace,
        cx: &mut Cx,
        start: u64,
        range: PageOrder,
        order: PageOrder,
    ) -> Option<(u64, Leaf)> {
        let is_anchor = |leaf: &Leaf| leaf.order == order && !cx.memory.is_zero(leaf.pfn);
        let end = start.saturating_add(range.bytes());
        let found = space.leaves(cx.mem, start, end).find(|(_, leaf)| is_anchor(leaf));
        let looked = found.map_or(1 << GROUP, |(at, _)| 1 + (at - start) / order.bytes());
        cx.work(WorkKind::EntryScan, looked);
        found
    }
}

impl Placement for Coala {
    fn take(&self, space: &mut AddressSpace, cx: &mut Cx, _: &Span<Vma>, at: u64, order: PageOrder) -> Option<Pfn> {
        let range = Self::range_of(order);
        // Hints that guide faults say how large the range should become.
        let wants = |range: &PageOrder| space.hints.for_fault(at).is_none_or(|wanted| wanted >= *range);
        let Some(range) = range.filter(wants) else { return cx.memory.take_anon(order) };
        let start = VirtAddr::new(at).align_down(range).raw();
        let place = (at - start) >> BASE_SHIFT;
        let taken = match Self::anchor(space, cx, start, range, order) {
            None => cx.memory.take_anon_within(range, place, order, Rest::Last),
            Some((anchor, leaf)) => {
                let block = leaf.pfn.align_down(range);
                let is_in_place = leaf.pfn.0 - block.0 == (anchor - start) >> BASE_SHIFT;
                let target = Pfn(block.0 + place);
                (is_in_place && cx.memory.take_anon_at(target, order)).then_some(target)
            }
        };
        taken.or_else(|| cx.memory.take_anon(order))
    }
}
