//! Arrays that cores, or the threads of a core, share: they belong to the one that acts.

use super::{Hierarchy, recent::NO_PAGE};

impl Hierarchy {
    /// The arrays that all cores have in common go to `to`, a hierarchy of the same description, which acts next.
    pub fn hand_over(&mut self, to: &mut Self) {
        // The other core may write the page that this one has just not found.
        self.absent = [NO_PAGE; 2];
        for (own, other) in self.arrays.iter_mut().zip(&mut to.arrays).filter(|(own, _)| own.shared) {
            std::mem::swap(own, other);
        }
    }

    /// The arrays that the threads of a core have in common go to `to`, the hierarchy of the thread that acts next.
    pub fn hand_over_core(&mut self, to: &mut Self) {
        self.flush_all_recent();
        to.flush_all_recent();
        for (own, other) in self.arrays.iter_mut().zip(&mut to.arrays).filter(|(own, _)| !own.per_thread) {
            std::mem::swap(own, other);
        }
    }
}
