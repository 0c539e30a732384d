use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The processor cores: how many, how fast, how much latency they hide.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CoreDesc {
    /// Cores, each with its own TLBs and walker, but for what is `shared`; threads are pinned to them round-robin in order of
    /// creation, warps by their number.
    /// Range 1..=1024.
    #[serde(default = "one")]
    pub count: u16,
    /// Clock, in MHz. Turns cycles into seconds.
    pub frequency_mhz: f64,
    /// Cycles per instruction without any cost of translation. Measure it for your program (`perf stat` with huge
    /// pages), or accept the assumption; every cycle figure says which.
    #[serde(default = "one_cpi")]
    pub base_cpi: f64,
    /// Instructions the core goes on with behind an unfinished data-side page walk: the reorder buffer's size.
    /// 0 makes every walk stall fully.
    #[serde(default)]
    pub window: u32,
    /// Where the numbers come from.
    #[serde(default)]
    pub source: String,
    /// Keys of this table that no source states, each with the reason for the value.
    #[serde(default)]
    pub assumed: BTreeMap<String, String>,
}

fn one() -> u16 {
    1
}

fn one_cpi() -> f64 {
    1.0
}
