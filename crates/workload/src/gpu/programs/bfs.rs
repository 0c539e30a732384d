use crate::gpu::{
    grid::{Grid, Lanes, Launch, Warp},
    registry::Describe,
};
use crate::{
    layout::Layout,
    memory::Array,
    query::between,
    seed::{mix, nth},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Rodinia's bfs: a thread for each node asks whether its node is of the level that is being done, and looks at its neighbours;
/// then each asks whether its node is of the next level (kernel.cu, kernel2.cu). The graph is random, as Rodinia's graphgen
/// makes it; a byte a node is kept.
#[derive(Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct GpuBfsDesc {
    /// Nodes. Default 1000000, Rodinia's largest.
    nodes: u64,
    /// Most edges of a node; it has 1 to so many. Default 11, which gives the 6 on average of Rodinia's graphs.
    edges: u64,
    /// Seed of the graph. Default 1.
    seed: u64,
}

impl Default for GpuBfsDesc {
    fn default() -> Self {
        Self { nodes: 1_000_000, edges: 11, seed: 1 }
    }
}

const BLOCK: u64 = 512;
/// Level of what the search does not reach.
const NEVER: u8 = u8::MAX;

impl Describe for GpuBfsDesc {
    const NAME: &str = "gpu-bfs";
    type Grid = Bfs;

    fn grid(&self) -> Result<Bfs, String> {
        between("nodes", self.nodes, BLOCK, 1 << 34)?;
        between("edges", self.edges, 1, 1 << 16)?;
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
    /// Of each node, the level at which it is reached.
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

impl Grid for Bfs {
    fn layout(&self) -> &Layout {
        &self.layout
    }

    fn prepare(&mut self) {
        self.levels = vec![NEVER; self.nodes as usize];
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

    fn step(&self, warp: Warp, step: u64, lanes: &mut Lanes) -> bool {
        let all = warp.threads(BLOCK);
        let level = (warp.launch / 2) as u8;
        let node = |t: u64| Some(warp.block * BLOCK + t).filter(|&n| n < self.nodes);
        let of = |t: u64, wanted: u8| node(t).filter(|&n| self.levels[n as usize] == wanted);
        if warp.launch % 2 == 1 {
            let next = |t| of(t, level + 1);
            return match step {
                0 => lanes.load(10).each(self.updating, all, node),
                1 => lanes.store(11).each(self.mask, all, next),
                2 => lanes.store(12).each(self.visited, all, next),
                3 => lanes.store(13).each(self.over, all, |t| next(t).map(|_| 0)),
                4 => lanes.store(14).each(self.updating, all, next),
                _ => false,
            };
        }
        let here = |t| of(t, level);
        match step {
            0 => return lanes.load(0).each(self.mask, all, node),
            1 => return lanes.store(1).each(self.mask, all, here),
            2 => return lanes.load(2).each(self.starting, all, here),
            3 => return lanes.load(3).each(self.degree, all, here),
            _ => {}
        }
        let (n, part) = ((step - 4) / 5, (step - 4) % 5);
        let edge = |t: u64| here(t).filter(|&node| n < self.degree(node));
        if part == 0 && !all.clone().any(|t| edge(t).is_some()) {
            return false;
        }
        let to = |t: u64| edge(t).map(|node| self.neighbour(node, n));
        // A neighbour of the next level may be seen by several; all write the same.
        let new = |t: u64| to(t).filter(|&to| self.levels[to as usize] > level);
        match part {
            0 => lanes.load(4).each(self.edges, all, |t| edge(t).map(|node| self.first(node) + n)),
            1 => lanes.load(5).each(self.visited, all, to),
            2 => lanes.load(6).each(self.cost, all, |t| new(t).and(edge(t))),
            3 => lanes.store(7).each(self.cost, all, new),
            _ => lanes.store(8).each(self.updating, all, new),
        }
    }
}
