//! Options of a run that belong neither to the machine nor to the policy.

use super::{sample::Sample, sampling::Sampling};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Treatment of memory that a trace touches and no mapping holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Unmapped {
    /// `fault` for traces that carry address-space events, else `map`.
    #[default]
    Auto,
    /// Count a segmentation fault and go on with the next reference.
    Fault,
    /// Map anonymous memory there (`linux.implicit_vma` bytes at a time).
    Map,
    /// End the run there.
    Stop,
}

/// Checks of every step of a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Check {
    /// Nothing: full speed.
    #[default]
    None,
    /// After every reference and event: no TLB holds a translation that the tables do not bear out, and the tables are
    /// those of the same run with TLBs that do not coalesce. Takes some times as long, more where the kernel acts
    /// often.
    Translations,
}

/// Options of a run that belong neither to the machine nor to the policy.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Options {
    /// Treatment of references to unmapped memory.
    pub unmapped: Unmapped,
    /// Keep costs by 2 MiB of memory and by block of code.
    pub profile: bool,
    /// Keep which pages of code ran in which part of the run.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub code_windows: bool,
    /// Track which base pages are accessed, so that the result has the bloat.
    pub touched: bool,
    /// Keep the time of every page fault by kind and size. In virtual machines the guests' faults, without the host's
    /// work.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub fault_latency: bool,
    /// Report which clusters of 64 KiB of code are in memory at the end.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub code_residency: bool,
    /// Checks of every step.
    pub check: Check,
    /// Number of instructions that run first and are not counted: counts begin with TLBs, caches and page tables in
    /// use.
    #[schemars(range(min = 0, max = i64::MAX))]
    #[serde(skip_serializing_if = "is_zero")]
    pub skip: u64,
    /// End after this number of instructions; those of `skip` are not among them.
    #[schemars(range(min = 0, max = i64::MAX))]
    pub max_instructions: Option<u64>,
    /// Threads that run machines; 0 means as many as are useful. No result depends on it, so none repeats it.
    #[serde(skip_serializing)]
    #[schemars(range(min = 0, max = 1024))]
    pub threads: usize,
    /// Overrides every machine's base CPI: cycles per instruction, measured by you.
    #[schemars(range(min = 0.01, max = 100_000.0))]
    pub base_cpi: Option<f64>,
    /// The share of walk cycles that would be saved were the walks gone, in place of the window model.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub savable: Option<f64>,
    /// Time by a core in time ([`CoreDesc::timing`](super::CoreDesc)), with data and code in the caches, rather than by
    /// the base CPI.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub timing: bool,
    /// With `timing`: only samples of the run are run in time, and stand for all of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sample: Option<Sample>,
    /// Samples of TLB misses and of accessed bits, from which page sizes are selected.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sampling: Option<Sampling>,
    /// Overrides the seed of memory's random placement.
    #[schemars(range(min = 0, max = i64::MAX))]
    pub seed: Option<u64>,
    /// Traces of further virtual machines beside the first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub vms: Vec<String>,
    /// References each virtual machine makes before it is the next one's turn, where there are several.
    #[schemars(range(min = 1, max = i64::MAX))]
    pub quantum: Option<u64>,
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}
