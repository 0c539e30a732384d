//! Private pages put into an address space: new ones, blocks of base pages, and copies of what was shared.

use super::vma::Vma;
use super::{AddressSpace, Cx, Gather};
use crate::memory::pages::Use;
use crate::report::counts::{EventKind, FaultKind};
use crate::{FaultError, Note};
use mmulab_addr::{PageOrder, Pfn, Prot, VirtAddr};
use mmulab_pagetable::Leaf;

impl AddressSpace {
    /// Maps a page of the process's own; gives it back if there is no frame for a table.
    pub(crate) fn map_new(
        &mut self,
        cx: &mut Cx,
        vma: &Vma,
        at: u64,
        pfn: Pfn,
        order: PageOrder,
        dirty: bool,
    ) -> Result<(), FaultError> {
        self.map(cx, at, Self::leaf(vma, pfn, order, vma.prot, dirty))
            .inspect_err(|_| cx.memory.drop_mapping(pfn, order))?;
        self.mark_private(at);
        Ok(())
    }

    /// Maps a block: as one page where the table's format has blocks mapped so, else as base pages, each counted by
    /// itself from now on. If it may be stored to, all are dirty, as `do_anonymous_page` makes them. Gives the size of
    /// the pages.
    pub(crate) fn map_block(
        &mut self,
        cx: &mut Cx,
        vma: &Vma,
        start: u64,
        pfn: Pfn,
        order: PageOrder,
    ) -> Result<PageOrder, FaultError> {
        let size = self.lay_block(cx, vma, start, pfn, order)?;
        cx.counts.events.add(EventKind::MthpFault, 1);
        cx.counts.events.add(EventKind::MthpPages, order.base_pages());
        cx.tell(|| Note::Block { va: VirtAddr::new(start), size: order, pfn });
        Ok(size)
    }

    /// The same for any cause but a fault.
    pub(crate) fn lay_block(
        &mut self,
        cx: &mut Cx,
        vma: &Vma,
        start: u64,
        pfn: Pfn,
        order: PageOrder,
    ) -> Result<PageOrder, FaultError> {
        let is_whole = self.table.format().maps_block(order);
        let size = if is_whole { order } else { cx.memory.base };
        if !is_whole {
            cx.memory.pages.break_up(pfn, order);
        }
        let pages = order.base_pages() / size.base_pages();
        for i in 0..pages {
            let frame = |page: u64| Pfn(pfn.0 + page * size.base_pages());
            let leaf = Self::leaf(vma, frame(i), size, vma.prot, vma.prot.has(Prot::W));
            self.map(cx, start + i * size.bytes(), leaf).inspect_err(|_| {
                (i..pages).for_each(|rest| cx.memory.drop_mapping(frame(rest), size));
            })?;
        }
        self.mark_private(start);
        Ok(size)
    }

    pub fn mark_private(&mut self, va: u64) {
        if let Some(vma) = self.vmas.value_mut(va) {
            vma.has_private = true;
        }
    }

    /// Puts a private copy in the place of `old`.
    pub(crate) fn replace(&mut self, cx: &mut Cx, vma: &Vma, at: u64, old: &Leaf, new: Pfn) {
        let mut gather = Gather::default();
        if cx.memory.is_zero(old.pfn) {
            self.count_out(cx, at, old.order, true);
            self.count_in(cx, at, old.order, false);
        }
        self.set(cx, at, Self::leaf(vma, new, old.order, vma.prot, true), &mut gather);
        self.finish(cx, gather);
        Self::release(cx, old);
        self.mark_private(at);
    }

    /// The processor that faulted drops the translation that made it fault by itself (Intel SDM vol. 3A, section
    /// 4.10.4.1): this costs no kernel work.
    pub(crate) fn drop_stale(&self, cx: &mut Cx, va: u64, order: PageOrder) {
        if let Some(asid) = self.asid {
            cx.effects.invalidations.push(mmulab_pagetable::Invalidate::Page { asid, va: VirtAddr::new(va), order });
        }
    }

    /// Lets a store through that needs no copy: to a shared mapping, or to a page whose only user is this one. `None`:
    /// the page must be copied.
    pub(crate) fn make_writable(&mut self, cx: &mut Cx, vma: &Vma, at: u64, leaf: &Leaf) -> Option<FaultKind> {
        let kind = if vma.shared {
            FaultKind::WriteNotify
        } else {
            let page = cx.memory.pages.get(leaf.pfn);
            let is_own = page.used == Use::Anon && cx.memory.pages.is_exclusive(leaf.pfn, leaf.order);
            is_own.then_some(FaultKind::Reuse)?
        };
        let writable = Leaf { prot: vma.prot.with(Prot::R), accessed: true, dirty: true, ..*leaf };
        self.widen(cx, at, writable);
        self.drop_stale(cx, at, leaf.order);
        Some(kind)
    }
}
