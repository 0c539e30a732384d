//! Runs of neighbouring pages of one size that lie in neighbouring frames: the contiguity that paper 4 (section 7.1) measures.

use mmulab_addr::PageOrder;
use mmulab_pagetable::Leaf;
use serde::Serialize;
use std::collections::BTreeMap;

/// How many runs of each length there are, by page size.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Runs(BTreeMap<PageOrder, BTreeMap<u64, u64>>);

/// Runs of pages of one size.
#[derive(Debug, PartialEq, Serialize)]
pub struct RunsOfSize {
    /// Pages.
    pub pages: u64,
    /// Runs.
    pub runs: u64,
    /// Average contiguity: the length of the run that a page is in, over all pages. Runs of 1, 1 and 2 pages have
    /// (1 + 1 + 2 x 2) / 4 = 1.5 (paper 4, section 7.1).
    pub average: f64,
    /// Runs by length.
    pub lengths: BTreeMap<u64, u64>,
}

impl Runs {
    /// Adds a run of `pages` pages of `order`.
    pub fn add(&mut self, order: PageOrder, pages: u64) {
        *self.0.entry(order).or_default().entry(pages).or_default() += 1;
    }

    /// Together with another's.
    pub(crate) fn merge(&mut self, other: &Self) {
        for (&order, lengths) in &other.0 {
            let mine = self.0.entry(order).or_default();
            for (&length, runs) in lengths {
                *mine.entry(length).or_default() += runs;
            }
        }
    }

    /// By page size, as sizes are written.
    pub fn by_size(&self) -> BTreeMap<String, RunsOfSize> {
        let of = |lengths: &BTreeMap<u64, u64>| {
            let (mut pages, mut runs, mut squares) = (0, 0, 0u128);
            for (&length, &count) in lengths {
                pages += length * count;
                runs += count;
                squares += u128::from(length) * u128::from(length) * u128::from(count);
            }
            let average = if pages == 0 { 0.0 } else { squares as f64 / pages as f64 };
            RunsOfSize { pages, runs, average, lengths: lengths.clone() }
        };
        self.0.iter().map(|(order, lengths)| (order.to_string(), of(lengths))).collect()
    }
}

/// A run that may go on.
#[derive(Default)]
pub(crate) struct Running(Option<(u64, Leaf, u64)>);

impl Running {
    /// The next mapped page, at base page `vpn`; runs that it ends go to `into`.
    pub fn next(&mut self, vpn: u64, leaf: Leaf, into: &mut Runs) {
        let rights = |l: &Leaf| (l.order, l.prot, l.user, l.global);
        let pages = leaf.order.base_pages();
        if let Some((before, last, length)) = &mut self.0 {
            let beside = *before + pages == vpn && last.pfn.0 + pages == leaf.pfn.0;
            if beside && rights(last) == rights(&leaf) {
                (*before, *last, *length) = (vpn, leaf, *length + 1);
                return;
            }
        }
        self.end(into);
        self.0 = Some((vpn, leaf, 1));
    }

    /// There are no more pages.
    pub fn end(&mut self, into: &mut Runs) {
        if let Some((_, leaf, length)) = self.0.take() {
            into.add(leaf.order, length);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mmulab_addr::{Pfn, Prot};

    /// S3-045: four translations, two of them beside each other.
    #[test]
    fn the_worked_example_is_one_and_a_half() {
        let mut runs = Runs::default();
        let mut running = Running::default();
        let order = PageOrder::P2M;
        let leaf = |frame: u64| Leaf {
            pfn: Pfn(frame * 512),
            order,
            prot: Prot::R,
            user: true,
            accessed: true,
            dirty: false,
            global: false,
        };
        for (page, frame) in [(0, 7), (2, 9), (4, 20), (5, 21)] {
            running.next(page * 512, leaf(frame), &mut runs);
        }
        running.end(&mut runs);
        let of = &runs.by_size()["2M"];
        assert_eq!((of.pages, of.runs, of.average), (4, 3, 1.5));
        assert_eq!(of.lengths, BTreeMap::from([(1, 2), (2, 1)]));
    }
}
