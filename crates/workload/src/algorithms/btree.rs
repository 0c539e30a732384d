//! Generator `btree`: lookups of random keys in a B+ tree, one lookup per round. Node contents are computed from the
//! node's number, so the generator stores no tree. Each level of a lookup takes dependent loads:
//!
//! ```text
//! node record (56 bytes) --> cache lines of keys, searched in order
//!                        `-> cache lines of pointers --> node record of the next level
//!                                                    `-> in a leaf: record of the key (32 bytes)
//! ```

use super::Describe;
use crate::{
    algorithm::{Algorithm, Sharing},
    flow::{FREE, flow, from, to},
    layout::Layout,
    memory::{Array, Memory, Setup},
    seed::{below, mix, nth},
};
use mmulab_trace::Loads;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Lookups of random keys in a B+ tree.
#[derive(Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct BtreeDesc {
    /// Keys in the tree; each takes some 70 bytes with an order of 6. Default 1M.
    #[schemars(range(min = 1, max = 1_000_000_000_000u64))]
    elements: u64,
    /// Most children of a node. Default 6, as in the benchmark.
    #[schemars(range(min = 3, max = 512))]
    order: u64,
    /// Lookups. Default 100k.
    #[schemars(range(min = 0, max = 1u64 << 40))]
    lookups: u64,
    /// Chooses the keys looked up. Default 1.
    #[schemars(range(min = 0, max = i64::MAX))]
    seed: u64,
}

impl Default for BtreeDesc {
    fn default() -> Self {
        Self { elements: 1_000_000, order: 6, lookups: 100_000, seed: 1 }
    }
}

impl Describe for BtreeDesc {
    const NAME: &str = "btree";
    type Algorithm = Btree;

    fn algorithm(&self) -> Result<Btree, String> {
        Ok(Btree::new(self.elements, self.order, self.lookups, self.seed))
    }
}

/// The BTree benchmark of Achermann et al., "Mitosis: Transparently self-replicating page-tables for large-memory
/// machines", ASPLOS 2020 (`mitosis-workload-btree`). A node is a record of 56 bytes that points at its keys and its
/// pointers, each in cache lines of their own. Keys are searched one after another. Leaves point at records of 32
/// bytes. Every second number is a key (`CONFIG_DEFAULT_KEY_STRIDE`).
///
/// The benchmark inserts its keys in order, which leaves nodes half full; this tree is loaded full, leaves first.
#[derive(Clone)]
pub struct Btree {
    layout: Layout,
    is_leaf: Array<u8>,
    num_keys: Array<u64>,
    keys_at: Array<u64>,
    pointers_at: Array<u64>,
    /// Cache lines of keys and pointers, as words; a node's begin at `node * words`.
    lines: Array<u64>,
    records: Array<u64>,
    /// The levels, leaves first.
    levels: Vec<Level>,
    order: u64,
    words: u64,
    keys_words: u64,
    elements: u64,
    lookups: u64,
    key: u64,
    at: u64,
}

#[derive(Clone, Copy, Debug)]
struct Level {
    /// The number of its first node.
    first: u64,
    nodes: u64,
    /// Elements below one node of it.
    span: u64,
}

const NODE_BYTES: u64 = 56;
const RECORD_BYTES: u64 = 32;
const LINE_WORDS: u64 = 8;
const KEY_STRIDE: u64 = 2;
// Fields of a node.
const POINTERS: u64 = 0;
const KEYS: u64 = 8;
const IS_LEAF: u64 = 24;
const NUM_KEYS: u64 = 32;

impl Btree {
    /// A tree of `elements` keys whose nodes have up to `order` children, and `lookups` of random ones.
    pub fn new(elements: u64, order: u64, lookups: u64, seed: u64) -> Self {
        let mut levels = vec![Level { first: 0, nodes: elements.div_ceil(order - 1), span: order - 1 }];
        loop {
            let below = levels[levels.len() - 1];
            if below.nodes == 1 {
                break;
            }
            let first = below.first + below.nodes;
            levels.push(Level { first, nodes: below.nodes.div_ceil(order), span: below.span * order });
        }
        let root = levels[levels.len() - 1];
        let keys_words = (order - 1).next_multiple_of(LINE_WORDS);
        let words = keys_words + order.next_multiple_of(LINE_WORDS);
        let nodes = root.first + 1;
        let mut layout = Layout::default();
        let node = layout.records(nodes, NODE_BYTES);
        let lines = layout.array(nodes * words);
        let records = layout.records(elements, RECORD_BYTES).field(0);
        Self {
            layout,
            is_leaf: node.field(IS_LEAF),
            num_keys: node.field(NUM_KEYS),
            keys_at: node.field(KEYS),
            pointers_at: node.field(POINTERS),
            lines,
            records,
            levels,
            order,
            words,
            keys_words,
            elements,
            lookups,
            key: mix(seed),
            at: 0,
        }
    }

    /// Which level a node is on.
    fn level(&self, node: u64) -> usize {
        self.levels.iter().rposition(|l| l.first <= node).unwrap_or(0)
    }

    /// Keys of a node of `level`.
    #[inline(always)]
    fn keys(&self, level: usize, node: u64) -> u64 {
        let index = node - self.levels[level].first;
        if level == 0 {
            (self.elements - index * (self.order - 1)).min(self.order - 1)
        } else {
            (self.levels[level - 1].nodes - index * self.order).min(self.order) - 1
        }
    }

    /// Key `i` of a node: the first one below its child `i + 1`.
    #[inline(always)]
    fn key(&self, level: usize, node: u64, i: u64) -> u64 {
        let index = node - self.levels[level].first;
        let element = if level == 0 {
            index * (self.order - 1) + i
        } else {
            (index * self.order + i + 1) * self.levels[level - 1].span
        };
        element * KEY_STRIDE
    }

    /// What pointer `i` of a node points at: a node, or a record.
    #[inline(always)]
    fn pointer(&self, level: usize, node: u64, i: u64) -> u64 {
        let index = node - self.levels[level].first;
        if level == 0 { index * (self.order - 1) + i } else { self.levels[level - 1].first + index * self.order + i }
    }

    /// The content of word `at` of all lines.
    fn word(&self, at: u64) -> u64 {
        let (node, word) = (at / self.words, at % self.words);
        let level = self.level(node);
        let keys = self.keys(level, node);
        let pointers = if level == 0 { keys } else { keys + 1 };
        match word.checked_sub(self.keys_words) {
            None if word < keys => self.key(level, node, word),
            Some(i) if i < pointers => self.pointer(level, node, i),
            _ => 0,
        }
    }
}

impl Algorithm for Btree {
    fn loads(&self) -> Option<Loads> {
        // Each level's node is loaded from the pointers of the level above, whose place is in that node's record. Its
        // keys lie where the record says. Which key ends a search is a branch. Lookups begin at the root and wait for
        // nothing. The root's record is one line: that its pointers wait for its first field takes no time.
        const NODE: u8 = 1;
        const KEYS: u8 = 2;
        const POINTERS: u8 = 3;
        flow(&[
            (0, &[to(NODE, FREE), FREE, to(KEYS, FREE)]),
            (1, &[from(KEYS)]),
            (2, &[from(KEYS)]),
            (3, &[to(POINTERS, from(NODE)), to(NODE, from(POINTERS)), from(NODE), from(NODE), to(KEYS, from(NODE))]),
        ])
    }

    fn layout(&self) -> &Layout {
        &self.layout
    }

    fn rounds(&self) -> Option<u64> {
        Some(self.lookups)
    }

    fn prepare(&self, setup: &mut impl Setup) {
        setup.rows(self.is_leaf.len(), |node| {
            [
                self.pointers_at.cell(node, node * self.words + self.keys_words),
                self.keys_at.cell(node, node * self.words),
                self.is_leaf.cell(node, u8::from(node < self.levels[0].nodes)),
                self.num_keys.cell(node, self.keys(self.level(node), node)),
            ]
        });
        setup.fill(self.lines, |at| self.word(at));
        setup.fill(self.records, |element| element);
    }

    fn sharing(&self) -> Sharing {
        Sharing::INTERVALS
    }

    fn seek(&mut self, round: u64) -> bool {
        self.at = round;
        true
    }

    #[inline(always)]
    fn round(&mut self, m: &mut impl Memory) -> bool {
        let wanted = below(nth(self.key, self.at), self.elements) * KEY_STRIDE;
        self.at += 1;
        m.block(0, 14);
        let mut level = self.levels.len() - 1;
        let mut node = self.levels[level].first;
        loop {
            let leaf = m.load(self.is_leaf, node, || u8::from(level == 0)) != 0;
            let keys = m.load(self.num_keys, node, || self.keys(level, node));
            let keys_at = m.load(self.keys_at, node, || node * self.words);
            m.block(1, 6);
            let mut i = 0;
            while i < keys {
                let key = m.load(self.lines, keys_at + i, || self.key(level, node, i));
                m.block(2, 4);
                if if leaf { key == wanted } else { key > wanted } {
                    break;
                }
                i += 1;
            }
            m.block(3, 5);
            if leaf && i == keys {
                return true;
            }
            let pointers_at = m.load(self.pointers_at, node, || node * self.words + self.keys_words);
            let next = m.load(self.lines, pointers_at + i, || self.pointer(level, node, i));
            if leaf {
                m.load(self.records, next, || 0);
                return true;
            }
            node = next;
            level = level.saturating_sub(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{model, ready};

    #[test]
    fn every_lookup_ends_at_the_record_of_its_key() {
        for (elements, order) in [(1, 3), (2, 3), (3, 3), (1000, 3), (10_000, 6), (5_000, 100), (7, 512)] {
            let found = model(Btree::new(elements, order, 300, 9));
            let records = found.algorithm.layout.regions()[2].base;
            let reached: Vec<u64> = found.memory.done.iter().filter(|r| r.0 >= records).map(|r| r.0).collect();
            let wanted: Vec<u64> = (0..300).map(|n| records + below(nth(mix(9), n), elements) * 32).collect();
            assert_eq!(reached, wanted, "{elements} elements, order {order}");
        }
    }

    #[test]
    fn keys_rise_from_leaf_to_leaf() {
        let mut tree = ready(Btree::new(1000, 6, 0, 1));
        let lines = tree.array(|k| k.lines);
        let leaves = tree.algorithm.levels[0].nodes;
        let keys: Vec<u64> = (0..leaves)
            .flat_map(|leaf| (0..tree.algorithm.keys(0, leaf)).map(move |i| (leaf, i)))
            .map(|(leaf, i)| lines[(leaf * 16 + i) as usize])
            .collect();
        assert_eq!(keys, (0..1000).map(|n| 2 * n).collect::<Vec<u64>>());
        // 200 leaves of 5 keys, then 34, 6 and 1 nodes of up to 6 children.
        assert_eq!(tree.algorithm.levels.iter().map(|l| l.nodes).collect::<Vec<_>>(), [200, 34, 6, 1]);
    }
}
