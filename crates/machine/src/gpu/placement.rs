//! Placement of warps on cores: by the trace, if that contains it, else by the numbers of the threads.

use crate::{
    describe::{GpuDesc, MachineDesc},
    ended::{Ended, MachineError},
    engine::Slot,
};
use mmulab_addr::Tid;
use mmulab_trace::TraceInfo;

/// Core and warp slot of each thread.
#[derive(Clone, Copy)]
pub(super) struct WarpPlacement {
    /// Warps of a core, as the trace numbers them.
    warps: u32,
    cores: u32,
    /// Whether the trace contains that number. The threads of any other trace are warps as they come.
    in_trace: bool,
}

impl WarpPlacement {
    pub fn new(gpu: &GpuDesc, cores: u16) -> Self {
        Self { warps: gpu.warps.into(), cores: cores.into(), in_trace: false }
    }

    /// Where a thread runs; an error if a trace of warps has more cores than there are.
    #[inline]
    pub fn place(self, tid: Tid) -> Result<Slot, Ended> {
        let (core, number) = (tid.0 / self.warps, (tid.0 % self.warps) as usize);
        if core < self.cores {
            return Ok(Slot { cpu: core as u16, number });
        }
        if self.in_trace { Err(self.no_place(core)) } else { Ok(Slot { cpu: (core % self.cores) as u16, number }) }
    }

    /// Takes a trace: one that contains the number of warps of its cores has them on these cores.
    pub fn take(&mut self, desc: &MachineDesc, info: &TraceInfo) -> Result<(), MachineError> {
        let Some(warps) = info.warps else { return Ok(()) };
        if u32::from(warps) > self.warps {
            return Err(MachineError::Warps { machine: desc.name.clone(), has: self.warps, warps });
        }
        *self = Self { warps: warps.into(), in_trace: true, ..*self };
        Ok(())
    }

    #[cold]
    fn no_place(self, core: u32) -> Ended {
        let (warps, cores, wanted) = (u64::from(self.warps), u64::from(self.cores), u64::from(core) + 1);
        let (all, asked) = (cores * warps, wanted * warps);
        Ended::NoPlace(format!(
            "a warp of core {core} acts, and this machine has {cores} cores: {cores} x {warps} = {all} warps, and the \
             trace is of {wanted} x {warps} = {asked} or more; deal it out anew (cores={cores} in the name of a \
             generator's or an Accel-Sim trace), or give more cores (--set core.count={wanted})"
        ))
    }
}
