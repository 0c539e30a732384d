//! Generator `sparse`: loads of random words in a random subset of the pages of an array. The untouched pages leave
//! holes in the footprint. A large page or a coalesced TLB entry can thus cover pages without any access.

use super::Describe;
use crate::{
    algorithms::drawn::{Draw, Drawn},
    seed::{below, mix, nth},
};
use mmulab_addr::{BASE_BYTES, Bytes};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Loads from random pages of those that are touched.
#[derive(Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SparseDesc {
    /// Size of the array. Default 64M.
    #[schemars(extend("x-least" = "4K", "x-most" = "64T"))]
    footprint: Bytes,
    /// Share of its pages that are touched, each at random. Default 0.9.
    #[schemars(range(min = 0.01, max = 1.0))]
    share: f64,
    /// Loads. `k`, `M` and `G` are powers of 1000. Default 1000000.
    #[schemars(range(min = 0, max = 1u64 << 40))]
    references: u64,
    /// Seed. Default 1.
    #[schemars(range(min = 0, max = i64::MAX))]
    seed: u64,
}

impl Default for SparseDesc {
    fn default() -> Self {
        Self { footprint: Bytes(64 << 20), share: 0.9, references: 1_000_000, seed: 1 }
    }
}

impl Describe for SparseDesc {
    const NAME: &str = "sparse";
    type Algorithm = Drawn<Sparse>;

    fn algorithm(&self) -> Result<Drawn<Sparse>, String> {
        Ok(Sparse::new(self.footprint.0, self.share, self.references, self.seed))
    }
}

/// Words of random pages of those that are touched at all: each page of the footprint is, with one probability. What a
/// program does with code of which it needs a part (paper 1, section 5.4).
#[derive(Clone)]
pub struct Sparse {
    pages: u64,
    /// A page is touched if its hash is below this.
    below: u64,
    salt: u64,
    key: u64,
}

/// Words of a page.
const PAGE_WORDS: u64 = BASE_BYTES / 8;
/// Draws before a page is taken as it comes: enough that with a hundredth of the pages touched it happens once in
/// 10^17.
const MOST_DRAWS: u32 = 4096;

impl Sparse {
    /// `references` loads; of `footprint` bytes (whole pages) the share `share` (above 0, at most 1) is touched.
    pub fn new(footprint: u64, share: f64, references: u64, seed: u64) -> Drawn<Self> {
        let pages = footprint / BASE_BYTES;
        // As a cast saturates, a share of 1 takes all hashes but the largest.
        let below = (share * 2f64.powi(64)) as u64;
        Drawn::new(pages * PAGE_WORDS, Self { pages, below, salt: mix(seed), key: mix(!seed) }, references)
    }

    /// Whether `page` is among those that are touched.
    #[inline(always)]
    fn touches(&self, page: u64) -> bool {
        self.below == u64::MAX || mix(self.salt ^ page) < self.below
    }
}

impl Draw for Sparse {
    #[inline(always)]
    fn index(&mut self, at: u64) -> u64 {
        let mut random = nth(self.key, at);
        // A footprint none of whose pages is touched has its last draw touched all the same.
        let mut page = 0;
        for _ in 0..MOST_DRAWS {
            page = below(random, self.pages);
            random = mix(random);
            if self.touches(page) {
                break;
            }
        }
        page * PAGE_WORDS + below(random, PAGE_WORDS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{layout::DATA, testing::loads};
    use std::collections::{BTreeMap, BTreeSet};

    #[test]
    fn the_share_of_pages_is_touched_evenly_and_no_other() {
        const PAGES: u64 = 4096;
        for share in [0.25, 0.9, 1.0] {
            let draws = 200_000u32;
            let sparse = || Sparse::new(PAGES * BASE_BYTES, share, draws.into(), 3);
            let mut seen = BTreeMap::new();
            for at in loads(sparse()) {
                *seen.entry((at - DATA) / BASE_BYTES).or_insert(0u32) += 1;
            }
            let touched: BTreeSet<u64> = (0..PAGES).filter(|&p| sparse().draw.touches(p)).collect();
            assert_eq!(seen.keys().copied().collect::<BTreeSet<_>>(), touched);
            let expected = share * PAGES as f64;
            let deviation = (expected * (1.0 - share)).sqrt();
            assert!((touched.len() as f64 - expected).abs() <= 4.0 * deviation, "{} of {expected}", touched.len());
            let each = f64::from(draws) / touched.len() as f64;
            assert!(seen.values().all(|&n| (f64::from(n) - each).abs() < 6.0 * each.sqrt()));
        }
    }
}
