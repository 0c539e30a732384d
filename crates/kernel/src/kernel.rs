//! The `Kernel` type: boot, address spaces, ASIDs, and the entry points for trace events and page faults. System
//! calls, fault handling, khugepaged and compaction have files of their own and work on the state defined here.
//!
//! ```text
//! trace event --> Kernel::event --> obey (events.rs) ---------.
//!                                                             +--> collect --> Effects --> machine
//! page fault  --> Kernel::fault --> Space::fault (fault.rs) --'
//! ```

use crate::asids::Asids;
use crate::compaction::Compaction;
use crate::counts::{EventError, Happening, KernelCounts};
use crate::freebsd::Reservations;
use crate::gather::Gather;
use crate::khugepaged::Khugepaged;
use crate::memory::Memory;
use crate::policy::{Ask, Choice, Policy};
use crate::region::{Mapped, Region, RegionId};
use crate::regions::{Program, ProgramId, Regions};
use crate::resident::Resident;
use crate::space::{Cx, Found, Space};
use crate::tally::Name;
use crate::{
    Actor, Bytes, Contiguity, Defrag, Effects, Fault, FaultError, KernelError, LinuxDesc, PolicyDesc, Stop,
    TableCounts, Told, Work, WorkKind,
};
use mmulab_addr::{Access, Asid, BASE_BYTES, PageOrder, Pfn, Pid, VirtAddr};
use mmulab_frames::{Allocator, Frames, MemoryDesc, PhysMem};
use mmulab_pagetable::{Format, Invalidate, Root, Table, TableDesc, TableFrames};
use mmulab_trace::Event;
use rustc_hash::FxHashMap;
use std::cell::Cell;

/// What a kernel is made from: the memory and page table of a machine, and a policy.
#[derive(Clone, Debug)]
pub struct KernelDesc {
    /// Physical memory and what occupies it beforehand.
    pub memory: MemoryDesc,
    /// The page-table format.
    pub table: TableDesc,
    /// The page policy and what Linux does beside it.
    pub policy: PolicyDesc,
    /// Processors, each with its own list of free frames.
    pub cpus: u16,
    /// Bits of an address-space tag; 0: the TLBs have none, and every switch of address space flushes.
    pub asid_bits: u8,
}

/// What hardware must know of a process to translate for it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Context {
    /// The format of its page table.
    pub format: Format,
    /// Where the table begins.
    pub root: Root,
    /// The tag of its translations.
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

/// The kernel without its processes.
pub(crate) struct Core {
    pub memory: Memory,
    pub policy: Policy,
    pub linux: LinuxDesc,
    pub regions: Regions,
    /// What is mapped in all page tables.
    pub mapped: Mapped,
    pub counts: KernelCounts,
}

impl Core {
    /// Folds the regions that are gone. One of which a private page is left, which none should be, is kept.
    #[cold]
    fn fold_regions(&mut self, fx: &mut Effects) {
        let (memory, cached) = (&self.memory, self.memory.cached_by_region());
        let is_free =
            |id: RegionId| memory.resident.of(id).now == cached.get(&id).map_or(0, |pages| pages * BASE_BYTES);
        let folds = self.regions.fold(is_free);
        self.memory.fold_regions(&folds);
        fx.folded.extend(folds);
    }

    /// What work on an address space needs beside it.
    pub fn cx<'a>(&'a mut self, mem: &'a mut PhysMem, fx: &'a mut Effects, pid: Pid) -> Cx<'a> {
        Cx {
            mem,
            memory: &mut self.memory,
            regions: &mut self.regions,
            mapped: &mut self.mapped,
            counts: &mut self.counts,
            policy: &self.policy,
            linux: &self.linux,
            fx,
            pid,
        }
    }
}

/// The simulated operating system.
pub struct Kernel {
    pub(crate) core: Core,
    table: TableDesc,
    pub(crate) khugepaged: Option<Khugepaged>,
    pub(crate) compaction: Compaction,
    /// Of address spaces that are gone.
    pub(crate) ended: Contiguity,
    /// Address spaces by slot; slots are used again.
    pub(crate) spaces: Vec<Option<Space>>,
    processes: FxHashMap<Pid, usize>,
    /// The process asked for last, and its slot.
    last: Cell<(Pid, usize)>,
    asids: Asids,
    /// TLBs have no tags: an address space gets its own when it runs, and what ran before is flushed.
    pub(crate) tagless: bool,
    /// What each processor runs.
    pub(crate) on: Vec<OnCpu>,
    serials: u64,
    /// Events obeyed, but for switches.
    pub(crate) obeyed: u64,
}

/// What a processor runs, once it has run anything.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct OnCpu {
    pub pid: Option<Pid>,
    /// The serial number of the address space whose translations it may hold, when TLBs have no tags.
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
        let policy = Policy::new(desc)?;
        check(&desc.policy.linux)?;
        if matches!(policy, Policy::Thp(_)) && !desc.table.has_leaf(PageOrder::P2M) {
            return Err(KernelError::Description {
                key: "kind".into(),
                message: "linux-thp maps pages of 2M, which the machine's page table has none of".into(),
            });
        }
        let table = desc
            .table
            .clone()
            .complete()
            .map_err(|message| KernelError::Description { key: "table".into(), message })?;
        let allocator = match &policy {
            Policy::Freebsd(bsd) => Allocator::Freebsd { bucket: bsd.desc().bucket },
            _ => Allocator::Linux,
        };
        let frames = Frames::of(allocator, &desc.memory, desc.cpus, desc.memory.seed)?;
        let mut memory = Memory::new(frames, mem.frames()).ok_or_else(|| KernelError::Description {
            key: "memory.size".into(),
            message: "no frame is left for the kernel itself: give more".into(),
        })?;
        let khugepaged = match &policy {
            Policy::Thp(thp) => thp.desc().khugepaged.clone().map(Khugepaged::new),
            _ => None,
        };
        let mut linux = desc.policy.linux.clone();
        if let Policy::Freebsd(bsd) = &policy {
            memory.reservations = Reservations::new(&bsd.desc().levels);
            linux.flush_ceiling = bsd.desc().flush_ceiling;
        }
        if let Some(pool) = &desc.policy.hugetlb {
            reserve(&mut memory, desc, pool.size, pool.pool)?;
        }
        Ok(Self {
            core: Core {
                memory,
                policy,
                linux,
                regions: Regions::new(),
                mapped: Mapped::default(),
                counts: KernelCounts::default(),
            },
            table,
            khugepaged,
            compaction: Compaction::default(),
            ended: Contiguity::default(),
            spaces: Vec::new(),
            processes: FxHashMap::default(),
            last: Cell::new((Pid(0), NOWHERE)),
            asids: Asids::new(desc.asid_bits),
            tagless: desc.asid_bits == 0,
            on: vec![OnCpu::default(); usize::from(desc.cpus.max(1))],
            serials: 0,
            obeyed: 0,
        })
    }

    /// Obeys an event of the trace. What a real system call would have refused is counted and changes nothing.
    ///
    /// A process not heard of before comes into being, empty, when it is switched to or does something. `Invlpg` is
    /// left to the machine, as it concerns one core only.
    ///
    /// # Errors
    /// Frames for page tables ran out, or there are more address spaces than can be numbered.
    pub fn event(&mut self, mem: &mut PhysMem, who: Actor, event: &Event, fx: &mut Effects) -> Result<(), KernelError> {
        self.core.memory.cpu = who.cpu;
        let result = self.obey(mem, who, event, fx);
        if self.core.regions.are_many_gone() {
            self.core.fold_regions(fx);
        }
        self.collect(fx);
        result
    }

    /// Lends the frames that tables are made of, for tables which are not those of processes, and hands the work over.
    pub fn with_table_frames<R>(&mut self, fx: &mut Effects, work: impl FnOnce(&mut TableMemory) -> R) -> R {
        let done = work(&mut TableMemory(&mut self.core.memory));
        self.collect(fx);
        done
    }

    /// From now on [`Effects::touched`] tells which memory the kernel itself stored to: a host must have it then.
    pub fn tell_touched(&mut self) {
        self.core.memory.touched = Some(Vec::new());
    }

    /// Serves a page fault of `who` at `va`. After `Ok`, the page table allows the access.
    ///
    /// # Errors
    /// The program would have been killed, or frames ran out.
    pub fn fault(
        &mut self,
        mem: &mut PhysMem,
        who: Actor,
        va: VirtAddr,
        access: Access,
        fx: &mut Effects,
    ) -> Result<Fault, FaultError> {
        self.core.memory.cpu = who.cpu;
        self.core.memory.work.add(WorkKind::FaultEntry, 1);
        let result = match self.slot(who.pid) {
            Some(slot) => {
                let later = self.compact_for(mem, slot, va, fx);
                let (space, mut cx) = self.at_work(mem, fx, slot, who.pid);
                let result = space.fault(&mut cx, va, access);
                if later {
                    self.compact(mem, fx, va.raw());
                }
                result
            }
            None => Err(FaultError::Unmapped { pid: who.pid, va }),
        };
        self.collect(fx);
        result
    }

    /// Compacts memory for a fault that wants a huge page, where none is free and the policy says so. Whether the
    /// policy says to do it in the background, after the fault, instead.
    #[inline]
    fn compact_for(&mut self, mem: &mut PhysMem, slot: usize, va: VirtAddr, fx: &mut Effects) -> bool {
        let Policy::Thp(thp) = &self.core.policy else { return false };
        if thp.desc().defrag == Defrag::Never || self.core.memory.frames.has_block(PageOrder::P2M) {
            return false;
        }
        let later = thp.desc().defrag == Defrag::Defer;
        let wants = self.spaces[slot].as_ref().is_some_and(|space| {
            let Some(span) = space.vmas.find(va.raw()) else { return false };
            let Found::Hole(room) = space.probe(mem, va) else { return false };
            let ask = Ask { vma: &span.value, start: span.start, end: span.end, va: va.raw(), room };
            (later || thp.compacts(span.value.advice)) && matches!(thp.choose(&ask), Choice::Large(_))
        });
        if wants && !later {
            self.compact(mem, fx, va.raw());
        }
        wants && later
    }

    /// What hardware must know to translate for a process; nothing for one that does not exist or never ran.
    #[inline]
    pub fn context(&self, pid: Pid) -> Option<Context> {
        let space = self.space(pid)?;
        Some(Context { format: space.table.format(), root: space.table.root(), asid: space.asid? })
    }

    /// What hardware must know of a process that CPU `cpu` ran last and runs on; nothing where switching to it takes
    /// work. As [`Self::event`] with such a switch, which warps make at every instruction.
    #[inline]
    pub fn runs_on(&mut self, cpu: u16, pid: Pid) -> Option<Context> {
        let on = self.on[usize::from(cpu) % self.on.len()];
        let serial = self.space(pid)?.serial;
        let same = on.pid == Some(pid) && (!self.tagless || on.space == Some(serial));
        let context = self.context(pid).filter(|_| same)?;
        self.core.memory.cpu = cpu;
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
        self.core.regions.all()
    }

    /// The region in a slot.
    pub fn region(&self, id: RegionId) -> &Region {
        self.core.regions.get(id)
    }

    /// What is resident for a region: private pages and pages of the page cache, each once.
    pub fn resident(&self, id: RegionId) -> Resident {
        self.core.memory.resident.of(id)
    }

    /// What is resident now, of all programs together.
    pub fn resident_bytes(&self) -> u64 {
        self.core.memory.resident_bytes()
    }

    /// The programs that were run, in the order they began.
    pub fn programs(&self) -> impl Iterator<Item = &Program> {
        self.core.regions.programs()
    }

    /// The frame allocator, for what reports say of fragmentation.
    pub fn frames(&self) -> &Frames {
        &self.core.memory.frames
    }

    /// What was done so far.
    pub fn counts(&self) -> &KernelCounts {
        &self.core.counts
    }

    /// What page tables did of their own accord.
    pub fn table_counts(&self) -> &TableCounts {
        &self.core.memory.table_counts
    }

    #[inline]
    fn space(&self, pid: Pid) -> Option<&Space> {
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
        fx: &mut Effects,
    ) -> Result<usize, KernelError> {
        if let Some(slot) = self.slot(pid) {
            return Ok(slot);
        }
        let slot = self.new_space(mem, pid, program)?;
        self.enter(pid, slot);
        self.tag(slot, fx);
        Ok(slot)
    }

    /// A new, empty address space, which nobody runs in yet. Without a program, it is for the one that the trace begins
    /// with.
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
            Table::new(&self.table, mem, &mut self.core.memory).map_err(|e| KernelError::Table(e.to_string()))?;
        self.serials += 1;
        let program = program.unwrap_or_else(|| self.core.regions.program(pid, &"".into()));
        let space = Space::new(self.serials, pid, table, program);
        let slot = self.spaces.iter().position(Option::is_none).unwrap_or(self.spaces.len());
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
    pub(crate) fn leave(&mut self, mem: &mut PhysMem, pid: Pid, fx: &mut Effects) {
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
            self.core.memory.objects.drop_one(object);
        }
        let mut cx = self.core.cx(mem, fx, pid);
        space.zap_all(&mut cx, &mut gather);
        for place in space.places.iter() {
            cx.regions.lift(place.value.0, place.end - place.start);
        }
        space.finish(&mut cx, gather);
        space.table.free(cx.mem, cx.memory);
        if let Some(asid) = space.asid.filter(|_| !self.tagless) {
            self.asids.take_back(asid);
        }
        for id in objects {
            self.forget_if_unused(id);
        }
    }

    /// Shared memory goes with its last mapping.
    pub(crate) fn forget_if_unused(&mut self, id: crate::cache::ObjectId) {
        let is_used = || self.spaces.iter().flatten().any(|space| space.objects().contains(&id));
        if self.core.memory.cache.is_memory(id) && !is_used() {
            self.core.memory.forget(id);
        }
    }

    /// Events that take long end when this is asked for.
    pub fn stop_with(&mut self, stop: &Stop) {
        self.core.memory.stop = stop.clone();
    }

    /// The processor on which the kernel works.
    pub(crate) fn cpu(&self) -> usize {
        usize::from(self.core.memory.cpu) % self.on.len()
    }

    /// The process that runs on a processor, if one has yet.
    pub fn running(&self, cpu: u16) -> Option<Pid> {
        self.on[usize::from(cpu) % self.on.len()].pid
    }

    /// Makes sure an address space has a tag, and is flushed to if tags cannot tell it apart.
    pub(crate) fn tag(&mut self, slot: usize, fx: &mut Effects) {
        let cpu = self.cpu();
        let Some(space) = &mut self.spaces[slot] else { return };
        if self.tagless {
            space.asid = Some(Asid(1));
            if self.on[cpu].space.replace(space.serial).is_some_and(|last| last != space.serial) {
                self.core.memory.work.add(WorkKind::FlushSpace, 1);
                fx.local = true;
                fx.invalidations.push(Invalidate::Asid(Asid(1)));
            }
            return;
        }
        if space.asid.is_some() {
            return;
        }
        let given = self.asids.give(space.serial);
        space.asid = Some(given.asid);
        let pid = space.pid;
        if fx.narrate {
            fx.told.push(Told::Asid { pid, asid: given.asid });
        }
        if let Some(serial) = given.taken_from {
            for other in self.spaces.iter_mut().flatten().filter(|s| s.serial == serial) {
                other.asid = None;
            }
            self.core.counts.happenings.add(Happening::AsidRecycled, 1);
            self.core.memory.work.add(WorkKind::FlushSpace, 1);
            fx.invalidations.push(Invalidate::Asid(given.asid));
        }
    }

    /// An address space beside everything else that work on it needs.
    pub(crate) fn at_work<'a>(
        &'a mut self,
        mem: &'a mut PhysMem,
        fx: &'a mut Effects,
        slot: usize,
        pid: Pid,
    ) -> (&'a mut Space, Cx<'a>) {
        let Some(space) = &mut self.spaces[slot] else { unreachable!("a process's slot is in use") };
        (space, self.core.cx(mem, fx, pid))
    }

    /// Hands the work done over.
    pub(crate) fn collect(&mut self, fx: &mut Effects) {
        for &kind in WorkKind::ALL {
            let count = self.core.memory.work.get(kind);
            if count > 0 {
                // A host serves millions of faults before anybody asks what they took.
                match fx.work.iter_mut().find(|work| work.kind == kind) {
                    Some(work) => work.count += count,
                    None => fx.work.push(Work { kind, count }),
                }
                self.core.counts.work.add(kind, count);
            }
        }
        self.core.memory.work.clear();
        if let Some(touched) = &mut self.core.memory.touched {
            fx.touched.append(touched);
        }
        if fx.narrate {
            fx.told.append(&mut self.core.memory.table_news);
        }
        self.core.memory.table_news.clear();
        self.core.counts.invalidations += fx.invalidations.len() as u64;
        let reservations = &mut self.core.memory.reservations;
        self.core.counts.happenings.add(Happening::ReservFreed, std::mem::take(&mut reservations.freed));
        self.core.counts.happenings.add(Happening::ReservBroken, std::mem::take(&mut reservations.broken));
        let dropped = std::mem::take(&mut self.core.memory.cache_dropped);
        self.core.counts.happenings.add(Happening::CacheDropped, dropped);
    }

    pub(crate) fn fail(&mut self, error: EventError, fx: &mut Effects) {
        self.core.counts.errors.add(error, 1);
        if fx.narrate {
            fx.told.push(Told::Failed { error });
        }
    }
}

/// Whether the numbers of a description can be honoured.
fn check(linux: &LinuxDesc) -> Result<(), KernelError> {
    let page_sized = |key: &str, bytes: Bytes, max: u64| {
        if bytes.0.is_power_of_two() && (PageOrder::P4K.bytes()..=max).contains(&bytes.0) {
            return Ok(());
        }
        let max = mmulab_addr::show_bytes(max);
        Err(KernelError::Description {
            key: format!("linux.{key}"),
            message: format!("must be a power of two from 4K to {max}, not {}", mmulab_addr::show_bytes(bytes.0)),
        })
    };
    page_sized("fault_around", linux.fault_around, PageOrder::P2M.bytes())?;
    page_sized("read_around", linux.read_around, PageOrder::P1G.bytes())?;
    let most = linux.largest_read;
    if most.0 == 0 || !most.0.is_multiple_of(BASE_BYTES) {
        return Err(KernelError::Description {
            key: "linux.largest_read".into(),
            message: format!("must be a multiple of 4K and not 0, not {}", mmulab_addr::show_bytes(most.0)),
        });
    }
    page_sized("implicit_vma", linux.implicit_vma, PageOrder::P1G.bytes())
}

fn reserve(memory: &mut Memory, desc: &KernelDesc, order: PageOrder, size: Bytes) -> Result<(), KernelError> {
    let wrong = |key: &str, message: String| KernelError::Description { key: key.into(), message };
    if order == PageOrder::P4K || !desc.table.has_leaf(order) {
        return Err(wrong("hugetlb.size", format!("the machine's page table has no huge page of {order}")));
    }
    if size.0 < order.bytes() {
        let size = mmulab_addr::show_bytes(size.0);
        return Err(wrong("hugetlb.pool", format!("{size} holds not one page of {order}: give more")));
    }
    memory.reserve(order, size).map_err(|got| {
        wrong(
            "hugetlb.pool",
            format!(
                "only {got} of {} pages of {order} could be reserved at boot: make the pool smaller, or the machine's \
                 memory larger or less fragmented",
                size.0 / order.bytes()
            ),
        )
    })
}
