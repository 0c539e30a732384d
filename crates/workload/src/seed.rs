//! Seeds as people give them (1, 2, 3) made into numbers that have nothing in common.

use mmulab_addr::GOLDEN;

/// SplitMix64's output function on the state that follows `seed` (Steele, Lea and Flood, "Fast splittable pseudorandom
/// number generators", OOPSLA 2014). It has Stafford's variant 13 of the finalizer. A bijection: no two seeds meet.
pub fn mix(seed: u64) -> u64 {
    mmulab_addr::mix(seed.wrapping_add(GOLDEN))
}

/// Output `n` of SplitMix64 seeded with `key`: as random as the generator, at any place at once.
#[inline(always)]
pub fn nth(key: u64, n: u64) -> u64 {
    mix(key.wrapping_add(n.wrapping_mul(GOLDEN)))
}

/// `random`, evenly, as a number below `bound` (Lemire, "Fast random integer generation in an interval", 2019, without
/// the correction: off by less than `bound` in 2^64).
#[inline(always)]
pub fn below(random: u64, bound: u64) -> u64 {
    ((u128::from(random) * u128::from(bound)) >> 64) as u64
}

/// A number from 0 up to, not including, 1.
#[inline(always)]
pub fn unit(random: u64) -> f64 {
    (random >> 11) as f64 / (1u64 << 53) as f64
}

/// What an odd number is multiplied with, modulo 2^64, to give 1 (Newton's iteration; each step doubles the right
/// bits).
pub const fn inverse(odd: u64) -> u64 {
    let mut found = odd;
    let mut step = 0;
    while step < 5 {
        found = found.wrapping_mul(2u64.wrapping_sub(odd.wrapping_mul(found)));
        step += 1;
    }
    found
}

/// A permutation of the numbers below a power of two, with its inverse, in no memory. It multiplies by odd numbers and
/// folds shifts in, each of which can be undone.
#[derive(Clone, Copy, Debug)]
pub struct Shuffle {
    mask: u64,
    half: u32,
    add: u64,
    multiply: [u64; 2],
    undo: [u64; 2],
}

impl Shuffle {
    /// Of the numbers below `count`, a power of two.
    pub fn new(count: u64, seed: u64) -> Self {
        let multiply = [mix(seed) | 1, mix(!seed) | 1];
        let bits = 64 - (count - 1).leading_zeros();
        // At least half of the bits, so that folding twice is folding not at all.
        let half = bits.div_ceil(2).max(1);
        Self { mask: count - 1, half, add: mix(seed ^ 0x5bd1), multiply, undo: multiply.map(inverse) }
    }

    /// Where `n` goes.
    #[inline(always)]
    pub fn forth(&self, n: u64) -> u64 {
        let mut n = n.wrapping_add(self.add) & self.mask;
        for by in self.multiply {
            n = n.wrapping_mul(by) & self.mask;
            n ^= n >> self.half;
        }
        n.wrapping_mul(self.multiply[0]) & self.mask
    }

    /// What goes to `n`.
    #[inline(always)]
    pub fn back(&self, n: u64) -> u64 {
        let mut n = n.wrapping_mul(self.undo[0]) & self.mask;
        for by in [self.undo[1], self.undo[0]] {
            n ^= n >> self.half;
            n = n.wrapping_mul(by) & self.mask;
        }
        n.wrapping_sub(self.add) & self.mask
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        algorithm::Algorithm,
        algorithms::{chase::Chase, gups::Gups, zipf::Zipf},
        testing::loads,
    };

    #[test]
    fn shuffles_are_permutations_and_come_back() {
        for bits in 0..12 {
            let count = 1 << bits;
            let s = Shuffle::new(count, 7);
            let seen: std::collections::BTreeSet<_> = (0..count).map(|n| s.forth(n)).collect();
            assert_eq!(seen.len() as u64, count);
            assert_eq!(seen.last(), Some(&(count - 1)));
            assert!((0..count).all(|n| s.back(s.forth(n)) == n));
        }
        let large = Shuffle::new(1 << 40, 3);
        assert!((0..1000).all(|n| large.back(large.forth(n << 20)) == n << 20));
    }

    #[test]
    fn odd_numbers_have_inverses() {
        assert!([1u64, 3, 0x9e37_79b9_7f4a_7c15, u64::MAX].iter().all(|&n| n.wrapping_mul(inverse(n)) == 1));
    }

    #[test]
    fn numbers_are_those_of_splitmix64() {
        // The first outputs of the generator seeded with 0 (and so of those seeded with its later states).
        assert_eq!(mix(0), 0xe220_a839_7b1d_cdaf);
        assert_eq!(mix(0x9e37_79b9_7f4a_7c15), 0x6e78_9e6a_a1b9_65f4);
    }

    /// The pages of the first 256 references.
    fn pages(algorithm: impl Algorithm) -> Vec<u64> {
        loads(algorithm).into_iter().map(|at| at >> 12).collect()
    }

    /// The first references of neighbouring seeds are spread evenly, and have no more in common than chance gives.
    fn looks_random(name: &str, first: impl Fn(u64) -> Vec<u64>) {
        let all: Vec<Vec<u64>> = (0..16).map(first).collect();
        for (seed, one) in all.iter().enumerate() {
            // 256 references to 2^16 pages. Half a repetition is expected, and a few of HPCC's shift register, whose
            // next value is the last one moved by a bit. Each quarter of the pages holds 64.
            let unique: std::collections::BTreeSet<_> = one.iter().collect();
            assert!(unique.len() >= 240, "{name}, seed {seed}: {} pages in 256 references", unique.len());
            for quarter in 0..4 {
                let here = one.iter().filter(|&&p| (p >> 14) & 3 == quarter).count();
                assert!((32..=96).contains(&here), "{name}, seed {seed}: {here} of 256 in quarter {quarter}");
            }
            for (other, two) in all.iter().enumerate().skip(seed + 1) {
                let same = one.iter().zip(two).filter(|(a, b)| a == b).count();
                let shared = unique.iter().filter(|p| two.contains(p)).count();
                assert!(same <= 2 && shared <= 12, "{name}, seeds {seed} and {other}: {same} and {shared} alike");
            }
        }
    }

    #[test]
    fn small_seeds_are_as_random_as_large_ones() {
        const SIZE: u64 = 256 << 20;
        looks_random("gups", |seed| pages(Gups::new(SIZE, 256, seed)));
        looks_random("pointer-chase", |seed| pages(Chase::new(SIZE, 4096, 256, seed)));
        // Nearly uniform, so that popular elements do not repeat.
        looks_random("zipf", |seed| pages(Zipf::new(SIZE, 0.01, 256, seed)));
    }
}
