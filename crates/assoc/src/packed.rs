//! True-LRU sets of up to 16 ways, at a speed near that of a bare loop. Tags are four to a vector, and the order of use
//! is one word. They do as [`crate::Sets`] does; the tests hold both against lists.

use crate::{
    EMPTY,
    keys::{Keys, prefetch_all},
};

/// One bit for each of the four that equals `key`.
#[cfg(all(target_arch = "x86_64", target_feature = "avx2"))]
#[inline(always)]
pub fn equal(four: &[u64; 4], key: u64) -> u32 {
    use std::arch::x86_64::_mm256_setr_epi64x;
    use std::arch::x86_64::{_mm256_castsi256_pd, _mm256_cmpeq_epi64, _mm256_movemask_pd, _mm256_set1_epi64x};
    let [a, b, c, d] = four.map(|k| k as i64);
    // SAFETY: the function exists only where the whole program is built for CPUs with AVX2.
    unsafe {
        let same = _mm256_cmpeq_epi64(_mm256_setr_epi64x(a, b, c, d), _mm256_set1_epi64x(key as i64));
        _mm256_movemask_pd(_mm256_castsi256_pd(same)) as u32
    }
}

/// One bit for each of the four that equals `key`.
#[cfg(not(all(target_arch = "x86_64", target_feature = "avx2")))]
#[inline(always)]
pub fn equal(four: &[u64; 4], key: u64) -> u32 {
    four.iter().enumerate().fold(0, |bits, (way, &k)| bits | (u32::from(k == key) << way))
}

/// Sets of up to `4 * FOURS` ways.
#[derive(Clone)]
pub struct Packed<const FOURS: usize> {
    keys: Vec<[[u64; 4]; FOURS]>,
    /// By set: its ways as 4-bit numbers, the most recently used lowest.
    order: Vec<u64>,
    ways: u32,
}

const NIBBLES: u64 = 0x1111_1111_1111_1111;
const NIBBLE: u64 = 15;

impl<const FOURS: usize> Packed<FOURS> {
    /// Empty sets; `ways` is at most `4 * FOURS`.
    pub fn new(sets: usize, ways: usize) -> Self {
        let order = (0..ways as u64).fold(0, |w, way| (w << 4) | way);
        Self { keys: vec![[[EMPTY; 4]; FOURS]; sets], order: vec![order; sets], ways: ways as u32 }
    }
}

impl<const FOURS: usize> Keys for Packed<FOURS> {
    #[inline(always)]
    fn stride(&self) -> usize {
        4 * FOURS
    }

    #[inline(always)]
    fn find(&self, set: usize, key: u64) -> Option<usize> {
        let matched = self.keys[set].iter().rev().fold(0, |bits, four| (bits << 4) | equal(four, key));
        (matched != 0).then(|| matched.trailing_zeros() as usize)
    }

    #[inline(always)]
    fn touch(&mut self, set: usize, way: usize) {
        let word = self.order[set];
        // The nibble equal to `way`: the lowest zero nibble of the difference.
        let differ = word ^ (way as u64).wrapping_mul(NIBBLES);
        let zero = differ.wrapping_sub(NIBBLES) & !differ & (NIBBLES << 3);
        let upto = zero ^ zero.wrapping_sub(1);
        self.order[set] = (word & !upto) | (((word << 4) | way as u64) & upto);
    }

    #[inline(always)]
    fn admit(&mut self, set: usize, key: u64, room: bool) -> (usize, u64) {
        // Ways beyond the last are never filled: they are no room.
        let empty = if room { self.find(set, EMPTY).filter(|&way| way < self.ways as usize) } else { None };
        let way = match empty {
            Some(way) => {
                self.touch(set, way);
                way
            }
            None => {
                let word = self.order[set];
                let last = 4 * (self.ways - 1);
                let way = (word >> last) & NIBBLE;
                // The last nibble goes to the front; the mask keeps `ways` nibbles.
                self.order[set] = ((word << 4) | way) & (u64::MAX >> (60 - last));
                way as usize
            }
        };
        let old = std::mem::replace(&mut self.keys[set][way / 4][way % 4], key);
        (way, old)
    }

    fn demote(&mut self, set: usize, way: usize) {
        let word = self.order[set];
        let place = (0..self.ways).find(|place| (word >> (4 * place)) & NIBBLE == way as u64).unwrap_or_default();
        let before = (1 << (4 * place)) - 1;
        let last = 4 * (self.ways - 1);
        // Those behind it move up.
        let moved = (word & before) | ((word >> 4) & !before);
        self.order[set] = (moved & ((1 << last) - 1)) | ((way as u64) << last);
    }

    #[inline(always)]
    fn turn(&mut self, set: usize, count: u64) -> Option<u64> {
        let word = self.order[set];
        // The last `count` nibbles go to the front.
        let last = 4 * (count % u64::from(self.ways)) as u32;
        if last != 0 {
            let all = 4 * self.ways;
            self.order[set] = ((word << last) | (word >> (all - last))) & (u64::MAX >> (64 - all));
        }
        Some(self.order[set])
    }

    fn key(&self, set: usize, way: usize) -> u64 {
        self.keys[set][way / 4][way % 4]
    }

    fn remove(&mut self, set: usize, way: usize) {
        self.keys[set][way / 4][way % 4] = EMPTY;
    }

    #[inline(always)]
    fn prefetch(&self, set: usize) {
        prefetch_all(&self.keys[set]);
    }
}
