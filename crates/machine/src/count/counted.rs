//! All counters of a machine at one moment. A result is the difference between two such moments.
//!
//! A run may begin with a part that is not counted: the state of a trace that was cut, or what `--skip` leaves out. It
//! runs as everything else does, so that TLBs, caches and page tables are in use when counts begin. Counters run on:
//! where counts begin they are noted, and the report subtracts them ([`super::Since`]). Costs by region and by place,
//! and the counts of processes, begin anew instead. Peaks, and what memory is used for, are of the whole run.

use super::{
    causes::KernelCycles, counts::Counts, host::HostCounts, shootdown::ShootdownCounts, timing::TimingReport,
    warps::WarpCounts,
};
use mmulab_kernel::{Kernel, KernelCounts, TableCounts};
use mmulab_tlb::HierarchyCounts;
use mmulab_walker::{NestedTlbCounts, WalkCounts};
use std::collections::BTreeMap;

/// Counters of one kernel.
#[derive(Clone, Default)]
pub(crate) struct SystemCounts {
    pub kernel: KernelCounts,
    pub tables: TableCounts,
}

impl SystemCounts {
    /// The counters of `kernel`.
    pub fn of(kernel: &Kernel) -> Self {
        Self { kernel: kernel.counts().clone(), tables: kernel.table_counts().clone() }
    }
}

/// Counters of the host below virtual machines.
#[derive(Clone, Default)]
pub(crate) struct HostCounted {
    pub counts: HostCounts,
    pub system: SystemCounts,
    pub nested_tlb: Option<NestedTlbCounts>,
    /// Walks of the host's table, and entries that they read for walks of each side.
    pub walks: WalkCounts,
    pub reads: [u64; 2],
}

/// All counters, summed over all CPUs.
#[derive(Clone, Default)]
pub(crate) struct Counted {
    /// The run loop's own.
    pub own: Counts,
    /// The kernel's cycles by cause.
    pub causes: KernelCycles,
    pub instructions: u64,
    pub base_cycles: u64,
    pub walk_queued: u64,
    pub walk_pending: u64,
    pub walk_active: u64,
    /// When the last core had done all it had to, on shader cores.
    pub finished: Option<u64>,
    pub tlb: HierarchyCounts,
    /// Of the programs' tables alone, without the host's.
    pub walks: WalkCounts,
    pub timing: Option<TimingReport>,
    pub warps: Option<WarpCounts>,
    /// Where the machine says how flushes reach other CPUs.
    pub shootdowns: Option<ShootdownCounts>,
    /// By the number of the virtual machine; 0 on the machine itself.
    pub systems: BTreeMap<usize, SystemCounts>,
    pub host: Option<HostCounted>,
}

impl Counted {
    /// References: lookups in the first level.
    pub fn references(&self) -> u64 {
        self.tlb.l1i.accesses + self.tlb.l1d.accesses
    }
}
