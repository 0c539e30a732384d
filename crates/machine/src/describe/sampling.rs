//! Samplers of a run: of TLB misses, as Arm's Statistical Profiling Extension (SPE) samples them, and of accessed bits.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Samples of a run.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Sampling {
    /// One of this number of references that walk is a sample: the address with the cycles of its walks. 1 samples
    /// every walk.
    #[schemars(range(min = 1, max = 1_000_000_000))]
    pub period: u32,
    /// Whether 0 to 255 references that walk, at random, are added to each period (PMSIRR_EL1.RND of SPE, which
    /// replaces the low 8 bits of its interval). Default `false`.
    #[serde(default)]
    pub jitter: bool,
    /// Cycles that a sample takes from the program, as kernel work. Default 0.
    #[serde(default)]
    #[schemars(range(min = 0.0, max = 1e7))]
    pub cycles: f64,
    /// Simulated milliseconds after which accessed bits are read and cleared. Default: they are not sampled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0.000_001, max = 1e9))]
    pub accessed_ms: Option<f64>,
}
