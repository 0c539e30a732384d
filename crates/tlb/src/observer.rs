//! Hooks for fills, evictions and invalidations of TLB entries. `explain`, the microbenchmark and the tests follow
//! single entries with them. Other runs use an observer without effect.

use crate::Entry;

/// Watches what the hierarchy does. [`NoObserver`] compiles to nothing. Arrays are named by their place in the
/// description.
pub trait Observer {
    /// Whether anybody watches: what only feeds an observer is left out when not.
    const ACTIVE: bool;

    /// An entry was written.
    fn filled(&mut self, _array: usize, _entry: &Entry) {}
    /// An entry was replaced by another.
    fn evicted(&mut self, _array: usize, _entry: &Entry) {}
    /// An entry of this set was replaced by another, in an array that holds copies of one entry in several sets.
    fn evicted_from(&mut self, array: usize, _set: u32, entry: &Entry) {
        self.evicted(array, entry);
    }
    /// An entry was dropped because it must not be used any more.
    fn invalidated(&mut self, _array: usize, _entry: &Entry) {}
}

/// No observer.
pub struct NoObserver;

impl Observer for NoObserver {
    const ACTIVE: bool = false;
}
