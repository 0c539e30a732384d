//! Counts of what an allocator of frames did. Both systems' allocators count in them.

use schemars::JsonSchema;
use serde::Serialize;

/// What the allocator did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct FrameCounts {
    /// Blocks split in two.
    pub splits: u64,
    /// Pairs of buddies merged.
    pub merges: u64,
    /// Blocks taken from another mobility's lists.
    pub steals: u64,
    /// Per-CPU lists refilled.
    pub refills: u64,
    /// Per-CPU lists relieved.
    pub reliefs: u64,
    /// Requests that found no block, per-CPU lists included.
    pub refusals: u64,
}
