//! Walk slots: the page walkers of one core (or of all), and how many walks are in progress at once. Designs differ in
//! their number, so waiting for a walker is counted apart from walking.
//!
//! ```text
//! cycle     0                   50  60              100 110             150
//! walker 0  |------------------ A ------------------|-C-|
//! walker 1                      |------------------ B ------------------|
//! C arrives at 60: queued 40, pending 100 + 100 + 10 = 210, active 150
//! ```
//!
//! A walker may need a while after a walk before it begins the next one. Nobody waits for that but who waits for a
//! walker, and it counts as no walk.
//!
//! Most engines ask for walks in the order in which they begin. A core in time does not: a walk that waits for a load
//! is asked for before an earlier one of a later instruction. So its walkers have a calendar.

use mmulab_calendar::Calendar;

/// When each walker is free again, and the walk cycles counted so far.
///
/// `pending` and `active` are what Intel's DTLB_LOAD_MISSES.WALK_PENDING and WALK_ACTIVE count: the first adds one per
/// walk and cycle, the second at most one per cycle (paper 2, section II).
#[derive(Clone, Debug)]
pub struct WalkSlots {
    walkers: Walkers,
    /// Cycles from the end of a walk to the next one of the same walker.
    turnaround: u64,
    pending: u64,
    active: u64,
    /// Cycles that walks waited for a walker.
    queued: u64,
    /// Until when some walk has been counted as active.
    covered: u64,
}

/// When walkers are free.
#[derive(Clone, Debug)]
enum Walkers {
    /// When each is free again.
    InOrder(Vec<u64>),
    AnyOrder(Calendar),
}

impl WalkSlots {
    /// So many walkers, all free, and cycles from the end of a walk to the next one of the same walker. Walks are asked
    /// for in the order in which they begin.
    pub fn in_order(count: u8, turnaround: u32) -> Self {
        Self::new(Walkers::InOrder(vec![0; usize::from(count.max(1))]), turnaround)
    }

    /// The same for walks that are asked for in any order.
    pub fn any_order(count: u8, turnaround: u32) -> Self {
        Self::new(Walkers::AnyOrder(Calendar::new(count.into())), turnaround)
    }

    fn new(walkers: Walkers, turnaround: u32) -> Self {
        Self { walkers, turnaround: turnaround.into(), pending: 0, active: 0, queued: 0, covered: 0 }
    }

    /// A walk of `cycles` wanted at `now`: it begins when a walker is free. Returns when it ends.
    #[inline]
    pub fn schedule(&mut self, now: u64, cycles: u32) -> u64 {
        let busy = u64::from(cycles) + self.turnaround;
        let start = match &mut self.walkers {
            Walkers::InOrder(free) => {
                // Values first, then where it is: both are vector instructions where there are many walkers.
                let earliest = free.iter().fold(u64::MAX, |earliest, &free| earliest.min(free));
                let start = now.max(earliest);
                if let Some(walker) = free.iter_mut().find(|free| **free == earliest) {
                    *walker = start + busy;
                }
                start
            }
            Walkers::AnyOrder(calendar) => calendar.take(now, busy),
        };
        let end = start + u64::from(cycles);
        self.queued += start - now;
        self.pending += end - start;
        self.active += end.saturating_sub(self.covered.max(start));
        self.covered = self.covered.max(end);
        end
    }

    /// Another clock counts from here on, which shows `after` where the one so far shows `before`.
    pub fn rebase(&mut self, before: u64, after: u64) {
        let rebased = |time: u64| time.saturating_sub(before) + after;
        match &mut self.walkers {
            Walkers::InOrder(free) => free.iter_mut().for_each(|time| *time = rebased(*time)),
            Walkers::AnyOrder(calendar) => calendar.rebase(before, after),
        }
        self.covered = rebased(self.covered);
    }

    /// Cycles of walks, each walk counted.
    pub fn pending(&self) -> u64 {
        self.pending
    }

    /// Cycles that walks waited until a walker was free.
    pub fn queued(&self) -> u64 {
        self.queued
    }

    /// Cycles with at least one walk.
    pub fn active(&self) -> u64 {
        self.active
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_walkers_overlap_and_a_third_walk_waits() {
        let mut s = WalkSlots::in_order(2, 0);
        assert_eq!(s.schedule(0, 100), 100);
        assert_eq!(s.schedule(50, 100), 150);
        assert_eq!((s.pending(), s.active()), (200, 150));
        // Both walkers are busy until 100.
        assert_eq!(s.schedule(60, 10), 110);
        assert_eq!((s.pending(), s.active(), s.queued()), (210, 150, 40));
        assert_eq!(s.schedule(1000, 5), 1005);
        assert_eq!(s.active(), 155);
    }

    #[test]
    fn a_walk_that_begins_before_one_that_was_asked_for_first_has_the_walker() {
        let [mut in_order, mut any_order] = [WalkSlots::in_order(1, 5), WalkSlots::any_order(1, 5)];
        assert_eq!([(300, 50), (0, 100), (0, 10)].map(|(now, cycles)| in_order.schedule(now, cycles)), [350, 455, 470]);
        assert_eq!(
            [(300, 50), (0, 100), (0, 10)].map(|(now, cycles)| any_order.schedule(now, cycles)),
            [350, 100, 115]
        );
        assert_eq!((any_order.pending(), any_order.queued()), (160, 105));
        any_order.rebase(340, 0);
        assert_eq!(any_order.schedule(0, 10), 25);
    }

    #[test]
    fn walks_go_on_under_another_clock() {
        let mut s = WalkSlots::in_order(1, 0);
        assert_eq!(s.schedule(1000, 100), 1100);
        // Sixty cycles of it are left, by either clock.
        s.rebase(1040, 7);
        assert_eq!(s.schedule(7, 10), 77);
        assert_eq!((s.pending(), s.active(), s.queued()), (110, 110, 60));
        // What ended long ago ended by now.
        s.rebase(5000, 2);
        assert_eq!(s.schedule(2, 10), 12);
    }

    #[test]
    fn one_walker_never_overlaps() {
        let mut s = WalkSlots::in_order(1, 0);
        s.schedule(0, 100);
        assert_eq!(s.schedule(0, 100), 200);
        assert_eq!(s.pending(), s.active());
    }

    #[test]
    fn a_walker_turns_around_before_the_next_walk() {
        let mut s = WalkSlots::in_order(1, 30);
        assert_eq!(s.schedule(0, 100), 100);
        // The walk itself ends in time, and so does one that is wanted long after.
        assert_eq!([s.schedule(110, 50), s.schedule(300, 50)], [180, 350]);
        assert_eq!((s.pending(), s.active(), s.queued()), (200, 200, 20));
    }
}
