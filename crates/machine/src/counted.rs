//! Everything that a machine has counted up to a moment, in one place: results are what was counted since another
//! moment.
//!
//! A run may begin with a part that is not counted: the state of a trace that was cut, or what `--skip` leaves out. It
//! runs as everything else does, so that TLBs, caches and page tables are in use when counts begin. Counters run on;
//! where counts begin they are noted, and what they stood at is taken away in the end. Costs by region and by place,
//! and the portions of processes, begin anew instead. Peaks, and what memory is used for, are of the whole run.

mod since;

pub(crate) use since::Since;

use crate::{
    Counts, Machine, TimingReport, WarpCounts,
    engine::Core,
    host::{HostCounts, System},
    story::Watch,
    tally::Tally,
};
use mmulab_kernel::{KernelCounts, TableCounts};
use mmulab_tlb::HierarchyCounts;
use mmulab_trace::TraceInfo;
use mmulab_walker::{NestedTlbCounts, WalkCounts};
use std::collections::BTreeMap;

/// What the kernel of one system counts.
#[derive(Clone, Default)]
pub(crate) struct SystemCounts {
    pub kernel: KernelCounts,
    pub tables: TableCounts,
}

impl SystemCounts {
    fn of(system: &System) -> Self {
        Self { kernel: system.kernel.counts().clone(), tables: system.kernel.table_counts().clone() }
    }
}

/// What is counted below virtual machines.
#[derive(Clone, Default)]
pub(crate) struct Below {
    pub counts: HostCounts,
    pub system: SystemCounts,
    pub nested_tlb: Option<NestedTlbCounts>,
    /// Walks of the host's table, and entries that they read for walks of each side.
    pub walks: WalkCounts,
    pub reads: [u64; 2],
}

/// Sums over all cores, but for what the machine counts itself.
#[derive(Clone, Default)]
pub(crate) struct Counted {
    pub own: Counts,
    pub instructions: u64,
    pub base_cycles: u64,
    pub walk_queued: u64,
    pub walk_pending: u64,
    pub walk_active: u64,
    /// When the last core was done, where cores run warps.
    pub finished: Option<u64>,
    pub tlb: HierarchyCounts,
    /// Of these tables alone, whatever lies below.
    pub walks: WalkCounts,
    pub timing: Option<TimingReport>,
    pub warps: Option<WarpCounts>,
    /// By number of the virtual machine; 0 without any.
    pub systems: BTreeMap<usize, SystemCounts>,
    pub host: Option<Below>,
}

impl Counted {
    /// References: lookups in the first level.
    pub fn references(&self) -> u64 {
        self.tlb.l1i.accesses + self.tlb.l1d.accesses
    }
}

impl Machine {
    /// What it has counted since it began.
    fn counted_ever(&mut self) -> Counted {
        let mut all = Counted {
            own: self.counts,
            tlb: HierarchyCounts::of(&mut self.cores.iter_mut().map(|core| &mut core.tlbs).collect::<Vec<_>>()),
            timing: self.timing(),
            systems: self.systems().map(|(vm, system)| (vm, SystemCounts::of(system))).collect(),
            ..Counted::default()
        };
        let servers = self.caches.names().len();
        let levels = self.desc.machine.walked_table().format().levels();
        for core in &self.cores {
            all.walks.add(&core.walker.counts(servers, levels));
            all.instructions += core.instructions;
            all.base_cycles += core.clock.base(core.instructions);
            all.walk_queued += core.slots.queued();
            all.walk_pending += core.slots.pending();
            all.walk_active += core.slots.active();
        }
        all.warps = self.lanes.as_mut().map(|lanes| {
            lanes.close();
            lanes.counts
        });
        all.finished = all.warps.map(|_| self.cores.iter().map(Core::finished).max().unwrap_or(0));
        all.host = self.host.as_ref().map(|host| {
            let mut below = Below { counts: host.counts, system: SystemCounts::of(&host.system), ..Below::default() };
            for walker in host.walkers() {
                below.walks.add(&walker.counts(servers, host.format.levels()));
                for (sum, more) in below.reads.iter_mut().zip(walker.reads_by_side()) {
                    *sum += more;
                }
                if let Some(counts) = walker.tlb_counts() {
                    below.nested_tlb.get_or_insert_default().add(&counts);
                }
            }
            below
        });
        all
    }

    /// What it has counted since counts began.
    pub(crate) fn counted(&mut self) -> Counted {
        let mut all = self.counted_ever();
        if let Some(before) = &self.uncounted {
            all.since(before);
        }
        all
    }

    /// Whether counts of this trace have not begun yet.
    pub(crate) fn awaits_counts(&self, info: &TraceInfo) -> bool {
        let (skip, begun) = (self.desc.options.skip, self.uncounted.as_ref().map(|before| before.instructions));
        (skip > 0 || info.skipped.is_some()) && begun.is_none_or(|instructions| instructions < skip)
    }

    /// Counts begin here.
    #[cold]
    pub(crate) fn resume<W: Watch>(&mut self, watch: &mut W) {
        self.close_lanes();
        if self.lanes.is_some() {
            // What a walk brings is counted when it ends, and its miss when it began.
            self.land_all(watch);
        }
        self.close_portion();
        self.portions.begin_anew();
        let profile = self.desc.options.profile;
        self.system.tally = Tally::new(profile);
        if let Some(host) = &mut self.host {
            host.parked_mut().for_each(|system| system.tally = Tally::new(profile));
        }
        self.restart_samples();
        self.uncounted = Some(Box::new(self.counted_ever()));
    }
}
