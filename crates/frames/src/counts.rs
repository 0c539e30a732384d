//! Counts of what an allocator of frames did. Both systems' allocators count in them.

use schemars::JsonSchema;
use serde::Serialize;

/// Counts of the allocator.
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
    /// Parts of larger blocks that were given back, each to its list. Priced as work, and not part of results.
    #[serde(skip)]
    pub returns: u64,
}

impl FrameCounts {
    /// What was done since the counts stood at `before`.
    pub fn since(&self, before: &Self) -> Self {
        let Self { splits, merges, steals, refills, reliefs, refusals, returns } = *before;
        Self {
            splits: self.splits - splits,
            merges: self.merges - merges,
            steals: self.steals - steals,
            refills: self.refills - refills,
            reliefs: self.reliefs - reliefs,
            refusals: self.refusals - refusals,
            returns: self.returns - returns,
        }
    }

    /// Adds what was done later.
    pub fn add(&mut self, later: &Self) {
        let Self { splits, merges, steals, refills, reliefs, refusals, returns } = *later;
        self.splits += splits;
        self.merges += merges;
        self.steals += steals;
        self.refills += refills;
        self.reliefs += reliefs;
        self.refusals += refusals;
        self.returns += returns;
    }
}
