//! Set-associative storage for every number of ways and every replacement policy. The keys of a set lie side by side
//! and are padded to a fixed stride. So a search compares several ways at once and needs no branch per way.
//!
//! ```text
//!          |<------------------- stride of set 0 ------------------->|<-- set 1
//! keys     | way 0 | way 1 | ... | last way | EMPTY | ... | EMPTY    | way 0 | ...
//! ```

use crate::{Replacement, SetIndex, recency::Recency};

/// An empty way; no key may be this.
pub const EMPTY: u64 = u64::MAX;

/// Keys in sets of ways, with their replacement state.
#[derive(Clone)]
pub struct Sets {
    sets: SetIndex,
    ways: usize,
    /// Ways rounded up to what one compare covers; the ones above `ways` stay empty for ever.
    stride: usize,
    keys: Vec<u64>,
    recency: Recency,
}

/// Where a key was put.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Put {
    /// The way.
    pub way: usize,
    /// The key that went for it.
    pub replaced: Option<u64>,
    /// Whether the key was there already.
    pub present: bool,
}

/// Asks the host for the line where `slice` begins.
#[inline(always)]
pub fn prefetch<T>(slice: &[T]) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch reads nothing the program could see, and any address is allowed.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(slice.as_ptr().cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = slice;
}

impl Sets {
    /// Empty sets of a shape that [`crate::geometry`] has approved; `seed` is for random replacement.
    pub fn new(sets: usize, ways: usize, replacement: Replacement, seed: u64) -> Self {
        let recency = match replacement {
            Replacement::Lru => Recency::lru(sets, ways),
            Replacement::TreePlru => Recency::tree(sets, ways),
            Replacement::Random => Recency::random(seed, ways),
        };
        let stride = match ways {
            1..=4 => 4,
            5..=8 => 8,
            9..=12 => 12,
            13..=16 => 16,
            more => more.next_multiple_of(8),
        };
        Self { sets: SetIndex::new(sets), ways, stride, keys: vec![EMPTY; sets * stride], recency }
    }

    /// Sets.
    pub fn sets(&self) -> usize {
        self.sets.count()
    }

    /// Ways.
    pub fn ways(&self) -> usize {
        self.ways
    }

    /// The set that `index` falls in: its low bits, or its remainder where the sets are no power of two.
    #[inline(always)]
    pub fn set_of(&self, index: u64) -> usize {
        self.sets.of(index)
    }

    /// The way of `set` that has `key`.
    #[inline(always)]
    pub fn find(&self, set: usize, key: u64) -> Option<usize> {
        /// All ways compared, then the first that matched: no branch per way.
        #[inline(always)]
        fn of<const N: usize>(keys: &[u64], key: u64) -> Option<usize> {
            let keys: &[u64; N] = keys[..N].try_into().expect("a set is a stride long");
            let mut matched = 0u32;
            for (way, &k) in keys.iter().enumerate() {
                matched |= u32::from(k == key) << way;
            }
            (matched != 0).then(|| matched.trailing_zeros() as usize)
        }
        let keys = &self.keys[set * self.stride..(set + 1) * self.stride];
        match self.stride {
            4 => of::<4>(keys, key),
            8 => of::<8>(keys, key),
            12 => of::<12>(keys, key),
            16 => of::<16>(keys, key),
            _ => keys.chunks_exact(8).enumerate().find_map(|(i, eight)| of::<8>(eight, key).map(|w| i * 8 + w)),
        }
    }

    /// The key in a way, [`EMPTY`] if none.
    #[inline(always)]
    pub fn key(&self, set: usize, way: usize) -> u64 {
        self.keys[set * self.stride + way]
    }

    /// Has the host bring a set near: a hint without effect on any result.
    #[inline(always)]
    pub fn prefetch(&self, set: usize) {
        let keys = &self.keys[set * self.stride..(set + 1) * self.stride];
        for line in keys.chunks(8) {
            prefetch(line);
        }
    }

    /// The way was used.
    #[inline(always)]
    pub fn touch(&mut self, set: usize, way: usize) {
        self.recency.touch(set, way);
    }

    /// Puts `key` into `set`, most recently used: where it is already, else in the first empty way, else in the
    /// victim's.
    #[inline]
    pub fn put(&mut self, set: usize, key: u64) -> Put {
        debug_assert_ne!(key, EMPTY);
        if let Some(way) = self.find(set, key) {
            self.recency.touch(set, way);
            return Put { way, replaced: None, present: true };
        }
        let (way, old) = self.take_in(set, key);
        Put { way, replaced: (old != EMPTY).then_some(old), present: false }
    }

    /// Takes `key` into `set`, most recently used, without a look whether it is there: into the first empty way, else
    /// the victim's. The way, and the key that went for it or [`EMPTY`].
    #[inline]
    pub fn take_in(&mut self, set: usize, key: u64) -> (usize, u64) {
        let empty = self.find(set, EMPTY).filter(|&way| way < self.ways);
        let way = empty.unwrap_or_else(|| self.recency.victim(set));
        self.recency.touch(set, way);
        (way, std::mem::replace(&mut self.keys[set * self.stride + way], key))
    }

    /// Empties a way.
    pub fn remove(&mut self, set: usize, way: usize) {
        self.keys[set * self.stride + way] = EMPTY;
    }
}
