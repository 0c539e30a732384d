//! Where keys are kept: one kind of storage per shape, chosen once, so that searches run at the speed of the shape at
//! hand.

use crate::{Keys, Packed, Replacement, Sets, Wide};

/// The policies that are not LRU. Not inlined: the common shapes should not carry this code around.
impl Keys for Sets {
    fn stride(&self) -> usize {
        self.ways()
    }

    #[inline(never)]
    fn find(&self, set: usize, key: u64) -> Option<usize> {
        self.find(set, key)
    }

    #[inline(never)]
    fn touch(&mut self, set: usize, way: usize) {
        self.touch(set, way);
    }

    #[inline(never)]
    fn admit(&mut self, set: usize, key: u64, _: bool) -> (usize, u64) {
        self.take_in(set, key)
    }

    fn key(&self, set: usize, way: usize) -> u64 {
        self.key(set, way)
    }

    fn remove(&mut self, set: usize, way: usize) {
        self.remove(set, way);
    }

    fn prefetch(&self, set: usize) {
        self.prefetch(set);
    }
}

/// The storage of an array of sets.
#[derive(Clone)]
pub enum Store {
    /// True LRU of up to 4 ways.
    Upto4(Packed<1>),
    /// Of up to 8.
    Upto8(Packed<2>),
    /// Of up to 12.
    Upto12(Packed<3>),
    /// Of up to 16.
    Upto16(Packed<4>),
    /// Of more.
    Wide(Wide),
    /// Other policies.
    Any(Sets),
}

/// The same expression for whichever storage it is.
#[macro_export]
macro_rules! each {
    ($store:expr, $keys:ident => $call:expr) => {
        match $store {
            $crate::Store::Upto4($keys) => $call,
            $crate::Store::Upto8($keys) => $call,
            $crate::Store::Upto12($keys) => $call,
            $crate::Store::Upto16($keys) => $call,
            $crate::Store::Wide($keys) => $call,
            $crate::Store::Any($keys) => $call,
        }
    };
}

impl Store {
    /// Empty sets of a shape that [`crate::geometry`] has approved; `seed` is for random replacement.
    pub fn new(sets: usize, ways: usize, replacement: Replacement, seed: u64) -> Self {
        match (replacement, ways) {
            (Replacement::Lru, 1..=4) => Self::Upto4(Packed::new(sets, ways)),
            (Replacement::Lru, 5..=8) => Self::Upto8(Packed::new(sets, ways)),
            (Replacement::Lru, 9..=12) => Self::Upto12(Packed::new(sets, ways)),
            (Replacement::Lru, 13..=16) => Self::Upto16(Packed::new(sets, ways)),
            (Replacement::Lru, _) => Self::Wide(Wide::new(sets, ways)),
            (Replacement::TreePlru | Replacement::Random, _) => Self::Any(Sets::new(sets, ways, replacement, seed)),
        }
    }
}
