//! When the most recent pages are forgotten: their hits go to the counts first.

use super::{Hierarchy, recent::NO_PAGE};

impl Hierarchy {
    /// Adds the hits of a side's most recent page to the counts, and forgets which page that was.
    #[inline(always)]
    pub(super) fn flush_recent(&mut self, side: usize) {
        let recent = &mut self.recent[side];
        recent.page = NO_PAGE;
        let run = std::mem::take(&mut recent.run);
        if run != 0 {
            self.arrays[usize::from(recent.array)].hits[usize::from(recent.size)] += run;
            self.counts[0][side].accesses += run;
            self.counts[0][side].hits += run;
        }
    }

    /// Something is about to be used or written on a side.
    #[inline(always)]
    pub(super) fn flush_recent_for(&mut self, side: usize) {
        self.flush_recent(side);
        if self.levels.shared_first {
            self.flush_recent(1 - side);
        }
    }

    /// Something changed: the most recent pages must be looked up again.
    pub(super) fn flush_all_recent(&mut self) {
        self.flush_recent(0);
        self.flush_recent(1);
    }
}
