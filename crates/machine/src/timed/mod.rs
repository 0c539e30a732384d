//! Machines whose cores are in time: their loop, and what serves a core's fetches, loads and stores.
//!
//! ```text
//! trace --code, words--> stretch --block--> mmulab_timing::Core --fetch, access--> Port --> TLBs, walker, kernel
//!                                                                                     '--> caches, lines on their way, memory
//! ```
//!
//! The counts are made by the same TLBs, walkers and kernels as without time. A machine without time knows of this by two
//! questions: one for each stretch of a trace, and one where its parts are built.

mod blocks;
mod port;
mod stretch;

use blocks::Blocks;
use mmulab_timing::{Bandwidth, Core, Lines, Stack, Streams, TimingDesc};
use mmulab_trace::Isa;
use schemars::JsonSchema;
use serde::Serialize;

/// What a CPU in time has besides its TLBs and walker.
pub(crate) struct Timed {
    core: Core,
    lines: Lines,
    streams: Streams,
}

impl Timed {
    pub fn new(desc: &TimingDesc) -> Self {
        Self { core: Core::new(desc), lines: Lines::new(&desc.memory), streams: Streams::new(&desc.memory) }
    }
}

/// What all CPUs in time have in common.
pub(crate) struct Common {
    blocks: Blocks,
    bandwidth: Bandwidth,
    /// Cycles to code in the first cache: they are hidden by fetching ahead.
    fetch_cycles: u32,
}

impl Common {
    pub fn new(desc: &TimingDesc, isa: Isa, fetch_cycles: u32) -> Self {
        Self { blocks: Blocks::new(isa, desc.unknown), bandwidth: Bandwidth::new(&desc.memory), fetch_cycles }
    }

    /// The trace is of this instruction set, whatever the machine's is.
    pub fn read(&mut self, isa: Isa) {
        self.blocks.read(isa);
    }
}

/// The part of a result that a core in time makes: sums over all CPUs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
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
}

impl crate::Machine {
    /// What its cores in time came to, if they are.
    pub(crate) fn timing(&self) -> Option<TimingReport> {
        let common = self.timed.as_ref()?;
        let mut all = TimingReport { unknown_instructions: common.blocks.unknown(), ..TimingReport::default() };
        for timed in self.cores.iter().filter_map(|core| core.timed.as_ref()) {
            all.cycles += timed.core.now();
            all.instructions += timed.core.instructions();
            all.mispredicted += timed.core.mispredicted();
            all.stack.plus(timed.core.stack());
        }
        Some(all)
    }
}
