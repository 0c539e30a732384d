//! A hierarchy whose first level is another's: it is told which references the first level did not finish, and goes on
//! from there. In the end the counts of that first level become its own.

use super::{Hierarchy, Query, recent::NO_PAGE};
use crate::{HierarchyCounts, Observer, Outcome};
use mmulab_addr::{Access, Asid, VirtAddr};

/// Why the first level did not finish a reference.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unfinished {
    /// It has no entry for the page.
    Missed,
    /// Its entry does not say that the page is dirty, and the reference is a store.
    NeedsDirty,
    /// Its entry does not allow the reference.
    Denied,
}

impl Unfinished {
    /// Of what a search found; `None` for a hit.
    pub fn of(outcome: &Outcome) -> Option<Self> {
        match outcome {
            Outcome::L1 { .. } => None,
            Outcome::NeedDirty { level: 1, .. } => Some(Self::NeedsDirty),
            Outcome::Denied { level: 1, .. } => Some(Self::Denied),
            Outcome::L2 { .. } | Outcome::Miss { .. } | Outcome::NeedDirty { .. } | Outcome::Denied { .. } => {
                Some(Self::Missed)
            }
        }
    }
}

impl Hierarchy {
    /// Looks up a reference that the first level, another hierarchy's, did not finish. `wait`: what that hierarchy said
    /// of it ([`Self::wait`]).
    pub fn search_below<O: Observer>(
        &mut self,
        asid: Asid,
        va: VirtAddr,
        access: Access,
        (why, wait): (Unfinished, u32),
        obs: &mut O,
    ) -> Outcome {
        let q = Query::new(asid, va, access);
        self.missed[q.side] = NO_PAGE;
        if let Some(in_flight) = &mut self.in_flight {
            in_flight.told(wait);
        }
        match why {
            Unfinished::Missed => self.search_second::<false, O>(q, obs),
            Unfinished::NeedsDirty => Outcome::NeedDirty { level: 1, cycles: 0 },
            Unfinished::Denied => Outcome::Denied { level: 1, cycles: 0 },
        }
    }

    /// Cycles that a fetch waits, which has just brought an entry, if the entry comes from the second level: what it
    /// replaces is held.
    pub fn wait(&self) -> u32 {
        self.in_flight.as_ref().map_or(0, |in_flight| in_flight.wait())
    }
}

impl HierarchyCounts {
    /// Takes the counts of the first level from `first`, a hierarchy that was searched for this one. What misses
    /// brought, and entries brought and dropped by one reference, differ with the second level and are this one's own.
    pub fn take_first_level(&mut self, first: &Self) {
        (self.l1i, self.l1d) = (first.l1i, first.l1d);
        let of_first = first.arrays.iter().filter(|array| array.level == 1);
        for (own, other) in self.arrays.iter_mut().filter(|array| array.level == 1).zip(of_first) {
            let (fills, undone) = (own.fills, own.undone);
            *own = other.clone();
            own.invalidations = other.invalidations - other.undone + undone;
            (own.fills, own.undone) = (fills, undone);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hit_of_the_second_level_was_missed_by_the_first() {
        assert_eq!(Unfinished::of(&Outcome::Miss { cycles: 9 }), Some(Unfinished::Missed));
        assert_eq!(Unfinished::of(&Outcome::NeedDirty { level: 2, cycles: 9 }), Some(Unfinished::Missed));
        assert_eq!(Unfinished::of(&Outcome::NeedDirty { level: 1, cycles: 0 }), Some(Unfinished::NeedsDirty));
        assert_eq!(Unfinished::of(&Outcome::Denied { level: 1, cycles: 0 }), Some(Unfinished::Denied));
    }
}
