//! Fills of all sets, noted once: a set takes in what it has missed when it is next asked, and is then what it would
//! have been had each been written to it at once. For nothing that happens in a set depends on any other, unless the
//! victims of all are drawn from one generator.

use super::bundle::{Bundle, tagged};
use mmulab_sets::Replacement;

/// Fills noted before all sets have to take them in, where each matters.
const MOST: usize = 64;

/// The fills that sets have yet to take in.
#[derive(Clone)]
pub struct Owed {
    /// The last fills, number `n` at its remainder: the bundle, its first page as searches know it, and how many
    /// follow.
    log: Vec<(Bundle, u64, u64)>,
    /// Fills so far.
    noted: u64,
    /// By set: how many it has taken in.
    taken: Vec<u64>,
    /// How many all had taken in when last all did.
    settled: u64,
    /// Where each fill evicts: the ways, and how many times as many fills make it forget what came before.
    forgets: Option<(u64, u64)>,
}

impl Owed {
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
            noted: 0,
            taken: vec![0; sets],
            settled: 0,
            forgets: evicting.then_some((ways as u64, rounds as u64)),
        })
    }

    /// Whether all sets have to take in what there is before more can be noted.
    #[inline(always)]
    pub fn is_full(&self) -> bool {
        self.forgets.is_none() && self.noted - self.settled == self.log.len() as u64
    }

    /// Notes that `new` has been written to `set`, and must be to all others.
    #[inline(always)]
    pub fn note(&mut self, new: Bundle, set: usize) {
        let at = self.noted as usize & (self.log.len() - 1);
        self.log[at] = (new, tagged(new.tag, new.base), new.span());
        self.noted += 1;
        self.taken[set] = self.noted;
    }

    /// Whether a set has fills to take in.
    #[inline(always)]
    pub fn is_behind(&self, set: usize) -> bool {
        self.taken[set] != self.noted
    }

    /// How many fills a set has to take in.
    #[inline(always)]
    pub fn behind(&self, set: usize) -> u64 {
        self.noted - self.taken[set]
    }

    /// Whether every fill takes a way of its own.
    #[inline(always)]
    pub fn all_evict(&self) -> bool {
        self.forgets.is_some()
    }

    /// Whether any may have.
    #[inline(always)]
    pub fn is_any_behind(&self) -> bool {
        self.settled != self.noted
    }

    /// All sets have taken in all.
    pub fn settle(&mut self) {
        self.settled = self.noted;
    }

    /// The numbers of the fills that a set takes in now, and how many before them leave no trace: each would evict, and
    /// be evicted.
    #[inline(always)]
    pub fn take(&mut self, set: usize) -> (std::ops::Range<u64>, u64) {
        let from = std::mem::replace(&mut self.taken[set], self.noted);
        let traceless = match self.forgets {
            Some((ways, rounds)) if self.noted - from > rounds * ways => ((self.noted - from) / ways - rounds) * ways,
            _ => 0,
        };
        (from + traceless..self.noted, traceless)
    }

    /// Fill number `n`.
    #[inline(always)]
    pub fn fill(&self, n: u64) -> &(Bundle, u64, u64) {
        &self.log[n as usize & (self.log.len() - 1)]
    }
}
