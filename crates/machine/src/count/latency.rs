//! How long page faults took, by what they needed and by the size of page that they mapped. For every time that
//! occurred, it counts how often, and keeps the parts of the time.
//!
//! A fault's time is what the machine's cost table charges for the kernel's work in it. The distribution is exact: the
//! times of a run are few, because they are sums of few prices.

use crate::describe::{ALLOCATOR_COSTS, CostsDesc};
use mmulab_addr::PageOrder;
use mmulab_kernel::{Effects, Fault, FaultKind, Name, WorkKind};
use std::collections::BTreeMap;

/// The name of what flushes took to reach other CPUs, beside the names of prices.
const SHOOTDOWN: &str = "shootdown";

/// Faults of one kind that mapped one size.
#[derive(Clone, Debug)]
pub struct Faults {
    /// By the cycles that a fault took: the number of such faults.
    pub times: BTreeMap<u64, u64>,
    /// Cycles of each kind of work, and of the allocator's steps behind it.
    parts: Vec<f64>,
}

impl Default for Faults {
    fn default() -> Self {
        Self { times: BTreeMap::new(), parts: vec![0.0; WorkKind::ALL.len() + ALLOCATOR_COSTS.len() + 1] }
    }
}

impl Faults {
    /// How many.
    pub fn count(&self) -> u64 {
        self.times.values().sum()
    }

    /// Cycles of all of them, by the name of the price, for what cost anything.
    pub fn parts(&self) -> impl Iterator<Item = (&'static str, f64)> {
        let names = WorkKind::ALL.iter().map(|kind| kind.name()).chain(ALLOCATOR_COSTS).chain([SHOOTDOWN]);
        names.zip(self.parts.iter().copied()).filter(|&(_, cycles)| cycles > 0.0)
    }

    /// The time that the share `share` of the faults did not exceed; 0 if there were none.
    pub fn quantile(&self, share: f64) -> u64 {
        // The number of the fault, from 1, in the order of their times.
        let wanted = ((self.count() as f64 * share).ceil() as u64).max(1);
        let mut seen = 0;
        let reached = self.times.iter().find(|&(_, &faults)| {
            seen += faults;
            seen >= wanted
        });
        reached.map_or(0, |(&cycles, _)| cycles)
    }
}

/// The times of page faults that the programs' kernel served.
#[derive(Clone, Debug, Default)]
pub struct FaultLatency {
    rows: BTreeMap<(FaultKind, PageOrder), Faults>,
}

impl FaultLatency {
    /// Counts a fault that the kernel served with this work; its flushes took `reach` cycles to reach all CPUs.
    #[inline(never)]
    pub fn add(&mut self, fault: &Fault, effects: &Effects, costs: &CostsDesc, reach: f64) {
        let faults = self.rows.entry((fault.kind, fault.order)).or_default();
        for work in &effects.work {
            faults.parts[work.kind.index()] += costs.cycles(work.kind) * work.count as f64;
        }
        let (_, steps) = faults.parts.split_at_mut(WorkKind::ALL.len());
        steps.iter_mut().zip(costs.allocator(&effects.allocator)).for_each(|(sum, cycles)| *sum += cycles);
        if let Some(last) = faults.parts.last_mut() {
            *last += reach;
        }
        *faults.times.entry((costs.of(effects) + reach).round() as u64).or_default() += 1;
    }

    /// All, by kind and then by size.
    pub fn rows(&self) -> impl Iterator<Item = (FaultKind, PageOrder, &Faults)> {
        self.rows.iter().map(|(&(kind, size), faults)| (kind, size, faults))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mmulab_kernel::Work;

    fn served(kind: FaultKind, order: PageOrder, bytes: u64, into: &mut FaultLatency) {
        let costs = CostsDesc { fault_entry: 1000.0, zero_bytes: 0.25, block_step: 30.0, ..CostsDesc::default() };
        let mut effects = Effects::default();
        effects.work.push(Work { kind: WorkKind::FaultEntry, count: 1 });
        effects.work.push(Work { kind: WorkKind::ZeroBytes, count: bytes });
        effects.allocator.splits = 2;
        let fault = Fault { kind, order, stack_growth: false, read_pages: 0, around_pages: 0, zeroed_ahead: false };
        into.add(&fault, &effects, &costs, 0.0);
    }

    #[test]
    fn times_are_told_apart_by_kind_and_size_and_add_up_to_their_parts() {
        let mut found = FaultLatency::default();
        for bytes in [4096, 4096, 8192, 4096] {
            served(FaultKind::Anon, PageOrder::P4K, bytes, &mut found);
        }
        served(FaultKind::Anon, PageOrder::P2M, 2 << 20, &mut found);
        served(FaultKind::Copy, PageOrder::P4K, 0, &mut found);
        let rows: Vec<_> = found.rows().map(|(kind, size, faults)| (kind, size, faults.count())).collect();
        let anon = FaultKind::Anon;
        assert_eq!(rows, [(anon, PageOrder::P4K, 4), (anon, PageOrder::P2M, 1), (FaultKind::Copy, PageOrder::P4K, 1)]);
        let (.., small) = found.rows().next().expect("a row");
        assert_eq!(small.times, BTreeMap::from([(2084, 3), (3108, 1)]));
        assert_eq!([0.0, 0.5, 0.75, 0.76, 1.0].map(|share| small.quantile(share)), [2084, 2084, 2084, 3108, 3108]);
        let parts: Vec<_> = small.parts().collect();
        assert_eq!(parts, [("fault_entry", 4000.0), ("zero_bytes", 5120.0), ("block_step", 240.0)]);
        let whole: u64 = small.times.iter().map(|(cycles, faults)| cycles * faults).sum();
        assert_eq!(parts.iter().map(|part| part.1).sum::<f64>(), whole as f64);
    }
}
