//! The part of the engine that keeps time, and the timeline of one reference.

use super::cpu::{Common, CpuInTime, FirstCache};
use crate::{cpu::Clock, engine::State};
use mmulab_addr::PhysAddr;
use mmulab_timing::TimingDesc;

/// When the parts of a reference were done. All fields are whole words, as those of [`mmulab_timing::Access`].
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Timeline {
    /// How far it is: at first when it was issued, then when each thing was done.
    pub at: u64,
    /// When the second level had answered.
    pub second_level_until: u64,
    /// What its walks took once they had begun.
    pub walking: u64,
    /// How far away the last line was that a walk read ([`mmulab_walker::Caches::depth`]).
    pub walk_by: u64,
    /// How often a kernel had to do something.
    pub traps: u64,
    /// Where the reference goes; none if it was passed over.
    pub pa: Option<PhysAddr>,
}

/// CPUs in time.
pub(crate) struct InTime {
    /// Taken out while references run: they are served by the engine, which holds this part.
    pub(super) kept: Option<Box<Kept>>,
}

/// The CPUs, and what they have in common.
pub(super) struct Kept {
    pub cpus: Vec<CpuInTime>,
    pub common: Common,
}

impl InTime {
    /// The CPUs in time of a machine.
    pub fn new(state: &State, timing: &TimingDesc) -> Self {
        let (machine, options) = (&state.desc.machine, &state.desc.options);
        let caches = &state.hardware.caches;
        let first_cache = FirstCache { fetch_cycles: caches.fetch_cycles(), data_cycles: caches.data_cycles() };
        let cpus = (0..machine.core.cpus()).map(|_| CpuInTime::new(machine, timing, options.sample)).collect();
        let common = Common::new(timing, machine.isa, first_cache);
        Self { kept: Some(Box::new(Kept { cpus, common })) }
    }

    /// The clock of such a CPU: it follows the core in time.
    pub fn clock() -> Clock {
        Clock::new(0.0, 0)
    }
}
