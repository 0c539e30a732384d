//! Generator `freqmine`: mining of frequent item pairs in a prefix tree of transactions. The build adds nodes in the
//! order of insertion. Mining follows link and parent fields from node to node, so its accesses jump across the tree.
//! The tree is kept, because its contents decide the accesses.

use super::Describe;
use crate::{
    algorithm::Algorithm,
    layout::Layout,
    memory::{Array, Kept, Memory, Setup},
    ranks::Ranks,
    seed::{mix, nth},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Frequent sets of items: a prefix tree of all transactions is built, then mined item by item.
#[derive(Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct FreqMineDesc {
    /// Transactions; the tree they make is kept in memory: up to 24 bytes for each item in them. PARSEC's
    /// largest input has 250000. Default 2000.
    #[schemars(range(min = 1, max = 1u64 << 32))]
    transactions: u64,
    /// Items there are. Default 1000.
    #[schemars(range(min = 2, max = 1 << 24))]
    items: u64,
    /// Items drawn for a transaction; the same one twice counts once. Default 20.
    #[schemars(range(min = 1, max = 64))]
    length: u64,
    /// How many of 1000 transactions must hold what is frequent. Default 10.
    #[schemars(range(min = 1, max = 1000))]
    support: u64,
    /// Seed. Default 1.
    #[schemars(range(min = 0, max = i64::MAX))]
    seed: u64,
}

impl Default for FreqMineDesc {
    fn default() -> Self {
        Self { transactions: 2_000, items: 1_000, length: 20, support: 10, seed: 1 }
    }
}

impl Describe for FreqMineDesc {
    const NAME: &str = "freqmine";
    type Algorithm = FreqMine;

    fn algorithm(&self) -> Result<FreqMine, String> {
        Ok(FreqMine::new(self.transactions, self.items, self.length, self.support, self.seed))
    }
}

/// FP-growth (Han, Pei and Yin, "Mining frequent patterns without candidate generation", SIGMOD 2000), as freqmine of
/// PARSEC does it. Items are counted. Then each transaction's frequent items go down the tree from the most frequent
/// on, and nodes of an item are linked. Mining follows an item's links and from each node its ancestors: what is found
/// there with it often enough is a frequent pair. Larger sets would be mined the same way in smaller trees of what was
/// found; this stops at pairs.
///
/// Items are drawn by a Zipf distribution with exponent 1, and numbered in the order of their popularity.
#[derive(Clone)]
pub struct FreqMine {
    layout: Layout,
    /// Items of transactions, each in `length` places, NOTHING behind the last.
    database: Array<u32>,
    counts: Kept<u32>,
    header: Kept<u32>,
    node_item: Kept<u32>,
    node_count: Kept<u32>,
    parent: Kept<u32>,
    child: Kept<u32>,
    sibling: Kept<u32>,
    link: Kept<u32>,
    with: Kept<u32>,
    ranks: Ranks,
    transactions: u64,
    length: u64,
    support: u32,
    key: u64,
    phase: Phase,
    at: u64,
    row: Vec<u32>,
    nodes: u32,
    /// The item that is mined, and where in its links.
    item: u64,
    node: u32,
    /// Frequent pairs found.
    pub pairs: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Count,
    Build,
    /// What was found with an item is cleared.
    Clear,
    /// An item's links are followed.
    Follow,
    /// What was found often enough is told.
    Tell,
}

const NOTHING: u32 = u32::MAX;
const NODE_BYTES: u64 = 48;
const ROOT: u32 = 0;
/// Items looked at in a round of clearing or telling.
const ITEMS_A_ROUND: u64 = 64;

impl FreqMine {
    /// Of `transactions` with up to `length` of `items`; `support` in 1000.
    pub fn new(transactions: u64, items: u64, length: u64, support: u64, seed: u64) -> Self {
        let mut layout = Layout::default();
        let database = layout.array(transactions * length);
        let (counts, header, with) = (layout.kept(items), layout.kept(items), layout.kept(items));
        let nodes = layout.records(transactions * length + 1, NODE_BYTES);
        let mut field = |offset: u64| layout.keep(nodes.field(offset));
        Self {
            database,
            counts,
            header,
            node_item: field(0),
            node_count: field(4),
            parent: field(8),
            child: field(16),
            sibling: field(24),
            link: field(32),
            with,
            layout,
            ranks: Ranks::new(items, 1.0),
            transactions,
            length,
            support: (transactions * support / 1000).max(1) as u32,
            key: mix(seed),
            phase: Phase::Count,
            at: 0,
            row: Vec::new(),
            nodes: 1,
            item: items,
            node: ROOT,
            pairs: 0,
        }
    }

    /// The items of a transaction, the most popular first.
    fn draw(&self, transaction: u64) -> Vec<u32> {
        let first = transaction * self.length;
        let eight = |i: u64| self.ranks.draw_all::<8>(std::array::from_fn(|j| nth(self.key, first + i + j as u64)));
        let ranks = (0..self.length).step_by(8).flat_map(eight);
        let mut row: Vec<u32> = ranks.take(self.length as usize).map(|rank| rank as u32).collect();
        row.sort_unstable();
        row.dedup();
        row
    }

    #[inline(always)]
    fn item_at(&self, m: &mut impl Memory, place: u64) -> u32 {
        let at = self.at * self.length + place;
        m.load(self.database, at, || self.row.get(place as usize).copied().unwrap_or(NOTHING))
    }

    fn count(&mut self, m: &mut impl Memory) {
        m.block(0, 8);
        self.row = self.draw(self.at);
        for place in 0..self.length {
            m.block(1, 6);
            let item = self.item_at(m, place);
            if item == NOTHING {
                break;
            }
            let before = m.get(self.counts, item.into());
            m.put(self.counts, item.into(), before + 1);
        }
        self.at += 1;
        if self.at == self.transactions {
            (self.phase, self.at) = (Phase::Build, 0);
        }
    }

    fn build(&mut self, m: &mut impl Memory) {
        m.block(2, 8);
        self.row = self.draw(self.at);
        let mut above = ROOT;
        for place in 0..self.length {
            m.block(3, 7);
            let item = self.item_at(m, place);
            if item == NOTHING {
                break;
            }
            if m.get(self.counts, item.into()) >= self.support {
                above = self.down(m, above, item);
            }
        }
        self.at += 1;
        if self.at == self.transactions {
            self.next_item();
        }
    }

    /// The child of `above` that stands for `item`, made if there is none; it counts one more.
    #[inline(always)]
    fn down(&mut self, m: &mut impl Memory, above: u32, item: u32) -> u32 {
        let first = m.get(self.child, above.into());
        let mut node = first;
        while node != ROOT {
            m.block(4, 5);
            if m.get(self.node_item, node.into()) == item {
                m.block(5, 4);
                let before = m.get(self.node_count, node.into());
                m.put(self.node_count, node.into(), before + 1);
                return node;
            }
            node = m.get(self.sibling, node.into());
        }
        m.block(6, 30);
        let node = self.nodes;
        self.nodes += 1;
        m.put(self.node_item, node.into(), item);
        m.put(self.node_count, node.into(), 1);
        m.put(self.parent, node.into(), above);
        m.put(self.sibling, node.into(), first);
        m.put(self.child, above.into(), node);
        let linked = m.get(self.header, item.into());
        m.put(self.link, node.into(), linked);
        m.put(self.header, item.into(), node);
        node
    }

    /// Mining begins with the least popular item.
    fn next_item(&mut self) {
        (self.phase, self.at) = (Phase::Clear, 0);
        self.item = self.item.saturating_sub(1);
    }

    fn clear(&mut self, m: &mut impl Memory) {
        if self.at == 0 {
            m.block(7, 6);
            if m.get(self.counts, self.item) < self.support {
                self.next_item();
                return;
            }
        }
        let until = self.item.min(self.at + ITEMS_A_ROUND);
        for item in self.at..until {
            m.block(8, 3);
            m.put(self.with, item, 0);
        }
        self.at = until;
        if self.at == self.item {
            m.block(9, 4);
            self.node = m.get(self.header, self.item);
            self.phase = Phase::Follow;
        }
    }

    fn follow(&mut self, m: &mut impl Memory) {
        if self.node == ROOT {
            (self.phase, self.at) = (Phase::Tell, 0);
            return;
        }
        m.block(10, 7);
        let count = m.get(self.node_count, self.node.into());
        let mut above = m.get(self.parent, self.node.into());
        while above != ROOT {
            m.block(11, 7);
            let item = m.get(self.node_item, above.into());
            let before = m.get(self.with, item.into());
            m.put(self.with, item.into(), before + count);
            above = m.get(self.parent, above.into());
        }
        self.node = m.get(self.link, self.node.into());
    }

    fn tell(&mut self, m: &mut impl Memory) {
        let until = self.item.min(self.at + ITEMS_A_ROUND);
        for item in self.at..until {
            m.block(12, 5);
            self.pairs += u64::from(m.get(self.with, item) >= self.support);
        }
        self.at = until;
        if self.at == self.item {
            self.next_item();
        }
    }
}

impl Algorithm for FreqMine {
    fn layout(&self) -> &Layout {
        &self.layout
    }

    fn rounds(&self) -> Option<u64> {
        None
    }

    fn prepare(&self, setup: &mut impl Setup) {
        let mut last = (u64::MAX, Vec::new());
        let rows = std::cell::RefCell::new(&mut last);
        setup.fill(self.database, |at| {
            let (transaction, place) = (at / self.length, at % self.length);
            let mut last = rows.borrow_mut();
            if last.0 != transaction {
                **last = (transaction, self.draw(transaction));
            }
            last.1.get(place as usize).copied().unwrap_or(NOTHING)
        });
    }

    #[inline(always)]
    fn round(&mut self, m: &mut impl Memory) -> bool {
        match self.phase {
            Phase::Count => self.count(m),
            Phase::Build => self.build(m),
            // With nothing before it, the most popular item has no pairs.
            _ if self.item == 0 => return false,
            Phase::Clear => self.clear(m),
            Phase::Follow => self.follow(m),
            Phase::Tell => self.tell(m),
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::model;

    #[test]
    fn pairs_are_those_that_counting_finds() {
        for (transactions, items, support) in [(300, 40, 50), (100, 5, 1), (50, 100, 1000)] {
            let found = model(FreqMine::new(transactions, items, 8, support, 1)).algorithm;
            let rows: Vec<Vec<u32>> = (0..transactions).map(|t| found.draw(t)).collect();
            let often = |of: &[u32]| rows.iter().filter(|row| of.iter().all(|i| row.contains(i))).count() as u32;
            let frequent: Vec<u32> = (0..items as u32).filter(|&i| often(&[i]) >= found.support).collect();
            let pairs = frequent.iter().flat_map(|&a| frequent.iter().map(move |&b| (a, b)));
            let expected = pairs.filter(|&(a, b)| a < b && often(&[a, b]) >= found.support).count();
            assert_eq!(found.pairs, expected as u64, "{transactions} transactions of {items} items");
        }
    }
}
