//! Rows of tables: what databases copy and change.

use crate::{
    layout::Layout,
    memory::{Array, Memory, Setup},
};

/// A copy moves as much at once: a vector register's.
const MOVE_BYTES: u64 = 32;
const WORD_BYTES: u64 = 8;

/// Rows of a number of bytes, whose contents decide nothing.
#[derive(Clone, Copy, Debug)]
pub struct Rows {
    words: Array<u64>,
    bytes: u64,
}

impl Rows {
    /// `len` rows of `bytes`, rounded up to words.
    pub fn new(layout: &mut Layout, len: u64, bytes: u64) -> Self {
        let bytes = bytes.next_multiple_of(WORD_BYTES);
        Self { words: layout.records(len, bytes).words(), bytes }
    }

    /// How many there are.
    pub fn len(&self) -> u64 {
        self.words.len() / (self.bytes / WORD_BYTES)
    }

    /// Fills the first `rows`.
    pub fn fill(&self, setup: &mut impl Setup, rows: u64) {
        setup.rows(rows * self.bytes / WORD_BYTES, |word| [self.words.cell(word, word)]);
    }

    #[inline(always)]
    fn word(&self, row: u64, byte: u64) -> u64 {
        (row * self.bytes + byte) / WORD_BYTES
    }

    /// Loads the word at `byte` of a row.
    #[inline(always)]
    pub fn get(&self, m: &mut impl Memory, row: u64, byte: u64) -> u64 {
        let word = self.word(row, byte);
        m.load(self.words, word, || word)
    }

    /// Stores the word at `byte` of a row.
    #[inline(always)]
    pub fn put(&self, m: &mut impl Memory, row: u64, byte: u64, value: u64) {
        m.store(self.words, self.word(row, byte), || value);
    }

    /// Loads a number and stores it changed.
    #[inline(always)]
    pub fn change(&self, m: &mut impl Memory, row: u64, byte: u64) {
        let before = self.get(m, row, byte);
        self.put(m, row, byte, before.wrapping_add(1));
    }

    /// Loads the bytes from `from` to `to` of a row, a vector register at a time.
    #[inline(always)]
    pub fn read(&self, m: &mut impl Memory, row: u64, from: u64, to: u64) {
        let mut byte = from;
        while byte < to {
            self.get(m, row, byte);
            byte += MOVE_BYTES;
        }
    }

    /// Stores to the bytes from `from` to `to` of a row.
    #[inline(always)]
    pub fn write(&self, m: &mut impl Memory, row: u64, from: u64, to: u64) {
        let mut byte = from;
        while byte < to {
            self.put(m, row, byte, byte);
            byte += MOVE_BYTES;
        }
    }

    /// Stores a whole row, as an insertion does.
    #[inline(always)]
    pub fn insert(&self, m: &mut impl Memory, row: u64) {
        self.write(m, row, 0, self.bytes);
    }

    /// Bytes of a row.
    #[cfg(test)]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

/// A hash index with as many buckets as keys; each key has its own. A bucket points at a node with the key, which
/// points at the row (DBx1000's `index_hash.cpp`: headers and nodes of 24 bytes).
#[derive(Clone, Copy, Debug)]
pub struct Index {
    heads: Array<u64>,
    keys: Array<u64>,
    rows: Array<u64>,
}

const ENTRY_BYTES: u64 = 24;

impl Index {
    /// For keys below `keys`.
    pub fn new(layout: &mut Layout, keys: u64) -> Self {
        let heads = layout.records(keys, ENTRY_BYTES).field(0);
        let nodes = layout.records(keys, ENTRY_BYTES);
        Self { heads, keys: nodes.field(0), rows: nodes.field(16) }
    }

    /// Fills it.
    pub fn fill(&self, setup: &mut impl Setup) {
        setup.fill(self.heads, |key| key);
        setup.rows(self.keys.len(), |key| [self.keys.cell(key, key), self.rows.cell(key, key)]);
    }

    /// The row of `key`.
    #[inline(always)]
    pub fn find(&self, m: &mut impl Memory, key: u64) -> u64 {
        let node = m.load(self.heads, key, || key);
        m.load(self.keys, node, || node);
        m.load(self.rows, node, || node)
    }
}
