//! Sampling of a run in time (`--sample`): how many instructions are measured, and how many warm up before each sample.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Which instructions are run in time.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Sample {
    /// The run is divided into parts of `length` instructions, and one of this number of parts is measured. It stands
    /// for all of them.
    #[schemars(range(min = 2, max = 1_000_000_000))]
    pub one_of: u32,
    /// Instructions of a sample.
    #[schemars(range(min = 100, max = 1_000_000_000))]
    pub length: u32,
    /// Instructions run in time before each sample that are not measured.
    #[schemars(range(min = 0, max = 1_000_000_000))]
    pub warm: u32,
}

impl Sample {
    /// Instructions from one sample to the next.
    pub fn period(&self) -> u64 {
        u64::from(self.one_of) * u64::from(self.length)
    }
}
