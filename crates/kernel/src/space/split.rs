//! Large pages made small: mappings split where an operation needs part of one.

use super::{AddressSpace, Found, Gather};
use crate::report::counts::EventKind;
use crate::space::cx::Cx;
use crate::{FaultError, Note, Wanted, WorkKind};
use mmulab_addr::{Pfn, VirtAddr, Vpn};
use mmulab_pagetable::Leaf;

impl AddressSpace {
    /// Makes sure that no page lies across `at`.
    pub fn split_at(&mut self, cx: &mut Cx, at: u64) -> Result<(), FaultError> {
        let va = VirtAddr::new(at);
        while let Found::Leaf(leaf) = self.probe(cx.mem, va) {
            if va.offset_in(leaf.order) == 0 {
                break;
            }
            self.split(cx, va.align_down(leaf.order).raw(), leaf)?;
        }
        let vpn = va.vpn();
        if let Some((&first, leaf)) = self.hidden.range(..vpn).next_back()
            && first.0 + leaf.order.base_pages() > vpn.0
        {
            self.split_hidden(cx, first);
        }
        Ok(())
    }

    /// Replaces the hidden page at `first` by base pages.
    pub fn split_hidden(&mut self, cx: &mut Cx, first: Vpn) {
        let Some(leaf) = self.hidden.remove(&first) else { return };
        self.break_zero_or_page(cx, &leaf);
        let zero = cx.memory.is_zero(leaf.pfn).then_some(cx.memory.zero);
        let base = self.base();
        for i in (0..leaf.order.base_pages()).step_by(base.base_pages() as usize) {
            let part = Leaf { pfn: zero.unwrap_or(Pfn(leaf.pfn.0 + i)), order: base, ..leaf };
            self.hidden.insert(Vpn(first.0 + i), part);
        }
    }

    fn break_zero_or_page(&self, cx: &mut Cx, leaf: &Leaf) {
        if !cx.memory.is_zero(leaf.pfn) {
            cx.memory.pages.break_up(leaf.pfn, leaf.order);
        }
    }

    /// Replaces a large leaf at `va` by the leaves one level below it, of the same frames. The huge zero page becomes
    /// as many leaves of the one small zero page. A folded range becomes its pages.
    pub fn split(&mut self, cx: &mut Cx, va: u64, leaf: Leaf) -> Result<(), FaultError> {
        if self.unfold(cx, va, leaf)? {
            return Ok(());
        }
        self.break_zero_or_page(cx, &leaf);
        let flush = match self.table.split(cx.mem, cx.memory, VirtAddr::new(va).vpn()) {
            Ok(flush) => flush,
            Err(_) => return Err(cx.out_of_memory(va, Wanted::Table)),
        };
        // Linux flushes here (`__split_huge_pmd_locked` goes through an invalid entry).
        let mut gather = Gather::default();
        gather.take(flush);
        gather.note(va, leaf.order);
        self.finish(cx, gather);
        let zero = cx.memory.is_zero(leaf.pfn);
        self.count_out(cx, va, leaf.order, zero);
        let Found::Leaf(part) = self.probe(cx.mem, VirtAddr::new(va)) else {
            unreachable!("a split mapping is still mapped")
        };
        let parts = leaf.order.base_pages() / part.order.base_pages();
        if zero {
            self.map_zero(cx, va, parts, part);
        }
        cx.work(WorkKind::EntryWrite, parts + 1);
        for i in 0..parts {
            self.count_in(cx, va + i * part.order.bytes(), part.order, zero);
        }
        cx.counts.events.add(EventKind::Split, 1);
        cx.tell(|| Note::Split { va: VirtAddr::new(va), size: leaf.order });
        if let Some(range) = self.contiguous.range_of(part.order).filter(|range| !zero && *range < leaf.order) {
            for at in (va..=va + (leaf.order.bytes() - 1)).step_by(range.bytes() as usize) {
                self.refold(cx, at, part.order);
            }
        }
        Ok(())
    }

    /// Has the `pages` base leaves from `va` on, parts of the huge zero page that was split, map the small zero page
    /// (`__split_huge_zero_page_pmd` in mm/huge_memory.c). The split has flushed the place.
    fn map_zero(&mut self, cx: &mut Cx, va: u64, pages: u64, part: Leaf) {
        let zero = Leaf { pfn: cx.memory.zero, ..part };
        for i in 0..pages {
            let vpn = VirtAddr::new(va + i * part.order.bytes()).vpn();
            self.table.set(cx.mem, vpn, zero).lazy("the split has flushed the huge page, which nobody used since");
        }
        cx.memory.touch(zero.pfn, zero.order);
    }
}
