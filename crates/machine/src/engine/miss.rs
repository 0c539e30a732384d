//! What becomes of a reference that the first level alone does not finish.

use super::Machine;
use crate::{
    Ended,
    describe::Unmapped,
    flights::{Flight, Joined},
    host::Filled,
    story::{Answer, Failure, Seen, Story, WalkEnd, Watch},
    tally::{Cost, Missed},
};
use mmulab_addr::{Access, PageOrder, PhysAddr, Pid, Side, VirtAddr};
use mmulab_kernel::{FaultError, RegionId};
use mmulab_tlb::Outcome;
use mmulab_trace::Event;
use mmulab_walker::{Nested, Server, Violation, Walk, WalkContext};

/// When what a reference wanted was done, where a core in time asks.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Timeline {
    /// How far it is: at first when it was issued, then when each thing was done.
    pub at: u64,
    /// When the second level had answered.
    pub second_level_until: u64,
    /// What its walks took once they had begun.
    pub walking: u64,
    /// How far away the last line was that a walk read ([`mmulab_walker::Caches::depth`]).
    pub walk_by: u8,
    /// Whether a kernel had to do something.
    pub trapped: bool,
    /// Where the reference goes; none if it was passed over.
    pub pa: Option<PhysAddr>,
}

/// A reference on its way through the slow path. What takes it is inlined, so that it need not be in memory.
struct Pending {
    /// Only where the core is in time.
    time: Timeline,
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

impl Machine {
    /// A reference that the first level alone did not finish, or that somebody watches.
    #[inline(never)]
    pub(crate) fn beyond<W: Watch>(
        &mut self,
        va: VirtAddr,
        access: Access,
        outcome: Outcome,
        watch: &mut W,
    ) -> Result<(), Ended> {
        self.follow::<W, false>(va, access, outcome, watch, &mut Timeline::default())
    }

    /// As [`Machine::beyond`], of a core in time: `time` is when the reference was issued, and then what became of it.
    #[inline(never)]
    pub(crate) fn beyond_in_time<W: Watch>(
        &mut self,
        va: VirtAddr,
        access: Access,
        outcome: Outcome,
        watch: &mut W,
        time: &mut Timeline,
    ) -> Result<(), Ended> {
        self.follow::<W, true>(va, access, outcome, watch, time)
    }

    #[inline(always)]
    fn follow<W: Watch, const TIMED: bool>(
        &mut self,
        va: VirtAddr,
        access: Access,
        outcome: Outcome,
        watch: &mut W,
        time: &mut Timeline,
    ) -> Result<(), Ended> {
        let mut p = Pending { time: *time, va, access, cost: Cost::default(), seen: Seen::of(&outcome) };
        if p.seen.missed_l1() {
            match access.side() {
                Side::Instruction => p.cost.l1i_misses = 1,
                Side::Data => p.cost.l1d_misses = 1,
            }
        }
        let result = self.resolve::<W, TIMED>(&mut p, outcome, watch);
        if TIMED {
            *time = Timeline { pa: p.seen.pa, ..p.time };
        }
        let pid = self.who.pid;
        if p.cost != Cost::default() {
            self.charge(pid, va, p.cost);
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

    /// What something at `va` cost goes to its region, and to the code that runs on the acting core. Now, for a process
    /// that ends takes its regions with it.
    #[inline(always)]
    pub(crate) fn charge(&mut self, pid: Pid, va: VirtAddr, cost: Cost) {
        let block = self.core().tlbs.code;
        let (kernel, tally) = (&self.system.kernel, &mut self.system.tally);
        let code = if tally.has_profile() { kernel.region_at(pid, block) } else { RegionId::NONE };
        tally.add(kernel.region_at(pid, va), Missed { pid, va, block, code, cost });
    }

    /// Follows an outcome to its end: a hit, a dirty bit to set, a walk, faults and the walks after them.
    fn resolve<W: Watch, const TIMED: bool>(
        &mut self,
        p: &mut Pending,
        outcome: Outcome,
        watch: &mut W,
    ) -> Result<(), Ended> {
        match outcome {
            Outcome::L1 { entry } => {
                self.translated::<TIMED>(p, entry.translate(p.va), entry.order);
                return Ok(());
            }
            Outcome::L2 { entry, cycles } => {
                self.wait_for_second_level::<TIMED>(p, cycles);
                self.translated::<TIMED>(p, entry.translate(p.va), entry.order);
                return Ok(());
            }
            Outcome::Miss { cycles } => self.wait_for_second_level::<TIMED>(p, cycles),
            Outcome::NeedDirty { cycles, .. } => {
                self.counts.dirty_updates += 1;
                self.wait_for_second_level::<TIMED>(p, cycles);
            }
            Outcome::Denied { cycles, .. } => {
                self.counts.denied_rechecks += 1;
                self.wait_for_second_level::<TIMED>(p, cycles);
            }
        }
        if self.lanes.is_some() && self.join_walk(p) {
            return Ok(());
        }
        let most = if self.host.is_some() { MAX_GUEST_FAULTS } else { MAX_FAULTS };
        for _ in 0..most {
            let came = self.walk::<W, TIMED>(p, watch)?;
            p.time.trapped |= TIMED && !matches!(came, Came::Through);
            match came {
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

    /// A warp's lookup waits for a walk under way that brings its page, if there is one.
    #[inline(always)]
    fn join_walk(&mut self, p: &mut Pending) -> bool {
        let asid = self.asid(usize::from(self.who.cpu));
        let misses = u64::from(p.seen.l2 == Answer::Miss);
        let Some(Joined { end, leaf }) = self.join(asid, p.va, p.access, misses) else { return false };
        if let Some(lanes) = &mut self.lanes {
            lanes.counts.joined += 1;
        }
        let (pid, core) = (self.who.pid, self.core());
        let now = core.clock.now(core.instructions);
        core.wait(now, end, false, (pid, p.va));
        p.seen.joined = true;
        self.translated::<false>(p, leaf.translate(p.va), leaf.order);
        true
    }

    /// The reference has its physical address.
    #[inline(always)]
    fn translated<const TIMED: bool>(&mut self, p: &mut Pending, pa: PhysAddr, order: PageOrder) {
        p.seen.pa = Some(pa);
        p.seen.size = order.bytes();
        // A core in time reads the caches itself, when it has the address.
        if !TIMED && self.desc.machine.cache_rules.data {
            let served = self.caches.read(usize::from(self.acting_core()), pa);
            self.counts.data_cycles += u64::from(served.cycles);
        }
    }

    #[inline(always)]
    fn wait_for_second_level<const TIMED: bool>(&mut self, p: &mut Pending, cycles: u32) {
        self.counts.l2_hit_cycles += u64::from(cycles);
        if TIMED {
            p.time.at += u64::from(cycles);
            p.time.second_level_until = p.time.at;
            return;
        }
        let hidden = p.access.side() == Side::Data;
        let (pid, core) = (self.who.pid, self.core());
        let now = core.clock.now(core.instructions);
        let stall = core.wait(now, now + u64::from(cycles), hidden, (pid, p.va));
        p.cost.stall_cycles += stall;
        self.counts.l2_hit_stalls += stall;
    }

    /// Walks. If a page was found that may be used so, the TLBs then hold it.
    fn walk<W: Watch, const TIMED: bool>(&mut self, p: &mut Pending, watch: &mut W) -> Result<Came, Ended> {
        let cx = match self.core().context {
            Some(cx) => cx,
            None => match self.revive(watch)? {
                Some(cx) => cx,
                None => return Ok(Came::Fault),
            },
        };
        let at = self.acting_core();
        let core = &mut self.cores[usize::from(self.who.cpu)];
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
                let (walk, nested) = host.walk(&mut core.walker, mem, caches, cx, (at, p.va, p.access));
                p.cost.walk_reads += nested.reads() as u64;
                if W::ACTIVE {
                    watch.walked_nested(nested.steps());
                }
                walk
            }
        };
        if W::ACTIVE {
            watch.walk_ended(&WalkEnd::of(&walk));
        }
        let (Nested::Guest(Walk::Mapped { cycles, .. } | Walk::Fault { cycles, .. })
        | Nested::Violation(Violation { cycles, .. })) = walk;
        let (end, stall) = if TIMED {
            p.time.at = core.slots.schedule(p.time.at, cycles);
            p.time.walking += u64::from(cycles);
            p.time.walk_by = core.walker.steps().iter().fold(0, |far, step| match step.server {
                Server::Cache(by) => far.max(self.caches.depth(by)),
                Server::WalkCache(_) | Server::NestedTlb => far,
            });
            (p.time.at, 0)
        } else {
            let now = core.clock.now(core.instructions);
            let end = core.slots.schedule(now, cycles);
            (end, core.wait(now, end, p.access.side() == Side::Data, (self.who.pid, p.va)))
        };
        p.cost.walks += 1;
        p.cost.walk_cycles += u64::from(cycles);
        p.cost.walk_reads += core.walker.reads() as u64;
        p.cost.stall_cycles += stall;
        self.counts.walk_stalls += stall;
        Ok(match walk {
            Nested::Violation(what) => Came::Violation(what),
            Nested::Guest(Walk::Fault { .. }) if self.host.is_some() => {
                return self.fill_shadow(cx, p.va, p.access, watch);
            }
            Nested::Guest(Walk::Fault { .. }) => Came::Fault,
            Nested::Guest(Walk::Mapped { walked, .. }) => {
                if core.waiting.is_none() {
                    core.tlbs.fill(cx.asid, p.va, p.access, &walked, watch);
                } else {
                    let (code, misses) = (core.tlbs.code, u64::from(p.seen.l2 == Answer::Miss));
                    let (va, access, leaf, asid) = (p.va, p.access, walked.leaf, cx.asid);
                    self.depart(end, Flight { va, code, misses, leaf, asid, access }, &walked);
                }
                self.translated::<TIMED>(p, walked.leaf.translate(p.va), walked.leaf.order);
                Came::Through
            }
        })
    }

    /// A guest's walk failed: where the walker reads a shadow table, the host looks whether the guest's has the page.
    #[cold]
    fn fill_shadow<W: Watch>(
        &mut self,
        cx: WalkContext,
        va: VirtAddr,
        access: Access,
        watch: &mut W,
    ) -> Result<Came, Ended> {
        let Some(host) = self.host.as_mut().filter(|host| host.has_shadows()) else { return Ok(Came::Fault) };
        let filled = host.fill(&mut self.system.mem, cx, (self.who.cpu, va, access));
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
        let Pending { va, access, .. } = *p;
        let mut served = self.system.kernel.fault(&mut self.system.mem, self.who, va, access, &mut self.fx);
        self.settle(watch)?;
        if matches!(served, Err(FaultError::Unmapped { .. })) && self.unmapped == Unmapped::Map {
            let made = self.system.kernel.map_implicit(&mut self.system.mem, self.who, va, &mut self.fx);
            self.settle(watch)?;
            made.map_err(|e| Ended::Kernel(e.to_string()))?;
            served = self.system.kernel.fault(&mut self.system.mem, self.who, va, access, &mut self.fx);
            self.settle(watch)?;
        }
        let error = match served {
            Ok(_) => {
                self.load_context();
                return Ok(true);
            }
            Err(error) => error,
        };
        p.seen.failed = Some(match error {
            FaultError::OutOfMemory { .. } => Failure::OutOfMemory,
            FaultError::Unmapped { .. } => Failure::Unmapped,
            FaultError::Protection { .. } => Failure::Forbidden,
        });
        let count = match error {
            FaultError::OutOfMemory { .. } => return Err(Ended::OutOfMemory(self.out_of_memory(&error))),
            FaultError::Unmapped { .. } => &mut self.counts.unmapped,
            FaultError::Protection { .. } => &mut self.counts.forbidden,
        };
        *count += 1;
        match self.unmapped {
            Unmapped::Stop => Err(Ended::Violation(error.to_string())),
            _ => Ok(false),
        }
    }

    /// That frames ran out, of the machine or of the virtual machine that runs.
    #[cold]
    fn out_of_memory(&self, error: &FaultError) -> String {
        match (&self.host, error) {
            (Some(host), FaultError::OutOfMemory { pid, va, wanted, free_frames }) => format!(
                "virtual machine {} is out of memory: {wanted} for {va} of process {pid}, with {free_frames} frames free: give it \
                 more (virtual.memory.size), or less fragmentation",
                host.at()
            ),
            _ => error.to_string(),
        }
    }
}
