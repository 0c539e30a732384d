//! Sums of the counts of hierarchies.

use super::{Hierarchy, SECOND_LEVEL, WALK};
use crate::{
    ArrayCounts, CoalescingCounts, HierarchyCounts, MirrorCounts, NO_L1_ARRAY, Reloads, SideCounts, array::Array,
    counts::PredictorCounts,
};
use mmulab_addr::Side;
use std::collections::BTreeMap;

impl Hierarchy {
    /// The counts so far.
    pub fn counts(&mut self) -> HierarchyCounts {
        HierarchyCounts::of(&mut [self])
    }
}

impl HierarchyCounts {
    /// Counts of hierarchies of one description. Shared arrays keep their counts when they move, but lookups are
    /// counted where they were made. So only the sums over all hierarchies agree.
    pub fn of(all: &mut [&mut Hierarchy]) -> Self {
        all.iter_mut().for_each(|tlbs| tlbs.flush_all_recent());
        let all: Vec<&Hierarchy> = all.iter().map(|tlbs| &**tlbs).collect();
        let side = |level: usize, side: Side| {
            all.iter().fold(SideCounts::default(), |mut sum, tlbs| {
                sum.add(&tlbs.counts[level][side as usize]);
                sum
            })
        };
        let arrays = all.first().map_or(0, |tlbs| tlbs.arrays.len());
        let array = |index: usize| {
            let copies: Vec<&Array> = all.iter().map(|tlbs| &tlbs.arrays[index]).collect();
            let sides = [Side::Instruction, Side::Data].into_iter().filter(|&side| copies[0].placement.serves(side));
            let accesses = sides.map(|s| side(usize::from(copies[0].level) - 1, s).accesses).sum();
            let undone = all.iter().map(|tlbs| tlbs.undone(index)).sum();
            ArrayCounts { undone, ..array(&copies, accesses) }
        };
        Self {
            l1i: side(0, Side::Instruction),
            l1d: side(0, Side::Data),
            l2i: side(1, Side::Instruction),
            l2d: side(1, Side::Data),
            reloads_i: reloads(&all, Side::Instruction),
            reloads_d: reloads(&all, Side::Data),
            arrays: (0..arrays).map(array).collect(),
        }
    }
}

/// Counts of an array that `copies` hierarchies have, for `accesses` lookups.
fn array(copies: &[&Array], accesses: u64) -> ArrayCounts {
    let first = copies[0];
    let hits: u64 = copies.iter().flat_map(|a| a.hits).sum();
    // Arrays of a level are searched together, so a lookup that one answers is a miss of its neighbours.
    let misses = accesses - hits;
    let traffic = |n: usize| copies.iter().map(|a| a.traffic()[n]).sum();
    let of_class = |class: usize| copies.iter().map(|a| a.hits[class]).sum();
    ArrayCounts {
        name: first.name.clone(),
        level: first.level,
        side: format!("{:?}", first.placement).to_lowercase(),
        accesses,
        hits,
        misses,
        fills: traffic(0),
        evictions: traffic(1),
        invalidations: traffic(2),
        undone: 0,
        hits_by_size: first.classes.iter().cloned().zip((0..).map(of_class)).collect(),
        coalescing: total(copies.iter().filter_map(|a| a.coalescing()), CoalescingCounts::add),
        mirroring: total(copies.iter().filter_map(|a| a.mirroring()), MirrorCounts::add),
        probes: (0..).zip(copies).filter_map(|(n, a)| a.probes(if n == 0 { misses } else { 0 })).reduce(|a, b| a + b),
        predictor: total(copies.iter().filter_map(|a| a.predicted()), PredictorCounts::add),
    }
}

/// Sum of counts that only some designs have; `None` if no design has them.
fn total<T>(all: impl Iterator<Item = T>, add: impl Fn(&mut T, &T)) -> Option<T> {
    all.reduce(|mut sum, each| {
        add(&mut sum, &each);
        sum
    })
}

fn reloads(all: &[&Hierarchy], side: Side) -> Reloads {
    let from = |origin: usize| {
        let mut by_size = BTreeMap::new();
        for a in all.iter().flat_map(|tlbs| &tlbs.arrays).filter(|a| a.level == 1 && a.placement.serves(side)) {
            for class in 0..a.classes.len() {
                *by_size.entry(a.reload_name(class).to_owned()).or_default() += a.reloads[side as usize][origin][class];
            }
        }
        let no_l1_array: u64 = all.iter().map(|tlbs| tlbs.no_l1_array[side as usize][origin]).sum();
        if no_l1_array != 0 {
            by_size.insert(NO_L1_ARRAY.to_owned(), no_l1_array);
        }
        by_size
    };
    Reloads { l2_hits: from(SECOND_LEVEL), l2_misses: from(WALK) }
}
