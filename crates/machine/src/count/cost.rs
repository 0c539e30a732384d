//! Cost of translation: misses, walks and stall cycles of one reference, or summed over a place.

use mmulab_addr::{Pid, VirtAddr};
use mmulab_kernel::RegionId;
use schemars::JsonSchema;
use serde::Serialize;

/// Cost of translation in some place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Cost {
    /// Instruction-side references that missed the first level.
    pub l1i_misses: u64,
    /// Data-side references that missed the first level.
    pub l1d_misses: u64,
    /// Page walks for references (second-level misses, with the replays after faults).
    pub walks: u64,
    /// Page-table entries those walks read.
    pub walk_reads: u64,
    /// Cycles those walks took, were nothing overlapped.
    pub walk_cycles: u64,
    /// Cycles the core stalled for any of it.
    pub stall_cycles: u64,
}

impl Cost {
    /// Adds another place's cost.
    #[inline(always)]
    pub fn add(&mut self, other: &Self) {
        self.l1i_misses += other.l1i_misses;
        self.l1d_misses += other.l1d_misses;
        self.walks += other.walks;
        self.walk_reads += other.walk_reads;
        self.walk_cycles += other.walk_cycles;
        self.stall_cycles += other.stall_cycles;
    }
}

/// A block of code by the region that it lies in: a process that starts another program has other code at the same
/// addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Block {
    /// The region.
    pub region: RegionId,
    /// The first address.
    pub addr: VirtAddr,
}

/// A reference that missed, with all it cost.
#[derive(Clone, Copy, Debug)]
pub struct Missed {
    /// The process.
    pub pid: Pid,
    /// The address referred to.
    pub va: VirtAddr,
    /// The block that was executing.
    pub block: VirtAddr,
    /// The region that block lies in; only looked at for a profile.
    pub code: RegionId,
    /// The block that the thread ran before; only looked at for a profile, and only for blocks that missed.
    pub from: Option<Block>,
    /// Its cost.
    pub cost: Cost,
}
