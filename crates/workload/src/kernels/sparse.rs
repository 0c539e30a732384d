use super::Describe;
use crate::{
    kernel::Kernel,
    layout::Layout,
    memory::{Array, Memory, Setup},
    query::size,
    seed::{below, mix, nth},
};
use mmulab_addr::BASE_BYTES;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Loads from random pages of those that are touched.
#[derive(Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SparseDesc {
    /// Size of the array, from 4K to 64T. Default 64M.
    footprint: String,
    /// Share of its pages that are touched, each at random, from 0.01 to 1. Default 0.9.
    share: f64,
    /// Loads. `k`, `M` and `G` are powers of 1000. Default 1000000.
    references: u64,
    /// Seed. Default 1.
    seed: u64,
}

impl Default for SparseDesc {
    fn default() -> Self {
        Self { footprint: "64M".into(), share: 0.9, references: 1_000_000, seed: 1 }
    }
}

impl Describe for SparseDesc {
    const NAME: &str = "sparse";
    type Kernel = Sparse;

    fn kernel(&self) -> Result<Sparse, String> {
        if !(0.01..=1.0).contains(&self.share) {
            return Err(format!("share is {}: give 0.01 to 1", self.share));
        }
        Ok(Sparse::new(size(&self.footprint)?, self.share, self.references, self.seed))
    }
}

/// Loads from random pages of those that are touched at all: each page of the footprint is, with one probability. What a
/// program does with code of which it needs a part (paper 1, section 5.4).
pub struct Sparse {
    layout: Layout,
    words: Array<u64>,
    pages: u64,
    /// A page is touched if its hash is below this.
    below: u64,
    salt: u64,
    references: u64,
    key: u64,
    at: u64,
}

/// Words of a page.
const PAGE_WORDS: u64 = BASE_BYTES / 8;
/// Draws before a page is taken as it comes: so many that with a hundredth of the pages touched it happens once in 10^17.
const MOST_DRAWS: u32 = 4096;

impl Sparse {
    /// Of `footprint` bytes (whole pages) the share `share` (above 0, at most 1) is touched.
    pub fn new(footprint: u64, share: f64, references: u64, seed: u64) -> Self {
        let pages = footprint / BASE_BYTES;
        let mut layout = Layout::default();
        let words = layout.array(pages * PAGE_WORDS);
        // As a cast saturates, a share of 1 takes all hashes but the largest.
        let below = (share * 2f64.powi(64)) as u64;
        Self { layout, words, pages, below, salt: mix(seed), references, key: mix(!seed), at: 0 }
    }

    /// Whether `page` is among those that are touched.
    #[inline(always)]
    fn touches(&self, page: u64) -> bool {
        self.below == u64::MAX || mix(self.salt ^ page) < self.below
    }
}

impl Kernel for Sparse {
    fn layout(&self) -> &Layout {
        &self.layout
    }

    fn rounds(&self) -> Option<u64> {
        Some(self.references)
    }

    fn instructions_before(&self, round: u64) -> Option<u64> {
        // Take the next index, load the element, add to the sum, advance, compare, branch.
        round.checked_mul(6)
    }

    fn prepare(&mut self, setup: &mut impl Setup) {
        setup.fill(self.words, |word| word);
    }

    fn seek(&mut self, round: u64) -> bool {
        self.at = round;
        true
    }

    #[inline(always)]
    fn round(&mut self, m: &mut impl Memory) -> bool {
        m.block(0, 6);
        let mut random = nth(self.key, self.at);
        self.at += 1;
        // A footprint none of whose pages is touched has its last draw touched all the same.
        let mut page = 0;
        for _ in 0..MOST_DRAWS {
            page = below(random, self.pages);
            random = mix(random);
            if self.touches(page) {
                break;
            }
        }
        m.load(self.words, page * PAGE_WORDS + below(random, PAGE_WORDS), || 0);
        true
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
            let touched: BTreeSet<u64> = (0..PAGES).filter(|&p| sparse().touches(p)).collect();
            assert_eq!(seen.keys().copied().collect::<BTreeSet<_>>(), touched);
            let expected = share * PAGES as f64;
            let deviation = (expected * (1.0 - share)).sqrt();
            assert!((touched.len() as f64 - expected).abs() <= 4.0 * deviation, "{} of {expected}", touched.len());
            let each = f64::from(draws) / touched.len() as f64;
            assert!(seen.values().all(|&n| (f64::from(n) - each).abs() < 6.0 * each.sqrt()));
        }
    }
}
