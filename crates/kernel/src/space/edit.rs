//! Edits of an address space's page table: leaves put in, changed and taken out, each counted, and their flushes.

use super::{AddressSpace, Gather};
use crate::memory::pages::Use;
use crate::space::cx::Cx;
use crate::{FaultError, Wanted, WorkKind};
use mmulab_addr::{PageOrder, Pfn, VirtAddr, Vpn};
use mmulab_pagetable::{Leaf, MapError};

impl AddressSpace {
    /// Counts a page of the table in: a zero page apart from those that take memory.
    pub(crate) fn count_in(&mut self, cx: &mut Cx, va: u64, order: PageOrder, zero: bool) {
        let region = cx.regions.get_mut(self.region(va));
        let counts = match zero {
            false => [&mut cx.mapped.pages, &mut self.mapped.pages, &mut region.mapped],
            true => [&mut cx.mapped.zero, &mut self.mapped.zero, &mut region.mapped_zero],
        };
        counts.into_iter().for_each(|count| count.add(order, 1));
    }

    /// Counts one out.
    pub(crate) fn count_out(&mut self, cx: &mut Cx, va: u64, order: PageOrder, zero: bool) {
        let region = cx.regions.get_mut(self.region(va));
        let counts = match zero {
            false => [&mut cx.mapped.pages, &mut self.mapped.pages, &mut region.mapped],
            true => [&mut cx.mapped.zero, &mut self.mapped.zero, &mut region.mapped_zero],
        };
        counts.into_iter().for_each(|count| count.sub(order, 1));
    }

    /// Puts a leaf where nothing is. The frames' users are the caller's to count.
    pub fn map(&mut self, cx: &mut Cx, va: u64, leaf: Leaf) -> Result<(), FaultError> {
        self.before_map(cx, va, leaf.order)?;
        match self.table.map(cx.mem, cx.memory, VirtAddr::new(va).vpn(), leaf) {
            Ok(flush) => {
                let mut gather = Gather::default();
                gather.take(flush);
                self.finish(cx, gather);
            }
            Err(MapError::OutOfFrames) => return Err(cx.out_of_memory(va, Wanted::Table)),
            Err(other) => unreachable!("a place the kernel found empty and aligned can be mapped: {other}"),
        }
        cx.memory.touch(leaf.pfn, leaf.order);
        cx.memory.last_places.note(leaf.pfn, self.slot, va);
        cx.work(WorkKind::EntryWrite, 1);
        self.count_in(cx, va, leaf.order, cx.memory.is_zero(leaf.pfn));
        self.note_counted(va, leaf.order);
        self.refold(cx, va, leaf.order);
        Ok(())
    }

    /// Whether enough frames are free for all tables that a page may need.
    pub fn has_room_for_tables(&self, cx: &Cx) -> bool {
        cx.memory.frames.free_frames() > u64::from(self.table.format().levels())
    }

    /// Rewrites the leaf at `va`, the first address of its page.
    pub fn set(&mut self, cx: &mut Cx, va: u64, leaf: Leaf, gather: &mut Gather) {
        self.table.set(cx.mem, VirtAddr::new(va).vpn(), leaf).lazy("gathered, and sent before the operation ends");
        cx.memory.touch(leaf.pfn, leaf.order);
        cx.memory.last_places.note(leaf.pfn, self.slot, va);
        self.note_written(cx, va, &leaf, gather);
        gather.note_global(leaf.global);
        self.refold(cx, va, leaf.order);
    }

    /// Counts the entries of the leaf at `va` as written, one for each of its pages, and notes them to be flushed.
    fn note_written(&self, cx: &mut Cx, va: u64, leaf: &Leaf, gather: &mut Gather) {
        let page = self.page_size(&cx.memory.pages, leaf);
        cx.work(WorkKind::EntryWrite, leaf.order.base_pages() / page.base_pages());
        gather.note_range(va, leaf.order, page);
    }

    /// Rewrites the leaf at `va` so that it allows more than before: copies in TLBs can only fault, not go wrong.
    pub fn widen(&mut self, cx: &mut Cx, va: u64, leaf: Leaf) {
        self.table.set(cx.mem, VirtAddr::new(va).vpn(), leaf).lazy("rights only grew: a stale copy faults at worst");
        let page = self.page_size(&cx.memory.pages, &leaf);
        cx.work(WorkKind::EntryWrite, leaf.order.base_pages() / page.base_pages());
        self.refold(cx, va, leaf.order);
    }

    /// Clears the accessed bit of the leaf at `va`, as `leaf` has it, without a flush.
    pub fn forget_access(&mut self, cx: &mut Cx, va: u64, leaf: Leaf) {
        self.table.set(cx.mem, VirtAddr::new(va).vpn(), leaf).lazy("a stale copy hides accesses, and allows no others");
        cx.work(WorkKind::EntryWrite, 1);
    }

    /// Takes the leaf at `va` out of the table. The frames' users are the caller's to count.
    pub fn unmap(&mut self, cx: &mut Cx, va: u64, order: PageOrder, gather: &mut Gather) {
        let (was, flush) = self.table.unmap(cx.mem, cx.memory, VirtAddr::new(va).vpn(), order);
        gather.note_global(was.is_some_and(|leaf| leaf.global));
        gather.take(flush);
        match &was {
            Some(leaf) => self.note_written(cx, va, leaf, gather),
            None => gather.note(va, order),
        }
        self.count_out(cx, va, order, was.is_some_and(|leaf| cx.memory.is_zero(leaf.pfn)));
    }

    /// A page is no longer mapped here: its contents are known to be newer than the file's if it was stored to.
    pub fn release(cx: &mut Cx, leaf: &Leaf) {
        if leaf.dirty && !cx.memory.is_zero(leaf.pfn) && cx.memory.pages.get(leaf.pfn).used == Use::Cache {
            for i in 0..leaf.order.base_pages() {
                cx.memory.pages.get_mut(Pfn(leaf.pfn.0 + i)).dirty = true;
            }
        }
        cx.memory.drop_mapping(leaf.pfn, leaf.order);
    }

    /// Unmaps all pages of `start..end`, which no page lies across the ends of.
    pub fn zap(&mut self, cx: &mut Cx, start: u64, end: u64, gather: &mut Gather) {
        let mut at = start;
        while let Some((va, leaf)) = self.next_leaf(cx.mem, at, end) {
            self.unmap(cx, va, leaf.order, gather);
            for (_, page) in self.pages_of(&cx.memory.pages, va, leaf) {
                Self::release(cx, &page);
            }
            let Some(next) = va.checked_add(leaf.order.bytes()) else { break };
            at = next;
        }
        for (_, leaf) in self.take_hidden(start, end) {
            Self::release(cx, &leaf);
        }
    }

    /// Unmaps everything.
    pub fn zap_all(&mut self, cx: &mut Cx, gather: &mut Gather) {
        let ranges: Vec<_> = self.vmas.iter().map(|s| (s.start, s.end)).collect();
        for (start, end) in ranges {
            self.zap(cx, start, end, gather);
        }
    }

    /// Removes the hidden pages of `start..end`.
    pub fn take_hidden(&mut self, start: u64, end: u64) -> Vec<(Vpn, Leaf)> {
        if self.hidden.is_empty() {
            return Vec::new();
        }
        let range = VirtAddr::new(start).vpn()..VirtAddr::new(end).vpn();
        let out: Vec<_> = self.hidden.range(range).map(|(&vpn, &leaf)| (vpn, leaf)).collect();
        for (vpn, _) in &out {
            self.hidden.remove(vpn);
        }
        out
    }

    /// Sends the flushes gathered.
    pub fn finish(&self, cx: &mut Cx, gather: Gather) {
        // A space without an ASID has not run since it lost its last one: no TLB has entries of it.
        if let Some(asid) = self.asid {
            gather.finish(asid, cx.limits.flush_ceiling, &mut cx.memory.work, cx.effects);
        }
    }
}
