//! A page table that an address space shares with others, for an aligned range of its addresses. It has the part of a
//! file that they show, and the pages that the address space counts as mapped.

use crate::memory::shared_tables::Mapping;
use mmulab_addr::PageOrder;
use std::collections::BTreeMap;

/// A shared table of an address space.
#[derive(Clone, Debug)]
pub(crate) struct Window {
    /// Its mapping.
    pub mapping: Mapping,
    /// The pages that this address space counts as mapped: the number of their first base page in the range, and their
    /// size.
    counted: BTreeMap<u64, PageOrder>,
}

impl Window {
    /// Of which nothing is counted yet.
    pub fn new(mapping: Mapping) -> Self {
        Self { mapping, counted: BTreeMap::new() }
    }

    /// The page of this size at base page number `index` is counted.
    pub fn count(&mut self, index: u64, order: PageOrder) {
        self.counted.insert(index, order);
    }

    /// Whether the page that begins at base page number `index` is.
    pub fn is_counted(&self, index: u64) -> bool {
        self.counted.contains_key(&index)
    }

    /// All that are counted.
    pub fn counted(&self) -> impl Iterator<Item = (u64, PageOrder)> {
        self.counted.iter().map(|(&index, &order)| (index, order))
    }
}
