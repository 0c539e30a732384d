//! The host below virtual machines: its memory and kernel, the second dimension of each core's walker, and which guest
//! runs.
//!
//! A guest is a process of the host's kernel whose address space is one anonymous mapping: the guest's physical memory,
//! from address 0 on. What the guest's kernel and walker see of memory are guest-physical addresses; where the host has
//! them stands in the host's table alone.

use super::{shadows::Shadows, tags::Tags};
use crate::{
    count::{HostCounts, Tally},
    describe::{Mode, Resolved, VirtualDesc},
    ended::{Ended, MachineError},
    leshy::Online,
    system::System,
};
use mmulab_addr::{Access, Asid, PageOrder, Pfn, PhysAddr, Pid, Prot, Tid, VirtAddr};
use mmulab_frames::PhysMem;
use mmulab_kernel::{
    Actor, Effects, FaultError, HintedBlock, KernelDesc, KernelError, PolicyDesc, Stop, Stored, WorkKind,
};
use mmulab_pagetable::{Format, Invalidate, Leaf};
use mmulab_trace::{Advice, Backing, Event, MapFlags};
use mmulab_walker::{Caches, Memories, Nested, NestedContext, NestedDesc, NestedWalker, WalkContext, Walker};
use std::{collections::BTreeSet, ops::Range};

/// How often the same guest-physical address may fault in the host before something is broken, as in the engine.
const MAX_FAULTS: u32 = 8;

/// A virtual machine.
pub(super) struct Guest {
    /// Its table in the host.
    pub context: WalkContext,
    /// Its memory, in bytes.
    bytes: u64,
    /// Tags that its translations may be held under.
    tags: BTreeSet<Asid>,
    /// Its system, while another machine runs.
    parked: Option<System>,
}

/// The host.
pub(crate) struct Host {
    pub system: System,
    /// What its kernel asked for and has not been delivered yet.
    pub effects: Effects,
    pub counts: HostCounts,
    /// How its table is read.
    pub format: Format,
    /// Cycles of the host's kernel work, with fractions.
    pub cycles: f64,
    walkers: Vec<NestedWalker>,
    pub(super) guests: Vec<Guest>,
    /// The guest that runs.
    pub(super) at: usize,
    tags: Tags,
    /// Tables straight from the guests' programs to the host's frames, in place of two-dimensional walks.
    pub(super) shadows: Option<Shadows>,
    /// What shadow tables no longer say, to be delivered with what the host's kernel changed.
    pub(super) shadow_stale: Vec<Invalidate>,
    /// Guests report where the merged nodes of their tables are, and the host advises huge pages for them.
    advises_nodes: bool,
}

impl Host {
    /// The host of the described machine, and the system of the first of its guests, which runs. Guests have no memory
    /// yet but what their kernels wrote.
    pub fn new(desc: &Resolved, guest: &VirtualDesc, policy: &PolicyDesc) -> Result<(Self, System), MachineError> {
        let machine = &desc.machine;
        let count = desc.options.vms.len() + 1;
        let tags = Tags::new(count, machine.tlb_rules.asid_bits);
        let of_host = KernelDesc {
            memory: machine.memory.clone(),
            table: machine.table.clone(),
            policy: policy.clone(),
            cpus: machine.core.cpus(),
            asid_bits: u16::BITS as u8,
        };
        let system = System::new(&of_host, Tally::default(), None).map_err(MachineError::Host)?;
        let (read_cycles, hash_cycles) = (machine.walker.read_cycles, machine.walker.hash_cycles);
        let caches = NestedDesc { caches: &guest.cache, read_cycles, hash_cycles, tlb: guest.nested_tlb.as_ref() };
        let mut host = Self {
            system,
            effects: Effects::default(),
            counts: HostCounts::default(),
            cycles: 0.0,
            format: machine.table.format(),
            walkers: (0..machine.core.count)
                .map(|core| NestedWalker::new(caches, usize::from(core)))
                .collect::<Result<_, _>>()?,
            guests: Vec::new(),
            at: 0,
            tags,
            shadows: (guest.mode == Mode::Shadow).then(|| Shadows::new(machine.table.clone())),
            shadow_stale: Vec::new(),
            advises_nodes: guest.advise_nodes,
        };
        // Shadow tables are found by tag alone: without tags, no two address spaces of a guest may be in use at once.
        let one_at_a_time = tags.is_none() && guest.mode == Mode::Shadow;
        for vm in 0..count {
            let mut of_guest = KernelDesc {
                memory: guest.memory.clone(),
                table: guest.table.clone(),
                policy: desc.policy.clone(),
                cpus: if one_at_a_time { 1 } else { machine.cpus_apart() },
                asid_bits: tags.guest_bits(),
            };
            // Guests of one description differ in what is placed at random.
            of_guest.memory.seed = of_guest.memory.seed.wrapping_add(vm as u64);
            let mut parked =
                System::new(&of_guest, Tally::new(&desc.options), Online::new(desc)).map_err(MachineError::Guest)?;
            parked.kernel.tell_touched();
            if guest.hints {
                parked.kernel.tell_hinted();
            }
            let context = host.start(vm, parked.mem.frames() * PageOrder::P4K.bytes()).map_err(MachineError::Host)?;
            let bytes = parked.mem.frames() * PageOrder::P4K.bytes();
            host.guests.push(Guest { context, bytes, tags: BTreeSet::new(), parked: Some(parked) });
        }
        match host.guests[0].parked.take() {
            Some(first) => Ok((host, first)),
            None => unreachable!("made above"),
        }
    }

    /// The process of the host that virtual machine `vm` is.
    fn actor(vm: usize, cpu: u16) -> Actor {
        let number = vm as u32 + 1;
        Actor { pid: Pid(number), tid: Tid(number), cpu }
    }

    /// Makes the process of a virtual machine, and maps its memory.
    fn start(&mut self, vm: usize, bytes: u64) -> Result<WalkContext, KernelError> {
        let actor = Self::actor(vm, 0);
        let map = Event::Mmap {
            addr: VirtAddr::new(0),
            len: bytes,
            prot: Prot::RW.with(Prot::X),
            flags: MapFlags::default(),
            backing: Backing::Anon,
        };
        let System { mem, kernel, .. } = &mut self.system;
        for event in [Event::Switch { pid: actor.pid, tid: actor.tid }, map] {
            kernel.event(mem, actor, &event, &mut self.effects)?;
        }
        // Starting a machine is no part of the run.
        self.effects.clear();
        let made = kernel
            .context(actor.pid)
            .filter(|_| kernel.region_at(actor.pid, VirtAddr::new(bytes - 1)) != mmulab_kernel::RegionId::NONE);
        let context = made.ok_or_else(|| KernelError::Description {
            key: "virtual.memory.size".into(),
            message: format!(
                "{} of guest-physical memory do not fit into what the host's table can translate: give less",
                mmulab_addr::show_bytes(bytes)
            ),
        })?;
        Ok(WalkContext { format: context.format, root: context.root, asid: context.asid })
    }

    /// Walks for the guest that runs, in both dimensions.
    #[inline]
    pub fn walk_nested(
        &mut self,
        walker: &mut Walker,
        mem: &mut PhysMem,
        caches: &mut Caches,
        guest: WalkContext,
        (core, va, access): (usize, VirtAddr, Access),
    ) -> (Nested, &NestedWalker) {
        let cx = NestedContext { guest, host: self.guests[self.at].context };
        let memories = Memories { guest: mem, host: &mut self.system.mem };
        let nested = &mut self.walkers[core];
        let walk = nested.walk(walker, memories, caches, cx, va, access);
        (walk, nested)
    }

    /// Whether each walk's entries are kept for an observer.
    pub fn watch_walks(&mut self, watched: bool) {
        self.walkers.iter_mut().for_each(|walker| walker.watched = watched);
    }

    /// Whether the neighbours of a page's entry matter to TLBs.
    pub fn set_neighbours(&mut self, neighbours: bool) {
        self.walkers.iter_mut().for_each(|walker| walker.neighbours = neighbours);
    }

    /// Software prefetches of the entries of the host that a walk for `va` will read. No result depends on them.
    #[inline]
    pub fn prefetch_hint(
        &self,
        walker: &Walker,
        mem: &PhysMem,
        caches: &Caches,
        guest: WalkContext,
        (core, va): (usize, VirtAddr),
    ) {
        let cx = NestedContext { guest, host: self.guests[self.at].context };
        self.walkers[core].prefetch_hint(walker, (mem, &self.system.mem), caches, cx, va);
    }

    /// What the host's table says of an address of the guest that runs.
    #[inline]
    pub fn leaf(&self, gpa: PhysAddr) -> Option<Leaf> {
        self.leaf_of(self.at, gpa)
    }

    /// What the host's table says of an address of guest `vm`.
    pub fn leaf_of(&self, vm: usize, gpa: PhysAddr) -> Option<Leaf> {
        self.guests[vm].context.leaf(&self.system.mem, VirtAddr::new(gpa.0))
    }

    /// The host gives the guest that runs memory at `gpa`.
    pub fn serve_violation(&mut self, gpa: PhysAddr, access: Access, cpu: u16) -> Result<(), Ended> {
        let actor = Self::actor(self.at, cpu);
        self.counts.exits += 1;
        let System { mem, kernel, .. } = &mut self.system;
        let vm = self.at;
        match kernel.fault(mem, actor, VirtAddr::new(gpa.0), access, &mut self.effects) {
            Ok(_) => {
                self.reload();
                Ok(())
            }
            Err(FaultError::OutOfMemory { wanted, free_frames, .. }) => Err(Ended::OutOfMemory(format!(
                "the host is out of memory: {wanted} for guest-physical {gpa} of virtual machine {vm}, with \
                 {free_frames} frames free: give the host more (memory.size), its guests less (virtual.memory.size), \
                 or less fragmentation"
            ))),
            Err(error) => Err(Ended::Kernel(format!(
                "virtual machine {vm} used guest-physical {gpa}, beyond its {}: {error}",
                mmulab_addr::show_bytes(self.guests[vm].bytes)
            ))),
        }
    }

    /// Reads the base registers anew: a table may have moved its root.
    pub fn reload(&mut self) {
        for (vm, guest) in self.guests.iter_mut().enumerate() {
            if let Some(context) = self.system.kernel.context(Self::actor(vm, 0).pid) {
                guest.context.root = context.root;
            }
        }
    }

    /// The addresses in `frames` of the guest that runs which the host has no memory for that may be stored to. Whoever
    /// asks has it made before asking again.
    pub fn first_missing(&self, frames: &Range<u64>) -> Option<PhysAddr> {
        let mut at = frames.start;
        while at < frames.end {
            let gpa = Pfn(at).addr();
            match self.leaf(gpa) {
                Some(leaf) if leaf.prot.has(Prot::W) => at = Pfn(at).align_down(leaf.order).0 + leaf.order.base_pages(),
                _ => return Some(gpa),
            }
        }
        None
    }

    /// The kernel of the guest that runs stores to memory: the host must have it.
    pub fn back(&mut self, stored: &Stored, cpu: u16) -> Result<(), Ended> {
        let mut frames = stored.first.0..stored.first.0 + stored.frames;
        if stored.is_node && self.advises_nodes && self.first_missing(&frames).is_some() {
            self.advise(stored, cpu)?;
        }
        let mut faults = 0;
        while let Some(gpa) = self.first_missing(&frames) {
            faults = if gpa.pfn().0 == frames.start { faults + 1 } else { 0 };
            if faults > MAX_FAULTS {
                return Err(Ended::Stuck { va: VirtAddr::new(gpa.0), access: Access::Write });
            }
            frames.start = gpa.pfn().0;
            self.counts.kernel_violations += 1;
            self.serve_violation(gpa, Access::Write, cpu)?;
        }
        Ok(())
    }

    /// The guest that runs reports where a merged node of its table is, which is an exit: the host advises a huge page
    /// there.
    fn advise(&mut self, node: &Stored, cpu: u16) -> Result<(), Ended> {
        self.counts.exits += 1;
        self.counts.nodes_told += 1;
        let addr = VirtAddr::new(node.first.addr().0);
        let len = node.frames * PageOrder::P4K.bytes();
        let event = Event::Madvise { addr, len, advice: Advice::Hugepage };
        let System { mem, kernel, .. } = &mut self.system;
        let advised = kernel.event(mem, Self::actor(self.at, cpu), &event, &mut self.effects);
        advised.map_err(|e| Ended::Kernel(format!("the host: {e}")))
    }

    /// The guest that runs hands a hint of a page size on, which is a VM exit. The host takes it as a hint for the
    /// memory of the machine.
    pub fn hint(&mut self, block: &HintedBlock, cpu: u16) -> Result<(), Ended> {
        self.counts.exits += 1;
        self.counts.hints_told += 1;
        let addr = VirtAddr::new(block.first.addr().0);
        let event = Event::Madvise { addr, len: block.size.bytes(), advice: Advice::PageSize(block.size) };
        let System { mem, kernel, .. } = &mut self.system;
        let hinted = kernel.event(mem, Self::actor(self.at, cpu), &event, &mut self.effects);
        hinted.map_err(|e| Ended::Kernel(format!("the host: {e}")))
    }

    /// Counts the VM exits for the entries that the kernel of the running guest wrote to its tables. Shadow tables are
    /// made of these tables, so the host has them write-protected. Returns how many exits.
    pub fn trap_table_writes(&mut self, work: &[mmulab_kernel::Work]) -> u64 {
        if self.shadows.is_none() {
            return 0;
        }
        let writes_of = |kind| match kind {
            // A table that comes or goes is an entry of the one above.
            WorkKind::EntryWrite | WorkKind::TableFrame => 1,
            // A line is written in one place and cleared in another.
            WorkKind::TableLine => 2,
            _ => 0,
        };
        let writes = work.iter().map(|work| work.count * writes_of(work.kind)).sum();
        self.counts.exits += writes;
        self.counts.table_writes += writes;
        writes
    }

    /// The guest that runs loads another table: where shadow tables are, the host must see that.
    pub fn trap_table_load(&mut self) {
        if self.shadows.is_some() {
            self.counts.exits += 1;
            self.counts.table_loads += 1;
        }
    }

    /// Changes in the host's tables have made translations stale. The host invalidates all translations that were made
    /// with the table of the machine concerned. This is Linux's `kvm_flush_remote_tlbs` after an MMU notifier, by
    /// INVEPT (Intel SDM vol. 3C, section 29.4.3.1). Returns the tags under which TLBs may hold such translations.
    pub fn stale_tags(&mut self) -> Vec<Asid> {
        let mut stale = Vec::new();
        for what in &self.effects.invalidations {
            let of = match *what {
                Invalidate::Page { asid, .. } | Invalidate::Range { asid, .. } | Invalidate::Asid(asid) => Some(asid),
                Invalidate::All => None,
            };
            for guest in self.guests.iter().filter(|g| of.is_none_or(|asid| asid == g.context.asid)) {
                stale.extend(&guest.tags);
                for walker in &mut self.walkers {
                    walker.invalidate(self.format, &Invalidate::Asid(guest.context.asid));
                }
            }
        }
        stale.sort_unstable();
        stale.dedup();
        for &tag in &stale {
            self.shadow_forget(&Invalidate::Asid(tag));
        }
        stale
    }

    /// Drops what the running guest invalidates from its shadow tables: a VM exit.
    pub fn forget_in_shadow(&mut self, what: &Invalidate) {
        self.counts.exits += 1;
        let mut tagged = Vec::new();
        self.tagged(what, |what| tagged.push(*what));
        tagged.iter().for_each(|what| self.shadow_forget(what));
    }

    /// The same for an invalidation with the machine's tag: INVLPG, which hosts that keep shadow tables intercept.
    pub fn forget_tagged(&mut self, what: &Invalidate) {
        self.counts.exits += 1;
        self.shadow_forget(what);
    }

    /// What shadow tables no longer say, taken.
    pub fn take_shadow_stale(&mut self) -> Vec<Invalidate> {
        std::mem::take(&mut self.shadow_stale)
    }

    /// Whether the walker reads shadow tables.
    #[inline]
    pub fn has_shadows(&self) -> bool {
        self.shadows.is_some()
    }

    /// The tag of what the guest that runs calls `asid`, which is used from now on.
    #[inline]
    pub fn use_tag(&mut self, asid: Asid) -> Asid {
        let tag = self.tags.of(self.at, asid);
        self.guests[self.at].tags.insert(tag);
        tag
    }

    /// The tag of what guest `vm` calls `asid`.
    pub fn tag_of(&self, vm: usize, asid: Asid) -> Asid {
        self.tags.of(vm, asid)
    }

    /// Calls `each` for what the guest that runs wants invalidated, by the tags of the machine.
    pub fn tagged(&self, what: &Invalidate, mut each: impl FnMut(&Invalidate)) {
        match *what {
            Invalidate::Page { asid, va, order } => {
                each(&Invalidate::Page { asid: self.tags.of(self.at, asid), va, order });
            }
            Invalidate::Range { asid, range, stride } => {
                each(&Invalidate::Range { asid: self.tags.of(self.at, asid), range, stride });
            }
            Invalidate::Asid(asid) => each(&Invalidate::Asid(self.tags.of(self.at, asid))),
            // Combined translations are never global: those of every address space are dropped.
            Invalidate::All => self.guests[self.at].tags.iter().for_each(|&tag| each(&Invalidate::Asid(tag))),
        }
    }

    /// Virtual machines there are.
    pub fn count(&self) -> usize {
        self.guests.len()
    }

    /// Which runs.
    pub fn at(&self) -> usize {
        self.at
    }

    /// Whether TLBs have no ASIDs, so that a change of machine flushes them.
    pub fn is_without_asids(&self) -> bool {
        self.tags.is_none()
    }

    /// Guest `vm` runs from now on; `running` is the system of the one that did, and then of this one.
    pub fn swap_in(&mut self, vm: usize, running: &mut System) {
        let Some(mut next) = self.guests[vm].parked.take() else { return };
        std::mem::swap(running, &mut next);
        self.guests[self.at].parked = Some(next);
        self.at = vm;
    }

    /// All kernels end events that take long when this is asked for.
    pub fn stop_kernels_with(&mut self, stop: &Stop) {
        self.system.kernel.stop_with(stop);
        self.guests.iter_mut().filter_map(|guest| guest.parked.as_mut()).for_each(|it| it.kernel.stop_with(stop));
    }

    /// The systems that do not run, with their numbers.
    pub fn parked(&self) -> impl Iterator<Item = (usize, &System)> {
        self.guests.iter().enumerate().filter_map(|(vm, guest)| Some((vm, guest.parked.as_ref()?)))
    }

    /// The same, to be changed.
    pub fn parked_mut(&mut self) -> impl Iterator<Item = &mut System> {
        self.guests.iter_mut().filter_map(|guest| guest.parked.as_mut())
    }

    /// The second dimension of each core's walker.
    pub fn walkers(&self) -> &[NestedWalker] {
        &self.walkers
    }

    /// The host's table of each guest.
    pub fn contexts(&self) -> impl Iterator<Item = (usize, WalkContext)> {
        self.guests.iter().map(|g| g.context).enumerate()
    }
}
