//! Execution in time: what the slow path notes on a reference's timeline, and the figures of a result.

use super::{
    blocks::Blocks,
    cpu::CpuInTime,
    sampling::Mark,
    timeline::{InTime, Timeline},
};
use crate::{
    count::{Counted, TimingReport},
    ended::{Ended, MachineError},
    engine::{Below, Engine, Execution, State, WalkTime},
    observe::Observe,
};
use mmulab_addr::{PhysAddr, Side, VirtAddr};
use mmulab_trace::{Batch, TraceInfo};
use mmulab_walker::Server;

impl Execution for InTime {
    type Time = Timeline;
    /// The core reads the caches itself, when it has the address.
    const READS_DATA: bool = false;
    const KERNEL_STORES: bool = true;

    fn run_references<B: Below, O: Observe>(
        engine: &mut Engine<B, Self>,
        batch: &Batch,
        from: usize,
        obs: &mut O,
    ) -> Result<usize, Ended> {
        super::references::run_references(engine, batch, from, obs)
    }

    #[inline(always)]
    fn wait_for_l2(&mut self, _: &mut State, time: &mut Timeline, _: VirtAddr, _: Side, cycles: u32) -> u64 {
        time.at += u64::from(cycles);
        time.second_level_until = time.at;
        0
    }

    #[inline(always)]
    fn wait_for_walk(&mut self, state: &mut State, time: &mut Timeline, _: VirtAddr, _: Side, cycles: u32) -> WalkTime {
        let cpu = &mut state.hardware.cpus[state.acting.cpu()];
        let asked = time.at;
        time.at = cpu.slots.schedule(time.at, cycles);
        time.walking += u64::from(cycles);
        time.walk_by = cpu.walker.steps().iter().fold(0, |far, step| match step.server {
            Server::Cache(by) => far.max(state.hardware.caches.depth(by)),
            Server::WalkCache(_) | Server::NestedTlb => far,
        });
        WalkTime { end: time.at, waited: time.at - asked, stall: 0 }
    }

    #[inline(always)]
    fn trapped(time: &mut Timeline) {
        time.traps += 1;
    }

    #[inline(always)]
    fn answered(time: Timeline, pa: Option<PhysAddr>) -> Timeline {
        Timeline { pa, ..time }
    }

    fn take(&mut self, _: &State, info: &TraceInfo) -> Result<(), MachineError> {
        self.kept.iter_mut().for_each(|kept| kept.common.read(info));
        Ok(())
    }

    /// Samples that were measured before are forgotten.
    fn restart(&mut self, state: &State) {
        let in_time = self.kept.iter_mut().flat_map(|kept| &mut kept.cpus);
        for (cpu, in_time) in state.hardware.cpus.iter().zip(in_time) {
            if let Some(sampling) = &mut in_time.sampling {
                sampling.restart(cpu.instructions);
            }
        }
    }

    fn count(&mut self, _: &State, all: &mut Counted) {
        all.timing = self.kept.as_ref().map(|kept| sum(&kept.cpus, &kept.common.blocks));
    }
}

/// The sums over all CPUs, which have run `blocks`.
fn sum(cpus: &[CpuInTime], blocks: &Blocks) -> TimingReport {
    let (unknown_instructions, software_prefetches) = (blocks.unknown(), blocks.prefetches());
    let mut all = TimingReport { unknown_instructions, software_prefetches, ..TimingReport::default() };
    let mut in_time = 0;
    for CpuInTime { core, sampling, .. } in cpus {
        let figures = match sampling {
            None => Mark::of(core),
            Some(sampling) => {
                all.sampled.get_or_insert_with(|| sampling.report());
                sampling.estimate(core)
            }
        };
        in_time += core.instructions();
        all.cycles += figures.cycles;
        all.instructions += figures.instructions;
        all.mispredicted += figures.mispredicted;
        all.unknown_targets += figures.unknown_targets;
        all.stack.plus(&figures.stack);
    }
    if all.sampled.is_some() && in_time > 0 {
        let share = all.instructions as f64 / in_time as f64;
        for count in [&mut all.unknown_instructions, &mut all.software_prefetches] {
            *count = (*count as f64 * share) as u64;
        }
    }
    all
}
