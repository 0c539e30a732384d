//! Bins: the sampled pages put together by every page size. They nest, so they are kept as a tree. The bins of one
//! level are in the order of their addresses. Each has the range of bins of the level below that lie in it.

use crate::{
    goal::{LeshyError, Weight},
    profile::Profile,
};
use mmulab_addr::PageOrder;
use std::{cmp::Reverse, ops::Range};

/// An aligned piece of memory of one page size, with the samples in it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bin {
    /// The number of its first 4 KiB page.
    pub first_page: u64,
    /// Samples.
    pub misses: u64,
    /// Cycles of the sampled walks.
    pub cycles: u64,
    /// 4 KiB pages with samples.
    pub pages: u64,
}

impl Bin {
    /// What it counts for.
    #[inline]
    pub fn weight(&self, weight: Weight) -> u64 {
        match weight {
            Weight::Misses => self.misses,
            Weight::Latency => self.cycles,
        }
    }

    /// What bins are sorted by: the weight, then the other figure, then distinct pages, as the artifact does it.
    fn heat(&self, weight: Weight) -> [Reverse<u64>; 3] {
        let (first, second) = match weight {
            Weight::Misses => (self.misses, self.cycles),
            Weight::Latency => (self.cycles, self.misses),
        };
        [Reverse(first), Reverse(second), Reverse(self.pages)]
    }
}

/// A bin that is to be mapped by one page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Entry {
    /// The size of the page.
    pub order: PageOrder,
    /// The memory, with its samples.
    pub bin: Bin,
}

/// The bins of one page size.
#[derive(Debug)]
pub struct Level {
    /// The size.
    pub order: PageOrder,
    /// The bins, by address.
    pub bins: Vec<Bin>,
    /// Their indices, hottest first.
    pub by_heat: Vec<u32>,
    /// The place of each bin in `by_heat`.
    pub(crate) rank: Vec<u32>,
    /// The index of the bin of the next larger size around each.
    pub(crate) parent: Vec<u32>,
    /// The index of the first bin of the next smaller size in each, and their number at the end. Empty at the smallest.
    pub(crate) first: Vec<u32>,
}

impl Level {
    /// The bins of the next smaller size within these.
    pub(crate) fn within(&self, bins: Range<usize>) -> Range<usize> {
        self.first[bins.start] as usize..self.first[bins.end] as usize
    }

    /// The bins, hottest first, with their indices.
    pub(crate) fn hottest(&self) -> impl Iterator<Item = (usize, &Bin)> {
        self.by_heat.iter().map(|&index| (index as usize, &self.bins[index as usize]))
    }
}

/// The bins of a profile.
#[derive(Debug)]
pub struct Bins {
    levels: Vec<Level>,
    weight: Weight,
    total: u64,
}

impl Bins {
    /// The bins of `profile` for pages of `sizes`, with misses weighed by `weight`.
    ///
    /// # Errors
    /// The profile has nothing to weigh, or `sizes` are none.
    pub fn new(profile: &Profile, sizes: &[PageOrder], weight: Weight) -> Result<Self, LeshyError> {
        let mut sizes = sizes.to_vec();
        sizes.sort_unstable();
        if sizes.is_empty() || sizes.windows(2).any(|two| two[0] == two[1]) || sizes.iter().any(|&s| s > PageOrder::P1G)
        {
            let named: Vec<_> = sizes.iter().map(ToString::to_string).collect();
            return Err(LeshyError::Sizes(named.join(",")));
        }
        let pages = profile.pages();
        if pages.is_empty() {
            return Err(LeshyError::Empty);
        }
        let mut levels: Vec<Level> = Vec::with_capacity(sizes.len());
        for order in sizes {
            let level = match levels.last_mut() {
                None => {
                    let bins = pages.iter().map(|page| Bin {
                        first_page: page.number,
                        misses: page.misses,
                        cycles: page.cycles,
                        pages: 1,
                    });
                    gather(order, bins, weight).0
                }
                Some(below) => {
                    let (mut level, parent) = gather(order, below.bins.iter().copied(), weight);
                    level.first = firsts(&parent, level.bins.len());
                    below.parent = parent;
                    level
                }
            };
            levels.push(level);
        }
        let total = levels[0].bins.iter().map(|bin| bin.weight(weight)).sum();
        if total == 0 {
            return Err(LeshyError::NoLatency);
        }
        Ok(Self { levels, weight, total })
    }

    /// The levels, smallest page size first.
    pub fn levels(&self) -> &[Level] {
        &self.levels
    }

    /// The page sizes, smallest first.
    pub fn sizes(&self) -> Vec<PageOrder> {
        self.levels.iter().map(|level| level.order).collect()
    }

    /// What misses are weighed by.
    pub fn weight(&self) -> Weight {
        self.weight
    }

    /// All misses, as weighed.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// A bin.
    pub(crate) fn bin(&self, level: usize, index: usize) -> &Bin {
        &self.levels[level].bins[index]
    }

    /// What a bin counts for.
    pub(crate) fn weight_of(&self, level: usize, index: usize) -> u64 {
        self.bin(level, index).weight(self.weight)
    }

    /// The bin of `order` that begins at a page.
    pub(crate) fn find(&self, order: PageOrder, first_page: u64) -> Option<(usize, usize)> {
        let level = self.levels.iter().position(|level| level.order == order)?;
        let index = self.levels[level].bins.binary_search_by_key(&first_page, |bin| bin.first_page).ok()?;
        Some((level, index))
    }
}

/// Bins of `order` made of smaller pieces, which come by address; and the bin that each piece lies in.
fn gather(order: PageOrder, pieces: impl Iterator<Item = Bin>, weight: Weight) -> (Level, Vec<u32>) {
    let mut bins: Vec<Bin> = Vec::new();
    let mut parent = Vec::new();
    for piece in pieces {
        let first_page = piece.first_page & !(order.base_pages() - 1);
        match bins.last_mut() {
            Some(bin) if bin.first_page == first_page => {
                bin.misses += piece.misses;
                bin.cycles += piece.cycles;
                bin.pages += piece.pages;
            }
            _ => bins.push(Bin { first_page, ..piece }),
        }
        parent.push(bins.len() as u32 - 1);
    }
    // With their keys beside them: millions of bins are sorted several times faster so. Of equal bins the one at the
    // lower address is the hotter one, so that nothing depends on the order of samples.
    let mut keyed: Vec<([Reverse<u64>; 3], u32)> = bins.iter().zip(0..).map(|(bin, n)| (bin.heat(weight), n)).collect();
    keyed.sort_unstable();
    let by_heat: Vec<u32> = keyed.into_iter().map(|(_, index)| index).collect();
    let mut rank = vec![0; bins.len()];
    by_heat.iter().zip(0..).for_each(|(&index, place)| rank[index as usize] = place);
    (Level { order, bins, by_heat, rank, parent: Vec::new(), first: Vec::new() }, parent)
}

/// The first child of each of `count` parents, and the number of children.
fn firsts(parent: &[u32], count: usize) -> Vec<u32> {
    let mut first = Vec::with_capacity(count + 1);
    for (child, &of) in parent.iter().enumerate() {
        if first.len() == of as usize {
            first.push(child as u32);
        }
    }
    first.push(parent.len() as u32);
    first
}
