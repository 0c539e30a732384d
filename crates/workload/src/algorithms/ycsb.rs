//! Generator `ycsb`: operations of the YCSB workloads on a table in memory, by keys of Zipf popularity. Popular keys
//! are scattered over the table, except in workload D, where the newest rows are the most popular. A scan finds its
//! first key by binary search in an array of keys. Other operations use the hash index:
//!
//! ```text
//! key --> bucket (24 bytes) --> node: key, next, row (24 bytes) --> row: ten fields of 100 bytes
//!                                 |
//!                                 `-- next --> older node of the bucket
//! ```

use super::{Describe, rows::Rows};
use crate::{
    algorithm::{Algorithm, Sharing},
    flow::{FREE, flow, from, to},
    layout::Layout,
    memory::{Array, Memory, Setup},
    ranks::{RankSequence, Ranks},
    seed::{Shuffle, below, mix, nth, unit},
};
use mmulab_trace::Loads;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// YCSB's workloads A to F on a table in memory with a hash index.
#[derive(Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct YcsbDesc {
    /// A: half updates; B: 5 % updates; C: reads; D: reads of the latest, 5 % insertions; E: scans, 5 % insertions; F:
    /// half read-modify-writes. Default C.
    workload: String,
    /// Rows at the beginning; each takes 1048 bytes or more with the index. Default 100k.
    #[schemars(range(min = 64, max = 1u64 << 36))]
    records: u64,
    /// Operations. Default 100k.
    #[schemars(range(min = 0, max = 1u64 << 40))]
    operations: u64,
    /// How popular few keys are: the exponent of the Zipf distribution. Default 0.99.
    #[schemars(range(min = 0.01, max = 10.0))]
    theta: f64,
    /// Seed. Default 1.
    #[schemars(range(min = 0, max = i64::MAX))]
    seed: u64,
}

impl Default for YcsbDesc {
    fn default() -> Self {
        Self { workload: "C".into(), records: 100_000, operations: 100_000, theta: 0.99, seed: 1 }
    }
}

impl Describe for YcsbDesc {
    const NAME: &str = "ycsb";
    type Algorithm = Ycsb;

    fn algorithm(&self) -> Result<Ycsb, String> {
        let Some(workload) = MIXES.iter().find(|m| m.name == self.workload) else {
            return Err(format!("workload is '{}': give one of A, B, C, D, E, F", self.workload));
        };
        Ok(Ycsb::new(*workload, self.records, self.operations, self.theta, self.seed))
    }
}

/// Effect of an operation on the row that it finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operation {
    Read,
    Update,
    Modify,
    Scan,
}

/// A core workload of Cooper et al., "Benchmarking cloud serving systems with YCSB", SoCC 2010, section 4.
#[derive(Clone, Copy, Debug)]
pub struct Mix {
    name: &'static str,
    usual: Operation,
    other: Operation,
    /// How many of 100 operations that insert nothing are `other`.
    others: u64,
    /// Whether one operation of 20 inserts a row.
    inserts: bool,
    /// Whether the newest rows are the most popular.
    latest: bool,
}

const fn mix_of(name: &'static str, usual: Operation, other: Operation, others: u64) -> Mix {
    Mix { name, usual, other, others, inserts: false, latest: false }
}

const MIXES: [Mix; 6] = [
    mix_of("A", Operation::Read, Operation::Update, 50),
    mix_of("B", Operation::Read, Operation::Update, 5),
    mix_of("C", Operation::Read, Operation::Read, 0),
    Mix { inserts: true, latest: true, ..mix_of("D", Operation::Read, Operation::Read, 0) },
    Mix { inserts: true, ..mix_of("E", Operation::Scan, Operation::Scan, 0) },
    mix_of("F", Operation::Read, Operation::Modify, 50),
];

/// YCSB over a table like DBx1000's (Yu et al., "Staring into the abyss", VLDB 2014). A bucket of the hash index points
/// at a chain of nodes with key and row. A row has ten fields of 100 bytes, all read, or one changed; copies move 32
/// bytes at once. Buckets hold two keys where the table is full. Scans go through an array of keys in the order of
/// their hashes, as YCSB names its keys, found by binary search.
///
/// Keys are drawn by the Zipf distribution and scattered (`ScrambledZipfianGenerator`; the draw itself is exact here,
/// and not YCSB's approximation). Insertions are one of each 20 operations, at a random place among them, and not one
/// in 20 on the average. So the number that came before is known at any place.
#[derive(Clone)]
pub struct Ycsb {
    layout: Layout,
    workload: Mix,
    heads: Array<u64>,
    keys: Array<u64>,
    next: Array<u64>,
    row_of: Array<u64>,
    rows: Rows,
    /// Keys in the order of their hashes; NONE where a key is not yet inserted.
    ordered: Option<Array<u64>>,
    ranks: RankSequence,
    buckets: Shuffle,
    order: Shuffle,
    /// Keys that there can be: a power of two.
    capacity: u64,
    records: u64,
    operations: u64,
    key: u64,
    at: u64,
}

const FIELDS: u64 = 10;
const FIELD_BYTES: u64 = 100;
/// Latch, count and first node.
const BUCKET_BYTES: u64 = 24;
/// Key, next node and row.
const NODE_BYTES: u64 = 24;
const INSERT_EVERY: u64 = 20;
const SCAN_MAX: u64 = 100;
const NONE: u64 = u64::MAX;
/// FNV-1a of 64 bits, with which YCSB scatters (`Utils.fnvhash64`).
const FNV_BASIS: u64 = 0xcbf2_9ce4_8422_2325;
const FNV_PRIME: u64 = 1_099_511_628_211;

#[inline(always)]
fn fnv(value: u64) -> u64 {
    (0..8).fold(FNV_BASIS, |hash, byte| (hash ^ ((value >> (8 * byte)) & 0xff)).wrapping_mul(FNV_PRIME))
}

impl Ycsb {
    /// As `workload` says.
    pub fn new(workload: Mix, records: u64, operations: u64, theta: f64, seed: u64) -> Self {
        let inserted = if workload.inserts { operations.div_ceil(INSERT_EVERY) } else { 0 };
        let capacity = (records + inserted).next_power_of_two();
        let mut layout = Layout::default();
        let heads = layout.records(capacity / 2, BUCKET_BYTES).field(16);
        let nodes = layout.records(capacity, NODE_BYTES);
        let rows = Rows::new(&mut layout, capacity, FIELDS * FIELD_BYTES);
        let ordered = (workload.usual == Operation::Scan).then(|| layout.array(capacity));
        Self {
            layout,
            workload,
            heads,
            keys: nodes.field(0),
            next: nodes.field(8),
            row_of: nodes.field(16),
            rows,
            ordered,
            ranks: RankSequence::new(Ranks::new(records, theta), mix(seed)),
            buckets: Shuffle::new(capacity, seed),
            order: Shuffle::new(capacity, !seed),
            capacity,
            records,
            operations,
            key: mix(seed),
            at: 0,
        }
    }

    /// Where among 20 operations the insertion is.
    #[inline(always)]
    fn insertion(&self, twenty: u64) -> u64 {
        below(nth(!self.key, twenty), INSERT_EVERY)
    }

    /// Rows there are before operation `at`.
    #[inline(always)]
    fn count(&self, at: u64) -> u64 {
        if !self.workload.inserts {
            return self.records;
        }
        let (twenty, within) = (at / INSERT_EVERY, at % INSERT_EVERY);
        self.records + twenty + u64::from(within > self.insertion(twenty))
    }

    /// The nodes in the chain of a bucket while there are `count` keys: the newer key is before the older one.
    #[inline(always)]
    fn chain(&self, bucket: u64, count: u64) -> [u64; 2] {
        let (a, b) = (self.buckets.back(bucket), self.buckets.back(bucket + self.capacity / 2));
        let there = |key: u64| if key < count { key } else { NONE };
        let (newer, older) = (there(a.max(b)), there(a.min(b)));
        if newer == NONE { [older, NONE] } else { [newer, older] }
    }

    /// The row of a key that is there.
    #[inline(always)]
    fn find(&self, m: &mut impl Memory, key: u64, count: u64) -> u64 {
        let bucket = self.buckets.forth(key) & (self.capacity / 2 - 1);
        m.block(1, 12);
        let chain = self.chain(bucket, count);
        let mut node = m.load(self.heads, bucket, || chain[0]);
        while node != NONE {
            m.block(2, 4);
            if m.load(self.keys, node, || node) == key {
                break;
            }
            node = m.load(self.next, node, || chain[1]);
        }
        m.block(3, 5);
        m.load(self.row_of, node, || node)
    }

    #[inline(always)]
    fn read(&self, m: &mut impl Memory, row: u64) {
        m.block(4, 70);
        self.rows.read(m, row, 0, FIELDS * FIELD_BYTES);
    }

    #[inline(always)]
    fn update(&self, m: &mut impl Memory, row: u64, random: u64) {
        let from = below(random, FIELDS) * FIELD_BYTES;
        m.block(5, 16);
        self.rows.write(m, row, from, from + FIELD_BYTES);
    }

    fn insert(&self, m: &mut impl Memory, key: u64) {
        let bucket = self.buckets.forth(key) & (self.capacity / 2 - 1);
        m.block(6, 90);
        self.rows.insert(m, key);
        m.store(self.keys, key, || key);
        m.store(self.row_of, key, || key);
        let first = m.load(self.heads, bucket, || self.chain(bucket, key)[0]);
        m.store(self.next, key, || first);
        m.store(self.heads, bucket, || key);
        if let Some(ordered) = self.ordered {
            m.store(ordered, self.order.forth(key), || key);
        }
    }

    fn scan(&self, m: &mut impl Memory, ordered: Array<u64>, key: u64, count: u64, length: u64) {
        // A binary search over all places there can be, as down a tree that is full.
        let place = self.order.forth(key);
        let (mut low, mut high) = (0, self.capacity);
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            m.block(7, 8);
            m.load(ordered, middle, || NONE);
            if middle <= place {
                low = middle;
            } else {
                high = middle;
            }
        }
        let (mut at, mut left) = (place, length);
        while left > 0 && at < self.capacity {
            m.block(8, 5);
            let there = || Some(self.order.back(at)).filter(|&key| key < count).unwrap_or(NONE);
            let row = m.load(ordered, at, there);
            if row != NONE {
                self.read(m, row);
                left -= 1;
            }
            at += 1;
        }
    }
}

impl Algorithm for Ycsb {
    fn loads(&self) -> Option<Loads> {
        // A bucket gives the first node of its chain, a node the next one and its row; all of a row waits for that.
        // Places in the order of keys are known without a load, and give rows. Operations do not wait for each other.
        const NODE: u8 = 1;
        const ROW: u8 = 2;
        flow(&[
            (1, &[to(NODE, FREE)]),
            (2, &[from(NODE), to(NODE, from(NODE))]),
            (3, &[to(ROW, from(NODE))]),
            (4, &[from(ROW)]),
            (5, &[from(ROW)]),
            (8, &[to(ROW, FREE)]),
        ])
    }

    fn layout(&self) -> &Layout {
        &self.layout
    }

    fn rounds(&self) -> Option<u64> {
        Some(self.operations)
    }

    fn prepare(&self, setup: &mut impl Setup) {
        setup.fill(self.heads, |bucket| self.chain(bucket, self.records)[0]);
        // What is inserted later is not yet touched.
        self.rows.fill(setup, self.records);
        setup.rows(self.records, |node| {
            let chain = self.chain(self.buckets.forth(node) & (self.capacity / 2 - 1), self.records);
            let next = if chain[0] == node { chain[1] } else { NONE };
            [self.keys.cell(node, node), self.next.cell(node, next), self.row_of.cell(node, node)]
        });
        if let Some(ordered) = self.ordered {
            setup.fill(ordered, |at| Some(self.order.back(at)).filter(|&key| key < self.records).unwrap_or(NONE));
        }
    }

    fn sharing(&self) -> Sharing {
        // What is found depends on what was inserted before.
        if self.workload.inserts { Sharing::Turns } else { Sharing::INTERVALS }
    }

    fn seek(&mut self, round: u64) -> bool {
        self.at = round;
        true
    }

    #[inline(always)]
    fn round(&mut self, m: &mut impl Memory) -> bool {
        let at = self.at;
        self.at += 1;
        m.block(0, 120);
        let count = self.count(at);
        if self.workload.inserts && at % INSERT_EVERY == self.insertion(at / INSERT_EVERY) {
            self.insert(m, count);
            return true;
        }
        let random = nth(self.key, at);
        let rank = self.ranks.nth(at);
        let key = if self.workload.latest { count - 1 - rank } else { fnv(rank) % self.records };
        let random = mix(random);
        let other = unit(random) * 100.0 < self.workload.others as f64;
        let operation = if other { self.workload.other } else { self.workload.usual };
        if let (Operation::Scan, Some(ordered)) = (operation, self.ordered) {
            self.scan(m, ordered, key, count, 1 + below(mix(random), SCAN_MAX));
            return true;
        }
        let row = self.find(m, key, count);
        if operation != Operation::Update {
            self.read(m, row);
        }
        if operation != Operation::Read {
            self.update(m, row, mix(random));
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{model, ready};
    use std::collections::BTreeSet;

    fn small(name: &str) -> Ycsb {
        let workload = *MIXES.iter().find(|m| m.name == name).unwrap();
        Ycsb::new(workload, 100, 600, 0.99, 1)
    }

    #[test]
    fn fnv_is_that_of_its_authors() {
        // FNV-1a of eight bytes of zero.
        assert_eq!(fnv(0), (0..8).fold(FNV_BASIS, |h, _| h.wrapping_mul(FNV_PRIME)));
        assert_ne!(fnv(1), fnv(256));
    }

    #[test]
    fn after_insertions_the_index_finds_every_key() {
        for name in ["C", "D", "E"] {
            let mut found = model(small(name));
            let count = found.algorithm.count(600);
            assert_eq!(count, if name == "C" { 100 } else { 130 });
            let (heads, next) = (found.array(|k| k.heads), found.array(|k| k.next));
            let mut reached = BTreeSet::new();
            for head in heads {
                let mut node = head;
                while node != NONE {
                    assert!(reached.insert(node), "{node} is in two chains");
                    node = next[node as usize];
                }
            }
            assert_eq!(reached, (0..count).collect());
            if let Some(ordered) = found.algorithm.ordered {
                let there = found.array(|_| ordered).into_iter().filter(|&key| key != NONE);
                assert_eq!(there.collect::<BTreeSet<_>>(), (0..count).collect());
            }
        }
    }

    #[test]
    fn operations_are_as_frequent_as_the_workload_says() {
        for (name, updates) in [("A", 300), ("B", 30), ("C", 0), ("F", 300)] {
            let mut found = ready(small(name));
            found.run();
            // An update is four moves of 32 bytes, at rows only.
            let stores = found.memory.done.iter().filter(|(_, store)| *store).count();
            assert!(stores.abs_diff(4 * updates) <= 4 * 50, "{name}: {stores} stores");
            let reads = found.memory.done.len() - stores;
            assert!(reads > 0);
        }
    }
}
