//! Runs of neighbouring pages of one size that lie in neighbouring frames: the contiguity that paper 4 (section 7.1)
//! measures.

use mmulab_addr::PageOrder;
use mmulab_pagetable::Leaf;
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;

/// Orders of the aligned blocks of base pages that are counted: 8K to 1M. Linux gives these sizes between base pages
/// and huge ones (Documentation/admin-guide/mm/transhuge.rst, multi-size THP; 8K for files only).
const BLOCKS: std::ops::RangeInclusive<u8> = 1..=8;
const BLOCK_COUNT: usize = 8;

/// How many runs of each length there are, by page size.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Runs(BTreeMap<PageOrder, OfSize>);

#[derive(Clone, PartialEq, Eq, Debug, Default)]
struct OfSize {
    lengths: BTreeMap<u64, u64>,
    blocks: [u64; BLOCK_COUNT],
}

/// Use of a piece of memory.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum MemoryKind {
    /// A file that can be executed.
    Code,
    /// A file that cannot: constants, and data, of which a program has pages of its own once it wrote to them.
    File,
    /// The brk heap.
    Heap,
    /// A stack that grows.
    Stack,
    /// All else: anonymous mappings.
    Anon,
}

/// Runs by what the memory is for; a run ends where that changes.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct RunsByKind(BTreeMap<MemoryKind, Runs>);

impl RunsByKind {
    /// The runs of a kind.
    pub(crate) fn of(&mut self, kind: MemoryKind) -> &mut Runs {
        self.0.entry(kind).or_default()
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        for (&kind, runs) in &other.0 {
            self.of(kind).merge(runs);
        }
    }

    /// By kind and page size, as both are written.
    pub fn by_kind(&self) -> BTreeMap<MemoryKind, BTreeMap<String, RunsOfSize>> {
        let told = self.0.iter().map(|(&kind, runs)| (kind, runs.by_size()));
        told.filter(|(_, by_size)| !by_size.is_empty()).collect()
    }
}

/// Runs of pages of one size.
#[derive(Debug, PartialEq, Serialize, JsonSchema)]
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
    /// Of base pages: those in whole aligned blocks of each size that lie in an aligned block of frames.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub in_blocks: BTreeMap<PageOrder, u64>,
}

impl Runs {
    /// Adds a run of `pages` pages of `order`, from base page `first` on, which lies in `frame`.
    pub fn add(&mut self, order: PageOrder, first: u64, frame: u64, pages: u64) {
        let mine = self.0.entry(order).or_default();
        *mine.lengths.entry(pages).or_default() += 1;
        if order == PageOrder::P4K {
            for (count, block) in mine.blocks.iter_mut().zip(BLOCKS) {
                let size = PageOrder::new(block).base_pages();
                if first % size == frame % size {
                    *count += ((first + pages) / size).saturating_sub(first.div_ceil(size)) * size;
                }
            }
        }
    }

    /// Together with another's.
    pub(crate) fn merge(&mut self, other: &Self) {
        for (&order, others) in &other.0 {
            let mine = self.0.entry(order).or_default();
            for (&length, runs) in &others.lengths {
                *mine.lengths.entry(length).or_default() += runs;
            }
            for (count, more) in mine.blocks.iter_mut().zip(others.blocks) {
                *count += more;
            }
        }
    }

    /// By page size, as sizes are written.
    pub fn by_size(&self) -> BTreeMap<String, RunsOfSize> {
        let of = |order: PageOrder, found: &OfSize| {
            let OfSize { lengths, blocks } = found;
            let (mut pages, mut runs, mut squares) = (0, 0, 0u128);
            for (&length, &count) in lengths {
                pages += length * count;
                runs += count;
                squares += u128::from(length) * u128::from(length) * u128::from(count);
            }
            let average = if pages == 0 { 0.0 } else { squares as f64 / pages as f64 };
            let blocks = blocks.iter().zip(BLOCKS).filter(|_| order == PageOrder::P4K);
            let in_blocks = blocks.map(|(&pages, block)| (PageOrder::new(block), pages)).collect();
            RunsOfSize { pages, runs, average, lengths: lengths.clone(), in_blocks }
        };
        self.0.iter().map(|(&order, found)| (order.to_string(), of(order, found))).collect()
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
        if let Some((page, leaf, length)) = self.0.take() {
            let before = (length - 1) * leaf.order.base_pages();
            into.add(leaf.order, page - before, leaf.pfn.0 - before, length);
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
        assert!(of.in_blocks.is_empty());
    }

    /// Pages 14 to 47 in frames 30 to 63 have whole blocks. Of 16 pages they have two (from 16 and 32 on), of 8 four,
    /// of 4 eight, and of 2 all. The same pages in frames 31 to 64 have none of any.
    #[test]
    fn whole_aligned_blocks_are_counted() {
        let mut runs = Runs::default();
        runs.add(PageOrder::P4K, 14, 30, 34);
        runs.add(PageOrder::P4K, 14, 31, 34);
        let of = &runs.by_size()["4K"];
        let found: Vec<u64> = of.in_blocks.values().copied().collect();
        assert_eq!(found, [34, 32, 32, 32, 0, 0, 0, 0]);
        assert_eq!((of.pages, of.runs), (68, 2));
    }
}
