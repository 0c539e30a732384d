//! An address space: its mappings, its page table, and the elementary changes to it.

use crate::cache::ObjectId;
use crate::counts::{FaultKind, Happening, KernelCounts, Refusal};
use crate::gather::Gather;
use crate::memory::Memory;
use crate::pages::Use;
use crate::policy::Policy;
use crate::region::{Mapped, Places, RegionId};
use crate::regions::{ProgramId, Regions};
use crate::spans::Spans;
use crate::vma::{Back, Vma};
use crate::{Effects, FaultError, LinuxDesc, Told, Wanted, WorkKind};
use mmulab_addr::{Asid, PageOrder, Pfn, Pid, Prot, VirtAddr, Vpn};
use mmulab_frames::PhysMem;
pub use mmulab_pagetable::Probe as Found;
use mmulab_pagetable::{Format, Leaf, MapError, Table};
use std::collections::{BTreeMap, BTreeSet};

/// Everything outside the address space that an operation on it may need.
pub struct Cx<'a> {
    pub mem: &'a mut PhysMem,
    pub memory: &'a mut Memory,
    pub regions: &'a mut Regions,
    pub mapped: &'a mut Mapped,
    pub counts: &'a mut KernelCounts,
    pub policy: &'a Policy,
    pub linux: &'a LinuxDesc,
    pub fx: &'a mut Effects,
    pub pid: Pid,
}

impl Cx<'_> {
    pub fn refuse(&mut self, why: Refusal, va: u64) {
        self.counts.refusals.add(why, 1);
        self.tell(|| Told::Refused { why, va: VirtAddr::new(va) });
    }

    #[inline(always)]
    pub fn tell(&mut self, told: impl FnOnce() -> Told) {
        if self.fx.narrate {
            self.fx.told.push(told());
        }
    }

    #[inline(always)]
    pub fn work(&mut self, kind: WorkKind, count: u64) {
        self.memory.work.add(kind, count);
    }

    #[cold]
    pub fn out_of_memory(&mut self, va: u64, wanted: Wanted) -> FaultError {
        self.counts.happenings.add(Happening::OutOfMemory, 1);
        let free_frames = self.memory.frames.free_frames();
        FaultError::OutOfMemory { pid: self.pid, va: VirtAddr::new(va), wanted, free_frames }
    }
}

/// The rights of a page in the table: whatever is present can be read (Intel SDM vol. 3A, section 4.6).
fn readable(prot: Prot) -> Prot {
    if prot == Prot::NONE { prot } else { prot.with(Prot::R) }
}

/// An address space.
pub struct Space {
    /// Unique in the run, never used again.
    pub serial: u64,
    pub pid: Pid,
    pub table: Table,
    pub asid: Option<Asid>,
    /// Processes that run in it: more than one after vfork.
    pub users: u32,
    pub vmas: Spans<Vma>,
    pub places: Places,
    /// Pages whose mapping allows no access (PROT_NONE): Linux keeps them in the table, marked not present.
    pub hidden: BTreeMap<Vpn, Leaf>,
    pub heap: Option<(u64, u64)>,
    pub mapped: Mapped,
    /// The program that runs in it.
    pub program: ProgramId,
    /// Whether it counts as one that runs the program.
    pub is_counted: bool,
}

impl Space {
    /// An empty address space.
    pub fn new(serial: u64, pid: Pid, table: Table, program: ProgramId) -> Self {
        Self {
            serial,
            pid,
            table,
            asid: None,
            users: 0,
            vmas: Spans::default(),
            places: Spans::default(),
            hidden: BTreeMap::new(),
            heap: None,
            mapped: Mapped::default(),
            program,
            is_counted: false,
        }
    }

    /// The shared memory it shows, each once.
    pub fn objects(&self) -> BTreeSet<ObjectId> {
        let objects = self.vmas.iter().filter_map(|s| match s.value.back {
            Back::Object(id, _) => Some(id),
            Back::Anon => None,
        });
        objects.collect()
    }

    /// The anonymous objects its mappings have, each once (FreeBSD).
    pub fn anon_objects(&self) -> BTreeSet<u32> {
        self.vmas.iter().filter_map(|s| s.value.anon.map(|a| a.object)).collect()
    }

    /// What is mapped at `va`.
    #[inline]
    pub fn probe(&self, mem: &PhysMem, va: VirtAddr) -> Found {
        self.table.probe(mem, va.vpn())
    }

    /// The first page mapped at or above `va` and below `end`.
    pub fn next_leaf(&self, mem: &PhysMem, mut va: u64, end: u64) -> Option<(u64, Leaf)> {
        while va < end {
            match self.probe(mem, VirtAddr::new(va)) {
                Found::Leaf(leaf) => return Some((va & !(leaf.order.bytes() - 1), leaf)),
                Found::Hole(order) => va = (va & !(order.bytes() - 1)).checked_add(order.bytes())?,
            }
        }
        None
    }

    /// Whether every bit above those the table translates is a copy of the highest one. On Arm programs have all
    /// addresses without such bits: the kernel's have a table of their own there (Arm ARM, D8.1, TTBR0_EL1 and
    /// TTBR1_EL1).
    pub fn is_canonical(&self, va: u64) -> bool {
        let format = self.table.format();
        let shift = 64 - u32::from(format.address_bits());
        if matches!(format, Format::Arm { .. }) && va << shift >> shift == va {
            return true;
        }
        ((va << shift) as i64 >> shift) as u64 == va
    }

    #[inline]
    pub(crate) fn region(&self, va: u64) -> RegionId {
        self.places.find(va).map_or(RegionId::NONE, |s| s.value.0)
    }

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
        cx.work(WorkKind::EntryWrite, 1);
        self.count_in(cx, va, leaf.order, cx.memory.is_zero(leaf.pfn));
        Ok(())
    }

    /// A leaf with the kernel's usual bits.
    #[inline]
    pub fn leaf(vma: &Vma, pfn: Pfn, order: PageOrder, prot: Prot, dirty: bool) -> Leaf {
        Leaf { pfn, order, prot: readable(prot), user: !vma.global, accessed: true, dirty, global: vma.global }
    }

    /// Rewrites the leaf at `va`, the first address of its page.
    pub fn set(&mut self, cx: &mut Cx, va: u64, leaf: Leaf, gather: &mut Gather) {
        self.table.set(cx.mem, VirtAddr::new(va).vpn(), leaf).lazy("gathered, and sent before the operation ends");
        cx.memory.touch(leaf.pfn, leaf.order);
        cx.work(WorkKind::EntryWrite, 1);
        gather.note(va, leaf.order);
        gather.note_global(leaf.global);
    }

    /// Rewrites the leaf at `va` so that it allows more than before: copies in TLBs can only fault, not go wrong.
    pub fn widen(&mut self, cx: &mut Cx, va: u64, leaf: Leaf) {
        self.table.set(cx.mem, VirtAddr::new(va).vpn(), leaf).lazy("rights only grew: a stale copy faults at worst");
        cx.work(WorkKind::EntryWrite, 1);
    }

    /// Takes the leaf at `va` out of the table. The frames' users are the caller's to count.
    pub fn unmap(&mut self, cx: &mut Cx, va: u64, order: PageOrder, gather: &mut Gather) {
        let (was, flush) = self.table.unmap(cx.mem, cx.memory, VirtAddr::new(va).vpn(), order);
        gather.note_global(was.is_some_and(|leaf| leaf.global));
        gather.take(flush);
        cx.work(WorkKind::EntryWrite, 1);
        gather.note(va, order);
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
        for i in 0..leaf.order.base_pages() {
            let part = Leaf { pfn: zero.unwrap_or(Pfn(leaf.pfn.0 + i)), order: PageOrder::P4K, ..leaf };
            self.hidden.insert(Vpn(first.0 + i), part);
        }
    }

    fn break_zero_or_page(&self, cx: &mut Cx, leaf: &Leaf) {
        if !cx.memory.is_zero(leaf.pfn) {
            cx.memory.pages.break_up(leaf.pfn, leaf.order);
        }
    }

    /// Replaces a large leaf at `va` by the leaves one level below it, of the same frames; the huge zero page by as
    /// many leaves of the one small zero page.
    pub fn split(&mut self, cx: &mut Cx, va: u64, leaf: Leaf) -> Result<(), FaultError> {
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
        cx.counts.happenings.add(Happening::Split, 1);
        cx.tell(|| Told::Split { va: VirtAddr::new(va), size: leaf.order });
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

    /// Unmaps all pages of `start..end`, which no page lies across the ends of.
    pub fn zap(&mut self, cx: &mut Cx, start: u64, end: u64, gather: &mut Gather) {
        let mut at = start;
        while let Some((va, leaf)) = self.next_leaf(cx.mem, at, end) {
            self.unmap(cx, va, leaf.order, gather);
            Self::release(cx, &leaf);
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
        // A space without a tag has never run since it lost it: no TLB knows it.
        if let Some(asid) = self.asid {
            gather.finish(asid, cx.linux.flush_ceiling, &mut cx.memory.work, cx.fx);
        }
    }

    /// The rights an existing page of `vma` may have in the table: not for stores if a store must fault first.
    pub fn rights(vma: &Vma, leaf: &Leaf, memory: &Memory) -> Prot {
        let prot = readable(vma.prot);
        if !prot.has(Prot::W) {
            return prot;
        }
        let stores = if vma.shared {
            match vma.back {
                Back::Anon => true,
                Back::Object(id, _) => memory.cache.is_memory(id) || leaf.dirty,
            }
        } else {
            !memory.is_zero(leaf.pfn)
                && memory.pages.get(leaf.pfn).used == Use::Anon
                && memory.pages.is_exclusive(leaf.pfn, leaf.order)
        };
        if stores { prot } else { prot.without(Prot::W) }
    }

    /// Tells of a fault that was handled.
    pub fn tell_fault(cx: &mut Cx, kind: FaultKind, va: u64, leaf: &Leaf) {
        let leaf = *leaf;
        cx.tell(|| Told::Fault {
            kind,
            va: VirtAddr::new(va).align_down(leaf.order),
            size: leaf.order,
            pfn: leaf.pfn,
            prot: leaf.prot,
        });
    }
}
