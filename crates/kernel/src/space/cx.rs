//! Context for work on address spaces: memory, counters, effects.

use crate::adviser::Adviser;
use crate::memory::Memory;
use crate::parts::contiguous::Contiguous;
use crate::report::counts::{EventKind, KernelCounts, Refusal};
use crate::report::region::{Mapped, RegionId};
use crate::report::regions::Regions;
use crate::space::hints::HandedOn;
use crate::{Effects, FaultError, LinuxDesc, Note, PageCache, Wanted, WorkKind};
use mmulab_addr::{BASE_BYTES, PageOrder, Pid, VirtAddr};
use mmulab_frames::PhysMem;
use mmulab_pagetable::TableDesc;

/// The limits of a run that hold under every memory manager.
#[derive(Clone, Debug)]
pub(crate) struct Limits {
    /// How large a stack may grow, in bytes.
    pub stack_limit: u64,
    /// Memory that must stay unmapped below a growing stack, in bytes.
    pub stack_guard: u64,
    /// Whether files are in memory before the program starts.
    pub page_cache: PageCache,
    /// How many pages a flush may name before the whole address space is flushed instead.
    pub flush_ceiling: u64,
    /// Where entries get the contiguous bit.
    pub contiguous: Contiguous,
    /// The aligned span mapped around a reference if a trace contains no mappings, in bytes.
    pub implicit_vma: u64,
    /// The page size of the kernel's half of address spaces.
    pub kernel_page: PageOrder,
}

/// Data that all address spaces share.
pub(crate) struct Shared {
    pub memory: Memory,
    pub limits: Limits,
    pub regions: Regions,
    /// Pages mapped in all page tables.
    pub mapped: Mapped,
    pub counts: KernelCounts,
    /// Whoever advises the manager, if anybody does.
    pub adviser: Option<Box<dyn Adviser>>,
    /// Hints of page sizes that the machine below was told of, if it wants to be
    /// ([`tell_hinted`](crate::Kernel::tell_hinted)).
    pub handed_on: Option<HandedOn>,
    /// Whether this kernel learns of the stores of its programs ([`note_stores`](crate::Kernel::note_stores)).
    pub knows_stores: bool,
}

impl Limits {
    /// As a policy file's `[linux]` section has them, but for what is the memory manager's. A page table without leaves
    /// of the size that it wants for the kernel's half has base pages there.
    pub fn new(desc: &LinuxDesc, table: &TableDesc, flush_ceiling: u64, contiguous: Contiguous) -> Self {
        Self {
            stack_limit: desc.stack_limit.0,
            stack_guard: desc.stack_guard.0,
            page_cache: desc.page_cache,
            flush_ceiling,
            contiguous,
            implicit_vma: desc.implicit_vma.0.max(table.base().bytes()),
            kernel_page: if table.has_leaf(desc.kernel_page) { desc.kernel_page } else { table.base() },
        }
    }
}

impl Shared {
    /// As at boot.
    pub fn new(memory: Memory, limits: Limits) -> Self {
        Self {
            memory,
            limits,
            regions: Regions::new(),
            mapped: Mapped::default(),
            counts: KernelCounts::default(),
            adviser: None,
            handed_on: None,
            knows_stores: false,
        }
    }

    /// Folds the regions that are gone. One of which a private page is left, which none should be, is kept.
    #[cold]
    pub fn fold_regions(&mut self, effects: &mut Effects) {
        let (memory, cached) = (&self.memory, self.memory.cached_by_region());
        let is_free =
            |id: RegionId| memory.resident.of(id).now == cached.get(&id).map_or(0, |pages| pages * BASE_BYTES);
        let folds = self.regions.fold(is_free);
        self.memory.fold_regions(&folds);
        effects.folded.extend(folds);
    }

    /// Context for work on an address space.
    pub fn cx<'a>(&'a mut self, mem: &'a mut PhysMem, effects: &'a mut Effects, pid: Pid) -> Cx<'a> {
        Cx {
            mem,
            memory: &mut self.memory,
            limits: &self.limits,
            regions: &mut self.regions,
            mapped: &mut self.mapped,
            counts: &mut self.counts,
            adviser: &mut self.adviser,
            handed_on: &mut self.handed_on,
            effects,
            pid,
        }
    }

    /// Counts a refusal that concerns no one address space.
    pub fn refuse(&mut self, why: Refusal, at: u64, effects: &mut Effects) {
        self.counts.refusals.add(why, 1);
        if effects.narrate {
            effects.notes.push(Note::Refused { why, va: VirtAddr::new(at) });
        }
    }
}

/// Everything outside the address space that an operation on it may need.
pub(crate) struct Cx<'a> {
    pub mem: &'a mut PhysMem,
    pub memory: &'a mut Memory,
    pub regions: &'a mut Regions,
    pub mapped: &'a mut Mapped,
    pub counts: &'a mut KernelCounts,
    pub handed_on: &'a mut Option<HandedOn>,
    pub limits: &'a Limits,
    pub adviser: &'a mut Option<Box<dyn Adviser>>,
    pub effects: &'a mut Effects,
    pub pid: Pid,
}

impl Cx<'_> {
    pub fn refuse(&mut self, why: Refusal, va: u64) {
        self.counts.refusals.add(why, 1);
        self.tell(|| Note::Refused { why, va: VirtAddr::new(va) });
    }

    #[inline(always)]
    pub fn tell(&mut self, told: impl FnOnce() -> Note) {
        if self.effects.narrate {
            self.effects.notes.push(told());
        }
    }

    #[inline(always)]
    pub fn work(&mut self, kind: WorkKind, count: u64) {
        self.memory.work.add(kind, count);
    }

    #[cold]
    pub fn out_of_memory(&mut self, va: u64, wanted: Wanted) -> FaultError {
        self.counts.events.add(EventKind::OutOfMemory, 1);
        let free_frames = self.memory.frames.free_frames();
        FaultError::OutOfMemory { pid: self.pid, va: VirtAddr::new(va), wanted, free_frames }
    }
}
