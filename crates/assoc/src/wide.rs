//! True-LRU sets of many ways, as fully associative first levels have: tags sixteen to a step, and a stamp per way.
//!
//! A set of 72 ways takes five steps, and most lookups are for a tag that was used a short while ago. So a hash of the
//! tag says in which way it was used last. If that way still has it, no other way is looked at:
//!
//! ```text
//! tag --hash--> hints   | 17 | 0 | 70 | 3 | ..        a way each, of the tag that was used last there
//!                               |
//!               keys[70] == tag ?  --yes--> found
//!                                  --no---> all ways, sixteen at a time
//! ```

use crate::{
    EMPTY,
    keys::{Keys, prefetch_all},
    packed::equal,
};

/// Tags compared before anybody asks whether one was equal.
const STEP: usize = 16;

/// Tags whose ways are remembered: more than the ways of most such sets, so that few tags share a place.
const HINTS: usize = 256;

/// Stamp of a way that was never used: stamps grow with each use, and a demoted way's is below all others.
const NEVER: u64 = 1 << 63;

/// Sets of any number of ways.
#[derive(Clone)]
pub struct Wide {
    keys: Vec<[[u64; 4]; STEP / 4]>,
    /// By set and way: when it was last used.
    stamps: Vec<u64>,
    /// By a hash of a set and a tag: the way in which one of these was used last. It may be another one's by now.
    hints: Box<[u8; HINTS]>,
    now: u64,
    ways: usize,
    steps: usize,
}

impl Wide {
    /// Empty sets.
    pub fn new(sets: usize, ways: usize) -> Self {
        let steps = ways.div_ceil(STEP);
        Self {
            keys: vec![[[EMPTY; 4]; STEP / 4]; sets * steps],
            stamps: vec![NEVER; sets * steps * STEP],
            hints: Box::new([0; HINTS]),
            now: NEVER,
            ways,
            steps,
        }
    }

    #[inline]
    fn stamps_of(&self, set: usize) -> &[u64] {
        let first = set * self.steps * STEP;
        &self.stamps[first..first + self.ways]
    }

    #[inline]
    fn oldest(&self, set: usize) -> u64 {
        self.stamps_of(set).iter().copied().fold(u64::MAX, u64::min)
    }

    /// Where a tag of a set has its hint. Fibonacci hashing: the upper bits of a product depend on all bits of the tag.
    #[inline(always)]
    fn hint(set: usize, key: u64) -> usize {
        ((key ^ set as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (u64::BITS - HINTS.ilog2())) as usize
    }

    /// The first way that has `key`, by looking at all of them.
    #[inline(always)]
    fn search(&self, set: usize, key: u64) -> Option<usize> {
        let steps = &self.keys[set * self.steps..(set + 1) * self.steps];
        for (at, step) in steps.iter().enumerate() {
            let matched = step.iter().rev().fold(0, |bits, four| (bits << 4) | equal(four, key));
            if matched != 0 {
                return Some(at * STEP + matched.trailing_zeros() as usize);
            }
        }
        None
    }

    fn key_mut(&mut self, set: usize, way: usize) -> &mut u64 {
        &mut self.keys[set * self.steps + way / STEP][way % STEP / 4][way % 4]
    }
}

impl Keys for Wide {
    #[inline(always)]
    fn stride(&self) -> usize {
        self.steps * STEP
    }

    #[inline(always)]
    fn find(&self, set: usize, key: u64) -> Option<usize> {
        let way = usize::from(self.hints[Self::hint(set, key)]);
        if self.key(set, way) == key {
            // No tag is in two ways, but for the one of empty ways.
            debug_assert_eq!(self.search(set, key), Some(way), "set {set} has {key:#x} twice");
            return Some(way);
        }
        self.search(set, key)
    }

    #[inline(always)]
    fn touch(&mut self, set: usize, way: usize) {
        self.now += 1;
        let at = set * self.stride() + way;
        self.stamps[at] = self.now;
        self.hints[Self::hint(set, self.key(set, way))] = way as u8;
    }

    #[inline]
    fn admit(&mut self, set: usize, key: u64, room: bool) -> (usize, u64) {
        // Ways beyond the last are never filled: they are no room.
        let empty = if room { self.search(set, EMPTY).filter(|&way| way < self.ways) } else { None };
        let way = empty.unwrap_or_else(|| {
            let oldest = self.oldest(set);
            self.stamps_of(set).iter().position(|&s| s == oldest).unwrap_or_default()
        });
        let before = std::mem::replace(self.key_mut(set, way), key);
        self.touch(set, way);
        (way, before)
    }

    fn demote(&mut self, set: usize, way: usize) {
        let at = set * self.stride() + way;
        self.stamps[at] = self.oldest(set) - 1;
    }

    #[inline(always)]
    fn key(&self, set: usize, way: usize) -> u64 {
        self.keys[set * self.steps + way / STEP][way % STEP / 4][way % 4]
    }

    fn remove(&mut self, set: usize, way: usize) {
        *self.key_mut(set, way) = EMPTY;
    }

    fn prefetch(&self, set: usize) {
        for step in &self.keys[set * self.steps..(set + 1) * self.steps] {
            prefetch_all(step);
        }
    }
}
