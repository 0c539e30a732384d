//! Machines whose cores are in time: their loop, and what serves a core's fetches, loads and stores.
//!
//! ```text
//! trace --code, words--> stretch --block--> mmulab_timing::Core --fetch,access--> Port --> TLBs, walker, kernel
//!                                                                                    '--> caches, lines coming, memory
//! ```
//!
//! The counts are made by the same TLBs, walkers and kernels as without time. A machine without time knows of this by
//! two questions: one for each stretch of a trace, and one where its parts are built.

mod blocks;
mod neighbour;
mod port;
mod sampling;
mod stretch;

pub use sampling::{Sample, Sampled};

use crate::MachineDesc;
use blocks::Blocks;
use mmulab_timing::{Bandwidth, Core, Lines, MemoryTiming, Stack, Streams, Strides, TimingDesc};
use mmulab_trace::{Isa, TraceInfo};
use neighbour::Neighbour;
use sampling::Sampling;
use schemars::JsonSchema;
use serde::Serialize;

/// What a CPU in time has besides its TLBs and walker.
pub(crate) struct Timed {
    core: Core,
    brought: Brought,
    sampling: Option<Sampling>,
    neighbour: Option<Neighbour>,
}

/// How lines come to a core.
pub(crate) struct Brought {
    lines: Lines,
    streams: Streams,
    strides: Strides,
}

impl Brought {
    fn new(desc: &MemoryTiming) -> Self {
        Self { lines: Lines::new(desc), streams: Streams::new(desc), strides: Strides::new(desc) }
    }
}

impl Timed {
    pub fn new(machine: &MachineDesc, desc: &TimingDesc, sample: Option<Sample>) -> Self {
        Self {
            core: Core::new(desc),
            brought: Brought::new(&desc.memory),
            sampling: sample.map(Sampling::new),
            neighbour: Neighbour::new(machine),
        }
    }
}

/// What all CPUs in time have in common.
pub(crate) struct Common {
    blocks: Blocks,
    bandwidth: Bandwidth,
    /// Cycles to code in the first cache: they are hidden by fetching ahead.
    fetch_cycles: u32,
    /// Cycles to data in the first cache.
    data_cycles: u32,
}

impl Common {
    /// `fetch_cycles` and `data_cycles`: to a line of code and one of data in its first cache.
    pub fn new(desc: &TimingDesc, isa: Isa, (fetch_cycles, data_cycles): (u32, u32)) -> Self {
        let (blocks, bandwidth) = (Blocks::new(isa, desc.unknown), Bandwidth::new(&desc.memory));
        Self { blocks, bandwidth, fetch_cycles, data_cycles }
    }

    /// Takes a trace: its instruction set, whatever the machine's is, and what it says of its loads.
    pub fn read(&mut self, info: &TraceInfo) {
        self.blocks.read(info.isa, info.loads);
    }
}

/// The part of a result that a core in time makes: sums over all CPUs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct TimingReport {
    /// Cycles until the last instruction had retired.
    pub cycles: u64,
    /// Instructions that retired in them.
    pub instructions: u64,
    /// Branches that were not predicted.
    pub mispredicted: u64,
    /// Instructions whose dependences are assumed, for their code is not known.
    pub unknown_instructions: u64,
    /// Where the cycles went.
    pub stack: Stack,
    /// Of a run by samples: what they came to, of the first core. All of the above is estimated then; counts are not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sampled: Option<Sampled>,
}

impl crate::Machine {
    /// What its cores in time came to, if they are.
    pub(crate) fn timing(&self) -> Option<TimingReport> {
        let common = self.timed.as_ref()?;
        let mut all = TimingReport { unknown_instructions: common.blocks.unknown(), ..TimingReport::default() };
        let mut in_time = 0;
        for timed in self.cores.iter().filter_map(|core| core.timed.as_ref()) {
            let core = &timed.core;
            let (instructions, cycles, mispredicted, stack) = match &timed.sampling {
                None => (core.instructions(), core.now(), core.mispredicted(), *core.stack()),
                Some(sampling) => sampling.estimate(core),
            };
            in_time += core.instructions();
            all.cycles += cycles;
            all.instructions += instructions;
            all.mispredicted += mispredicted;
            all.stack.plus(&stack);
            if let Some(sampling) = &timed.sampling {
                all.sampled.get_or_insert_with(|| sampling.report());
            }
        }
        if all.sampled.is_some() && in_time > 0 {
            let share = all.instructions as f64 / in_time as f64;
            all.unknown_instructions = (all.unknown_instructions as f64 * share) as u64;
        }
        Some(all)
    }

    /// Counts begin: samples that were measured before are forgotten.
    pub(crate) fn restart_samples(&mut self) {
        for core in &mut self.cores {
            let instructions = core.instructions;
            if let Some(sampling) = core.timed.as_mut().and_then(|timed| timed.sampling.as_mut()) {
                sampling.restart(instructions);
            }
        }
    }
}
