//! Generator `graphchi`: PageRank on edges sorted into shards, one interval of vertices at a time. Edges are parsed in
//! sequence. Vertex records and edge values are accessed by index. Here, the edges loaded for interval 1 of four
//! (`x`): the whole of its own shard and one window of every other shard.
//!
//! ```text
//! source in interval         0 1 2 3
//! shard 0 (targets in 0)     . x . .
//! shard 1 (targets in 1)     x x x x
//! shard 2 (targets in 2)     . x . .
//! shard 3 (targets in 3)     . x . .
//! ```

use super::Describe;
use crate::{
    algorithm::{Algorithm, Sharing},
    flow::{FREE, flow, from, from_both, to},
    graph::Kronecker,
    layout::Layout,
    memory::{Array, Memory, Setup},
};
use mmulab_trace::Loads;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// PageRank of a graph that does not fit in memory, by parallel sliding windows.
#[derive(Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct GraphChiDesc {
    /// The graph has 2^scale vertices; its edges are kept in memory: 130 bytes a vertex. Default 14.
    #[schemars(range(min = 4, max = 28))]
    scale: u64,
    /// Edges for each vertex. Default 16.
    #[schemars(range(min = 1, max = 64))]
    edgefactor: u64,
    /// Intervals the vertices are divided in. Default 4.
    #[schemars(range(min = 1, max = 64))]
    shards: u64,
    /// Passes over the graph. Default 3, as in the paper on PTE coalescing.
    #[schemars(range(min = 1, max = 1 << 20))]
    iterations: u64,
    /// Seed of the graph. Default 1.
    #[schemars(range(min = 0, max = i64::MAX))]
    seed: u64,
}

impl Default for GraphChiDesc {
    fn default() -> Self {
        Self { scale: 14, edgefactor: 16, shards: 4, iterations: 3, seed: 1 }
    }
}

impl Describe for GraphChiDesc {
    const NAME: &str = "graphchi";
    type Algorithm = GraphChi;

    fn algorithm(&self) -> Result<GraphChi, String> {
        let shards = self.shards;
        let graph = Kronecker::new(self.scale, self.edgefactor, self.seed)?;
        if shards > graph.vertices() {
            return Err(format!("shards is {shards}: the graph has {} vertices", graph.vertices()));
        }
        Ok(GraphChi::new(graph, shards, self.iterations))
    }
}

/// Parallel sliding windows (Kyrola, Blelloch and Guestrin, "GraphChi: Large-scale graph computation on just a PC",
/// OSDI 2012, sections 3 and 4). Shard `s` holds the edges into interval `s`, by their source. For each interval its
/// whole shard and the window of every other shard that comes from it are parsed. Vertices get pointers to the values
/// of their edges there. Each vertex sums its in-edges and writes its out-edges. Shards lie in memory whole, as mapped
/// files do, and are parsed where they lie: GraphChi reads them into buffers that it uses again.
#[derive(Clone)]
pub struct GraphChi {
    layout: Layout,
    graph: Kronecker,
    /// Edges by shard and source; `windows[s * (shards + 1) + p]` is where shard `s` has those from interval `p` on.
    edges: Vec<(u32, u32)>,
    windows: Vec<u64>,
    /// Source and target of an edge, and its value, shard after shard.
    sources: Array<u32>,
    targets: Array<u32>,
    values: Array<f32>,
    /// How many edges of each shard's window were parsed.
    parsed: Vec<u64>,
    /// Of each vertex of the interval: where its pointers begin, how many there are.
    in_first: Array<u64>,
    in_count: Array<u32>,
    out_first: Array<u64>,
    out_count: Array<u32>,
    in_pointers: Array<u64>,
    out_pointers: Array<u64>,
    ranks: Array<f32>,
    shards: u64,
    iterations: u64,
    iteration: u64,
    interval: u64,
    phase: Phase,
    at: u64,
    /// What the interval's vertices have.
    now: Interval,
}

/// In- and out-edges of an interval's vertices.
#[derive(Clone, Default)]
struct Interval {
    in_first: Vec<u64>,
    out_first: Vec<u64>,
    in_filled: Vec<u32>,
    out_filled: Vec<u32>,
    in_pointers: Vec<u64>,
    out_pointers: Vec<u64>,
    /// Where in each shard the interval's edges begin and end.
    loaded: Vec<(u64, u64)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Degrees are read and pointers divided among the vertices.
    Divide,
    /// Edges are given to their vertices.
    Parse,
    /// Vertices are updated.
    Update,
}

const DAMPING: f32 = 0.85;
/// Edges parsed in a round.
const EDGES_A_ROUND: u64 = 64;

impl GraphChi {
    /// `iterations` over `graph` in `shards`.
    pub fn new(graph: Kronecker, shards: u64, iterations: u64) -> Self {
        let n = graph.vertices();
        let per = n.div_ceil(shards);
        let mut layout = Layout::default();
        let edges = layout.records(graph.edges, 8);
        let (sources, targets) = (edges.field(0), edges.field(4));
        let values = layout.array(graph.edges);
        // svertex_t: the lists of in- and out-edges and their counts.
        let vertices = layout.records(per, 32);
        let (in_pointers, out_pointers) = (layout.array(graph.edges), layout.array(graph.edges));
        let ranks = layout.array(n);
        Self {
            layout,
            graph,
            edges: Vec::new(),
            windows: Vec::new(),
            sources,
            targets,
            values,
            parsed: Vec::new(),
            in_first: vertices.field(0),
            out_first: vertices.field(8),
            in_count: vertices.field(16),
            out_count: vertices.field(20),
            in_pointers,
            out_pointers,
            ranks,
            shards,
            iterations,
            iteration: 0,
            interval: 0,
            phase: Phase::Divide,
            at: 0,
            now: Interval::default(),
        }
    }

    fn per(&self) -> u64 {
        self.graph.vertices().div_ceil(self.shards)
    }

    /// The vertices of an interval.
    fn vertices(&self, interval: u64) -> std::ops::Range<u64> {
        let n = self.graph.vertices();
        (interval * self.per()).min(n)..((interval + 1) * self.per()).min(n)
    }

    /// The edges that are read for `interval`, by where they lie in shards.
    fn loaded(&self, interval: u64) -> Vec<(u64, u64)> {
        let width = self.shards + 1;
        (0..self.shards)
            .map(|s| {
                let window = |p: u64| self.windows[(s * width + p) as usize];
                if s == interval { (window(0), window(self.shards)) } else { (window(interval), window(interval + 1)) }
            })
            .collect()
    }

    /// Divides the pointers among the vertices of the interval.
    fn enter(&mut self) {
        let vertices = self.vertices(self.interval);
        let count = (vertices.end - vertices.start) as usize;
        let mut now = Interval {
            in_first: vec![0; count + 1],
            out_first: vec![0; count + 1],
            in_filled: vec![0; count],
            out_filled: vec![0; count],
            loaded: self.loaded(self.interval),
            ..Interval::default()
        };
        for &(from, to) in &now.loaded {
            for &(source, target) in &self.edges[from as usize..to as usize] {
                if vertices.contains(&target.into()) {
                    now.in_first[(u64::from(target) - vertices.start) as usize + 1] += 1;
                }
                if vertices.contains(&source.into()) {
                    now.out_first[(u64::from(source) - vertices.start) as usize + 1] += 1;
                }
            }
        }
        for v in 0..count {
            now.in_first[v + 1] += now.in_first[v];
            now.out_first[v + 1] += now.out_first[v];
        }
        now.in_pointers = vec![0; now.in_first[count] as usize];
        now.out_pointers = vec![0; now.out_first[count] as usize];
        self.now = now;
    }

    #[inline(always)]
    fn divide(&mut self, m: &mut impl Memory) {
        if self.at == 0 {
            self.enter();
        }
        let v = self.at;
        m.block(0, 14);
        m.store(self.in_first, v, || self.now.in_first[v as usize]);
        m.store(self.out_first, v, || self.now.out_first[v as usize]);
        m.store(self.in_count, v, || 0);
        m.store(self.out_count, v, || 0);
        self.at += 1;
        if self.at as usize == self.now.in_filled.len() {
            (self.phase, self.at) = (Phase::Parse, 0);
        }
    }

    /// Gives the next edges to their vertices.
    #[inline(always)]
    fn parse(&mut self, m: &mut impl Memory) {
        let shard = (self.at % self.shards) as usize;
        // One shard after another, some edges a round.
        let (from, to) = self.now.loaded[shard];
        let done = self.parsed[shard];
        let vertices = self.vertices(self.interval);
        let mut edge = from + done;
        let until = to.min(edge + EDGES_A_ROUND);
        while edge < until {
            m.block(1, 9);
            let (source, target) = self.edges[edge as usize];
            let source = u64::from(m.load(self.sources, edge, || source));
            let target = u64::from(m.load(self.targets, edge, || target));
            if vertices.contains(&target) {
                let v = target - vertices.start;
                let own = v as usize;
                m.block(2, 7);
                let first = m.load(self.in_first, v, || self.now.in_first[own]);
                let count = m.load(self.in_count, v, || self.now.in_filled[own]);
                m.store(self.in_pointers, first + u64::from(count), || edge);
                m.store(self.in_count, v, || count + 1);
                self.now.in_pointers[(first + u64::from(count)) as usize] = edge;
                self.now.in_filled[own] += 1;
            }
            if vertices.contains(&source) {
                let v = source - vertices.start;
                let own = v as usize;
                m.block(3, 7);
                let first = m.load(self.out_first, v, || self.now.out_first[own]);
                let count = m.load(self.out_count, v, || self.now.out_filled[own]);
                m.store(self.out_pointers, first + u64::from(count), || edge);
                m.store(self.out_count, v, || count + 1);
                self.now.out_pointers[(first + u64::from(count)) as usize] = edge;
                self.now.out_filled[own] += 1;
            }
            edge += 1;
        }
        self.parsed[shard] = edge - from;
        if edge == to {
            self.at += 1;
        }
        if self.at == self.shards {
            self.parsed.fill(0);
            (self.phase, self.at) = (Phase::Update, 0);
        }
    }

    #[inline(always)]
    fn update(&mut self, m: &mut impl Memory) {
        let v = self.at;
        let own = v as usize;
        m.block(4, 10);
        let first = m.load(self.in_first, v, || self.now.in_first[own]);
        let count = u64::from(m.load(self.in_count, v, || self.now.in_filled[own]));
        let mut sum = 0.0;
        for i in first..first + count {
            m.block(5, 5);
            let edge = m.load(self.in_pointers, i, || self.now.in_pointers[i as usize]);
            sum += m.load(self.values, edge, || 0.0);
        }
        m.block(6, 12);
        let rank = 1.0 - DAMPING + DAMPING * sum;
        let out = m.load(self.out_first, v, || self.now.out_first[own]);
        let outs: u64 = m.load(self.out_count, v, || self.now.out_filled[own]).into();
        for i in out..out + outs {
            m.block(7, 5);
            let edge = m.load(self.out_pointers, i, || self.now.out_pointers[i as usize]);
            m.store(self.values, edge, || rank / outs as f32);
        }
        m.store(self.ranks, self.vertices(self.interval).start + v, || rank);
        self.at += 1;
        if self.at as usize == self.now.in_filled.len() {
            (self.phase, self.at) = (Phase::Divide, 0);
            self.interval += 1;
            // Of the last interval nothing may be left, where the vertices do not divide evenly.
            while self.interval < self.shards && self.vertices(self.interval).is_empty() {
                self.interval += 1;
            }
            if self.interval == self.shards {
                (self.interval, self.iteration) = (0, self.iteration + 1);
            }
        }
    }
}

impl Algorithm for GraphChi {
    fn loads(&self) -> Option<Loads> {
        // Edges come in order. The place where one is noted waits for its ends and for the number that were noted
        // there. The reads and writes of a vertex wait for the place where its edges begin, and an edge's value waits
        // for the pointer to it.
        const SOURCE: u8 = 1;
        const TARGET: u8 = 2;
        const FIRST: u8 = 3;
        const COUNT: u8 = 4;
        const EDGE: u8 = 5;
        flow(&[
            (1, &[to(SOURCE, FREE), to(TARGET, FREE)]),
            (2, &[to(FIRST, from(TARGET)), to(COUNT, from(TARGET)), from_both(FIRST, COUNT), from(TARGET)]),
            (3, &[to(FIRST, from(SOURCE)), to(COUNT, from(SOURCE)), from_both(FIRST, COUNT), from(SOURCE)]),
            (4, &[to(FIRST, FREE), FREE]),
            (5, &[to(EDGE, from(FIRST)), from(EDGE)]),
            (6, &[to(FIRST, FREE), FREE]),
            (7, &[to(EDGE, from(FIRST)), from(EDGE), FREE]),
        ])
    }

    fn layout(&self) -> &Layout {
        &self.layout
    }

    fn rounds(&self) -> Option<u64> {
        None
    }

    fn built_bytes(&self) -> u64 {
        // Edges, and at most all of them as pointers of an interval.
        self.graph.edges * (8 + 16)
    }

    fn build(&mut self) {
        let (per, shards) = (self.per(), self.shards);
        let mut edges: Vec<(u32, u32)> = (0..self.graph.edges).map(|i| self.graph.edge(i)).collect();
        edges.sort_unstable_by_key(|&(from, to)| (u64::from(to) / per, from, to));
        let place = |s: u64, p: u64| {
            edges.partition_point(|&(from, to)| (u64::from(to) / per, u64::from(from) / per) < (s, p)) as u64
        };
        self.windows = (0..shards).flat_map(|s| (0..=shards).map(move |p| (s, p))).map(|(s, p)| place(s, p)).collect();
        self.parsed = vec![0; shards as usize];
        self.edges = edges;
    }

    fn prepare(&self, setup: &mut impl Setup) {
        setup.fill(self.sources, |i| self.edges[i as usize].0);
        setup.fill(self.targets, |i| self.edges[i as usize].1);
        setup.fill(self.values, |_| 1.0);
        setup.fill(self.ranks, |_| 0.0);
    }

    fn sharing(&self) -> Sharing {
        Sharing::Turns
    }

    #[inline(always)]
    fn round(&mut self, m: &mut impl Memory) -> bool {
        if self.iteration == self.iterations {
            return false;
        }
        match self.phase {
            Phase::Divide => self.divide(m),
            Phase::Parse => self.parse(m),
            Phase::Update => self.update(m),
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::model;

    #[test]
    fn ranks_are_those_of_passing_from_vertex_to_vertex() {
        for shards in [1, 3, 4] {
            let graph = Kronecker::new(6, 4, 2).unwrap();
            let mut found = model(GraphChi::new(graph, shards, 3));
            let edges: Vec<(u32, u32)> = (0..graph.edges).map(|i| graph.edge(i)).collect();
            let mut values = vec![1.0f64; edges.len()];
            let mut ranks = [0.0f64; 64];
            for _ in 0..3 {
                for v in 0..64u32 {
                    let into: f64 = edges.iter().zip(&values).filter(|(e, _)| e.1 == v).map(|(_, x)| x).sum();
                    ranks[v as usize] = 0.15 + 0.85 * into;
                    let outs = edges.iter().filter(|e| e.0 == v).count() as f64;
                    edges
                        .iter()
                        .zip(&mut values)
                        .filter(|(e, _)| e.0 == v)
                        .for_each(|(_, x)| *x = ranks[v as usize] / outs);
                }
            }
            for (found, expected) in found.array(|k| k.ranks).into_iter().zip(ranks) {
                assert!((f64::from(found) / expected - 1.0).abs() < 1e-4, "{shards} shards: {found} for {expected}");
            }
        }
    }
}
