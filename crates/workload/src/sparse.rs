use crate::{
    generator::{DATA, Round, Rounds, WORD},
    seed::mix,
};
use mmulab_addr::BASE_BYTES;
use rand_core::Rng;
use rand_pcg::Pcg64Mcg;

/// Loads from random pages of those that are touched at all: each page of the footprint is, with one probability. What a
/// program does with code of which it needs a part (paper 1, section 5.4).
pub struct Sparse {
    pages: u64,
    /// A page is touched if its hash is below this.
    below: u64,
    salt: u64,
    references: u64,
    rng: Pcg64Mcg,
}

impl Sparse {
    /// Of `footprint` bytes (whole pages) the share `share` (above 0, at most 1) is touched.
    pub fn new(footprint: u64, share: f64, references: u64, seed: u64) -> Self {
        let salt = mix(seed);
        Self {
            pages: footprint / BASE_BYTES,
            // As a cast saturates, a share of 1 takes all hashes but the largest.
            below: (share * 2f64.powi(64)) as u64,
            salt,
            references,
            rng: Pcg64Mcg::new(u128::from(salt) << 64 | u128::from(mix(!seed))),
        }
    }

    /// Whether `page` is among those that are touched.
    fn touches(&self, page: u64) -> bool {
        self.below == u64::MAX || mix(self.salt ^ page) < self.below
    }
}

impl Rounds for Sparse {
    fn footprint(&self) -> u64 {
        self.pages * BASE_BYTES
    }

    fn rounds(&self) -> u64 {
        self.references
    }

    fn instructions(&self) -> u32 {
        // Take the next index, load the element, add to the sum, advance, compare, branch.
        6
    }

    #[inline]
    fn next(&mut self) -> Round {
        // A footprint none of whose pages is touched has its last draw touched all the same.
        let mut page = 0;
        for _ in 0..MOST_DRAWS {
            page = self.rng.next_u64() % self.pages;
            if self.touches(page) {
                break;
            }
        }
        let word = self.rng.next_u64() % (BASE_BYTES / WORD);
        Round { read: Some(DATA.add(page * BASE_BYTES + word * WORD)), write: None }
    }
}

/// Draws before a page is taken as it comes: so many that with a hundredth of the pages touched it happens once in 10^17.
const MOST_DRAWS: u32 = 4096;

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn the_share_of_pages_is_touched_evenly_and_no_other() {
        const PAGES: u64 = 4096;
        for share in [0.25, 0.9, 1.0] {
            let mut sparse = Sparse::new(PAGES * BASE_BYTES, share, 0, 3);
            let mut seen = std::collections::BTreeMap::new();
            let draws = 200_000u32;
            for _ in 0..draws {
                let page = sparse.next().read.unwrap().vpn().0 - DATA.vpn().0;
                *seen.entry(page).or_insert(0u32) += 1;
            }
            let touched: BTreeSet<u64> = (0..PAGES).filter(|&p| sparse.touches(p)).collect();
            assert_eq!(seen.keys().copied().collect::<BTreeSet<_>>(), touched);
            let expected = share * PAGES as f64;
            let deviation = (expected * (1.0 - share)).sqrt();
            assert!((touched.len() as f64 - expected).abs() <= 4.0 * deviation, "{} of {expected}", touched.len());
            let each = f64::from(draws) / touched.len() as f64;
            assert!(seen.values().all(|&n| (f64::from(n) - each).abs() < 6.0 * each.sqrt()));
        }
    }
}
