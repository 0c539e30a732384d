//! Observers of a run. Users of the engine implement [`Watch`]. The engine itself is generic over [`Observe`], so that
//! a run without an observer compiles to code that knows nothing of observers.

use super::observation::{Observation, WalkEnd};
use mmulab_kernel::Note;
use mmulab_pagetable::Invalidate;
use mmulab_tlb::{Entry, Observer};
use mmulab_walker::{NestedStep, StepRecord};

/// Watches a run. Every method does nothing by default.
pub trait Watch {
    /// A reference is over.
    fn reference(&mut self, _seen: &Observation) {}

    /// An entry was written into TLB array `array`.
    fn filled(&mut self, _array: usize, _entry: &Entry) {}

    /// An entry of an array was replaced by another.
    fn evicted(&mut self, _array: usize, _entry: &Entry) {}

    /// An entry of this set was replaced by another, in an array that holds copies of one entry in several sets.
    fn evicted_from(&mut self, array: usize, _set: u32, entry: &Entry) {
        self.evicted(array, entry);
    }

    /// An entry was dropped because it must not be used any more.
    fn invalidated(&mut self, _array: usize, _entry: &Entry) {}

    /// The kernel did this, and asked for these invalidations.
    fn happened(&mut self, _told: &[Note], _invalidations: &[Invalidate]) {}

    /// The program itself dropped a translation.
    fn invalidated_by_program(&mut self, _what: &Invalidate) {}

    /// The walker read these entries.
    fn walked(&mut self, _steps: &[StepRecord]) {}

    /// A two-dimensional walk read these entries.
    fn walked_nested(&mut self, _steps: &[NestedStep]) {}

    /// The walk whose entries were given last ended so.
    fn walk_ended(&mut self, _ended: &WalkEnd) {}

    /// The host's kernel did this, and asked for these invalidations.
    fn happened_in_host(&mut self, _told: &[Note], _invalidations: &[Invalidate]) {}

    /// A guest's kernel wrote this number of entries of its tables, each a VM exit.
    fn trapped_table_writes(&mut self, _count: u64) {}

    /// Whether the observer needs no more: the run ends.
    fn is_over(&self) -> bool {
        false
    }
}

/// What the engine is generic over: an observer, or none.
pub(crate) trait Observe: Observer {
    /// The observer, if there is one.
    fn watch(&mut self) -> Option<&mut dyn Watch>;
}

/// No observer.
pub(crate) struct NoObserver;

impl Observer for NoObserver {
    const ACTIVE: bool = false;
}

impl Observe for NoObserver {
    #[inline(always)]
    fn watch(&mut self) -> Option<&mut dyn Watch> {
        None
    }
}

/// An observer. One type for all of them, so that the engine is compiled once for observed runs.
pub(crate) struct Watched<'a>(pub &'a mut dyn Watch);

impl Observer for Watched<'_> {
    const ACTIVE: bool = true;

    fn filled(&mut self, array: usize, entry: &Entry) {
        self.0.filled(array, entry);
    }

    fn evicted(&mut self, array: usize, entry: &Entry) {
        self.0.evicted(array, entry);
    }

    fn evicted_from(&mut self, array: usize, set: u32, entry: &Entry) {
        self.0.evicted_from(array, set, entry);
    }

    fn invalidated(&mut self, array: usize, entry: &Entry) {
        self.0.invalidated(array, entry);
    }
}

impl Observe for Watched<'_> {
    fn watch(&mut self) -> Option<&mut dyn Watch> {
        Some(&mut *self.0)
    }
}
