//! Subtraction of counters: what was counted since an earlier moment.

use super::{
    causes::KernelCycles,
    counted::{Counted, HostCounted, SystemCounts},
    counts::Counts,
    host::HostCounts,
    shootdown::ShootdownCounts,
    timing::TimingReport,
    warps::WarpCounts,
};
use mmulab_kernel::{KernelCounts, Name, TableCounts, Tally};
use mmulab_timing::Stack;
use mmulab_tlb::{ArrayCounts, CoalescingCounts, HierarchyCounts, MirrorCounts, PredictorCounts, Reloads, SideCounts};
use mmulab_walker::{LevelCounts, NestedTlbCounts, SideWalks, WalkCounts};
use std::collections::BTreeMap;

/// Counters of which only what they counted since another moment is wanted.
pub(crate) trait Since {
    /// Takes away what they stood at `before`.
    fn since(&mut self, before: &Self);
}

impl Since for u64 {
    fn since(&mut self, before: &Self) {
        *self -= before;
    }
}

impl<T: Since> Since for Option<T> {
    fn since(&mut self, before: &Self) {
        if let (Some(now), Some(before)) = (self, before) {
            now.since(before);
        }
    }
}

impl<T: Since> Since for Vec<T> {
    fn since(&mut self, before: &Self) {
        self.iter_mut().zip(before).for_each(|(now, before)| now.since(before));
    }
}

impl<T: Since, const N: usize> Since for [T; N] {
    fn since(&mut self, before: &Self) {
        self.iter_mut().zip(before).for_each(|(now, before)| now.since(before));
    }
}

impl<K: Ord, T: Since> Since for BTreeMap<K, T> {
    fn since(&mut self, before: &Self) {
        for (key, now) in self {
            before.get(key).into_iter().for_each(|before| now.since(before));
        }
    }
}

impl<E: Name> Since for Tally<E> {
    fn since(&mut self, before: &Self) {
        self.subtract(before);
    }
}

impl Since for TableCounts {
    fn since(&mut self, before: &Self) {
        self.subtract(before);
    }
}

/// Each field of a struct is a counter, or stays as it is. A field that is named in neither list is an error.
macro_rules! since {
    ($($name:ident: $($counter:ident)* $(; $kept:ident)*,)*) => {
        $(impl Since for $name {
            fn since(&mut self, before: &Self) {
                let Self { $($counter,)* $($kept: _,)* } = self;
                $($counter.since(&before.$counter);)*
            }
        })*
    };
}

since! {
    SideCounts: accesses hits misses,
    CoalescingCounts: coalesced destroyed missing untouched rights_differ mixed_dirty not_contiguous misaligned,
    MirrorCounts: writes reads extended duplicates,
    PredictorCounts: guesses right wrong updates,
    ArrayCounts: accesses hits misses fills evictions invalidations undone hits_by_size coalescing mirroring probes
        predictor;
        name; level; side,
    Reloads: l2_hits l2_misses,
    HierarchyCounts: l1i l1d l2i l2d reloads_i reloads_d arrays,
    SideWalks: walks completed faulted accesses cycles,
    LevelCounts: from_walk_cache reads served_by; level,
    WalkCounts: instruction data levels,
    NestedTlbCounts: accesses hits misses,
    Counts: writes replays dirty_updates denied_rechecks unmapped forbidden space_switches kernel_cycles l2_hit_cycles
        l2_hit_stalls walk_stalls fetch_waits data_cycles,
    WarpCounts: instructions lanes lookups port_stalls joined,
    HostCounts: exits walk_violations kernel_violations table_writes table_loads nodes_told hints_told machine_switches
        flushes shootdown_instructions shootdown_interrupts cycles,
    KernelCycles: faults promotions fork exec exit other,
    ShootdownCounts: flushes instructions interrupts cycles,
    Stack: work fetch_second_level fetch_walk fetch_miss branch second_level walk data stores trap,
    TimingReport:
        cycles instructions mispredicted unknown_targets unknown_instructions software_prefetches stack; sampled,
    KernelCounts: faults huge_faults refusals errors events work invalidations,
    SystemCounts: kernel tables,
    HostCounted: counts system nested_tlb walks reads,
    Counted: own causes instructions base_cycles walk_queued walk_pending walk_active finished tlb walks timing warps
        shootdowns systems host,
}
