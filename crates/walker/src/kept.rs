//! Storage of the walker's own caches: values under a number, an ASID and a kind, in sets of ways.

use crate::WalkerError;
use mmulab_addr::Asid;
use mmulab_assoc::{EMPTY, Keys, Replacement, SetIndex, Store, Ways, each, geometry};

const KIND_BITS: u32 = 3;
const ASID_BITS: u32 = 16;

/// What an entry is kept under.
#[derive(Clone, Copy)]
pub struct Name {
    /// What else distinguishes entries, such as a level or a page size: below 8.
    pub kind: u8,
    /// The ASID of its address space.
    pub asid: Asid,
    /// Its number among those of its kind; the low bits, or the remainder where sets are no power of two, choose the
    /// set.
    pub number: u64,
}

impl Name {
    #[inline(always)]
    fn key(self) -> u64 {
        (self.number << (KIND_BITS + ASID_BITS)) | (u64::from(self.asid.0) << KIND_BITS) | u64::from(self.kind)
    }

    #[inline(always)]
    fn of(key: u64) -> Self {
        Self {
            kind: (key & ((1 << KIND_BITS) - 1)) as u8,
            asid: Asid((key >> KIND_BITS) as u16),
            number: key >> (KIND_BITS + ASID_BITS),
        }
    }
}

/// How many kinds there can be.
pub const MAX_KINDS: usize = 1 << KIND_BITS;

/// Values by name, with room for a fixed number.
pub struct Kept<V> {
    keys: Store,
    sets: SetIndex,
    /// Ways still empty.
    empty: u32,
    /// By set and way.
    values: Vec<V>,
}

impl<V: Copy> Kept<V> {
    /// Nothing yet. `place` is what errors call it, `nothing` what empty ways hold, `seed` for random replacement.
    ///
    /// # Errors
    /// A geometry that cannot be.
    pub fn new(
        place: impl FnOnce() -> String,
        (entries, ways): (u32, Ways),
        replacement: Replacement,
        seed: u64,
        nothing: V,
    ) -> Result<Self, WalkerError> {
        let shape = geometry(u64::from(entries), ways, replacement);
        let (sets, ways) = shape.map_err(|what| WalkerError { place: place(), what })?;
        let keys = Store::new(sets, ways, replacement, seed);
        let values = vec![nothing; sets * each!(&keys, keys => keys.stride())];
        Ok(Self { keys, sets: SetIndex::new(sets), empty: entries, values })
    }

    /// Places there are: one for each way of each set.
    pub fn places(&self) -> usize {
        self.values.len()
    }

    /// What is kept under `name`, used, and its place.
    #[inline]
    pub fn find(&mut self, name: Name) -> Option<(V, usize)> {
        let (set, key) = (self.sets.of(name.number), name.key());
        let at = each!(&mut self.keys, keys => {
            let way = keys.find(set, key)?;
            keys.touch(set, way);
            set * keys.stride() + way
        });
        Some((self.values[at], at))
    }

    /// Keeps `value` under `name`, most recently used; its place.
    #[inline]
    pub fn keep(&mut self, name: Name, value: V) -> usize {
        let (set, key) = (self.sets.of(name.number), name.key());
        let at = each!(&mut self.keys, keys => {
            let way = match keys.find(set, key) {
                Some(way) => {
                    keys.touch(set, way);
                    way
                }
                None => {
                    let (way, gone) = keys.admit(set, key, self.empty != 0);
                    self.empty -= u32::from(gone == EMPTY);
                    way
                }
            };
            set * keys.stride() + way
        });
        self.values[at] = value;
        at
    }

    /// Forgets what `stale` says so of.
    pub fn drop_if(&mut self, mut stale: impl FnMut(Name) -> bool) {
        let (mut empty, sets) = (self.empty, self.sets.count());
        each!(&mut self.keys, keys => for set in 0..sets {
            for way in 0..keys.stride() {
                let key = keys.key(set, way);
                if key != EMPTY && stale(Name::of(key)) {
                    keys.remove(set, way);
                    empty += 1;
                }
            }
        });
        self.empty = empty;
    }

    /// Calls `each` for every value.
    pub fn each(&self, mut each: impl FnMut(Name, &V)) {
        each!(&self.keys, keys => for set in 0..self.sets.count() {
            for way in 0..keys.stride() {
                let key = keys.key(set, way);
                if key != EMPTY {
                    each(Name::of(key), &self.values[set * keys.stride() + way]);
                }
            }
        });
    }
}
