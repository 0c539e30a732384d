//! The `[gpu]` table of a machine file. It has shader cores, the warps and lanes of a core, and the coalescing of a
//! warp instruction's addresses into lookups.
//!
//! ```text
//! merge   address bits dropped    one lookup per
//! page    12                      base page
//! line    log2(line_bytes)        cache line
//! lane    0                       address
//! ```

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The unit of addresses that one lookup serves for the lanes of a warp.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Merge {
    /// Each base page.
    #[default]
    Page,
    /// Each line of `line_bytes`: what goes to the cache is looked up as it goes.
    Line,
    /// Each address.
    Lane,
}

/// Cores that run warps: threads of as many lanes, in lock step. A trace's threads are the warps; the loads or stores
/// after a block of code are those of its lanes, all of one instruction.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GpuDesc {
    /// Lanes of a warp.
    #[schemars(range(min = 1, max = 64))]
    pub lanes: u8,
    /// Warps that a core has at once. A trace of warps for fewer leaves the others idle, and one for more is refused.
    /// Threads of any other trace are warps: thread T runs on core T / warps, modulo `core.count`.
    #[schemars(range(min = 1, max = 1024))]
    pub warps: u16,
    /// The unit of a warp instruction's addresses that one lookup serves: `page`, `line` or `lane`. Default `page`.
    #[serde(default)]
    pub merge: Merge,
    /// Bytes of a line. Default 128.
    #[serde(default = "line_bytes")]
    #[schemars(range(min = 16, max = 4096), extend("x-power-of-two" = true))]
    pub line_bytes: u16,
    /// Lookups that the first level begins in a cycle: an instruction that needs more keeps its core for as many more
    /// cycles. Default 1.
    #[serde(default = "one")]
    #[schemars(range(min = 1, max = 64))]
    pub ports: u8,
    /// Where the numbers come from.
    #[serde(default)]
    pub source: String,
    /// Keys of this table that no source states, each with the reason for the value.
    #[serde(default)]
    pub assumed: BTreeMap<String, String>,
}

fn line_bytes() -> u16 {
    128
}

fn one() -> u8 {
    1
}

impl GpuDesc {
    /// Most lanes of a warp.
    pub const MAX_LANES: usize = 64;

    /// Address bits within what is looked up once.
    pub fn shift(&self) -> u32 {
        match self.merge {
            Merge::Page => mmulab_addr::BASE_BYTES.trailing_zeros(),
            Merge::Line => self.line_bytes.trailing_zeros(),
            Merge::Lane => 0,
        }
    }
}
