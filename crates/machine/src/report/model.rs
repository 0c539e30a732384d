//! From counted events to cycles: everything here is modelled, nothing is counted.

use crate::describe::Resolved;
use schemars::JsonSchema;
use serde::Serialize;

/// Parts of the model's cycles.
#[derive(Clone, Copy, Debug, Default)]
pub struct Events {
    /// Instructions retired, on all cores.
    pub instructions: u64,
    /// Cycles the instructions alone took.
    pub base_cycles: u64,
    /// Cycles stalled for second-level hits.
    pub l2_hit_stalls: u64,
    /// Latency of second-level hits.
    pub l2_hit_cycles: u64,
    /// Cycles stalled for probes of the first level after the first of a lookup.
    pub l1_probe_stalls: u64,
    /// Cycles stalled for walks.
    pub walk_stalls: u64,
    /// Sum of the durations of walks (Intel's WALK_PENDING).
    pub walk_pending: u64,
    /// Cycles that walks waited for a walker.
    pub walk_queued: u64,
    /// When the last core was done, where several work at once: shader cores.
    pub finished: Option<u64>,
    /// Cycles in which at least one walk was going on (Intel's WALK_ACTIVE).
    pub walk_active: u64,
    /// Whether the cycles are those of cores in time.
    pub in_time: bool,
    /// Cycles of kernel work.
    pub kernel_cycles: u64,
    /// The same of a host, and of leaving guests for it.
    pub host_cycles: Option<u64>,
}

/// Cycles by what they went to.
#[derive(Clone, Copy, Debug, Serialize, PartialEq, JsonSchema)]
pub struct Cycles {
    /// Instructions at the base CPI.
    pub base: u64,
    /// Standing still for second-level TLB hits, and for further probes of a first level.
    pub tlb: u64,
    /// Standing still for page walks.
    pub walk: u64,
    /// Kernel work: faults, zeroing, copying, flushing.
    pub kernel: u64,
    /// Below virtual machines: the host's kernel work, and leaving guests for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<u64>,
    /// All of it.
    pub total: u64,
}

/// The modelled part of a result.
#[derive(Clone, Debug, Serialize, PartialEq, JsonSchema)]
pub struct Model {
    /// How stalls were found: `window`, `savable`, or `core-in-time`.
    pub method: &'static str,
    /// Cycles by what they went to.
    pub cycles: Cycles,
    /// Sum of the durations of walks, as Intel's WALK_PENDING counts.
    pub walk_pending: u64,
    /// Cycles with at least one walk going on, as Intel's WALK_ACTIVE counts.
    pub walk_active: u64,
    /// Cycles that walks waited until a walker was free.
    pub walk_queued: u64,
    /// Cycles that translation adds: TLB and walk stalls.
    pub translation_cycles: u64,
    /// The same if no translation latency overlapped with other work. Real time can be more: nothing else is modelled.
    pub translation_cycles_serial: u64,
    /// Share of user time (total without kernel work) that translation takes.
    pub share_of_time: f64,
    /// The same if no translation latency overlapped with other work.
    pub share_of_time_serial: f64,
    /// Seconds at the machine's clock: of all cycles, as of one core; of shader cores, which work at once, until the
    /// last is done, kernel work besides.
    pub seconds: f64,
}

/// Converts events to cycles.
pub fn model(events: &Events, desc: &Resolved) -> Model {
    let base = events.base_cycles;
    let tlb = events.l2_hit_stalls + events.l1_probe_stalls;
    let (method, tlb, walk) = match desc.options.savable {
        Some(share) => ("savable", tlb, (events.walk_pending as f64 * share).round() as u64),
        None if events.in_time => ("core-in-time", tlb, events.walk_stalls),
        None => ("window", tlb, events.walk_stalls),
    };
    let translation = tlb + walk;
    let serial = events.l2_hit_cycles + events.l1_probe_stalls + events.walk_pending;
    let total = base + translation + events.kernel_cycles + events.host_cycles.unwrap_or(0);
    let elapsed = events.finished.map_or(total, |cycles| cycles + events.kernel_cycles);
    let share = |part: u64| if base + part == 0 { 0.0 } else { part as f64 / (base + part) as f64 };
    Model {
        method,
        cycles: Cycles { base, tlb, walk, kernel: events.kernel_cycles, host: events.host_cycles, total },
        walk_pending: events.walk_pending,
        walk_active: events.walk_active,
        walk_queued: events.walk_queued,
        translation_cycles: translation,
        translation_cycles_serial: serial,
        share_of_time: share(translation),
        share_of_time_serial: share(serial),
        seconds: elapsed as f64 / (desc.machine.core.frequency_mhz * 1e6),
    }
}
