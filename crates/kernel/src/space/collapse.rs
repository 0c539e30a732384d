//! Promotion by copy: smaller pages copied into one larger page elsewhere in memory.

use super::vma::Vma;
use super::{AddressSpace, Cx, Found, Gather};
use crate::report::counts::{EventKind, Refusal};
use crate::{FaultError, Note, WorkKind};
use mmulab_addr::{BASE_BYTES, PageOrder, Pfn, VirtAddr};

impl AddressSpace {
    /// Copies the base pages at `at` into one huge page (`collapse_huge_page`); whether it was done.
    pub(crate) fn collapse(&mut self, cx: &mut Cx, vma: &Vma, at: u64) -> Result<bool, FaultError> {
        let order = PageOrder::P2M;
        if matches!(self.probe(cx.mem, VirtAddr::new(at)), Found::Leaf(leaf) if leaf.order >= order) {
            return Ok(false);
        }
        if self.next_leaf(cx.mem, at, at + order.bytes()).is_none() {
            cx.refuse(Refusal::CollapseEmpty, at);
            return Ok(false);
        }
        let Some(pfn) = cx.memory.take_frames(order) else {
            cx.refuse(Refusal::ThpNoBlock, at);
            return Ok(false);
        };
        self.collapse_onto(cx, vma, at, pfn, order)?;
        Ok(true)
    }

    /// Copies the mapped pages of the aligned `order` at `at` into the block of frames at `pfn`, which was taken for
    /// it. Zeroes the rest of the block, and maps it as one page.
    ///
    /// # Errors
    /// Frames for page tables ran out.
    pub(crate) fn collapse_onto(
        &mut self,
        cx: &mut Cx,
        vma: &Vma,
        at: u64,
        pfn: Pfn,
        order: PageOrder,
    ) -> Result<(), FaultError> {
        let end = at + order.bytes();
        let (mut present, mut dirty) = (0, false);
        for (_, leaf) in self.leaves(cx.mem, at, end) {
            present += if cx.memory.is_zero(leaf.pfn) { 0 } else { leaf.order.base_pages() };
            dirty |= leaf.dirty;
        }
        cx.memory.resident.act_for(self.region(at));
        cx.memory.own_anon(pfn, order);
        cx.work(WorkKind::CopyBytes, present * BASE_BYTES);
        cx.work(WorkKind::ZeroBytes, order.bytes() - present * BASE_BYTES);
        let mut gather = Gather::default();
        self.zap(cx, at, end, &mut gather);
        // `collapse_huge_page` clears the PMD and flushes its whole span at once.
        gather.note(at, order);
        self.finish(cx, gather);
        let leaf = Self::leaf(vma, pfn, order, vma.prot, dirty);
        self.map(cx, at, leaf).inspect_err(|_| cx.memory.drop_mapping(pfn, order))?;
        self.mark_private(at);
        cx.counts.events.add(EventKind::Collapse, 1);
        cx.tell(|| Note::Collapsed { va: VirtAddr::new(at), size: order, pfn });
        Ok(())
    }
}
