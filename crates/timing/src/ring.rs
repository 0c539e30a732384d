//! Resources that instructions take in order and give back in order: an entry is free again at a time known by then.

use crate::per_cycle::{PerCycle, Places};

/// When each of the entries is free, the one to be taken next first.
#[derive(Clone, Debug)]
pub struct Ring {
    free: Box<[u64]>,
    next: usize,
}

impl Ring {
    /// So many entries (at least one), all free.
    pub fn new(entries: u32) -> Self {
        Self { free: vec![0; entries.max(1) as usize].into(), next: 0 }
    }

    /// When the next entry is free.
    #[inline(always)]
    pub fn available(&self) -> u64 {
        self.free[self.next]
    }

    /// Takes the next entry until `until`.
    #[inline(always)]
    pub fn take(&mut self, until: u64) {
        self.free[self.next] = until;
        self.next += 1;
        if self.next == self.free.len() {
            self.next = 0;
        }
    }

    /// Takes the next `count` entries until `until`.
    #[inline(always)]
    pub fn take_many(&mut self, count: usize, until: u64) {
        // Most instructions need one or none. A loop for them would be made ready for many.
        if count > 0 {
            self.take(until);
        }
        if count > 1 {
            self.take_more(count - 1, until);
        }
    }

    #[cold]
    fn take_more(&mut self, count: usize, until: u64) {
        (0..count).for_each(|_| self.take(until));
    }
}

/// Places in each cycle for instructions that come in order: dispatch and retirement.
#[derive(Clone, Debug)]
pub struct InOrder {
    places: Places,
    cycle: u64,
    used: u64,
}

impl InOrder {
    /// `width` places in each cycle.
    pub fn new(width: PerCycle) -> Self {
        Self { places: width.places(), cycle: 0, used: 0 }
    }

    /// The cycle of the last place taken.
    #[inline(always)]
    pub fn cycle(&self) -> u64 {
        self.cycle
    }

    /// Takes the first place at `earliest` or later, and not before the last one taken.
    #[inline(always)]
    pub fn take(&mut self, earliest: u64) -> u64 {
        if earliest > self.cycle {
            (self.cycle, self.used) = (earliest, 0);
        }
        while self.used >= self.places.of(self.cycle) {
            (self.cycle, self.used) = (self.cycle + 1, 0);
        }
        self.used += 1;
        self.cycle
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_of_a_width_that_is_not_whole_are_taken_in_turn() {
        let mut half = InOrder::new(PerCycle::from(0.5));
        assert_eq!([half.take(0), half.take(0), half.take(4), half.take(4)], [1, 3, 5, 7]);
        let mut some = InOrder::new(PerCycle::from(1.5));
        assert_eq!([some.take(0), some.take(0), some.take(0), some.take(0)], [0, 1, 1, 2]);
    }
}
