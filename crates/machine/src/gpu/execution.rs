//! Execution on shader cores: the loop over the lanes of warps.

use super::{shader::ShaderCores, walks::Joined};
use crate::{
    count::{Cost, Counted},
    cpu::Cpu,
    ended::{Ended, MachineError},
    engine::{Below, Engine, Execution, Miss, Slot, State, WalkTime},
    observe::Observe,
};
use mmulab_addr::{Access, Asid, Side, Tid, VirtAddr};
use mmulab_pagetable::{Leaf, Walked};
use mmulab_tlb::Outcome;
use mmulab_trace::{Batch, TraceInfo};
use std::ops::Range;

impl ShaderCores {
    /// The acting warp begins an instruction: its core stalls until the one before has what it waits for. What walks
    /// have brought meanwhile is there.
    #[inline]
    fn begin<O: Observe>(&mut self, state: &mut State, obs: &mut O) {
        let at_cpu = state.acting.cpu();
        let cpu = &mut state.hardware.cpus[at_cpu];
        let warps = &self.warps[at_cpu];
        let wait = warps.wait();
        let mut now = cpu.now();
        let next = warps.in_flight.next();
        if wait.until > now {
            let stall_cycles = cpu.clock.stall_until(now, wait.until);
            now += stall_cycles;
            state.account.counts.walk_stalls += stall_cycles;
            state.charge(wait.pid, wait.va, Cost { stall_cycles, ..Cost::default() });
        }
        if next <= now {
            self.complete(state, now, obs);
        }
    }

    /// The acting warp waits until `end`, and its core goes on with another one.
    #[inline(always)]
    fn wait(&mut self, state: &State, end: u64, va: VirtAddr) {
        self.warps[state.acting.cpu()].wait_until(end, state.acting.actor.pid, va);
    }

    /// The instruction has no more lanes: lookups beyond those that the first level begins at once keep the core.
    #[inline]
    fn close_lanes(&mut self, state: &mut State) {
        let more = self.lanes.close();
        if more != 0 {
            let cpu = state.cpu();
            let now = cpu.now();
            cpu.clock.stall_until(now, now + more);
        }
    }
}

impl Execution for ShaderCores {
    type Time = ();
    /// A warp's core follows from its number.
    const PINS: bool = false;

    fn run_references<B: Below, O: Observe>(
        engine: &mut Engine<B, Self>,
        batch: &Batch,
        from: usize,
        obs: &mut O,
    ) -> Result<usize, Ended> {
        let through_caches = engine.state.desc.machine.cache_rules.data;
        let at_cpu = engine.state.acting.cpu();
        let mut at = from;
        while let Some(&word) = batch.refs.get(at)
            && !word.is_control()
        {
            let va = word.va();
            at += 1;
            let Engine { state, execution, .. } = &mut *engine;
            if word.is_fetch() {
                execution.close_lanes(state);
                let cpu = &mut state.hardware.cpus[at_cpu];
                cpu.instructions += u64::from(word.instructions());
                cpu.tlbs.code = va;
                execution.begin(state, obs);
                continue;
            }
            let write = word.is_write();
            if execution.lanes.is_another(write) {
                execution.close_lanes(state);
            }
            if execution.lanes.is_closed() {
                execution.begin(state, obs);
            }
            if !execution.lanes.add(va, write) {
                continue;
            }
            state.account.references += 1;
            state.account.counts.writes += u64::from(write);
            let access = if write { Access::Write } else { Access::Read };
            let asid = state.asid(at_cpu);
            let outcome = state.hardware.cpus[at_cpu].tlbs.access(asid, va, access, obs);
            if O::ACTIVE || through_caches || !matches!(outcome, Outcome::L1 { .. }) {
                engine.slow_path(va, access, outcome, (), obs)?;
            }
        }
        Ok(at)
    }

    #[inline(always)]
    fn wait_for_l2(&mut self, state: &mut State, (): &mut (), va: VirtAddr, _: Side, cycles: u32) -> u64 {
        let now = state.cpu().now();
        self.wait(state, now + u64::from(cycles), va);
        0
    }

    #[inline(always)]
    fn wait_for_walk(&mut self, state: &mut State, (): &mut (), va: VirtAddr, _: Side, cycles: u32) -> WalkTime {
        let cpu = state.cpu();
        let now = cpu.now();
        let end = cpu.slots.schedule(now, cycles);
        self.wait(state, end, va);
        WalkTime { end, waited: end - now, stall: 0 }
    }

    #[inline(always)]
    fn join(&mut self, state: &mut State, va: VirtAddr, access: Access, l2_missed: bool) -> Option<Leaf> {
        let Joined { end, leaf } = self.find(state, va, access, l2_missed)?;
        self.lanes.counts.joined += 1;
        self.wait(state, end, va);
        Some(leaf)
    }

    #[inline(always)]
    fn take_walk<O: Observe>(&mut self, state: &mut State, asid: Asid, miss: Miss, walked: &Walked, _: &mut O) {
        self.start(state, asid, miss, walked);
    }

    fn cancel(&mut self, cpus: &mut [Cpu], which: Range<usize>) {
        self.cancel_all(cpus, which);
    }

    #[inline]
    fn end_instruction(&mut self, state: &mut State) {
        self.close_lanes(state);
    }

    fn complete_all<O: Observe>(&mut self, state: &mut State, obs: &mut O) {
        self.complete_everywhere(state, obs);
    }

    #[inline]
    fn place(&mut self, _: &mut State, tid: Tid) -> Result<Slot, Ended> {
        self.placement.place(tid)
    }

    #[inline]
    fn act(&mut self, slot: Slot) {
        self.warps[usize::from(slot.cpu)].act(slot.number);
    }

    /// The nearest caches cannot hold all cores' TLBs and walks. By the time that a core's turn comes, its own have
    /// gone from there.
    #[inline]
    fn prefetch(&self, _: &State, next: Tid) {
        if let Ok(slot) = self.placement.place(next) {
            self.warps[usize::from(slot.cpu)].prefetch(slot.number);
        }
    }

    fn take(&mut self, state: &State, info: &TraceInfo) -> Result<(), MachineError> {
        self.placement.take(&state.desc.machine, info)
    }

    fn count(&mut self, state: &State, all: &mut Counted) {
        self.lanes.close();
        all.warps = Some(self.lanes.counts);
        let ends = state.hardware.cpus.iter().zip(&self.warps).map(|(cpu, warps)| cpu.now().max(warps.last()));
        all.finished = Some(ends.max().unwrap_or(0));
    }
}
