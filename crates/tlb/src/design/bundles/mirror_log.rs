//! Deferred mirror writes: a fill that must reach every set is logged once, and each set applies the fills that it has
//! not seen when it is next probed. Its contents are then the same as if every fill had been written to it at once,
//! because nothing in a set depends on another set, unless the victims of all sets are drawn from one generator.

use super::bundle::{Bundle, tagged};
use mmulab_assoc::Replacement;

/// Fills logged before all sets have to apply them, where each matters.
const MOST: usize = 64;

/// The fills that sets have yet to apply.
#[derive(Clone)]
pub struct MirrorLog {
    /// The last fills, number `n` at its remainder: the bundle, its first page as searches know it, and how many
    /// follow.
    log: Vec<(Bundle, u64, u64)>,
    /// Fills so far.
    logged: u64,
    /// By set: how many it has applied.
    applied: Vec<u64>,
    /// How many had been logged when last all sets had applied all.
    applied_by_all: u64,
    /// Where each fill evicts: the ways, and how many times as many fills make it forget what came before.
    forgets: Option<(u64, u64)>,
}

impl MirrorLog {
    /// Nothing, for `sets` of `ways`; `evicting` if every fill takes a way of its own. `None` for sets that cannot
    /// wait.
    pub fn new(sets: usize, ways: usize, replacement: Replacement, evicting: bool) -> Option<Self> {
        // Fills in a row go to the empty ways, and then round and round through all, in the order in which they were
        // last used: as many as there are ways leave nothing else, and as many more leave the same order. A tree takes
        // the same turn, but the empty ways are none of its choice: the round begins behind them.
        let rounds = match replacement {
            Replacement::Lru => 1,
            Replacement::TreePlru => 2,
            Replacement::Random => return None,
        };
        let kept = if evicting { (rounds + 1) * ways } else { MOST };
        Some(Self {
            log: vec![(Bundle::default(), 0, 0); kept.next_power_of_two()],
            logged: 0,
            applied: vec![0; sets],
            applied_by_all: 0,
            forgets: evicting.then_some((ways as u64, rounds as u64)),
        })
    }

    /// Whether all sets must apply the log before more can be appended.
    #[inline(always)]
    pub fn is_full(&self) -> bool {
        self.forgets.is_none() && self.logged - self.applied_by_all == self.log.len() as u64
    }

    /// Logs that `new` has been written to `set`, and must be written to all others.
    #[inline(always)]
    pub fn append(&mut self, new: Bundle, set: usize) {
        let at = self.logged as usize & (self.log.len() - 1);
        self.log[at] = (new, tagged(new.tag, new.base), new.span());
        self.logged += 1;
        self.applied[set] = self.logged;
    }

    /// Whether a set has fills to apply.
    #[inline(always)]
    pub fn is_behind(&self, set: usize) -> bool {
        self.applied[set] != self.logged
    }

    /// How many fills a set has to apply.
    #[inline(always)]
    pub fn behind(&self, set: usize) -> u64 {
        self.logged - self.applied[set]
    }

    /// Whether every fill takes a way of its own.
    #[inline(always)]
    pub fn all_evict(&self) -> bool {
        self.forgets.is_some()
    }

    /// Whether any may have.
    #[inline(always)]
    pub fn is_any_behind(&self) -> bool {
        self.applied_by_all != self.logged
    }

    /// All sets have applied all.
    pub fn applied_by_all(&mut self) {
        self.applied_by_all = self.logged;
    }

    /// The numbers of the fills that a set applies now, and how many before them leave no trace: each would evict, and
    /// be evicted.
    #[inline(always)]
    pub fn take(&mut self, set: usize) -> (std::ops::Range<u64>, u64) {
        let from = std::mem::replace(&mut self.applied[set], self.logged);
        let traceless = match self.forgets {
            Some((ways, rounds)) if self.logged - from > rounds * ways => ((self.logged - from) / ways - rounds) * ways,
            _ => 0,
        };
        (from + traceless..self.logged, traceless)
    }

    /// Fill number `n`.
    #[inline(always)]
    pub fn fill(&self, n: u64) -> &(Bundle, u64, u64) {
        &self.log[n as usize & (self.log.len() - 1)]
    }
}
