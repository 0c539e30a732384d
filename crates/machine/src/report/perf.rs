//! The machine's own performance counters, as they would read.

use super::model::Model;
use crate::describe::{Counted, EventDesc, PerfDesc};
use mmulab_tlb::HierarchyCounts;
use mmulab_walker::WalkCounts;
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;

/// The events the description names.
#[derive(Debug, Serialize, JsonSchema)]
pub struct PerfReport {
    /// The events.
    events: Vec<EventReport>,
    /// Where their names come from.
    source: String,
}

/// An event of the performance counters.
#[derive(Debug, Serialize, JsonSchema)]
struct EventReport {
    /// The name, as the source writes it.
    name: String,
    /// Its name for `perf stat`, where it differs.
    #[serde(skip_serializing_if = "Option::is_none")]
    perf: Option<String>,
    /// How many.
    value: u64,
    /// The same per 1000 instructions.
    per_kilo_instruction: f64,
    /// Whether it is modelled, not counted.
    modelled: bool,
}

/// The counts that events are made of.
pub struct PerfInput<'a> {
    pub instructions: u64,
    pub tlb: &'a HierarchyCounts,
    pub walks: &'a WalkCounts,
    pub model: &'a Model,
    /// Cycles that fetches waited for their translations.
    pub fetch_waits: u64,
}

impl PerfInput<'_> {
    fn value(&self, event: &EventDesc) -> u64 {
        let sum = |all: u64, by_size: &BTreeMap<String, u64>| match event.sizes.as_slice() {
            [] => all,
            sizes => sizes.iter().filter_map(|size| by_size.get(size)).sum(),
        };
        let tlb = self.tlb;
        match event.counts {
            Counted::Instructions => self.instructions,
            Counted::UserCycles => self.model.cycles.total - self.model.cycles.kernel,
            Counted::L2iHits => sum(tlb.l2i.hits, &tlb.reloads_i.l2_hits),
            Counted::L2iMisses => sum(tlb.l2i.misses, &tlb.reloads_i.l2_misses),
            Counted::L2dHits => sum(tlb.l2d.hits, &tlb.reloads_d.l2_hits),
            Counted::L2dMisses => sum(tlb.l2d.misses, &tlb.reloads_d.l2_misses),
            Counted::InstructionWalks => self.walks.instruction.walks,
            Counted::InstructionWalkCycles => self.walks.instruction.cycles,
            Counted::InstructionStallCycles => self.fetch_waits,
        }
    }
}

/// The events of `desc`; none if it names none.
pub fn perf(desc: &PerfDesc, seen: &PerfInput) -> Option<PerfReport> {
    let event = |event: &EventDesc| {
        let value = seen.value(event);
        EventReport {
            name: event.name.clone(),
            perf: event.perf.clone(),
            value,
            per_kilo_instruction: value as f64 * 1000.0 / seen.instructions.max(1) as f64,
            modelled: event.counts.is_modelled(),
        }
    };
    (!desc.is_empty())
        .then(|| PerfReport { events: desc.event.iter().map(event).collect(), source: desc.source.clone() })
}
