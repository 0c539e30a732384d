//! The `Kernel` type: boot, address spaces, ASIDs, and the entry points for trace events and page faults. System
//! calls, fault handling, daemons and compaction have files of their own and work on the state defined here.
//!
//! ```text
//! trace event --> Kernel::event --> Kernel::obey   (calls/events.rs) --.
//!                                                                       +--> collect --> Effects --> machine
//! page fault  --> Kernel::fault --> Manager::fault (manager.rs) --------'
//! ```

use crate::adviser::Adviser;
use crate::asids::Asids;
use crate::clock::Due;
use crate::manager::Manager;
use crate::managers::MemoryManager;
use crate::memory::Memory;
use crate::memory::cache::ObjectId;
use crate::memory::resident::Resident;
use crate::report::counts::{EventError, EventKind, KernelCounts};
use crate::report::region::{Region, RegionId};
use crate::report::regions::{Program, ProgramId};
use crate::report::tally::Name;
use crate::space::cx::{Limits, Shared};
use crate::space::hints::{HandedOn, SizeHint};
use crate::space::range::PageRange;
use crate::space::system::SystemCx;
use crate::space::{AddressSpace, Cx, Gather};
use crate::{
    Actor, Contiguity, Effects, Fault, FaultError, KernelDesc, KernelError, Note, Stop, TableCounts, Work, WorkKind,
};
use mmulab_addr::{Access, Asid, Pfn, Pid, VirtAddr};
use mmulab_frames::{FrameCounts, Frames, PhysMem};
use mmulab_pagetable::{Format, Invalidate, Root, Table, TableDesc, TableFrames};
use mmulab_trace::Event;
use rustc_hash::FxHashMap;
use std::cell::Cell;

/// Registers that hardware needs to translate for a process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Context {
    /// The format of its page table.
    pub format: Format,
    /// Where the table begins.
    pub root: Root,
    /// The ASID of its translations.
    pub asid: Asid,
}

/// The memory of a kernel, as far as tables are made of it.
pub struct TableMemory<'a>(&'a mut Memory);

impl TableFrames for TableMemory<'_> {
    fn take(&mut self) -> Option<Pfn> {
        self.0.take()
    }

    fn give_back(&mut self, pfn: Pfn) {
        self.0.give_back(pfn);
    }
}

/// The simulated operating system.
pub struct Kernel {
    pub(crate) shared: Shared,
    pub(crate) manager: MemoryManager,
    table: TableDesc,
    /// Of address spaces that are gone.
    pub(crate) ended: Contiguity,
    /// Address spaces by slot; slots are used again.
    pub(crate) spaces: Vec<Option<AddressSpace>>,
    processes: FxHashMap<Pid, usize>,
    /// The process asked for last, and its slot.
    last: Cell<(Pid, usize)>,
    asids: Asids,
    /// The TLBs have no ASIDs: what ran before is flushed when another address space runs.
    pub(crate) without_asids: bool,
    /// What each processor runs.
    pub(crate) on: Vec<OnCpu>,
    serials: u64,
    /// Hints of page sizes for address spaces that come into being later.
    pub(crate) loaded: FxHashMap<Pid, Vec<SizeHint>>,
    /// Whether the policy asks for the stores of programs.
    wants_stores: bool,
    /// Whether a daemon or an adviser wakes: every miss of a TLB asks, and most kernels have none.
    has_daemons: bool,
    /// Events obeyed, but for switches.
    pub(crate) obeyed: u64,
    /// Counts of the frame allocator when its work was last collected.
    allocated: FrameCounts,
}

/// The process that a CPU runs, once it has run any.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct OnCpu {
    pub pid: Option<Pid>,
    /// The serial number of the address space whose translations it may hold, if the TLBs have no ASIDs.
    space: Option<u64>,
}

/// No slot.
const NOWHERE: usize = usize::MAX;
/// Address spaces a run may make.
const SPACES_MAX: u64 = 1 << 20;

impl Kernel {
    /// Boots: takes the memory, occupies what the description asks for, reserves the hugetlb pool.
    ///
    /// # Errors
    /// A description that contradicts itself or the machine, or a pool there is no room for.
    pub fn new(desc: &KernelDesc, mem: &mut PhysMem) -> Result<Self, KernelError> {
        let manager = MemoryManager::new(desc)?;
        let table = desc
            .table
            .clone()
            .complete()
            .map_err(|message| KernelError::Description { key: "table".into(), message })?;
        let frames = Frames::of(manager.allocator(), &desc.memory, desc.cpus, desc.memory.seed)?;
        let mut memory = Memory::new(frames, mem.frames(), table.format()).ok_or_else(|| KernelError::Description {
            key: "memory.size".into(),
            message: "no frame is left for the kernel itself: give more".into(),
        })?;
        manager.boot(&mut memory, &desc.policy)?;
        let limits = Limits::new(&desc.policy.linux, &desc.table, manager.flush_ceiling(), manager.contiguous());
        let allocated = memory.frames.counts();
        Ok(Self {
            shared: Shared::new(memory, limits),
            wants_stores: manager.wants_stores(),
            has_daemons: manager.wakes_at().is_some(),
            manager,
            table,
            ended: Contiguity::default(),
            spaces: Vec::new(),
            processes: FxHashMap::default(),
            last: Cell::new((Pid(0), NOWHERE)),
            asids: Asids::new(desc.asid_bits),
            without_asids: desc.asid_bits == 0,
            on: vec![OnCpu::default(); usize::from(desc.cpus.max(1))],
            serials: 0,
            loaded: FxHashMap::default(),
            obeyed: 0,
            allocated,
        })
    }

    /// Carries out an event of the trace. An event that a real system call would have refused is counted and changes
    /// nothing.
    ///
    /// A process not heard of before comes into being, empty, when it is switched to or does something. `Invlpg` is
    /// left to the machine, as it concerns one core only.
    ///
    /// # Errors
    /// Frames for page tables ran out, or there are more address spaces than can be numbered.
    pub fn event(
        &mut self,
        mem: &mut PhysMem,
        actor: Actor,
        event: &Event,
        effects: &mut Effects,
    ) -> Result<(), KernelError> {
        self.shared.memory.cpu = actor.cpu;
        let result = self.obey(mem, actor, event, effects);
        if self.shared.regions.are_many_gone() {
            self.shared.fold_regions(effects);
        }
        self.collect(effects);
        result
    }

    /// Lends the frames that tables are made of, for tables which are not those of processes, and hands the work over.
    pub fn with_table_frames<R>(&mut self, effects: &mut Effects, work: impl FnOnce(&mut TableMemory) -> R) -> R {
        let done = work(&mut TableMemory(&mut self.shared.memory));
        self.collect(effects);
        done
    }

    /// From now on, [`Effects::touched`] lists the memory that the kernel itself stored to: a host must back it then.
    pub fn tell_touched(&mut self) {
        self.shared.memory.touched = Some(Vec::new());
    }

    /// From now on, [`Effects::hinted`] lists the blocks that came to lie together as hints of page sizes ask.
    pub fn tell_hinted(&mut self) {
        self.shared.handed_on = Some(HandedOn::default());
    }

    /// Whether the policy has a part that looks for pages of zeros: [`Self::note_stores`] must report all stores then.
    #[inline]
    pub fn wants_stores(&self) -> bool {
        self.wants_stores
    }

    /// A process is about to store to these addresses. A kernel that was never called here recovers no pages of zeros:
    /// it knows of none.
    pub fn note_stores(&mut self, pid: Pid, stores: impl Iterator<Item = VirtAddr>) {
        self.shared.knows_stores = true;
        if let Some(slot) = self.slot(pid)
            && let Some(space) = &mut self.spaces[slot]
        {
            space.stored.add(stores);
        }
    }

    /// Serves a page fault of `actor` at `va`. After `Ok`, the page table allows the access.
    ///
    /// # Errors
    /// The program would have been killed, or frames ran out.
    pub fn fault(
        &mut self,
        mem: &mut PhysMem,
        actor: Actor,
        va: VirtAddr,
        access: Access,
        effects: &mut Effects,
    ) -> Result<Fault, FaultError> {
        self.shared.memory.cpu = actor.cpu;
        self.shared.memory.work.add(WorkKind::FaultEntry, 1);
        let result = match self.slot(actor.pid) {
            Some(slot) => {
                let (manager, mut system) = self.system(mem, effects);
                let later = manager.before_fault(&mut system, slot, va);
                let (space, mut cx) = system.at(slot);
                cx.pid = actor.pid;
                let result = manager.fault(space, &mut cx, va, access);
                if later {
                    manager.after_fault(&mut system, va);
                }
                result
            }
            None => Err(FaultError::Unmapped { pid: actor.pid, va }),
        };
        self.collect(effects);
        result
    }

    /// When a daemon wants to run next, in simulated nanoseconds since the start; never, if there is none.
    #[inline]
    pub fn wakes_at(&self) -> Option<u64> {
        if self.has_daemons { self.manager.wakes_at() } else { None }
    }

    /// Lets the daemons that are due run; call it when `now_ns` has reached [`Kernel::wakes_at`]. A daemon that is late
    /// runs once.
    ///
    /// # Errors
    /// Frames for page tables ran out.
    pub fn run_daemons(&mut self, mem: &mut PhysMem, now_ns: u64, effects: &mut Effects) -> Result<(), KernelError> {
        let result = self.wake(mem, Due::By(now_ns), effects);
        self.collect(effects);
        result
    }

    pub(crate) fn wake(&mut self, mem: &mut PhysMem, due: Due, effects: &mut Effects) -> Result<(), KernelError> {
        let (manager, mut system) = self.system(mem, effects);
        manager.wake(&mut system, due)
    }

    /// Registers that hardware needs to translate for a process; `None` if it does not exist or never ran.
    #[inline]
    pub fn context(&self, pid: Pid) -> Option<Context> {
        let space = self.space(pid)?;
        Some(Context { format: space.table.format(), root: space.table.root(), asid: space.asid? })
    }

    /// Registers that hardware needs for a process that CPU `cpu` ran last and runs on; `None` if switching to it takes
    /// work. As [`Self::event`] with a switch to it, which warps make at every instruction.
    #[inline]
    pub fn runs_on(&mut self, cpu: u16, pid: Pid) -> Option<Context> {
        let on = self.on[usize::from(cpu) % self.on.len()];
        let serial = self.space(pid)?.serial;
        let same = on.pid == Some(pid) && (!self.without_asids || on.space == Some(serial));
        let context = self.context(pid).filter(|_| same)?;
        self.shared.memory.cpu = cpu;
        Some(context)
    }

    /// The region an address of a process belongs to.
    #[inline]
    pub fn region_at(&self, pid: Pid, va: VirtAddr) -> RegionId {
        match self.space(pid).and_then(|s| s.places.find(va.raw())) {
            Some(place) => place.value.0,
            None => RegionId::NONE,
        }
    }

    /// All regions, by number; those that are gone may be summed up. Number 0 stands for addresses in none.
    pub fn regions(&self) -> Vec<&Region> {
        self.shared.regions.all()
    }

    /// The region in a slot.
    pub fn region(&self, id: RegionId) -> &Region {
        self.shared.regions.get(id)
    }

    /// Resident memory of a region: private pages and pages of the page cache, each once.
    pub fn resident(&self, id: RegionId) -> Resident {
        self.shared.memory.resident.of(id)
    }

    /// Resident memory of all programs together, now.
    pub fn resident_bytes(&self) -> u64 {
        self.shared.memory.resident_bytes()
    }

    /// The programs that were run, in the order they began.
    pub fn programs(&self) -> impl Iterator<Item = &Program> {
        self.shared.regions.programs()
    }

    /// The frame allocator, for what reports say of fragmentation.
    pub fn frames(&self) -> &Frames {
        &self.shared.memory.frames
    }

    /// Counts so far.
    pub fn counts(&self) -> &KernelCounts {
        &self.shared.counts
    }

    /// Counts of merges and resizes of page tables.
    pub fn table_counts(&self) -> &TableCounts {
        &self.shared.memory.table_counts
    }

    #[inline]
    fn space(&self, pid: Pid) -> Option<&AddressSpace> {
        self.slot(pid).and_then(|slot| self.spaces[slot].as_ref())
    }

    #[inline]
    pub(crate) fn slot(&self, pid: Pid) -> Option<usize> {
        let (last, slot) = self.last.get();
        if last == pid && slot != NOWHERE {
            return Some(slot);
        }
        let slot = *self.processes.get(&pid)?;
        self.last.set((pid, slot));
        Some(slot)
    }

    /// The slot of a process's address space, made if there is none, for that program.
    pub(crate) fn slot_or_new(
        &mut self,
        mem: &mut PhysMem,
        pid: Pid,
        program: Option<ProgramId>,
        effects: &mut Effects,
    ) -> Result<usize, KernelError> {
        if let Some(slot) = self.slot(pid) {
            return Ok(slot);
        }
        let slot = self.new_space(mem, pid, program)?;
        self.enter(pid, slot);
        self.assign_asid(slot, effects);
        self.give_hints(mem, slot, pid, effects);
        Ok(slot)
    }

    /// A new, empty address space, in which no process runs yet. Without a program, it is for the one that the trace
    /// begins with.
    pub(crate) fn new_space(
        &mut self,
        mem: &mut PhysMem,
        pid: Pid,
        program: Option<ProgramId>,
    ) -> Result<usize, KernelError> {
        if self.serials == SPACES_MAX {
            return Err(KernelError::TooMany { what: "address spaces", limit: SPACES_MAX });
        }
        let table =
            Table::new(&self.table, mem, &mut self.shared.memory).map_err(|e| KernelError::Table(e.to_string()))?;
        self.serials += 1;
        let program = program.unwrap_or_else(|| self.shared.regions.program(pid, &"".into()));
        let slot = self.spaces.iter().position(Option::is_none).unwrap_or(self.spaces.len());
        let mut space = AddressSpace::new((self.serials, slot), pid, table, program, self.shared.limits.contiguous);
        space.is_switched_on = self.manager.switched_on_at_start().is_some_and(|pids| pids.contains(&pid.0));
        if slot == self.spaces.len() {
            self.spaces.push(None);
        }
        self.spaces[slot] = Some(space);
        Ok(slot)
    }

    /// `pid` runs in the address space of `slot` from now on.
    pub(crate) fn enter(&mut self, pid: Pid, slot: usize) {
        self.processes.insert(pid, slot);
        self.last.set((pid, slot));
        if let Some(space) = &mut self.spaces[slot] {
            space.users += 1;
        }
    }

    /// `pid` leaves its address space, which goes if it was the last there.
    pub(crate) fn leave(&mut self, mem: &mut PhysMem, pid: Pid, effects: &mut Effects) {
        self.last.set((Pid(0), NOWHERE));
        let Some(slot) = self.processes.remove(&pid) else { return };
        let Some(mut space) = self.spaces[slot].take_if(|space| {
            space.users -= 1;
            space.users == 0
        }) else {
            return;
        };
        self.ended.add(&Contiguity::of(&space, mem));
        let mut gather = Gather::default();
        gather.note_all();
        let objects = space.objects();
        for object in space.anon_objects() {
            self.shared.memory.objects.drop_one(object);
        }
        let mut cx = self.shared.cx(mem, effects, pid);
        let all = PageRange { start: 0, end: u64::MAX };
        // It copies nothing: all that any shared table maps goes.
        let _ = space.leave_tables(&mut cx, all, &mut gather);
        space.zap_all(&mut cx, &mut gather);
        for place in space.places.iter() {
            cx.regions.lift(place.value.0, place.end - place.start);
        }
        space.finish(&mut cx, gather);
        space.table.free(cx.mem, cx.memory);
        if let Some(asid) = space.asid.filter(|_| !self.without_asids) {
            self.asids.take_back(asid);
        }
        for id in objects {
            self.forget_if_unused(id);
        }
    }

    /// Shared memory goes with its last mapping.
    pub(crate) fn forget_if_unused(&mut self, id: ObjectId) {
        let is_used = || self.spaces.iter().flatten().any(|space| space.objects().contains(&id));
        if self.shared.memory.cache.is_memory(id) && !is_used() {
            self.shared.memory.forget(id);
        }
    }

    /// Has an adviser asked from now on.
    ///
    /// # Errors
    /// A policy whose memory manager asks none.
    pub fn advise(&mut self, adviser: Box<dyn Adviser>) -> Result<(), KernelError> {
        self.manager.take_adviser(adviser.advises())?;
        self.has_daemons = self.manager.wakes_at().is_some();
        self.shared.adviser = Some(adviser);
        Ok(())
    }

    /// Events that take long end when this is asked for.
    pub fn stop_with(&mut self, stop: &Stop) {
        self.shared.memory.stop = stop.clone();
    }

    /// The processor on which the kernel works.
    pub(crate) fn cpu(&self) -> usize {
        usize::from(self.shared.memory.cpu) % self.on.len()
    }

    /// The process that runs on a processor, if one has yet.
    pub fn running(&self, cpu: u16) -> Option<Pid> {
        self.on[usize::from(cpu) % self.on.len()].pid
    }

    /// Gives an address space an ASID if it has none. Without ASIDs, flushes the TLBs if the CPU ran another space
    /// before.
    pub(crate) fn assign_asid(&mut self, slot: usize, effects: &mut Effects) {
        let cpu = self.cpu();
        let Some(space) = &mut self.spaces[slot] else { return };
        if self.without_asids {
            space.asid = Some(Asid(1));
            if self.on[cpu].space.replace(space.serial).is_some_and(|last| last != space.serial) {
                self.shared.memory.work.add(WorkKind::FlushSpace, 1);
                effects.local = true;
                effects.invalidations.push(Invalidate::Asid(Asid(1)));
            }
            return;
        }
        if space.asid.is_some() {
            return;
        }
        let given = self.asids.give(space.serial);
        space.asid = Some(given.asid);
        let pid = space.pid;
        if effects.narrate {
            effects.notes.push(Note::Asid { pid, asid: given.asid });
        }
        if let Some(serial) = given.taken_from {
            for other in self.spaces.iter_mut().flatten().filter(|s| s.serial == serial) {
                other.asid = None;
            }
            self.shared.counts.events.add(EventKind::AsidRecycled, 1);
            self.shared.memory.work.add(WorkKind::FlushSpace, 1);
            effects.invalidations.push(Invalidate::Asid(given.asid));
        }
    }

    /// The memory manager, and the whole system beside it.
    #[inline]
    pub(crate) fn system<'a>(
        &'a mut self,
        mem: &'a mut PhysMem,
        effects: &'a mut Effects,
    ) -> (&'a mut MemoryManager, SystemCx<'a>) {
        (&mut self.manager, SystemCx { mem, effects, shared: &mut self.shared, spaces: &mut self.spaces })
    }

    /// An address space beside everything else that work on it needs.
    #[inline]
    pub(crate) fn at_work<'a>(
        &'a mut self,
        mem: &'a mut PhysMem,
        effects: &'a mut Effects,
        slot: usize,
        pid: Pid,
    ) -> (&'a MemoryManager, &'a mut AddressSpace, Cx<'a>) {
        let Some(space) = &mut self.spaces[slot] else { unreachable!("a process's slot is in use") };
        (&self.manager, space, self.shared.cx(mem, effects, pid))
    }

    /// Hands the work done over.
    pub(crate) fn collect(&mut self, effects: &mut Effects) {
        for &kind in WorkKind::ALL {
            let count = self.shared.memory.work.get(kind);
            if count > 0 {
                // A host serves millions of faults before anybody asks what they took.
                match effects.work.iter_mut().find(|work| work.kind == kind) {
                    Some(work) => work.count += count,
                    None => effects.work.push(Work { kind, count }),
                }
                self.shared.counts.work.add(kind, count);
            }
        }
        self.shared.memory.work.clear();
        let allocated = self.shared.memory.frames.counts();
        effects.allocator.add(&allocated.since(&self.allocated));
        self.allocated = allocated;
        if let Some(touched) = &mut self.shared.memory.touched {
            effects.touched.append(touched);
        }
        if effects.narrate {
            effects.notes.append(&mut self.shared.memory.table_news);
        }
        self.shared.memory.table_news.clear();
        self.shared.counts.invalidations += effects.invalidations.len() as u64;
        let reservations = &mut self.shared.memory.reservations;
        self.shared.counts.events.add(EventKind::ReservFreed, std::mem::take(&mut reservations.freed));
        self.shared.counts.events.add(EventKind::ReservBroken, std::mem::take(&mut reservations.broken));
        let dropped = std::mem::take(&mut self.shared.memory.cache_dropped);
        self.shared.counts.events.add(EventKind::CacheDropped, dropped);
    }

    pub(crate) fn fail(&mut self, error: EventError, effects: &mut Effects) {
        self.shared.counts.errors.add(error, 1);
        if effects.narrate {
            effects.notes.push(Note::Failed { error });
        }
    }
}
