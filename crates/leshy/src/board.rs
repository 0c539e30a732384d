//! The board: bins that are chosen, and the bins that overlap none of them and may be chosen beside them.

use crate::{
    bins::{Bins, Entry},
    goal::{Goal, LeshyError},
};
use mmulab_addr::PageOrder;
use std::{collections::BTreeSet, ops::Range};

/// A bin by its level and its index there.
pub(crate) type Place = (usize, usize);

/// TLB entries that are left, by budget.
#[derive(Clone)]
pub(crate) struct Room {
    /// The budget of each level.
    of: Vec<usize>,
    left: Vec<u64>,
}

impl Room {
    /// All entries that `goal` allows.
    pub fn new(bins: &Bins, goal: &Goal) -> Result<Self, LeshyError> {
        goal.check()?;
        let of = goal.budget_of(&bins.sizes())?;
        Ok(Self { of, left: goal.budgets.iter().map(|budget| goal.usable(budget)).collect() })
    }

    /// The entries that are left for a level.
    pub fn left(&self, level: usize) -> u64 {
        self.left[self.of[level]]
    }

    /// Takes entries of a level.
    pub fn take(&mut self, level: usize, count: u64) {
        self.left[self.of[level]] -= count;
    }

    /// Gives entries of a level back.
    pub fn give(&mut self, level: usize, count: u64) {
        self.left[self.of[level]] += count;
    }

    /// A level's budget has `count` entries from now on.
    pub fn raise(&mut self, level: usize, count: u64) {
        self.left[self.of[level]] = count;
    }
}

/// Chosen bins, and those that may still be chosen.
pub(crate) struct Board<'a> {
    pub bins: &'a Bins,
    pub room: Room,
    /// By level and bin: chosen bins that overlap it.
    blocked: Vec<Vec<u32>>,
    /// By level: the ranks of the bins that overlap no chosen bin.
    free: Vec<BTreeSet<u32>>,
    chosen: BTreeSet<Place>,
    covered: u64,
}

impl<'a> Board<'a> {
    /// Nothing is chosen.
    pub fn new(bins: &'a Bins, room: Room) -> Self {
        let levels = bins.levels();
        Self {
            bins,
            room,
            blocked: levels.iter().map(|level| vec![0; level.bins.len()]).collect(),
            free: levels.iter().map(|level| (0..level.bins.len() as u32).collect()).collect(),
            chosen: BTreeSet::new(),
            covered: 0,
        }
    }

    /// The misses covered, as weighed.
    pub fn covered(&self) -> u64 {
        self.covered
    }

    /// The bytes of a page of a level.
    pub fn bytes(&self, level: usize) -> u64 {
        self.order(level).bytes()
    }

    fn order(&self, level: usize) -> PageOrder {
        self.bins.levels()[level].order
    }

    /// The free bins of a level, hottest first.
    pub fn hottest(&self, level: usize) -> impl Iterator<Item = Place> + '_ {
        let by_heat = &self.bins.levels()[level].by_heat;
        self.free[level].iter().map(move |&rank| (level, by_heat[rank as usize] as usize))
    }

    /// Whether a bin overlaps no chosen bin.
    pub fn is_free(&self, at: Place) -> bool {
        self.blocked[at.0][at.1] == 0
    }

    /// Chooses a free bin.
    pub fn choose(&mut self, at: Place) {
        debug_assert_eq!(self.blocked[at.0][at.1], 0);
        self.chosen.insert(at);
        self.room.take(at.0, 1);
        self.covered += self.bins.weight_of(at.0, at.1);
        self.overlapping(at, |blocked, free, rank| {
            if *blocked == 0 {
                free.remove(&rank);
            }
            *blocked += 1;
        });
    }

    /// A chosen bin is chosen no longer.
    pub fn release(&mut self, at: Place) {
        debug_assert!(self.chosen.contains(&at));
        self.chosen.remove(&at);
        self.room.give(at.0, 1);
        self.covered -= self.bins.weight_of(at.0, at.1);
        self.overlapping(at, |blocked, free, rank| {
            *blocked -= 1;
            if *blocked == 0 {
                free.insert(rank);
            }
        });
    }

    /// Does something to every bin that overlaps one, itself among them.
    fn overlapping(&mut self, at: Place, mut each: impl FnMut(&mut u32, &mut BTreeSet<u32>, u32)) {
        let levels = self.bins.levels();
        let mut visit = |level: usize, bins: Range<usize>| {
            for index in bins {
                each(&mut self.blocked[level][index], &mut self.free[level], levels[level].rank[index]);
            }
        };
        let mut inside = at.1..at.1 + 1;
        visit(at.0, inside.clone());
        for level in (0..at.0).rev() {
            inside = levels[level + 1].within(inside);
            visit(level, inside.clone());
        }
        let mut around = at.1;
        for level in at.0 + 1..levels.len() {
            around = levels[level - 1].parent[around] as usize;
            visit(level, around..around + 1);
        }
    }

    /// The places of the chosen bins.
    pub fn chosen(&self) -> impl Iterator<Item = Place> + '_ {
        self.chosen.iter().copied()
    }

    /// The chosen bins.
    pub fn entries(&self) -> Vec<Entry> {
        self.chosen
            .iter()
            .map(|&(level, index)| Entry { order: self.order(level), bin: *self.bins.bin(level, index) })
            .collect()
    }
}
