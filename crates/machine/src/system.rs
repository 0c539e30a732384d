//! A system: physical memory, the kernel that hands it out, and what translation cost the programs on it. The machine
//! has one; with virtual machines, the host and each guest have one.

use crate::{count::Tally, leshy::Online};
use mmulab_frames::PhysMem;
use mmulab_kernel::{Kernel, KernelDesc, KernelError};

/// A kernel with its memory, and what its programs cost.
pub(crate) struct System {
    pub mem: PhysMem,
    pub kernel: Kernel,
    pub tally: Tally,
    /// The profiler of its programs, if its policy has hints from one.
    pub leshy: Option<Box<Online>>,
    /// The fragmentation index (FMFI) of each order before the program started.
    pub fmfi_at_start: Vec<f64>,
}

impl System {
    pub fn new(desc: &KernelDesc, tally: Tally, leshy: Option<Online>) -> Result<Self, KernelError> {
        let mut mem = PhysMem::new(desc.memory.bytes());
        let kernel = Kernel::new(desc, &mut mem)?;
        let mut new = Self { mem, kernel, tally, leshy: leshy.map(Box::new), fmfi_at_start: Vec::new() };
        new.fmfi_at_start = new.fmfi();
        Ok(new)
    }

    /// The fragmentation index (FMFI) of every order, from 0 on.
    pub fn fmfi(&self) -> Vec<f64> {
        let frames = self.kernel.frames();
        (0..=frames.max_order()).map(|order| frames.fmfi(order)).collect()
    }
}
