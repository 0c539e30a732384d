//! GPU generator `gpu-bfs`: breadth-first search over a random graph, with two kernel launches per level. Neighbours
//! are random nodes, so one warp instruction can touch up to 32 pages.

use super::prelude::*;
use crate::seed::{mix, nth};

/// Rodinia's bfs: a thread for each node asks whether its node is of the present level, and looks at its neighbours.
/// Then each asks whether its node is of the next level (kernel.cu, kernel2.cu). The graph is random, as Rodinia's
/// graphgen makes it; a byte a node is kept.
#[derive(Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct GpuBfsDesc {
    /// Nodes. Default 1000000, Rodinia's largest.
    #[schemars(range(min = BLOCK, max = 1u64 << 34))]
    nodes: u64,
    /// Most edges of a node; it has 1 to this many. Default 11, which gives the 6 on average of Rodinia's graphs.
    #[schemars(range(min = 1, max = 1 << 16))]
    edges: u64,
    /// Seed of the graph. Default 1.
    #[schemars(range(min = 0, max = i64::MAX))]
    seed: u64,
}

impl Default for GpuBfsDesc {
    fn default() -> Self {
        Self { nodes: 1_000_000, edges: 11, seed: 1 }
    }
}

const BLOCK: u64 = 512;
const LANES: usize = crate::gpu::grid::LANES as usize;
/// Level of what the search does not reach.
const NEVER: u8 = u8::MAX;

impl Describe for GpuBfsDesc {
    const NAME: &str = "gpu-bfs";
    type Grid = Bfs;

    fn grid(&self) -> Result<Bfs, String> {
        let mut layout = Layout::default();
        let nodes = layout.records(self.nodes, 8);
        Ok(Bfs {
            nodes: self.nodes,
            most: self.edges,
            key: mix(self.seed),
            levels: Vec::new(),
            last: 0,
            starting: nodes.field(0),
            degree: nodes.field(4),
            edges: layout.array(self.nodes.saturating_mul(self.edges)),
            mask: layout.array(self.nodes),
            updating: layout.array(self.nodes),
            visited: layout.array(self.nodes),
            cost: layout.array(self.nodes),
            over: layout.array(8),
            layout,
        })
    }
}

pub struct Bfs {
    layout: Layout,
    nodes: u64,
    most: u64,
    key: u64,
    /// Of each node, the level at which it is reached; and of as many more as make a warp's last lanes nodes.
    levels: Vec<u8>,
    last: u8,
    starting: Array<i32>,
    degree: Array<i32>,
    edges: Array<i32>,
    mask: Array<u8>,
    updating: Array<u8>,
    visited: Array<u8>,
    cost: Array<i32>,
    over: Array<u8>,
}

impl Bfs {
    /// Which lanes of the warp that begins with node `first` have a node of level `wanted`.
    fn of_level(&self, first: u64, wanted: u8) -> u32 {
        let Some(levels) = self.levels.get(first as usize..first as usize + LANES) else { return 0 };
        levels.iter().rev().fold(0, |on, &level| on << 1 | u32::from(level == wanted))
    }

    /// Edges of a node. Each has room for the most, so that where they begin need not be added up.
    fn degree(&self, node: u64) -> u64 {
        1 + nth(self.key, node) % self.most
    }

    fn first(&self, node: u64) -> u64 {
        node * self.most
    }

    fn neighbour(&self, node: u64, n: u64) -> u64 {
        nth(!self.key, self.first(node) + n) % self.nodes
    }
}

/// Lanes, a bit each, and what they look at.
#[derive(Clone, Default)]
pub struct Notes {
    /// Whose node is of the level that is being done, or of the next.
    on: u32,
    /// Of those, the ones that have another edge.
    edge: u32,
    /// Of those, the ones whose neighbour is new.
    new: u32,
    /// The neighbours.
    to: [u64; LANES],
}

impl Grid for Bfs {
    type Notes = Notes;

    fn layout(&self) -> &Layout {
        &self.layout
    }

    fn prepare(&mut self) {
        self.levels = vec![NEVER; (self.nodes as usize).next_multiple_of(LANES)];
        self.levels[0] = 0;
        let (mut frontier, mut level) = (vec![0u64], 0u8);
        while !frontier.is_empty() && level < NEVER - 1 {
            self.last = level;
            level += 1;
            let mut next = Vec::new();
            for node in frontier {
                for n in 0..self.degree(node) {
                    let to = self.neighbour(node, n);
                    if self.levels[to as usize] == NEVER {
                        self.levels[to as usize] = level;
                        next.push(to);
                    }
                }
            }
            frontier = next;
        }
    }

    fn launch(&self, n: u64) -> Option<Launch> {
        (n <= 2 * u64::from(self.last) + 1).then(|| Launch { blocks: self.nodes.div_ceil(BLOCK), threads: BLOCK })
    }

    fn step(&self, warp: Warp, step: u64, notes: &mut Notes, lanes: &mut Lanes) -> bool {
        let level = (warp.launch / 2) as u8;
        let first = warp.block * BLOCK + warp.index * LANES as u64;
        let all = first..self.nodes.min(first + LANES as u64);
        let node = |lane: usize| first + lane as u64;
        if warp.launch % 2 == 1 {
            if step == 0 {
                notes.on = self.of_level(first, level + 1);
            }
            return match step {
                0 => lanes.load(10).each(self.updating, all, Some),
                1 => lanes.store(11).those(self.mask, notes.on, node),
                2 => lanes.store(12).those(self.visited, notes.on, node),
                3 => lanes.store(13).those(self.over, notes.on, |_| 0),
                4 => lanes.store(14).those(self.updating, notes.on, node),
                _ => false,
            };
        }
        match step {
            0 => {
                notes.on = self.of_level(first, level);
                return lanes.load(0).each(self.mask, all, Some);
            }
            1 => return lanes.store(1).those(self.mask, notes.on, node),
            2 => return lanes.load(2).those(self.starting, notes.on, node),
            3 => return lanes.load(3).those(self.degree, notes.on, node),
            _ => {}
        }
        let n = (step - 4) / 5;
        match (step - 4) % 5 {
            0 => {
                notes.edge = only(notes.on, |lane| n < self.degree(node(lane)));
                notes.edge != 0 && lanes.load(4).those(self.edges, notes.edge, |lane| self.first(node(lane)) + n)
            }
            1 => {
                let Notes { edge, to, .. } = notes;
                // A neighbour of the next level may be seen by several; all write the same.
                notes.new = only(*edge, |lane| {
                    to[lane] = self.neighbour(node(lane), n);
                    self.levels[to[lane] as usize] > level
                });
                lanes.load(5).those(self.visited, notes.edge, |lane| notes.to[lane])
            }
            2 => lanes.load(6).those(self.cost, notes.new, node),
            3 => lanes.store(7).those(self.cost, notes.new, |lane| notes.to[lane]),
            _ => lanes.store(8).those(self.updating, notes.new, |lane| notes.to[lane]),
        }
    }
}

/// Those lanes of `on` that are as `is` asks.
fn only(on: u32, mut is: impl FnMut(usize) -> bool) -> u32 {
    let (mut left, mut found) = (on, 0);
    while left != 0 {
        let lane = left.trailing_zeros();
        found |= u32::from(is(lane as usize)) << lane;
        left &= left - 1;
    }
    found
}
