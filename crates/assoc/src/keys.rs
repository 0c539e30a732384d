//! The trait of all storages of keys. `packed`, `sets` and `wide` implement it; `store` selects one of them by shape.

use crate::prefetch;

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
    /// `room` says whether the array has an empty way anywhere.
    fn admit(&mut self, set: usize, key: u64, room: bool) -> (usize, u64);
    /// As `count` calls of [`Self::admit`] with the key that all ways of the full set have. The ways then, four bits
    /// each, the most recently used lowest; `None`, and nothing has happened, where the order is not kept so.
    fn turn(&mut self, _set: usize, _count: u64) -> Option<u64> {
        None
    }
    /// The way is the one that goes next. Nothing happens where another policy than LRU chooses it.
    fn demote(&mut self, _set: usize, _way: usize) {}
    /// The key in a way, [`crate::EMPTY`] if none.
    fn key(&self, set: usize, way: usize) -> u64;
    /// Empties a way.
    fn remove(&mut self, set: usize, way: usize);
    /// Has the host bring a set near: a hint without effect on any result.
    fn prefetch(&self, set: usize);
}

/// Asks the host for every line of `keys`.
#[inline(always)]
pub(crate) fn prefetch_all(keys: &[[u64; 4]]) {
    for line in keys.chunks(2) {
        prefetch(line);
    }
}
