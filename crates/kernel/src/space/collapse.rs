//! Promotion by copy: base pages copied into one huge page elsewhere in memory.

use super::vma::Vma;
use super::{AddressSpace, Cx, Found, Gather};
use crate::report::counts::{EventKind, Refusal};
use crate::{FaultError, Note, WorkKind};
use mmulab_addr::{BASE_BYTES, PageOrder, VirtAddr};

impl AddressSpace {
    /// Copies the base pages at `at` into one huge page (`collapse_huge_page`); whether it was done.
    pub(crate) fn collapse(&mut self, cx: &mut Cx, vma: &Vma, at: u64) -> Result<bool, FaultError> {
        let order = PageOrder::P2M;
        if matches!(self.probe(cx.mem, VirtAddr::new(at)), Found::Leaf(leaf) if leaf.order >= order) {
            return Ok(false);
        }
        let end = at + order.bytes();
        let mut present = 0;
        let mut dirty = false;
        let mut is_empty = true;
        for (_, leaf) in self.leaves(cx.mem, at, end) {
            let has_contents = !cx.memory.is_zero(leaf.pfn);
            present += if has_contents { leaf.order.base_pages() } else { 0 };
            dirty |= leaf.dirty;
            is_empty = false;
        }
        if is_empty {
            cx.refuse(Refusal::CollapseEmpty, at);
            return Ok(false);
        }
        cx.memory.resident.act_for(self.region(at));
        let Some(pfn) = cx.memory.take_anon(order) else {
            cx.refuse(Refusal::ThpNoBlock, at);
            return Ok(false);
        };
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
        Ok(true)
    }
}
