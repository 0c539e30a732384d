//! Who goes next: replacement state, one kind per array.

use rand_core::Rng;
use rand_pcg::Pcg64Mcg;

/// Replacement state of all sets of an array.
#[derive(Clone)]
pub enum Recency {
    /// True LRU for up to 16 ways: the order of a set's ways as 4-bit numbers in one word, most recent lowest.
    Order {
        /// One word per set.
        words: Vec<u64>,
        /// Ways.
        ways: u32,
    },
    /// True LRU for more: when each way was last used.
    Stamps {
        /// One per way of each set.
        stamps: Vec<u64>,
        /// The next stamp.
        clock: u64,
        /// Ways.
        ways: usize,
    },
    /// Tree PLRU: bit `n` of a set's word is node `n` (root 1), set when the upper half was used less recently.
    Tree {
        /// One word group per set: nodes 1..ways.
        bits: Vec<[u64; 4]>,
        /// Ways, a power of two.
        ways: usize,
    },
    /// A draw per eviction.
    Random {
        /// The generator.
        rng: Box<Pcg64Mcg>,
        /// Ways.
        ways: u32,
    },
}

const NIBBLES: u64 = 0x1111_1111_1111_1111;

impl Recency {
    pub fn lru(sets: usize, ways: usize) -> Self {
        if ways <= 16 {
            // Way 0 least recent: an untouched set is used from way 0 up, but empty ways are filled first anyway.
            let word = (0..ways as u64).fold(0, |w, way| (w << 4) | way);
            Self::Order { words: vec![word; sets], ways: ways as u32 }
        } else {
            Self::Stamps { stamps: vec![0; sets * ways], clock: 1, ways }
        }
    }

    pub fn tree(sets: usize, ways: usize) -> Self {
        Self::Tree { bits: vec![[0; 4]; sets], ways }
    }

    pub fn random(seed: u64, ways: usize) -> Self {
        // The generator's state is odd: a seed's lowest bit would be lost in its.
        let state = 0xcafe_f00d_d15e_a5e5 ^ u128::from(seed) << 1;
        Self::Random { rng: Box::new(Pcg64Mcg::new(state)), ways: ways as u32 }
    }

    /// `way` of `set` was used.
    #[inline(always)]
    pub fn touch(&mut self, set: usize, way: usize) {
        match self {
            Self::Order { words, .. } => {
                let word = words[set];
                if word & 15 == way as u64 {
                    return;
                }
                // The nibble equal to `way`: the lowest zero nibble of the difference.
                let differ = word ^ (way as u64).wrapping_mul(NIBBLES);
                let zero = differ.wrapping_sub(NIBBLES) & !differ & (NIBBLES << 3);
                let above = zero ^ zero.wrapping_sub(1);
                let below = above >> 4;
                words[set] = (word & !above) | ((word & below) << 4) | way as u64;
            }
            Self::Stamps { stamps, clock, ways } => {
                stamps[set * *ways + way] = *clock;
                *clock += 1;
            }
            Self::Tree { bits, ways } => {
                let mut node = 1;
                let mut half = *ways / 2;
                let mut rest = way;
                while half > 0 {
                    let upper = rest >= half;
                    let word = &mut bits[set][node >> 6];
                    let bit = 1 << (node & 63);
                    // Point away from what was used.
                    *word = if upper { *word & !bit } else { *word | bit };
                    node = node * 2 + usize::from(upper);
                    rest -= if upper { half } else { 0 };
                    half /= 2;
                }
            }
            Self::Random { .. } => {}
        }
    }

    /// The way of a full `set` that goes. A random one is drawn anew at each call.
    #[inline(always)]
    pub fn victim(&mut self, set: usize) -> usize {
        match self {
            Self::Order { words, ways } => ((words[set] >> (4 * (*ways - 1))) & 15) as usize,
            Self::Stamps { stamps, ways, .. } => {
                let set = &stamps[set * *ways..(set + 1) * *ways];
                let oldest = set.iter().copied().fold(u64::MAX, u64::min);
                set.iter().position(|&s| s == oldest).unwrap_or(0)
            }
            Self::Tree { bits, ways } => {
                let mut node = 1;
                let mut way = 0;
                let mut half = *ways / 2;
                while half > 0 {
                    let upper = bits[set][node >> 6] >> (node & 63) & 1 == 1;
                    way += if upper { half } else { 0 };
                    node = node * 2 + usize::from(upper);
                    half /= 2;
                }
                way
            }
            // Lemire's multiply-shift: the bias of 32 bits over at most 256 ways is below 2^-24.
            Self::Random { rng, ways } => ((u64::from(rng.next_u32()) * u64::from(*ways)) >> 32) as usize,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbouring_seeds_draw_otherwise() {
        let drawn = |seed| {
            let mut recency = Recency::random(seed, 8);
            (0..64).map(|_| recency.victim(0)).collect::<Vec<_>>()
        };
        let all: Vec<_> = (0..8).map(drawn).collect();
        for (at, one) in all.iter().enumerate() {
            assert_eq!(*one, drawn(at as u64));
            assert!(all[..at].iter().all(|other| other != one), "seed {at} draws what a lower one does");
        }
    }
}
