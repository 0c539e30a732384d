//! Hints that a guest's kernel hands on to its host: the blocks of memory that came to lie together as hints of page
//! sizes asked. The paper (3, section V-B) leaves this interface open. Here a host gets the hint once its block is
//! whole, because only then the whole block has a place in the guest's memory.
//!
//! ```text
//! a fault of the hinted size --.
//! the fault that completes     +--> does the block lie together? --> does the host have this hint of this block?
//!   a block, page by page   ---+                                       | no
//! the daemon: made, or found --'                                       v
//!                                                                    Effects::hinted --> the machine: an exit
//! ```

use super::{AddressSpace, Cx, Found};
use crate::HintedBlock;
use mmulab_addr::{BASE_BYTES, BASE_SHIFT, PageOrder, Pfn, VirtAddr};

impl Cx<'_> {
    /// Has a machine that wants to be told know that a block lies together as a hint asked, once.
    pub fn hand_on(&mut self, first: Pfn, size: PageOrder) {
        let block = HintedBlock { first, size };
        if self.handed_on.as_mut().is_some_and(|told| told.add(block)) {
            self.effects.hinted.push(block);
        }
    }
}

impl AddressSpace {
    /// Hands the hint that guides faults at `va` on, if a fault there completed its block.
    #[inline]
    pub fn hand_on_completed(&self, cx: &mut Cx, va: VirtAddr) {
        if cx.handed_on.is_none() {
            return;
        }
        let size = self.hints.for_fault(va.raw()).filter(|size| *size > PageOrder::P4K);
        if let Some(size) = size
            && let Some(head) = self.block_of(cx, va, size)
        {
            cx.hand_on(head, size);
        }
    }

    /// The first frame of the aligned block of frames in which all pages of the aligned `order` around `va` lie, each
    /// at its place. `None` if one is missing, lies elsewhere, or is a page of zeros that many share.
    pub fn block_of(&self, cx: &Cx, va: VirtAddr, order: PageOrder) -> Option<Pfn> {
        let start = va.align_down(order).raw();
        let end = start + order.bytes();
        let leaf_at = |at: u64| match self.probe(cx.mem, VirtAddr::new(at)) {
            Found::Leaf(leaf) if !cx.memory.is_zero(leaf.pfn) => Some(leaf),
            Found::Leaf(_) | Found::Hole(_) => None,
        };
        let here = leaf_at(va.raw())?;
        let head = Pfn(here.translate(va).pfn().0.checked_sub((va.raw() - start) >> BASE_SHIFT)?);
        if !head.0.is_multiple_of(order.base_pages()) {
            return None;
        }
        let in_place = |at: u64| {
            let leaf = leaf_at(at)?;
            let frame = leaf.translate(VirtAddr::new(at)).pfn().0;
            (frame == head.0 + ((at - start) >> BASE_SHIFT)).then_some(leaf.order.bytes())
        };
        // Memory is mostly filled from one end: the neighbours and the ends say soonest that something is missing.
        let page = va.align_down(here.order).raw();
        let next = page.saturating_add(here.order.bytes());
        let soonest = [page.saturating_sub(BASE_BYTES).max(start), next.min(end - BASE_BYTES), start, end - BASE_BYTES];
        soonest.into_iter().try_for_each(|at| in_place(at).map(drop))?;
        let mut at = start;
        while at < end {
            let bytes = in_place(at)?;
            at = (at & !(bytes - 1)) + bytes;
        }
        Some(head)
    }
}
