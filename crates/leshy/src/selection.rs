//! A selection: bins that do not overlap, hottest first, and whether they meet a goal.

use crate::{
    bins::{Bins, Entry},
    board::{Board, Room},
    goal::{Goal, LeshyError},
};
use mmulab_addr::PageOrder;
use std::collections::BTreeMap;

/// Bins that do not overlap, hottest first.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Selection {
    /// The bins. Those of the smallest size are what the program has anyway.
    pub entries: Vec<Entry>,
    /// The misses they cover, as weighed.
    pub covered: u64,
    /// The misses to cover.
    pub wanted: u64,
    /// All misses.
    pub total: u64,
    /// The smallest size that alone covers the target, where the method looks for one.
    pub initial: Option<PageOrder>,
    /// Entries that are used in place of those that were asked for, where these do not reach the target.
    pub raised: Option<u64>,
}

impl Selection {
    /// `entries`, sorted.
    pub(crate) fn new(bins: &Bins, goal: &Goal, mut entries: Vec<Entry>) -> Self {
        let weight = bins.weight();
        entries.sort_unstable_by_key(|entry| {
            (std::cmp::Reverse(entry.bin.weight(weight)), entry.bin.first_page, entry.order)
        });
        let covered = entries.iter().map(|entry| entry.bin.weight(weight)).sum();
        let total = bins.total();
        Self { entries, covered, wanted: goal.wanted(total), total, initial: None, raised: None }
    }

    /// The selection of the bins that begin at these pages, chosen elsewhere.
    ///
    /// # Errors
    /// Bins that do not exist, overlap, are too many, or cover too little.
    pub fn of(bins: &Bins, goal: &Goal, chosen: &[(PageOrder, u64)]) -> Result<Self, LeshyError> {
        let broken = |what: String| Err(LeshyError::Broken(what));
        let mut board = Board::new(bins, Room::new(bins, goal)?);
        for &(order, page) in chosen {
            let Some(at) = bins.find(order, page) else {
                return broken(format!("no samples lie in {order} at page {page:#x}"));
            };
            if board.room.left(at.0) == 0 {
                return broken(format!("more than {} entries", goal.usable(&goal.budgets[0])));
            }
            if !board.is_free(at) {
                return broken(format!("{order} at page {page:#x} overlaps another"));
            }
            board.choose(at);
        }
        let made = Self::new(bins, goal, board.entries());
        if made.covered < made.wanted {
            return broken(format!("they cover {} of {} misses to be covered", made.covered, made.wanted));
        }
        Ok(made)
    }

    /// What Equation 1 of the paper minimises: the bytes of all entries.
    pub fn bytes(&self) -> u64 {
        self.entries.iter().map(|entry| entry.order.bytes()).sum()
    }

    /// Entries by size.
    pub fn by_size(&self) -> BTreeMap<PageOrder, u64> {
        let mut found = BTreeMap::new();
        self.entries.iter().for_each(|entry| *found.entry(entry.order).or_default() += 1);
        found
    }
}
