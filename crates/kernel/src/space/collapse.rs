//! Promotion by copy: smaller pages copied into one larger page, or one block, elsewhere in memory.

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
        let dirty = self.move_out(cx, at, pfn, order, order);
        let leaf = Self::leaf(vma, pfn, order, vma.prot, dirty);
        self.map(cx, at, leaf).inspect_err(|_| cx.memory.drop_mapping(pfn, order))?;
        self.mark_private(at);
        cx.counts.events.add(EventKind::Collapse, 1);
        cx.tell(|| Note::Collapsed { va: VirtAddr::new(at), size: order, pfn });
        Ok(())
    }

    /// Copies the mapped pages of the aligned `order` at `at`, which is less than 2 MiB, into a block of frames. The
    /// block is mapped as those of mTHP are; false if none could be had. Linux clears the entry of the lowest table for
    /// it (`collapse_huge_page`), and so flushes all 2 MiB that the table maps.
    ///
    /// # Errors
    /// Frames for page tables ran out.
    pub(crate) fn collapse_to_block(
        &mut self,
        cx: &mut Cx,
        vma: &Vma,
        at: u64,
        order: PageOrder,
    ) -> Result<bool, FaultError> {
        let Some(pfn) = cx.memory.take_frames(order) else {
            cx.refuse(Refusal::MthpNoBlock, at);
            return Ok(false);
        };
        // Sixteen pages that translate as one may reach beyond a smaller block.
        for end in [at, at + order.bytes()] {
            self.split_at(cx, end).inspect_err(|_| cx.memory.frames.free_run(pfn, order.base_pages()))?;
        }
        self.move_out(cx, at, pfn, order, PageOrder::P2M);
        self.lay_block(cx, vma, at, pfn, order)?;
        cx.counts.events.add(EventKind::Collapse, 1);
        cx.tell(|| Note::Collapsed { va: VirtAddr::new(at), size: order, pfn });
        Ok(true)
    }

    /// Copies the mapped pages of the aligned `order` at `at` into the block of frames at `pfn`, zeroes the rest of the
    /// block, and unmaps the pages. The aligned `flushed` around them is flushed. Whether one of them was dirty.
    fn move_out(&mut self, cx: &mut Cx, at: u64, pfn: Pfn, order: PageOrder, flushed: PageOrder) -> bool {
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
        gather.note(VirtAddr::new(at).align_down(flushed).raw(), flushed);
        self.finish(cx, gather);
        dirty
    }
}
