//! The `[perf]` table of a machine file: for each hardware performance event, the simulator's count with the same
//! meaning, optionally limited to some page sizes.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The counts of mmulab that a performance event stands for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Counted {
    /// Instructions retired.
    Instructions,
    /// Cycles of user time, by the cost model.
    UserCycles,
    /// Fetches that miss the first level and hit the second.
    L2iHits,
    /// Fetches that miss both levels.
    L2iMisses,
    /// Loads and stores that miss the first level and hit the second.
    L2dHits,
    /// Loads and stores that miss both levels.
    L2dMisses,
    /// Walks for fetches.
    InstructionWalks,
    /// Durations of walks for fetches, summed, in cycles.
    InstructionWalkCycles,
    /// Cycles that fetches wait for their translations: for the second level, for entries that are held
    /// (`tlb.hold`), and for walks.
    InstructionStallCycles,
}

impl Counted {
    /// Whether it can be parted by the size of the entry that a miss brought into the first level.
    pub const fn has_sizes(self) -> bool {
        matches!(self, Self::L2iHits | Self::L2iMisses | Self::L2dHits | Self::L2dMisses)
    }

    /// Whether it comes from the cost model; the others are counted.
    pub const fn is_modelled(self) -> bool {
        matches!(self, Self::UserCycles | Self::InstructionWalkCycles | Self::InstructionStallCycles)
    }
}

/// An event of the machine's performance counters that has its equal here.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EventDesc {
    /// Its name, as the source writes it.
    pub name: String,
    /// The name `perf list` has for it on this machine, where that differs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub perf: Option<String>,
    /// The count that it stands for.
    pub counts: Counted,
    /// Of which entries brought into the first level: page sizes, and `coalesced` for those that translate several
    /// pages of the table. Only for hits and misses of the second level. Default all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sizes: Vec<String>,
}

/// Maps mmulab's counts to the processor's own event names, so that a run can be compared with `perf stat`. Only events
/// that mmulab counts with the same meaning are listed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct PerfDesc {
    /// The events.
    pub event: Vec<EventDesc>,
    /// The source of the names.
    pub source: String,
    /// Keys of this table that no source states, each with the reason for the value.
    pub assumed: BTreeMap<String, String>,
}

impl PerfDesc {
    /// Whether there are no events.
    pub fn is_empty(&self) -> bool {
        self.event.is_empty()
    }
}
