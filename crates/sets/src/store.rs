//! Where keys are kept: one kind of storage per shape, chosen once, so that searches run at the speed of the shape at
//! hand.

use crate::{Packed, Replacement, Sets, Wide, prefetch};

/// Sets of keys with their order of use.
pub trait Keys {
    /// Ways from one set to the next in what is kept beside the keys.
    fn stride(&self) -> usize;
    /// The way of `set` that has `key`.
    fn find(&self, set: usize, key: u64) -> Option<usize>;
    /// The way was used.
    fn touch(&mut self, set: usize, way: usize);
    /// Takes in a key without a look whether it is there, most recently used: its way, and the key that went for it or
    /// [`crate::EMPTY`].
    /// `room` tells whether the array has an empty way anywhere.
    fn admit(&mut self, set: usize, key: u64, room: bool) -> (usize, u64);
    /// As `count` calls of [`Self::admit`] with the key that all ways of the full set have. The ways then, four bits
    /// each, the most recently used lowest; `None`, and nothing has happened, where the order is not kept so.
    fn turn(&mut self, _set: usize, _count: u64) -> Option<u64> {
        None
    }
    /// The key in a way, [`crate::EMPTY`] if none.
    fn key(&self, set: usize, way: usize) -> u64;
    /// Empties a way.
    fn remove(&mut self, set: usize, way: usize);
    /// Has the host bring a set near: a hint without effect on any result.
    fn prefetch(&self, set: usize);
}

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

/// Asks the host for every line of `keys`.
#[inline(always)]
pub(crate) fn prefetch_all(keys: &[[u64; 4]]) {
    for line in keys.chunks(2) {
        prefetch(line);
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
