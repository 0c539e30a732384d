//! The machine and its loop: a reference looks in the TLBs, else the walker reads the tables, else the kernel faults.

use crate::{
    check::{Checker, lookup},
    clock::Clock,
    counts::Counts,
    describe::{Check, Resolved, Unmapped},
    ended::{Ended, MachineError},
    host::{Filled, GUESTS_MAX, Host, PID_BITS, System},
    story::{Nobody, Seen, Story, Watch},
    tally::{Cost, Missed},
    warps::{Lanes, Waiting},
};
use mmulab_addr::{Access, Asid, PageOrder, PhysAddr, Pid, Side, Tid, VirtAddr};
use mmulab_kernel::{Actor, Effects, FaultError, RegionId, Stored};
use mmulab_pagetable::{Format, Invalidate, Leaf};
use mmulab_tlb::{Hierarchy, Outcome};
use mmulab_trace::{Batch, Event, Item};
use mmulab_walker::{Caches, Nested, NestedWalker, Violation, Walk, WalkContext, WalkSlots, Walker};
use std::{collections::BTreeMap, sync::Arc};

/// A machine built from its description, with a kernel, in the middle of a trace.
pub struct Machine {
    pub(crate) desc: Arc<Resolved>,
    /// What the programs run on: the machine's own kernel, or that of the guest which runs.
    pub(crate) system: System,
    /// What lies below guests.
    pub(crate) host: Option<Box<Host>>,
    pub(crate) caches: Caches,
    pub(crate) cores: Vec<Core>,
    pub(crate) counts: Counts,
    pub(crate) ended: Option<Ended>,
    /// How the tables that walks for the programs begin with are read.
    format: Format,
    pub(crate) who: Actor,
    /// The core each thread is pinned to.
    pinned: BTreeMap<Tid, u16>,
    /// The instruction whose lanes are being read, where cores run warps.
    pub(crate) lanes: Option<Box<Lanes>>,
    /// Whether cores have walker or TLBs in common.
    shares: bool,
    fx: Effects,
    /// Whether references to unmapped memory are given some (resolved from the options and the trace).
    unmapped: Unmapped,
    /// Kernel cycles not yet whole, by the costs' fractions.
    kernel_cycles: f64,
    /// The same of the host.
    host_cycles: f64,
    /// References seen.
    pub(crate) next: u64,
    /// Runs the batches in its own way, where a check was asked for.
    checker: Option<Box<Checker>>,
}

/// One core: its TLBs, its walker, its time.
pub(crate) struct Core {
    pub tlbs: Hierarchy,
    pub walker: Walker,
    pub slots: WalkSlots,
    pub clock: Clock,
    pub instructions: u64,
    /// Until when its warps wait, if it runs such.
    pub waiting: Option<Waiting>,
    context: Option<WalkContext>,
}

/// A reference on its way through the slow path.
struct Pending {
    va: VirtAddr,
    access: Access,
    cost: Cost,
    seen: Seen,
}

/// How a walk ended, for the reference that wanted it.
enum Came {
    /// The TLBs hold its translation.
    Through,
    /// The kernel must do something.
    Fault,
    /// The host must.
    Violation(Violation),
    /// The host has done what it must.
    Again,
}

/// How often one reference may fault before something is broken: a write to a page that was not there, was then mapped
/// read-only for want of a better idea, then copied, takes three.
const MAX_FAULTS: u32 = 8;
/// The same of a guest, where each of those walks may find that the host lacks any of up to five tables and the page.
const MAX_GUEST_FAULTS: u32 = MAX_FAULTS * 7;

/// References between one that misses and the one whose table entry the host is asked to bring near: enough for a
/// memory access of the host to finish meanwhile.
const AHEAD: usize = 12;
/// The same of a guest, for what its table entry says of the host's table: that entry must be near by then.
const NEARER: usize = AHEAD / 2;

impl Machine {
    /// Builds the machine of `desc` for a trace that carries its address-space events, or does not.
    ///
    /// # Errors
    /// A geometry or memory that cannot be.
    pub fn new(desc: Arc<Resolved>, has_address_space: bool) -> Result<Self, MachineError> {
        let m = &desc.machine;
        let cores = m.core.count;
        let (host, system) = match (&m.guest, &desc.host_policy) {
            (Some(guest), Some(policy)) => {
                let (host, first) = Host::new(&desc, guest, policy)?;
                (Some(Box::new(host)), first)
            }
            _ => (None, System::new(&desc.kernel_desc(), desc.options.profile)?),
        };
        let nested = m.guest.as_ref().is_some_and(|guest| guest.is_nested());
        let walker = if nested { NestedWalker::guest } else { Walker::new };
        let core = |index: u16| -> Result<Core, MachineError> {
            Ok(Core {
                tlbs: Hierarchy::new(&m.tlb, &m.tlb_rules)?,
                walker: walker(&m.walker, if m.walker.shared { 0 } else { usize::from(index) })?,
                slots: WalkSlots::new(m.walker.count),
                clock: Clock::new(m.core.base_cpi, m.core.window),
                instructions: 0,
                waiting: m.gpu.as_ref().map(|gpu| Waiting::new(gpu.warps)),
                context: None,
            })
        };
        let unmapped = match desc.options.unmapped {
            Unmapped::Auto if has_address_space => Unmapped::Fault,
            Unmapped::Auto => Unmapped::Map,
            chosen => chosen,
        };
        let mut machine = Self {
            caches: Caches::new(&m.cache, &m.cache_rules, cores)?,
            cores: (0..cores).map(core).collect::<Result<_, _>>()?,
            counts: Counts::default(),
            ended: None,
            format: m.walked_table().format(),
            who: Actor { pid: Pid(1), tid: Tid(1), cpu: 0 },
            pinned: BTreeMap::from([(Tid(1), 0)]),
            lanes: m.gpu.as_ref().map(|gpu| Box::new(Lanes::new(gpu))),
            shares: m.walker.shared || m.tlb.iter().any(|array| array.shared),
            fx: Effects::default(),
            unmapped,
            kernel_cycles: 0.0,
            host_cycles: 0.0,
            next: 0,
            checker: match desc.options.check {
                Check::None => None,
                Check::Translations => Some(Box::new(Checker::new(&desc, has_address_space)?)),
            },
            system,
            host,
            desc,
        };
        let neighbours = machine.cores.iter().any(|core| core.tlbs.looks_at_neighbours());
        if let Some(host) = &mut machine.host {
            host.tell_neighbours(neighbours);
        }
        // The first guest last: it is the one that runs.
        for vm in (0..machine.host.as_ref().map_or(1, |host| host.count())).rev() {
            machine.enter(vm);
            let first = Event::Switch { pid: Pid(1), tid: Tid(1) };
            machine.system.kernel.event(&mut machine.system.mem, machine.who, &first, &mut machine.fx)?;
            machine.settle(&mut Nobody).map_err(MachineError::Start)?;
            machine.load_context();
        }
        machine.counts.kernel_cycles = 0;
        (machine.kernel_cycles, machine.host_cycles) = (0.0, 0.0);
        if let Some(host) = &mut machine.host {
            host.counts = Default::default();
        }
        Ok(machine)
    }

    /// Runs a stretch of a trace; nothing happens once the machine has ended.
    pub fn run(&mut self, batch: &Batch) {
        self.run_watched(batch, &mut Nobody);
    }

    /// Runs a stretch of a trace with somebody watching each reference.
    pub fn run_watched<W: Watch>(&mut self, batch: &Batch, watch: &mut W) {
        if self.ended.is_some() {
            return;
        }
        self.fx.narrate = W::ACTIVE;
        if let Some(host) = &mut self.host {
            host.fx.narrate = W::ACTIVE;
            host.watch_walks(W::ACTIVE);
        }
        let ran = match self.checker.take() {
            None => self.go(batch, watch),
            Some(mut checker) => {
                let ran = checker.run(self, batch, watch);
                self.checker = Some(checker);
                ran
            }
        };
        if let Err(ended) = ran {
            self.ended = Some(ended);
        }
    }

    /// Why it came to its end, if it has.
    pub fn ended(&self) -> Option<&Ended> {
        self.ended.as_ref()
    }

    /// The level of each TLB array, in the order observers number them.
    pub fn tlb_levels(&self) -> Vec<u8> {
        let tlbs = &self.cores[0].tlbs;
        (0..tlbs.names().len()).map(|array| tlbs.level(array)).collect()
    }

    /// What the acting process's table says of `va`; of a guest's, with guest-physical frames.
    pub fn leaf(&self, va: VirtAddr) -> Option<Leaf> {
        lookup(&self.system.mem, self.context()?, va)
    }

    /// Every kernel with its memory: the one machine's, or each guest's, by number.
    pub(crate) fn systems(&self) -> impl Iterator<Item = (usize, &System)> {
        let (running, parked) = match &self.host {
            None => (0, None),
            Some(host) => (host.at(), Some(host.parked())),
        };
        std::iter::once((running, &self.system)).chain(parked.into_iter().flatten())
    }

    /// Guest `vm` runs from now on, if it does not.
    pub(crate) fn enter(&mut self, vm: usize) {
        if let Some(host) = &mut self.host {
            host.enter(vm, &mut self.system);
        }
    }

    /// References seen so far.
    pub(crate) fn references(&self) -> u64 {
        self.next
    }

    /// The acting process's table, as its core has it.
    pub(crate) fn context(&self) -> Option<WalkContext> {
        self.cores[usize::from(self.who.cpu)].context
    }

    pub(crate) fn go<W: Watch>(&mut self, batch: &Batch, watch: &mut W) -> Result<(), Ended> {
        let mut at = 0;
        while at < batch.refs.len() {
            at = if self.lanes.is_none() { self.stretch(batch, at, watch)? } else { self.warp(batch, at, watch)? };
            if at < batch.refs.len() {
                self.close_lanes();
                match batch.refs[at].item() {
                    Item::Event(index) => self.event(&batch.events[index], watch)?,
                    Item::Retire(count) => self.core().instructions += count,
                    Item::Access(..) => unreachable!("a stretch ends at a control word"),
                }
                at += 1;
            }
        }
        Ok(())
    }

    /// References up to the next control word: the loop everything else stays out of.
    #[inline]
    fn stretch<W: Watch>(&mut self, batch: &Batch, from: usize, watch: &mut W) -> Result<usize, Ended> {
        let through_caches = self.desc.machine.cache_rules.data;
        let cpu = usize::from(self.who.cpu);
        let mut asid = self.asid(cpu);
        let mut at = from;
        let (mut instructions, mut writes) = (0u64, 0u64);
        let outcome = loop {
            let Some(&word) = batch.refs.get(at) else { break Ok(()) };
            if word.is_control() {
                break Ok(());
            }
            let va = word.va();
            let access = match (word.is_fetch(), word.is_write()) {
                (true, _) => Access::Fetch,
                (_, true) => Access::Write,
                _ => Access::Read,
            };
            let core = &mut self.cores[cpu];
            instructions += u64::from(word.instructions());
            writes += u64::from(word.is_write());
            if access == Access::Fetch {
                core.tlbs.code = va;
            }
            at += 1;
            self.next += 1;
            let outcome = core.tlbs.access(asid, va, access, watch);
            if !W::ACTIVE && !through_caches && matches!(outcome, Outcome::L1 { .. }) {
                continue;
            }
            core.instructions += std::mem::take(&mut instructions);
            if let Some(&ahead) = batch.refs.get(at + AHEAD) {
                match &self.host {
                    None => core.walker.foresee(&self.system.mem, &self.caches, asid, ahead.va()),
                    Some(host) => {
                        core.walker.foresee_entry(&self.system.mem, asid, ahead.va());
                        if let (Some(cx), Some(nearer)) = (core.context, batch.refs.get(at + NEARER)) {
                            host.foresee(&core.walker, &self.system.mem, &self.caches, cx, (cpu, nearer.va()));
                        }
                    }
                }
            }
            if let Err(ended) = self.beyond(va, access, outcome, watch) {
                break Err(ended);
            }
            // A process that had lost its tag, or its address space, has one again.
            asid = self.asid(cpu);
        };
        self.cores[cpu].instructions += instructions;
        self.counts.writes += writes;
        outcome.map(|()| at)
    }

    /// The tag that a core's translations carry; 0, which is nobody's, while its process has none.
    #[inline]
    pub(crate) fn asid(&self, cpu: usize) -> Asid {
        self.cores[cpu].context.map_or(Asid(0), |c| c.asid)
    }

    #[inline]
    pub(crate) fn core(&mut self) -> &mut Core {
        &mut self.cores[usize::from(self.who.cpu)]
    }

    /// A reference that the first level alone did not finish, or that somebody watches.
    #[inline(never)]
    pub(crate) fn beyond<W: Watch>(
        &mut self,
        va: VirtAddr,
        access: Access,
        outcome: Outcome,
        watch: &mut W,
    ) -> Result<(), Ended> {
        let mut p = Pending { va, access, cost: Cost::default(), seen: Seen::of(&outcome) };
        if p.seen.missed_l1() {
            match access.side() {
                Side::Instruction => p.cost.l1i_misses = 1,
                Side::Data => p.cost.l1d_misses = 1,
            }
        }
        let result = self.resolve(&mut p, outcome, watch);
        // The code that data-side misses are charged to.
        let (pid, block) = (self.who.pid, self.core().tlbs.code);
        if p.cost != Cost::default() {
            let region = self.system.kernel.region_at(pid, va);
            // Now, for a process that ends takes its regions with it.
            let code =
                if self.system.tally.has_profile() { self.system.kernel.region_at(pid, block) } else { RegionId::NONE };
            self.system.tally.add(region, &Missed { pid, va, block, code, cost: p.cost });
        }
        if W::ACTIVE {
            watch.reference(&Story { index: self.next - 1, pid, access, va, seen: p.seen, cost: p.cost });
        }
        let host_wakes = self.host.as_ref().is_some_and(|host| host.system.kernel.wakes_at().is_some());
        if self.system.kernel.wakes_at().is_some() || host_wakes {
            self.daemons(watch)?;
        }
        result
    }

    /// Lets the kernel's daemons run if they are due. They are looked at whenever a reference leaves the first level, by
    /// the clock of its core and of the kernel's work so far.
    #[inline(never)]
    fn daemons<W: Watch>(&mut self, watch: &mut W) -> Result<(), Ended> {
        let core = &self.cores[usize::from(self.who.cpu)];
        let below = self.host.as_ref().map_or(0, |host| host.counts.cycles);
        let cycles = core.clock.now(core.instructions) as f64 + self.kernel_cycles + below as f64;
        let now_ns = (cycles * 1000.0 / self.desc.machine.core.frequency_mhz) as u64;
        let is_due = |wake: Option<u64>| wake.is_some_and(|wake| now_ns >= wake);
        if let Some(host) = &mut self.host
            && is_due(host.system.kernel.wakes_at())
        {
            let result = host.system.kernel.run_daemons(&mut host.system.mem, now_ns, &mut host.fx);
            host.reload();
            self.settle_host(watch);
            result.map_err(|e| Ended::Kernel(format!("the host: {e}")))?;
        }
        if !is_due(self.system.kernel.wakes_at()) {
            return Ok(());
        }
        let result = self.system.kernel.run_daemons(&mut self.system.mem, now_ns, &mut self.fx);
        let settled = self.settle(watch);
        self.load_context();
        result.map_err(|e| Ended::Kernel(e.to_string()))?;
        settled
    }

    /// Follows an outcome to its end: a hit, a dirty bit to set, a walk, faults and the walks after them.
    fn resolve<W: Watch>(&mut self, p: &mut Pending, outcome: Outcome, watch: &mut W) -> Result<(), Ended> {
        match outcome {
            Outcome::L1 { entry } => {
                self.translated(p, entry.translate(p.va), entry.order);
                return Ok(());
            }
            Outcome::L2 { entry, cycles } => {
                self.wait_for_second_level(p, cycles);
                self.translated(p, entry.translate(p.va), entry.order);
                return Ok(());
            }
            Outcome::Miss { cycles } => self.wait_for_second_level(p, cycles),
            Outcome::NeedDirty { cycles, .. } => {
                self.counts.dirty_updates += 1;
                self.wait_for_second_level(p, cycles);
            }
            Outcome::Denied { cycles, .. } => {
                self.counts.denied_rechecks += 1;
                self.wait_for_second_level(p, cycles);
            }
        }
        let most = if self.host.is_some() { MAX_GUEST_FAULTS } else { MAX_FAULTS };
        for _ in 0..most {
            match self.walk(p, watch)? {
                Came::Through => return Ok(()),
                Came::Fault => {
                    if !self.fault(p, watch)? {
                        return Ok(());
                    }
                }
                Came::Violation(what) => self.violation(&what, watch)?,
                Came::Again => {}
            }
            self.counts.replays += 1;
        }
        Err(Ended::Stuck { va: p.va, access: p.access })
    }

    /// The reference has its physical address.
    fn translated(&mut self, p: &mut Pending, pa: PhysAddr, order: PageOrder) {
        p.seen.pa = Some(pa);
        p.seen.size = order.bytes();
        if self.desc.machine.cache_rules.data {
            let served = self.caches.read(usize::from(self.who.cpu), pa);
            self.counts.data_cycles += u64::from(served.cycles);
        }
    }

    fn wait_for_second_level(&mut self, p: &mut Pending, cycles: u32) {
        let hidden = p.access.side() == Side::Data;
        let (pid, core) = (self.who.pid, self.core());
        let now = core.clock.now(core.instructions);
        let stall = core.wait(now, now + u64::from(cycles), hidden, (pid, p.va));
        p.cost.stall_cycles += stall;
        self.counts.l2_hit_cycles += u64::from(cycles);
        self.counts.l2_hit_stalls += stall;
    }

    /// Walks. If a page was found that may be used so, the TLBs then hold it.
    fn walk<W: Watch>(&mut self, p: &mut Pending, watch: &mut W) -> Result<Came, Ended> {
        let cx = match self.core().context {
            Some(cx) => cx,
            None => match self.revive(watch)? {
                Some(cx) => cx,
                None => return Ok(Came::Fault),
            },
        };
        let cpu = self.who.cpu;
        let core = &mut self.cores[usize::from(cpu)];
        let walk = match &mut self.host {
            None => {
                let walk = core.walker.walk(&mut self.system.mem, &mut self.caches, cx, p.va, p.access);
                if W::ACTIVE {
                    watch.walked(core.walker.steps());
                }
                Nested::Guest(walk)
            }
            Some(host) if host.has_shadows() => {
                let shadow = host.shadow(cx)?;
                let walk = core.walker.walk(&mut host.system.mem, &mut self.caches, shadow, p.va, p.access);
                if W::ACTIVE {
                    watch.walked(core.walker.steps());
                }
                Nested::Guest(walk)
            }
            Some(host) => {
                let (mem, caches) = (&mut self.system.mem, &mut self.caches);
                let (walk, nested) = host.walk(&mut core.walker, mem, caches, cx, (cpu, p.va, p.access));
                p.cost.walk_reads += nested.reads() as u64;
                if W::ACTIVE {
                    watch.walked_nested(nested.steps());
                }
                walk
            }
        };
        let (Nested::Guest(Walk::Mapped { cycles, .. } | Walk::Fault { cycles, .. })
        | Nested::Violation(Violation { cycles, .. })) = walk;
        let now = core.clock.now(core.instructions);
        let end = core.slots.schedule(now, cycles);
        let stall = core.wait(now, end, p.access.side() == Side::Data, (self.who.pid, p.va));
        p.cost.walks += 1;
        p.cost.walk_cycles += u64::from(cycles);
        p.cost.walk_reads += core.walker.reads() as u64;
        p.cost.stall_cycles += stall;
        self.counts.walk_stalls += stall;
        Ok(match walk {
            Nested::Violation(what) => Came::Violation(what),
            Nested::Guest(Walk::Fault { .. }) if self.host.is_some() => return self.fill_shadow(p, cx, watch),
            Nested::Guest(Walk::Fault { .. }) => Came::Fault,
            Nested::Guest(Walk::Mapped { walked, .. }) => {
                core.tlbs.fill(cx.asid, p.va, p.access, &walked, watch);
                self.translated(p, walked.leaf.translate(p.va), walked.leaf.order);
                Came::Through
            }
        })
    }

    /// A guest's walk failed: where the walker reads a shadow table, the host looks whether the guest's has the page.
    #[cold]
    fn fill_shadow<W: Watch>(&mut self, p: &Pending, cx: WalkContext, watch: &mut W) -> Result<Came, Ended> {
        let Some(host) = self.host.as_mut().filter(|host| host.has_shadows()) else { return Ok(Came::Fault) };
        let filled = host.fill(&mut self.system.mem, cx, (self.who.cpu, p.va, p.access));
        self.settle_host(watch);
        Ok(if filled? == Filled::Yes { Came::Again } else { Came::Fault })
    }

    /// The host serves a violation of its table.
    #[cold]
    fn violation<W: Watch>(&mut self, what: &Violation, watch: &mut W) -> Result<(), Ended> {
        let Some(host) = &mut self.host else { return Ok(()) };
        host.counts.walk_violations += 1;
        let served = host.serve(what.gpa, what.access, self.who.cpu);
        self.settle_host(watch);
        served
    }

    /// References of a process that has ended: it comes back, with nothing mapped.
    #[cold]
    fn revive<W: Watch>(&mut self, watch: &mut W) -> Result<Option<WalkContext>, Ended> {
        let again = Event::Switch { pid: self.who.pid, tid: self.who.tid };
        let made = self.system.kernel.event(&mut self.system.mem, self.who, &again, &mut self.fx);
        self.settle(watch)?;
        self.load_context();
        Ok(made.ok().and(self.core().context))
    }

    /// The kernel serves a page fault; false when it cannot and the reference is passed over.
    fn fault<W: Watch>(&mut self, p: &mut Pending, watch: &mut W) -> Result<bool, Ended> {
        let mut served = self.system.kernel.fault(&mut self.system.mem, self.who, p.va, p.access, &mut self.fx);
        self.settle(watch)?;
        if matches!(served, Err(FaultError::Unmapped { .. })) && self.unmapped == Unmapped::Map {
            let made = self.system.kernel.map_implicit(&mut self.system.mem, self.who, p.va, &mut self.fx);
            self.settle(watch)?;
            made.map_err(|e| Ended::Kernel(e.to_string()))?;
            served = self.system.kernel.fault(&mut self.system.mem, self.who, p.va, p.access, &mut self.fx);
            self.settle(watch)?;
        }
        let error = match served {
            Ok(_) => {
                self.load_context();
                return Ok(true);
            }
            Err(error) => error,
        };
        let count = match error {
            FaultError::OutOfMemory { .. } => return Err(Ended::OutOfMemory(self.in_guest(&error))),
            FaultError::Unmapped { .. } => &mut self.counts.unmapped,
            FaultError::Protection { .. } => &mut self.counts.forbidden,
        };
        *count += 1;
        match self.unmapped {
            Unmapped::Stop => Err(Ended::Violation(error.to_string())),
            _ => Ok(false),
        }
    }

    /// An error of a program, with the virtual machine it runs in.
    #[cold]
    fn in_guest(&self, error: &FaultError) -> String {
        match &self.host {
            Some(host) => format!("virtual machine {}: {error}", host.at()),
            None => error.to_string(),
        }
    }

    /// The program did something to its address space, or another thread acts.
    #[cold]
    fn event<W: Watch>(&mut self, event: &Event, watch: &mut W) -> Result<(), Ended> {
        if let Event::Invlpg { addr } = event {
            // A core drops its own translation only.
            let core = &mut self.cores[usize::from(self.who.cpu)];
            if let Some(cx) = core.context {
                let what = Invalidate::Page { asid: cx.asid, va: *addr, order: PageOrder::P4K };
                core.tlbs.invalidate(&what, watch);
                core.walker.invalidate(self.format, &what);
                watch.invalidated_by_program(&what);
                if let Some(host) = self.host.as_mut().filter(|host| host.has_shadows()) {
                    host.forget_tagged(&what);
                    self.settle_host(watch);
                }
            }
            return Ok(());
        }
        let of_guest = self.turn(event, watch)?;
        let event = of_guest.as_ref().unwrap_or(event);
        let result = self.system.kernel.event(&mut self.system.mem, self.who, event, &mut self.fx);
        if let Event::Switch { pid, tid } = *event {
            let (cpu, warp) = self.pin(tid);
            if cpu != self.who.cpu && self.shares {
                let of = [usize::from(self.who.cpu), usize::from(cpu)];
                if let Ok([from, to]) = self.cores.get_disjoint_mut(of) {
                    from.hand_over(to, self.desc.machine.walker.shared);
                }
            }
            self.counts.space_switches += u64::from(pid != self.who.pid);
            if pid != self.who.pid
                && let Some(host) = &mut self.host
            {
                host.trap_table_load();
            }
            self.who = Actor { pid, tid, cpu };
            self.take_up(warp);
        }
        let settled = self.settle(watch);
        self.load_context();
        result.map_err(|e| Ended::Kernel(e.to_string()))?;
        settled
    }

    /// The core of a thread, and the number that it has there as a warp.
    fn pin(&mut self, tid: Tid) -> (u16, usize) {
        if let Some(gpu) = &self.desc.machine.gpu {
            return Self::place(gpu, self.cores.len(), tid);
        }
        let next = (self.pinned.len() % self.cores.len()) as u16;
        (*self.pinned.entry(tid).or_insert(next), 0)
    }

    /// What an event means for the host: another guest may act, daemons may run. Returns the event as the guest sees it,
    /// if that is another.
    #[cold]
    fn turn<W: Watch>(&mut self, event: &Event, watch: &mut W) -> Result<Option<Event>, Ended> {
        let Some(host) = self.host.as_mut() else { return Ok(None) };
        match *event {
            Event::Tick => {
                let result = host.system.kernel.event(&mut host.system.mem, self.who, event, &mut host.fx);
                self.settle_host(watch);
                result.map_err(|e| Ended::Kernel(format!("the host: {e}")))?;
                Ok(None)
            }
            Event::Switch { pid, tid } => {
                let (vm, pid) = ((pid.0 >> PID_BITS) as usize % GUESTS_MAX, Pid(pid.0 & ((1 << PID_BITS) - 1)));
                if vm != host.at() && vm < host.count() {
                    host.counts.machine_switches += 1;
                    let all = host.is_tagless();
                    host.enter(vm, &mut self.system);
                    if all {
                        for core in &mut self.cores {
                            core.tlbs.invalidate(&Invalidate::All, watch);
                            core.walker.invalidate(self.format, &Invalidate::All);
                        }
                    }
                }
                Ok(Some(Event::Switch { pid, tid }))
            }
            _ => Ok(None),
        }
    }

    /// Settles what the kernel asked for: invalidations to every core, work to the clock of kernel time; and gives memory
    /// that a guest's kernel stored to.
    fn settle<W: Watch>(&mut self, watch: &mut W) -> Result<(), Ended> {
        let format = self.format;
        for what in &self.fx.invalidations {
            let mut deliver = |what: &Invalidate| {
                for core in &mut self.cores {
                    core.tlbs.invalidate(what, watch);
                    core.walker.invalidate(format, what);
                }
            };
            match &self.host {
                None => deliver(what),
                Some(host) => host.tagged(what, deliver),
            }
        }
        if !self.fx.invalidations.is_empty()
            && let Some(host) = self.host.as_mut().filter(|host| host.has_shadows())
        {
            for what in &self.fx.invalidations {
                host.forget_in_shadow(what);
            }
            self.settle_host(watch);
        }
        let mut trapped = 0;
        if let Some(host) = &mut self.host {
            trapped = host.trap_table_writes(&self.fx.work);
            self.host_cycles += self.desc.machine.costs.guest_table_write * trapped as f64;
        }
        for work in &self.fx.work {
            self.kernel_cycles += self.desc.machine.costs.cycles(work.kind) * work.count as f64;
        }
        self.counts.kernel_cycles = self.kernel_cycles as u64;
        if W::ACTIVE {
            watch.happened(&self.fx.told, &self.fx.invalidations);
            if trapped != 0 {
                watch.trapped_table_writes(trapped);
            }
        }
        let touched = std::mem::take(&mut self.fx.touched);
        self.fx.clear();
        if touched.is_empty() { Ok(()) } else { self.back(touched, watch) }
    }

    /// The kernel of the guest that runs stored to these frames: the host must have them.
    #[cold]
    fn back<W: Watch>(&mut self, mut touched: Vec<Stored>, watch: &mut W) -> Result<(), Ended> {
        let mut result = Ok(());
        for stored in touched.drain(..) {
            if let Some(host) = &mut self.host
                && result.is_ok()
            {
                result = host.back(&stored, self.who.cpu);
            }
        }
        self.fx.touched = touched;
        self.settle_host(watch);
        result
    }

    /// Settles what the host's kernel asked for, and charges its work apart.
    fn settle_host<W: Watch>(&mut self, watch: &mut W) {
        let Some(host) = &mut self.host else { return };
        if !host.fx.invalidations.is_empty() {
            host.counts.flushes += 1;
            for tag in host.stale_tags() {
                for core in &mut self.cores {
                    core.tlbs.invalidate(&Invalidate::Asid(tag), watch);
                    core.walker.invalidate(self.format, &Invalidate::Asid(tag));
                }
            }
        }
        for what in host.take_shadow_stale() {
            for core in &mut self.cores {
                core.tlbs.invalidate(&what, watch);
                core.walker.invalidate(self.format, &what);
            }
        }
        for work in &host.fx.work {
            self.host_cycles += self.desc.machine.costs.cycles(work.kind) * work.count as f64;
        }
        let exits = self.desc.machine.guest.as_ref().map_or(0.0, |g| g.exit_cycles) * host.counts.exits as f64;
        host.counts.cycles = (self.host_cycles + exits) as u64;
        if W::ACTIVE {
            watch.happened_in_host(&host.fx.told, &host.fx.invalidations);
        }
        host.fx.clear();
    }

    /// Puts the acting process's table into its core's base register.
    fn load_context(&mut self) {
        let context = self.system.kernel.context(self.who.pid);
        let mut cx = context.map(|c| WalkContext { format: c.format, root: c.root, asid: c.asid });
        if let (Some(cx), Some(host)) = (&mut cx, &mut self.host) {
            cx.asid = host.tag(cx.asid);
        }
        self.core().context = cx;
    }
}
