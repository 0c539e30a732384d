//! The time of page faults in a result: its distribution by kind and size, and its parts.

use crate::count::{FaultLatency, Faults};
use mmulab_addr::PageOrder;
use mmulab_kernel::FaultKind;
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;

/// Shares of the faults whose time is repeated in microseconds.
const SHARES: [(&str, f64); 7] =
    [("p10", 0.1), ("p50", 0.5), ("p90", 0.9), ("p95", 0.95), ("p99", 0.99), ("p999", 0.999), ("max", 1.0)];

/// The time of the faults of one kind that mapped one size.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct LatencyReport {
    /// The service that they needed.
    kind: FaultKind,
    /// The size of the page that was mapped.
    size: PageOrder,
    /// How many.
    faults: u64,
    /// Their mean time in cycles.
    mean_cycles: f64,
    /// The same in microseconds, at the machine's clock.
    mean_us: f64,
    /// Times that shares of the faults did not exceed, in microseconds: p10, p50, p90, p95, p99, p999, max.
    quantiles_us: BTreeMap<&'static str, f64>,
    /// Every time that occurred, in cycles, in ascending order, with the number of faults that took it.
    times: Vec<Time>,
    /// Mean cycles of each kind of work, by the name of its price. They add up to the mean time.
    parts: BTreeMap<&'static str, f64>,
}

/// A time that occurred.
#[derive(Debug, Serialize, JsonSchema)]
struct Time {
    /// Cycles.
    cycles: u64,
    /// Faults that took them.
    faults: u64,
}

/// The rows of a run on a core of `mhz`.
pub(super) fn latency(found: &FaultLatency, mhz: f64) -> Vec<LatencyReport> {
    found.rows().map(|(kind, size, faults)| row(kind, size, faults, mhz)).collect()
}

fn row(kind: FaultKind, size: PageOrder, faults: &Faults, mhz: f64) -> LatencyReport {
    let count = faults.count();
    let parts: BTreeMap<_, _> = faults.parts().map(|(name, cycles)| (name, cycles / count as f64)).collect();
    let mean_cycles: f64 = parts.values().sum();
    LatencyReport {
        kind,
        size,
        faults: count,
        mean_cycles,
        mean_us: mean_cycles / mhz,
        quantiles_us: SHARES.iter().map(|&(name, share)| (name, faults.quantile(share) as f64 / mhz)).collect(),
        times: faults.times.iter().map(|(&cycles, &faults)| Time { cycles, faults }).collect(),
        parts,
    }
}
