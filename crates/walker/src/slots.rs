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

/// When each walker is free again, and the walk cycles counted so far.
///
/// `pending` and `active` are what Intel's DTLB_LOAD_MISSES.WALK_PENDING and WALK_ACTIVE count: the first adds one per
/// walk and cycle, the second at most one per cycle (paper 2, section II).
#[derive(Clone, Debug)]
pub struct WalkSlots {
    /// When each walker is free again.
    free: Vec<u64>,
    /// Cycles from the end of a walk to the next one of the same walker.
    turnaround: u64,
    pending: u64,
    active: u64,
    /// Cycles that walks waited for a walker.
    queued: u64,
    /// Until when some walk has been counted as active.
    covered: u64,
}

impl WalkSlots {
    /// So many walkers, all free, and cycles from the end of a walk to the next one of the same walker.
    pub fn new(count: u8, turnaround: u32) -> Self {
        let free = vec![0; usize::from(count.max(1))];
        Self { free, turnaround: turnaround.into(), pending: 0, active: 0, queued: 0, covered: 0 }
    }

    /// A walk of `cycles` wanted at `now`: it begins when a walker is free. Returns when it ends.
    #[inline]
    pub fn schedule(&mut self, now: u64, cycles: u32) -> u64 {
        // Values first, then where it is: both are vector instructions where there are many walkers.
        let earliest = self.free.iter().fold(u64::MAX, |earliest, &free| earliest.min(free));
        let start = now.max(earliest);
        let end = start + u64::from(cycles);
        if let Some(walker) = self.free.iter_mut().find(|free| **free == earliest) {
            *walker = end + self.turnaround;
        }
        self.queued += start - now;
        self.pending += end - start;
        self.active += end.saturating_sub(self.covered.max(start));
        self.covered = self.covered.max(end);
        end
    }

    /// Another clock counts from here on, which shows `after` where the one so far shows `before`.
    pub fn rebase(&mut self, before: u64, after: u64) {
        for time in self.free.iter_mut().chain([&mut self.covered]) {
            *time = time.saturating_sub(before) + after;
        }
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
        let mut s = WalkSlots::new(2, 0);
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
    fn walks_go_on_under_another_clock() {
        let mut s = WalkSlots::new(1, 0);
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
        let mut s = WalkSlots::new(1, 0);
        s.schedule(0, 100);
        assert_eq!(s.schedule(0, 100), 200);
        assert_eq!(s.pending(), s.active());
    }

    #[test]
    fn a_walker_turns_around_before_the_next_walk() {
        let mut s = WalkSlots::new(1, 30);
        assert_eq!(s.schedule(0, 100), 100);
        // The walk itself ends in time, and so does one that is wanted long after.
        assert_eq!([s.schedule(110, 50), s.schedule(300, 50)], [180, 350]);
        assert_eq!((s.pending(), s.active(), s.queued()), (200, 200, 20));
    }
}
