//! What a CPU in time has besides its TLBs and walker, and what all of them have in common.

use super::{blocks::Blocks, neighbour::Neighbour, sampling::Sampling};
use crate::describe::{MachineDesc, Sample};
use mmulab_timing::{Bandwidth, Core, Lines, MemoryTiming, Regions, Streams, Strides, TimingDesc};
use mmulab_trace::{Isa, TraceInfo};

/// What a CPU in time has besides its TLBs and walker.
pub(super) struct CpuInTime {
    pub core: Core,
    pub prefetch: Prefetch,
    pub sampling: Option<Sampling>,
    pub neighbour: Option<Neighbour>,
}

/// Lines on their way to a core, and the prefetchers that ask for them.
pub(super) struct Prefetch {
    pub lines: Lines,
    pub streams: Streams,
    pub strides: Strides,
    pub regions: Regions,
}

impl Prefetch {
    fn new(desc: &MemoryTiming) -> Self {
        Self {
            lines: Lines::new(desc),
            streams: Streams::new(desc),
            strides: Strides::new(desc),
            regions: Regions::new(desc),
        }
    }
}

impl CpuInTime {
    pub fn new(machine: &MachineDesc, desc: &TimingDesc, sample: Option<Sample>) -> Self {
        Self {
            core: Core::new(desc),
            prefetch: Prefetch::new(&desc.memory),
            sampling: sample.map(Sampling::new),
            neighbour: Neighbour::new(machine),
        }
    }
}

/// Cycles to a line in its first cache.
#[derive(Clone, Copy)]
pub(super) struct FirstCache {
    /// To code: these are hidden by fetching ahead.
    pub fetch_cycles: u32,
    /// To data.
    pub data_cycles: u32,
}

/// What all CPUs in time have in common: the code that they run, and what their misses meet.
pub(super) struct Common {
    pub blocks: Blocks,
    pub memory: Memory,
}

/// What accesses of all CPUs in time meet.
pub(super) struct Memory {
    pub bandwidth: Bandwidth,
    pub first_cache: FirstCache,
}

impl Common {
    pub fn new(desc: &TimingDesc, isa: Isa, first_cache: FirstCache) -> Self {
        let bandwidth = Bandwidth::new(&desc.memory);
        Self { blocks: Blocks::new(isa, desc), memory: Memory { bandwidth, first_cache } }
    }

    /// Takes a trace: its instruction set, whatever the machine's is, and what it says of its loads.
    pub fn read(&mut self, info: &TraceInfo) {
        self.blocks.read(info.isa, info.loads.as_ref());
    }
}
