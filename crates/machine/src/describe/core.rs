//! The `[core]` table of a machine file: cores, SMT threads, clock frequency, base CPI and instruction window. The
//! time model needs them to turn counts of TLB hits and walks into cycles and seconds.

use mmulab_timing::TimingDesc;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The processor cores: how many, how fast, how much latency they hide.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CoreDesc {
    /// Cores, each with its own TLBs and walker, but for what is `shared`. Threads are pinned to their CPUs round-robin
    /// in order of creation, warps by their number.
    #[serde(default = "one")]
    #[schemars(range(min = 1, max = 1024))]
    pub count: u16,
    /// Hardware threads of each core (hyperthreads), each a CPU to the kernel. They have the core's walker, its walk
    /// caches, its caches and all TLB arrays in common but those that are `per_thread`. ASIDs keep their entries apart.
    /// CPUs are numbered through all cores before any has a second, so that programs' threads have cores to themselves
    /// while there are enough. Each CPU has a clock of its own: what threads take from each other outside translation
    /// is for `base_cpi` to say. At most 1024 CPUs in all.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    #[schemars(range(min = 1, max = 8))]
    pub threads: u16,
    /// Clock, in MHz. Turns cycles into seconds.
    #[schemars(range(min = 1.0, max = 100_000.0))]
    pub frequency_mhz: f64,
    /// Cycles per instruction without any cost of translation. Measure it for your program (`perf stat` with huge
    /// pages), or accept the assumption; every cycle figure says which.
    #[serde(default = "one_cpi")]
    #[schemars(range(min = 0.01, max = 100_000.0))]
    pub base_cpi: f64,
    /// Instructions the core goes on with behind an unfinished data-side page walk: the reorder buffer's size.
    /// 0 makes every walk stall fully.
    #[serde(default)]
    #[schemars(range(min = 0, max = 1_000_000))]
    pub window: u32,
    /// The core in time, for runs with `--timing`. Without it, time is `base_cpi` and stalls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timing: Option<TimingDesc>,
    /// Where the numbers come from.
    #[serde(default)]
    pub source: String,
    /// Keys of this table that no source states, each with the reason for the value.
    #[serde(default)]
    pub assumed: BTreeMap<String, String>,
}

impl CoreDesc {
    /// CPUs: threads of all cores.
    pub fn cpus(&self) -> u16 {
        self.count * self.threads
    }
}

fn one() -> u16 {
    1
}

fn is_one(n: &u16) -> bool {
    *n == 1
}

fn one_cpi() -> f64 {
    1.0
}
