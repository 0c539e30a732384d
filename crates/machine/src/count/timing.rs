//! Figures of cores in time: cycles, instructions and the stack of cycles, measured or estimated from samples.

use super::zero::is_zero;
use mmulab_timing::Stack;
use schemars::JsonSchema;
use serde::Serialize;

/// The part of a result that a core in time makes: sums over all CPUs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct TimingReport {
    /// Cycles until the last instruction had retired.
    pub cycles: u64,
    /// Instructions that retired in them.
    pub instructions: u64,
    /// Branches that were not predicted.
    pub mispredicted: u64,
    /// Taken branches that were predicted, but whose target no branch target buffer had.
    #[serde(skip_serializing_if = "is_zero")]
    #[schemars(default)]
    pub unknown_targets: u64,
    /// Instructions whose dependences are assumed, for their code is not known.
    pub unknown_instructions: u64,
    /// Software prefetches among them. QEMU does not report their addresses, so they bring no line here.
    #[serde(skip_serializing_if = "is_zero")]
    #[schemars(default)]
    pub software_prefetches: u64,
    /// Where the cycles went.
    pub stack: Stack,
    /// Of a run by samples: what they came to, of the first core. All of the above is estimated then; counts are not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sampled: Option<Sampled>,
}

/// What samples came to: sums of a run's samples in order, in groups of equal size, so that runs of one trace can be
/// compared group by group.
#[derive(Clone, PartialEq, Debug, Default, Serialize, JsonSchema)]
pub struct Sampled {
    /// Samples measured.
    pub samples: u64,
    /// Half of the 95 % interval of `timing.cycles`, as a share of them; none of fewer than two groups.
    pub error: Option<f64>,
    /// Instructions and cycles of each group.
    pub groups: Vec<[u64; 2]>,
}
