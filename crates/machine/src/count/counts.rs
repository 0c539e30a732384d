//! Counters of the run loop: stores, replayed walks, dirty-bit walks, segmentation faults, stall cycles and kernel
//! cycles. Reports combine them with the counters of the other parts.

use serde::Serialize;

/// What the machine itself counts; TLBs, walker and kernel count their own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Stores among the data references.
    pub writes: u64,
    /// Walks made again after the kernel served a fault.
    pub replays: u64,
    /// Walks that only set a dirty bit: a store met a clean translation.
    pub dirty_updates: u64,
    /// Walks made because a translation's rights did not allow the access.
    pub denied_rechecks: u64,
    /// References to memory no mapping holds.
    pub unmapped: u64,
    /// References against the rights of their mapping.
    pub forbidden: u64,
    /// Address-space switches that cost a core its translations or its base register.
    pub space_switches: u64,
    /// Cycles of kernel work.
    pub kernel_cycles: u64,
    /// Latency of first-level misses that hit the second level, in cycles, were nothing overlapped.
    pub l2_hit_cycles: u64,
    /// Cycles cores stalled for second-level hits.
    pub l2_hit_stalls: u64,
    /// Cycles cores stalled for walks.
    pub walk_stalls: u64,
    /// Cycles that fetches waited for their translations: second level, entries held, and walks.
    pub fetch_waits: u64,
    /// Latency of data references in the caches, in cycles, when they go through them.
    pub data_cycles: u64,
}
