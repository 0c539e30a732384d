//! True-LRU sets of many ways, as fully associative first levels have: tags sixteen to a step, and a stamp per way.

use crate::{
    EMPTY,
    keys::{Keys, prefetch_all},
    packed::equal,
};

/// Tags compared before anybody asks whether one was equal.
const STEP: usize = 16;

/// Stamp of a way that was never used: stamps grow with each use, and a demoted way's is below all others.
const NEVER: u64 = 1 << 63;

/// Sets of any number of ways.
#[derive(Clone)]
pub struct Wide {
    keys: Vec<[[u64; 4]; STEP / 4]>,
    /// By set and way: when it was last used.
    stamps: Vec<u64>,
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
        let steps = &self.keys[set * self.steps..(set + 1) * self.steps];
        for (at, step) in steps.iter().enumerate() {
            let matched = step.iter().rev().fold(0, |bits, four| (bits << 4) | equal(four, key));
            if matched != 0 {
                return Some(at * STEP + matched.trailing_zeros() as usize);
            }
        }
        None
    }

    #[inline(always)]
    fn touch(&mut self, set: usize, way: usize) {
        self.now += 1;
        let at = set * self.stride() + way;
        self.stamps[at] = self.now;
    }

    #[inline]
    fn admit(&mut self, set: usize, key: u64, room: bool) -> (usize, u64) {
        // Ways beyond the last are never filled: they are no room.
        let empty = if room { self.find(set, EMPTY).filter(|&way| way < self.ways) } else { None };
        let way = empty.unwrap_or_else(|| {
            let oldest = self.oldest(set);
            self.stamps_of(set).iter().position(|&s| s == oldest).unwrap_or_default()
        });
        self.touch(set, way);
        (way, std::mem::replace(self.key_mut(set, way), key))
    }

    fn demote(&mut self, set: usize, way: usize) {
        let at = set * self.stride() + way;
        self.stamps[at] = self.oldest(set) - 1;
    }

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
