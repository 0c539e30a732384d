//! Generator `first-touch`: one store to each of many pages, in random order, none of which was touched before. Each
//! store is a page fault, unless a fault before it mapped a page larger than the distance between them.
//!
//! This is what the fault-latency tool of Elastic Translations does (paper 3, section VII-F; `pflat` of its artifact: a
//! mapping of 100 GiB, 100,000 faults, the pages shuffled). The tool touches every page of its mapping and unmaps them
//! to begin anew; here no page is touched twice.

use super::Describe;
use crate::{
    algorithm::{Algorithm, Sharing},
    layout::Layout,
    memory::{Array, Memory, Setup},
    seed::{Shuffle, mix},
};
use mmulab_addr::{Bytes, show_bytes};
use mmulab_trace::Loads;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// First touches of pages in random order.
#[derive(Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct FirstTouchDesc {
    /// Size of the mapping. Default 1G.
    #[schemars(extend("x-least" = "4K", "x-most" = "64T"))]
    footprint: Bytes,
    /// Size of the pages, each of which is touched at its first byte and at most once. Default 4K.
    #[schemars(extend("x-least" = "4K", "x-most" = "1G", "x-power-of-two" = true))]
    page: Bytes,
    /// Pages touched, at most those of the mapping. `k`, `M` and `G` are powers of 1000. Default 100000.
    #[schemars(range(min = 0, max = 1u64 << 40))]
    touches: u64,
    /// Seed of the order. Default 1.
    #[schemars(range(min = 0, max = i64::MAX))]
    seed: u64,
}

impl Default for FirstTouchDesc {
    fn default() -> Self {
        Self { footprint: Bytes(1 << 30), page: Bytes(4 << 10), touches: 100_000, seed: 1 }
    }
}

impl Describe for FirstTouchDesc {
    const NAME: &str = "first-touch";
    type Algorithm = FirstTouch;

    fn algorithm(&self) -> Result<FirstTouch, String> {
        let pages = self.footprint.0 / self.page.0;
        if self.touches > pages {
            let (footprint, page) = (show_bytes(self.footprint.0), show_bytes(self.page.0));
            return Err(format!(
                "touches is {}, but {footprint} hold {pages} pages of {page}: give 0 to {pages}, or a larger footprint",
                self.touches
            ));
        }
        Ok(FirstTouch::new(self.footprint.0, self.page.0, self.touches, self.seed))
    }
}

/// One store to each of the first pages of a random order.
#[derive(Clone)]
pub struct FirstTouch {
    layout: Layout,
    bytes: Array<u8>,
    page: u64,
    pages: u64,
    touches: u64,
    /// Of the next power of two: what lies beyond the pages is passed over.
    order: Shuffle,
    at: u64,
}

/// What the tool stores.
const STORED: u8 = 0xff;

impl FirstTouch {
    /// `touches` pages of `page` bytes out of `footprint` bytes.
    pub fn new(footprint: u64, page: u64, touches: u64, seed: u64) -> Self {
        let mut layout = Layout::default();
        let bytes = layout.array(footprint);
        let pages = footprint / page;
        let order = Shuffle::new(pages.max(1).next_power_of_two(), mix(seed));
        Self { layout, bytes, page, pages, touches, order, at: 0 }
    }

    /// The page that touch `n` is to. A number beyond the pages goes round the permutation again until it is one of
    /// them: so each page has one number.
    #[inline(always)]
    fn nth(&self, n: u64) -> u64 {
        let mut page = self.order.forth(n);
        while page >= self.pages {
            page = self.order.forth(page);
        }
        page
    }
}

impl Algorithm for FirstTouch {
    fn loads(&self) -> Option<Loads> {
        Some(Loads::Independent)
    }

    fn layout(&self) -> &Layout {
        &self.layout
    }

    fn rounds(&self) -> Option<u64> {
        Some(self.touches)
    }

    fn instructions_before(&self, round: u64) -> Option<u64> {
        // Take the next page, store a byte, advance, compare, branch: the order itself is taken to be there already.
        round.checked_mul(5)
    }

    /// Nothing: memory that was stored to before would not be touched for the first time.
    fn prepare(&self, _: &mut impl Setup) {}

    fn sharing(&self) -> Sharing {
        Sharing::INTERVALS
    }

    fn seek(&mut self, round: u64) -> bool {
        self.at = round;
        true
    }

    #[inline(always)]
    fn round(&mut self, m: &mut impl Memory) -> bool {
        m.block(0, 5);
        let page = self.nth(self.at);
        self.at += 1;
        m.store(self.bytes, page * self.page, || STORED);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::model;
    use std::collections::BTreeSet;

    #[test]
    fn each_page_is_touched_once_and_in_no_order() {
        // 100 pages, which is no power of two.
        let touched = FirstTouch::new(100 << 12, 4 << 10, 100, 3);
        let order: Vec<u64> = (0..100).map(|n| touched.nth(n)).collect();
        assert_eq!(order.iter().collect::<BTreeSet<_>>().len(), 100);
        assert!(order.iter().all(|&page| page < 100));
        let steps = order.windows(2).filter(|pair| pair[1] == pair[0] + 1).count();
        assert!(steps < 8, "{steps} of 99 steps go to the next page");
        assert_ne!(order, (0..100).map(|n| FirstTouch::new(100 << 12, 4 << 10, 100, 4).nth(n)).collect::<Vec<_>>());
    }

    #[test]
    fn it_stores_one_byte_of_each() {
        let mut run = model(FirstTouch::new(1 << 20, 64 << 10, 7, 1));
        let bytes = run.array(|algorithm| algorithm.bytes);
        let stored: Vec<usize> = (0..bytes.len()).filter(|&at| bytes[at] == STORED).collect();
        assert_eq!(stored.len(), 7);
        assert!(stored.iter().all(|at| at % (64 << 10) == 0));
    }

    #[test]
    fn more_touches_than_pages_are_refused() {
        let asked = FirstTouchDesc { footprint: Bytes(2 << 20), page: Bytes(64 << 10), touches: 33, seed: 1 };
        let why = asked.algorithm().err().unwrap_or_default();
        assert!(why.contains("touches is 33") && why.contains("give 0 to 32"), "{why}");
    }
}
