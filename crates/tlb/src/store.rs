//! Where an array keeps its keys: one kind of storage per shape, chosen once, so that searches run at the speed of the
//! shape at hand.

use crate::{ways::Packed, wide::Wide};
use mmulab_sets::{EMPTY, Replacement, Sets};

/// Sets of keys with their order of use.
pub trait Keys {
    /// Ways from one set to the next in what is kept beside the keys.
    fn stride(&self) -> usize;
    /// The way of `set` that has `key`.
    fn find(&self, set: usize, key: u64) -> Option<usize>;
    /// The way was used.
    fn touch(&mut self, set: usize, way: usize);
    /// Takes in a key that is not there, most recently used: its way, and the key that went for it or [`EMPTY`].
    /// `room` tells whether the array has an empty way anywhere.
    fn admit(&mut self, set: usize, key: u64, room: bool) -> (usize, u64);
    /// The key in a way, [`EMPTY`] if none.
    fn key(&self, set: usize, way: usize) -> u64;
    /// Empties a way.
    fn remove(&mut self, set: usize, way: usize);
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
        let put = self.put(set, key);
        (put.way, put.replaced.unwrap_or(EMPTY))
    }

    fn key(&self, set: usize, way: usize) -> u64 {
        self.key(set, way)
    }

    fn remove(&mut self, set: usize, way: usize) {
        self.remove(set, way);
    }
}

/// The storage of an array.
pub enum Store {
    Upto4(Packed<1>),
    Upto8(Packed<2>),
    Upto12(Packed<3>),
    Upto16(Packed<4>),
    Wide(Wide),
    Any(Sets),
}

/// The same expression for whichever storage it is.
macro_rules! each {
    ($store:expr, $keys:ident => $call:expr) => {
        match $store {
            Store::Upto4($keys) => $call,
            Store::Upto8($keys) => $call,
            Store::Upto12($keys) => $call,
            Store::Upto16($keys) => $call,
            Store::Wide($keys) => $call,
            Store::Any($keys) => $call,
        }
    };
}
pub(crate) use each;

impl Store {
    /// Empty sets of a shape that [`mmulab_sets::geometry`] has approved.
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
