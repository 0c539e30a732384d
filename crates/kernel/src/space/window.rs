//! A lowest page table that an address space shares with others, for 2 MiB of its addresses. It has the part of a file
//! that they show, and the entries that the address space counts as mapped.

use crate::memory::shared_tables::Mapping;

/// Words of a bit for each of its entries.
const WORDS: usize = 8;

/// A shared table of an address space.
#[derive(Clone, Debug)]
pub(crate) struct Window {
    /// Its mapping.
    pub mapping: Mapping,
    /// The entries that this address space counts as mapped.
    counted: [u64; WORDS],
}

impl Window {
    /// Of which nothing is counted yet.
    pub fn new(mapping: Mapping) -> Self {
        Self { mapping, counted: [0; WORDS] }
    }

    /// Entry number `index` is counted.
    pub fn count(&mut self, index: u64) {
        self.counted[index as usize / 64] |= 1 << (index % 64);
    }

    /// Whether entry number `index` is.
    pub fn is_counted(&self, index: u64) -> bool {
        self.counted[index as usize / 64] >> (index % 64) & 1 != 0
    }
}
