//! Hints *of Leshy*: a profiler samples TLB misses while the program runs. At the end of every epoch it selects page
//! sizes, and gives them to the kernel (paper 3, section IV-D, online). The machine has the TLBs, and so the sampler.
//! The kernel takes the hints as if the profiler had called madvise(2).

use crate::parts::part::{Part, Wrong};
use crate::parts::traits::Hints;
use mmulab_addr::Bytes;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The profiler names page sizes while the program runs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Leshy;

impl Part for Leshy {
    const NAME: &'static str = "leshy";
    const ABOUT: &'static str = "The profiler of Elastic Translations, which samples TLB misses while the programs \
         run, and names page sizes at the end of every epoch. Programs may name sizes, too; the next epoch forgets \
         those.";

    fn new(_: &()) -> Result<Self, Wrong> {
        Ok(Self)
    }
}

impl Hints for Leshy {
    fn obeys_program(&self) -> bool {
        true
    }

    fn takes_sizes(&self) -> bool {
        true
    }

    /// The samples are addresses of the guests' programs.
    fn serves_hosts(&self) -> bool {
        false
    }
}

/// The profiler: how it samples, how long an epoch is, and what it may select.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct LeshyDesc {
    /// Simulated microseconds of an epoch. At its end sizes are selected from its samples and from those of the epoch
    /// before. Default 5000000.
    #[schemars(range(min = 1, max = 1_000_000_000_000_u64))]
    pub epoch_us: u64,
    /// One of this number of references that walk is sampled. Default 1024.
    #[schemars(range(min = 1, max = 1_000_000_000))]
    pub period: u32,
    /// Whether 0 to 255 references that walk, at random, are added to each period. Default `true`.
    pub jitter: bool,
    /// Cycles that a sample takes from the program, as kernel work. Default 0.
    #[schemars(range(min = 0, max = 10_000_000))]
    pub sample_cycles: u32,
    /// The share of the samples that selected pages must cover, in 1/100000. Default 100000.
    #[schemars(range(min = 1, max = 100_000))]
    pub target: u32,
    /// Percent of the TLB's entries that a selection may use. Default 70.
    #[schemars(range(min = 1, max = 1000))]
    pub slack: u32,
    /// Memory that the hints of an epoch name at most: the most important ones that fit. Default `1920M`.
    #[schemars(extend("x-least" = "64K", "x-most" = "16T"))]
    pub most: Bytes,
    /// Where these values come from.
    pub source: String,
    /// Keys no source states, each with the reason for its value.
    pub assumed: BTreeMap<String, String>,
}

impl Default for LeshyDesc {
    fn default() -> Self {
        Self {
            epoch_us: 5_000_000,
            period: 1024,
            jitter: true,
            sample_cycles: 0,
            target: 100_000,
            slack: 70,
            most: Bytes(1920 << 20),
            source: "paper 3's published artifact (cslab-ntua/etutils-rs, bin/epochs.sh): epochs of 5 s, the last two \
                     together, a target of 100 %, 70 % of the entries, 491,520 pages at most; perf record -c 1024 with \
                     jitter"
                .into(),
            assumed: BTreeMap::from([(
                "sample_cycles".into(),
                "no source states what a sample costs the program; samples are written by hardware and read on another \
                 core"
                    .into(),
            )]),
        }
    }
}
