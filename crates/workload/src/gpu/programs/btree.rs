//! GPU generator `gpu-btree`: queries of random keys in a B+ tree. Each thread block follows one path from the root to
//! a leaf, reads one record and stores the answer.
//!
//! ```text
//! byte of a node  0         4            2040      4076     4080        4084
//!                 location  509 indices  509 keys  is leaf  key count   next node
//! ```

use super::prelude::*;
use crate::seed::{mix, nth};

/// Rodinia's b+tree, command k: a block for each query, a thread for each key of a node (kernel_gpu_cuda.cu).
#[derive(Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct GpuBtreeDesc {
    /// Keys. Default 1000000, Rodinia's.
    #[schemars(range(min = FANOUT, max = 1u64 << 36))]
    keys: u64,
    /// Queries. Default 10000, Rodinia's.
    #[schemars(range(min = 1, max = 1u64 << 36))]
    queries: u64,
    /// Seed of the keys asked for. Default 1.
    #[schemars(range(min = 0, max = i64::MAX))]
    seed: u64,
}

impl Default for GpuBtreeDesc {
    fn default() -> Self {
        Self { keys: 1_000_000, queries: 10_000, seed: 1 }
    }
}

/// Keys of a full node (DEFAULT_ORDER for GPUs), and threads of a block.
const ORDER: u64 = 508;
/// Keys of a node as a tree has them that was filled in ascending order: half.
const FANOUT: u64 = ORDER / 2;
/// Bytes of a node: location, ORDER + 1 indices, ORDER + 1 keys, whether it is a leaf, how many keys.
const NODE_BYTES: u64 = 4 + 4 * (ORDER + 1) + 4 * (ORDER + 1) + 4 + 4;
const INDICES: u64 = 4;
const KEYS: u64 = INDICES + 4 * (ORDER + 1);

impl Describe for GpuBtreeDesc {
    const NAME: &str = "gpu-btree";
    type Grid = Btree;

    fn grid(&self) -> Result<Btree, String> {
        // From the leaves up, by how many there are; then where each level begins, the root first.
        let mut counts = vec![self.keys.div_ceil(FANOUT)];
        while counts[counts.len() - 1] > 1 {
            counts.push(counts[counts.len() - 1].div_ceil(FANOUT));
        }
        counts.reverse();
        let starts = counts.iter().scan(0, |sum, n| Some(std::mem::replace(sum, *sum + n))).collect();
        let mut layout = Layout::default();
        Ok(Btree {
            queries: self.queries,
            keys: self.keys,
            key: mix(self.seed),
            levels: starts,
            nodes: layout.array(counts.iter().sum::<u64>() * NODE_BYTES.div_ceil(4)),
            records: layout.array(self.keys),
            current: layout.array(self.queries),
            offsets: layout.array(self.queries),
            asked: layout.array(self.queries),
            answers: layout.array(self.queries),
            layout,
        })
    }
}

pub struct Btree {
    layout: Layout,
    queries: u64,
    keys: u64,
    key: u64,
    /// Number of each level's first node, the root's first.
    levels: Vec<u64>,
    /// Nodes, in words.
    nodes: Array<u32>,
    records: Array<u32>,
    current: Array<u64>,
    offsets: Array<u64>,
    asked: Array<u32>,
    answers: Array<u32>,
}

impl Btree {
    /// The word `offset` bytes into a node.
    fn word(node: u64, offset: u64) -> u64 {
        (node * NODE_BYTES + offset) / 4
    }

    /// The node that a key's way leads through on a level, and its place among that node's keys.
    fn way(&self, key: u64, level: usize) -> (u64, u64) {
        let below = FANOUT.pow((self.levels.len() - 1 - level) as u32);
        (self.levels[level] + key / below / FANOUT, key / below % FANOUT)
    }
}

impl Grid for Btree {
    type Notes = ();

    fn layout(&self) -> &Layout {
        &self.layout
    }

    fn launch(&self, n: u64) -> Option<Launch> {
        (n == 0).then_some(Launch { blocks: self.queries, threads: ORDER })
    }

    fn step(&self, warp: Warp, step: u64, (): &mut (), lanes: &mut Lanes) -> bool {
        let all = warp.threads(ORDER);
        let (query, key) = (warp.block, nth(self.key, warp.block) % self.keys);
        let (level, of) = ((step / 8) as usize, step % 8);
        // The thread whose key and the next one have the asked one between them.
        let found = |t: u64, place: u64| t == place;
        if level < self.levels.len() {
            let (node, place) = self.way(key, level);
            return match of {
                0 => lanes.load(0).each(self.current, all, |_| Some(query)),
                1 => lanes.load(1).each(self.nodes, all, |t| Some(Self::word(node, KEYS + 4 * t))),
                2 => lanes.load(2).each(self.asked, all, |_| Some(query)),
                3 => lanes.load(3).each(self.nodes, all, |t| {
                    // Only those whose key is not above the asked one look at the next.
                    (t <= place).then(|| Self::word(node, KEYS + 4 * (t + 1)))
                }),
                4 => {
                    lanes.load(4).each(self.nodes, all, |t| found(t, place).then(|| Self::word(node, INDICES + 4 * t)))
                }
                5 => lanes.store(5).each(self.offsets, all, |t| found(t, place).then_some(query)),
                6 => lanes.load(6).each(self.offsets, all, |t| (t == 0).then_some(query)),
                _ => lanes.store(7).each(self.current, all, |t| (t == 0).then_some(query)),
            };
        }
        let (leaf, place) = self.way(key, self.levels.len() - 1);
        match (level - self.levels.len(), of) {
            (0, 0) => lanes.load(8).each(self.nodes, all, |t| Some(Self::word(leaf, KEYS + 4 * t))),
            (0, 1) => {
                lanes.load(9).each(self.nodes, all, |t| found(t, place).then(|| Self::word(leaf, INDICES + 4 * t)))
            }
            (0, 2) => lanes.load(10).each(self.records, all, |t| found(t, place).then_some(key)),
            (0, 3) => lanes.store(11).each(self.answers, all, |t| found(t, place).then_some(query)),
            _ => false,
        }
    }
}
