//! The slow path: what becomes of a reference that the first level alone does not finish.

use super::{
    below::{Below, WalkResult},
    execution::{Execution, Miss},
    parts::Engine,
};
use crate::{
    count::{Cause, Cost, Walked},
    ended::Ended,
    observe::{Answer, Observation, Observe, Seen},
    system::System,
};
use mmulab_addr::{Access, PageOrder, PhysAddr, Side, VirtAddr};
use mmulab_tlb::Outcome;
use mmulab_walker::Walk;

/// A reference on the slow path. What takes it is inlined, so that it need not be in memory.
pub(super) struct Pending<T> {
    /// When its parts were done, if that is kept.
    time: T,
    pub va: VirtAddr,
    pub access: Access,
    cost: Cost,
    pub seen: Seen,
}

/// How a walk ended, for the reference that wanted it.
enum WalkOutcome<T> {
    /// The TLBs hold its translation, or will when the walk ends.
    Translated,
    /// The kernel must serve a fault.
    Fault,
    /// What lies below must serve this.
    Trapped(T),
    /// Another walk may find a page now.
    Again,
}

impl<B: Below, X: Execution> Engine<B, X> {
    /// A reference that the first level alone did not finish, or that is observed. `time` is when it began, and the
    /// result when its parts were done.
    #[inline(never)]
    pub fn slow_path<O: Observe>(
        &mut self,
        va: VirtAddr,
        access: Access,
        outcome: Outcome,
        time: X::Time,
        obs: &mut O,
    ) -> Result<X::Time, Ended> {
        let mut p = Pending { time, va, access, cost: Cost::default(), seen: Seen::of(&outcome) };
        if p.seen.missed_l1() {
            match access.side() {
                Side::Instruction => p.cost.l1i_misses = 1,
                Side::Data => p.cost.l1d_misses = 1,
            }
        }
        let result = self.resolve(&mut p, outcome, obs);
        let pid = self.state.acting.actor.pid;
        if p.cost != Cost::default() {
            self.state.charge(pid, va, p.cost);
            if p.cost.walks > 0 && (self.state.system.tally.is_sampling() || self.state.system.leshy.is_some()) {
                self.sample(&p, obs)?;
            }
        }
        if let Some(watch) = obs.watch() {
            let index = self.state.account.references - 1;
            watch.reference(&Observation { index, pid, access, va, seen: p.seen, cost: p.cost });
        }
        if self.state.system.kernel.wakes_at().is_some() || self.below.wakes_at().is_some() {
            self.daemons(obs)?;
        }
        result.map(|()| X::answered(p.time, p.seen.pa))
    }

    /// A reference that walked, in a run whose walks are sampled.
    #[cold]
    fn sample<O: Observe>(&mut self, p: &Pending<X::Time>, obs: &mut O) -> Result<(), Ended> {
        let now_ns = self.now_ns();
        let state = &mut self.state;
        let pid = state.acting.actor.pid;
        let System { kernel, tally, leshy, .. } = &mut state.system;
        let region = kernel.region_at(pid, p.va);
        let seen = Walked { pid, region, va: p.va, cost: p.cost, size: p.seen.size, now_ns };
        let mut cycles = tally.sampler_mut().map_or(0.0, |sampler| sampler.take(&seen));
        let mut is_due = false;
        if let Some(leshy) = leshy {
            cycles += leshy.take(&seen);
            is_due = leshy.is_due(now_ns);
        }
        state.account.kernel_cycles += cycles;
        state.account.causes.add(Cause::Other, cycles);
        state.account.counts.kernel_cycles = state.account.kernel_cycles as u64;
        if is_due { self.end_epoch(now_ns, obs) } else { Ok(()) }
    }

    /// Follows an outcome to its end: a hit, a dirty bit to set, a walk, faults and the walks after them.
    #[inline(always)]
    fn resolve<O: Observe>(&mut self, p: &mut Pending<X::Time>, outcome: Outcome, obs: &mut O) -> Result<(), Ended> {
        match outcome {
            Outcome::L1 { entry } => {
                self.translated(p, entry.translate(p.va), entry.order);
                return Ok(());
            }
            Outcome::L2 { entry, cycles } => {
                self.wait_for_l2(p, cycles);
                self.translated(p, entry.translate(p.va), entry.order);
                return Ok(());
            }
            Outcome::Miss { cycles } => self.wait_for_l2(p, cycles),
            Outcome::NeedDirty { cycles, .. } => {
                self.state.account.counts.dirty_updates += 1;
                self.wait_for_l2(p, cycles);
            }
            Outcome::Denied { cycles, .. } => {
                self.state.account.counts.denied_rechecks += 1;
                self.wait_for_l2(p, cycles);
            }
        }
        if let Some(leaf) = self.execution.join(&mut self.state, p.va, p.access, p.seen.l2 == Answer::Miss) {
            p.seen.joined = true;
            self.translated(p, leaf.translate(p.va), leaf.order);
            return Ok(());
        }
        for _ in 0..B::MAX_WALKS {
            let outcome = self.walk(p, obs)?;
            match outcome {
                WalkOutcome::Translated => return Ok(()),
                WalkOutcome::Fault => {
                    X::trapped(&mut p.time);
                    if !self.fault(p, obs)? {
                        return Ok(());
                    }
                }
                WalkOutcome::Trapped(trap) => {
                    X::trapped(&mut p.time);
                    self.below.serve(&mut self.state, trap, obs)?;
                }
                WalkOutcome::Again => X::trapped(&mut p.time),
            }
            self.state.account.counts.replays += 1;
        }
        Err(Ended::Stuck { va: p.va, access: p.access })
    }

    /// The reference has its physical address.
    #[inline(always)]
    fn translated(&mut self, p: &mut Pending<X::Time>, pa: PhysAddr, order: PageOrder) {
        p.seen.pa = Some(pa);
        p.seen.size = order.bytes();
        if X::READS_DATA && self.state.desc.machine.cache_rules.data {
            let served = self.state.hardware.caches.read(self.state.acting.core(), pa);
            self.state.account.counts.data_cycles += u64::from(served.cycles);
        }
    }

    #[inline(always)]
    fn wait_for_l2(&mut self, p: &mut Pending<X::Time>, cycles: u32) {
        let stall = self.execution.wait_for_l2(&mut self.state, &mut p.time, p.va, p.access.side(), cycles);
        let counts = &mut self.state.account.counts;
        counts.l2_hit_cycles += u64::from(cycles);
        counts.l2_hit_stalls += stall;
        if p.access.side() == Side::Instruction {
            counts.fetch_waits += u64::from(cycles);
        }
        p.cost.stall_cycles += stall;
    }

    /// Walks. If there is a page that may be accessed so, the TLBs get it.
    fn walk<O: Observe>(&mut self, p: &mut Pending<X::Time>, obs: &mut O) -> Result<WalkOutcome<B::Trap>, Ended> {
        let (va, access) = (p.va, p.access);
        let cx = match self.state.cpu().context {
            Some(cx) => cx,
            None => match self.revive(obs)? {
                Some(cx) => cx,
                None => return Ok(WalkOutcome::Fault),
            },
        };
        let walk = self.below.walk(&mut self.state, cx, va, access, obs)?;
        let cycles = walk.cycles();
        let spent = self.execution.wait_for_walk(&mut self.state, &mut p.time, va, access.side(), cycles);
        p.cost.walks += 1;
        p.cost.walk_cycles += u64::from(cycles);
        p.cost.walk_reads += self.state.cpu().walker.reads() as u64 + self.below.reads(self.state.acting.core());
        p.cost.stall_cycles += spent.stall;
        self.state.account.counts.walk_stalls += spent.stall;
        if access.side() == Side::Instruction {
            self.state.account.counts.fetch_waits += spent.waited;
        }
        Ok(match walk {
            WalkResult::Ended(Walk::Mapped { walked, .. }) => {
                let miss = Miss { va, access, l2_missed: p.seen.l2 == Answer::Miss, end: spent.end };
                self.execution.take_walk(&mut self.state, cx.asid, miss, &walked, obs);
                self.translated(p, walked.leaf.translate(va), walked.leaf.order);
                WalkOutcome::Translated
            }
            WalkResult::Ended(Walk::Fault { .. }) => {
                if self.below.fill(&mut self.state, cx, va, access, obs)? {
                    WalkOutcome::Again
                } else {
                    WalkOutcome::Fault
                }
            }
            WalkResult::Trapped { trap, .. } => WalkOutcome::Trapped(trap),
        })
    }
}
