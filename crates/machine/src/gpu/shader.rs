//! Shader cores: the lanes of a warp instruction are looked up together, and a warp that waits lets others go on.

use super::{cores::CoreSet, in_flight::SharedWalks, lanes::Lanes, placement::WarpPlacement, warps::Warps};
use crate::{
    cpu::Clock,
    describe::{CoreDesc, GpuDesc, MachineDesc},
};

/// The cores of a machine that run warps.
pub(crate) struct ShaderCores {
    /// The instruction whose lanes are being read.
    pub(super) lanes: Lanes,
    pub(super) placement: WarpPlacement,
    /// By core.
    pub(super) warps: Vec<Warps>,
    /// Walks that any core may join, where cores have the second level in common.
    pub(super) shared: Option<Box<SharedWalks>>,
    /// The cores that have walks in flight.
    pub(super) busy: CoreSet,
}

impl ShaderCores {
    /// The shader cores of a machine.
    pub fn new(machine: &MachineDesc, gpu: &GpuDesc) -> Self {
        let cpus = machine.core.cpus();
        Self {
            lanes: Lanes::new(gpu),
            placement: WarpPlacement::new(gpu, cpus),
            warps: (0..cpus).map(|_| Warps::new(gpu.warps)).collect(),
            shared: machine.tlb.iter().any(|array| array.shared).then(Box::default),
            busy: CoreSet::default(),
        }
    }

    /// The clock of such a core.
    pub fn clock(core: &CoreDesc) -> Clock {
        Clock::new(core.base_cpi, core.window)
    }
}
