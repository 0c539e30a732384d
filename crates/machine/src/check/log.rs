//! What happened during one item of the trace, noted by an observer beside the user's.

use crate::observe::{Observation, WalkEnd, Watch};
use mmulab_addr::{PhysAddr, VirtAddr};
use mmulab_kernel::Note;
use mmulab_pagetable::Invalidate;
use mmulab_tlb::Entry;
use mmulab_walker::{NestedStep, StepRecord};

/// What happened during one item.
#[derive(Default)]
pub(super) struct Log {
    pub filled: Vec<(usize, Entry)>,
    pub translated: Option<(VirtAddr, PhysAddr)>,
    /// The kernel did something, or the program dropped a translation.
    pub acted: bool,
}

impl Log {
    pub fn clear(&mut self) {
        self.filled.clear();
        self.translated = None;
        self.acted = false;
    }
}

/// The log, and another observer.
pub(super) struct Beside<'a>(pub &'a mut Log, pub Option<&'a mut dyn Watch>);

impl Beside<'_> {
    fn other(&mut self, tell: impl FnOnce(&mut dyn Watch)) {
        if let Some(watch) = &mut self.1 {
            tell(&mut **watch);
        }
    }
}

impl Watch for Beside<'_> {
    fn reference(&mut self, seen: &Observation) {
        self.0.translated = seen.seen.pa.map(|pa| (seen.va, pa));
        self.other(|watch| watch.reference(seen));
    }

    fn filled(&mut self, array: usize, entry: &Entry) {
        self.0.filled.push((array, *entry));
        self.other(|watch| watch.filled(array, entry));
    }

    fn evicted(&mut self, array: usize, entry: &Entry) {
        self.other(|watch| watch.evicted(array, entry));
    }

    fn evicted_from(&mut self, array: usize, set: u32, entry: &Entry) {
        self.other(|watch| watch.evicted_from(array, set, entry));
    }

    fn invalidated(&mut self, array: usize, entry: &Entry) {
        self.other(|watch| watch.invalidated(array, entry));
    }

    fn happened(&mut self, told: &[Note], invalidations: &[Invalidate]) {
        self.0.acted = true;
        if !invalidations.is_empty() {
            // A daemon that wakes at the end of a reference may move its page: the translation was right before. One
            // that the kernel flushed before the reference had it is reported after this.
            self.0.translated = None;
        }
        self.other(|watch| watch.happened(told, invalidations));
    }

    fn invalidated_by_program(&mut self, what: &Invalidate) {
        self.0.acted = true;
        self.other(|watch| watch.invalidated_by_program(what));
    }

    fn walked(&mut self, steps: &[StepRecord]) {
        self.other(|watch| watch.walked(steps));
    }

    fn walked_nested(&mut self, steps: &[NestedStep]) {
        self.other(|watch| watch.walked_nested(steps));
    }

    fn walk_ended(&mut self, ended: &WalkEnd) {
        self.other(|watch| watch.walk_ended(ended));
    }

    fn happened_in_host(&mut self, told: &[Note], invalidations: &[Invalidate]) {
        self.0.acted |= !invalidations.is_empty();
        self.other(|watch| watch.happened_in_host(told, invalidations));
    }

    fn trapped_table_writes(&mut self, count: u64) {
        self.other(|watch| watch.trapped_table_writes(count));
    }
}
