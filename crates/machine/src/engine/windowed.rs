//! Execution on a plain CPU: one thread at a time, which waits for each walk but for what its window of instructions
//! hides ([`crate::cpu::Clock`]).

use super::{
    below::Below,
    execution::{Execution, WalkTime},
    parts::Engine,
    state::State,
};
use crate::{cpu::Clock, describe::CoreDesc, ended::Ended, observe::Observe};
use mmulab_addr::{Access, Side, VirtAddr};
use mmulab_tlb::Outcome;
use mmulab_trace::Batch;

/// A CPU with a window of instructions.
pub(crate) struct Windowed;

impl Windowed {
    /// The clock of such a CPU.
    pub fn clock(core: &CoreDesc) -> Clock {
        Clock::new(core.base_cpi, core.window)
    }
}

impl Execution for Windowed {
    type Time = ();

    /// The loop that everything else stays out of.
    #[inline]
    fn run_references<B: Below, O: Observe>(
        engine: &mut Engine<B, Self>,
        batch: &Batch,
        from: usize,
        obs: &mut O,
    ) -> Result<usize, Ended> {
        let through_caches = engine.state.desc.machine.cache_rules.data;
        let at_cpu = engine.state.acting.cpu();
        let mut asid = engine.state.asid(at_cpu);
        let holds = engine.state.hardware.cpus[at_cpu].tlbs.holds();
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
            let cpu = &mut engine.state.hardware.cpus[at_cpu];
            instructions += u64::from(word.instructions());
            writes += u64::from(word.is_write());
            if access == Access::Fetch {
                cpu.tlbs.code = va;
            }
            at += 1;
            engine.state.account.references += 1;
            let outcome = cpu.tlbs.access(asid, va, access, obs);
            if holds {
                cpu.tlbs.begin(u64::from(word.instructions()));
            }
            if !O::ACTIVE && !through_caches && matches!(outcome, Outcome::L1 { .. }) {
                continue;
            }
            cpu.instructions += std::mem::take(&mut instructions);
            if access == Access::Fetch {
                engine.state.fetch_missed(batch, at - 1);
            }
            engine.below.prefetch(&engine.state, asid, &batch.refs[at..]);
            if let Err(ended) = engine.slow_path(va, access, outcome, (), obs) {
                break Err(ended);
            }
            // A process that had lost its ASID, or its address space, has one again.
            asid = engine.state.asid(at_cpu);
        };
        engine.state.hardware.cpus[at_cpu].instructions += instructions;
        engine.state.account.counts.writes += writes;
        outcome.map(|()| at)
    }

    #[inline(always)]
    fn wait_for_l2(&mut self, state: &mut State, (): &mut (), _: VirtAddr, side: Side, cycles: u32) -> u64 {
        let cpu = state.cpu();
        let now = cpu.now();
        cpu.clock.wait(now, now + u64::from(cycles), side)
    }

    #[inline(always)]
    fn wait_for_walk(&mut self, state: &mut State, (): &mut (), _: VirtAddr, side: Side, cycles: u32) -> WalkTime {
        let cpu = state.cpu();
        let now = cpu.now();
        let end = cpu.slots.schedule(now, cycles);
        WalkTime { end, waited: end - now, stall: cpu.clock.wait(now, end, side) }
    }
}
