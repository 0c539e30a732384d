//! Generator `pagerank`: PageRank of a Kronecker graph, with two phases per pass. The first phase divides the score of
//! each vertex by its degree, in sequence. The second sums the shares of the neighbours of each vertex, with loads at
//! random vertices.

use super::Describe;
use crate::{
    algorithm::{Algorithm, Sharing},
    flow::{FREE, flow, from, to},
    graph::{Kronecker, Rows},
    layout::Layout,
    memory::{Array, Memory, Setup},
};
use mmulab_trace::Loads;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// PageRank of a Kronecker graph, each vertex summing what its neighbours give.
#[derive(Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct PageRankDesc {
    /// The graph has 2^scale vertices; it is built in memory: 140 bytes a vertex. Default 14.
    #[schemars(range(min = 4, max = 28))]
    scale: u64,
    /// Edges for each vertex; each goes both ways. Default 16.
    #[schemars(range(min = 1, max = 64))]
    edgefactor: u64,
    /// Passes over the graph. Default 3.
    #[schemars(range(min = 1, max = 1 << 20))]
    iterations: u64,
    /// Seed of the graph. Default 1.
    #[schemars(range(min = 0, max = i64::MAX))]
    seed: u64,
}

impl Default for PageRankDesc {
    fn default() -> Self {
        Self { scale: 14, edgefactor: 16, iterations: 3, seed: 1 }
    }
}

impl Describe for PageRankDesc {
    const NAME: &str = "pagerank";
    type Algorithm = PageRank;

    fn algorithm(&self) -> Result<PageRank, String> {
        Ok(PageRank::new(Kronecker::new(self.scale, self.edgefactor, self.seed)?, self.iterations))
    }
}

/// PageRank as GAPBS does it (Beamer, Asanović and Patterson, "The GAP benchmark suite", 2015; `pr.cc`, pull, Jacobi).
/// Each pass first divides every score by the degree, then sums what neighbours give. The number of passes is given,
/// and not found by the error, as runs that are compared do.
#[derive(Clone)]
pub struct PageRank {
    layout: Layout,
    graph: Kronecker,
    rows: Arc<Rows>,
    offsets: Array<u64>,
    neighbours: Array<u32>,
    scores: Array<f32>,
    gives: Array<f32>,
    iterations: u64,
    at: u64,
}

/// GAPBS's `kDamp`.
const DAMPING: f32 = 0.85;

impl PageRank {
    /// `iterations` over `graph`.
    pub fn new(graph: Kronecker, iterations: u64) -> Self {
        let n = graph.vertices();
        let mut layout = Layout::default();
        let offsets = layout.array(n + 1);
        let neighbours = layout.array(2 * graph.edges);
        let (scores, gives) = (layout.array(n), layout.array(n));
        Self { layout, graph, rows: Arc::default(), offsets, neighbours, scores, gives, iterations, at: 0 }
    }

    #[inline(always)]
    fn row(&self, m: &mut impl Memory, v: u64) -> (u64, u64) {
        let from = m.load(self.offsets, v, || self.rows.offsets[v as usize]);
        let to = m.load(self.offsets, v + 1, || self.rows.offsets[v as usize + 1]);
        (from, to)
    }
}

impl Algorithm for PageRank {
    fn loads(&self) -> Option<Loads> {
        // Vertices and their edges come in order; only what a neighbour gives waits for the neighbour's number.
        const ROW: u8 = 1;
        const NEIGHBOUR: u8 = 2;
        flow(&[(1, &[to(ROW, FREE), FREE]), (2, &[to(NEIGHBOUR, from(ROW)), from(NEIGHBOUR)])])
    }

    fn layout(&self) -> &Layout {
        &self.layout
    }

    fn rounds(&self) -> Option<u64> {
        self.iterations.checked_mul(2 * self.graph.vertices())
    }

    fn built_bytes(&self) -> u64 {
        self.graph.rows_bytes(true)
    }

    fn build(&mut self) {
        self.rows = Arc::new(Rows::new(&self.graph, true));
    }

    fn prepare(&self, setup: &mut impl Setup) {
        setup.fill(self.offsets, |v| self.rows.offsets[v as usize]);
        setup.fill(self.neighbours, |at| self.rows.neighbours.get(at as usize).copied().unwrap_or(0));
        setup.fill(self.scores, |_| 1.0 / self.graph.vertices() as f32);
        setup.fill(self.gives, |_| 0.0);
    }

    fn sharing(&self) -> Sharing {
        // Every vertex gives, then every vertex sums.
        Sharing::Intervals { after: 0, each: self.graph.vertices() }
    }

    fn seek(&mut self, round: u64) -> bool {
        self.at = round;
        true
    }

    #[inline(always)]
    fn round(&mut self, m: &mut impl Memory) -> bool {
        let n = self.graph.vertices();
        let (v, sums) = (self.at & (n - 1), self.at & n != 0);
        self.at += 1;
        if !sums {
            m.block(0, 12);
            let score = m.load(self.scores, v, || 0.0);
            let (from, to) = self.row(m, v);
            m.store(self.gives, v, || score / (to - from) as f32);
            return true;
        }
        m.block(1, 8);
        let (from, to) = self.row(m, v);
        let mut sum = 0.0;
        for at in from..to {
            m.block(2, 5);
            let neighbour = m.load(self.neighbours, at, || self.rows.neighbours[at as usize]);
            sum += m.load(self.gives, neighbour.into(), || 0.0);
        }
        m.block(3, 11);
        m.load(self.scores, v, || 0.0);
        m.store(self.scores, v, || (1.0 - DAMPING) / n as f32 + DAMPING * sum);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::model;

    #[test]
    fn scores_are_those_of_the_formula() {
        let graph = Kronecker::new(8, 4, 2).unwrap();
        let mut found = model(PageRank::new(graph, 5));
        let rows = &found.algorithm.rows;
        let n = 256;
        let mut scores = vec![1.0 / f64::from(n); n as usize];
        for _ in 0..5 {
            let degree = |v: usize| (rows.offsets[v + 1] - rows.offsets[v]) as f64;
            let gives: Vec<f64> = (0..n as usize).map(|v| scores[v] / degree(v)).collect();
            for (v, score) in scores.iter_mut().enumerate() {
                let row = rows.offsets[v] as usize..rows.offsets[v + 1] as usize;
                let sum: f64 = rows.neighbours[row].iter().map(|&u| gives[u as usize]).sum();
                *score = 0.15 / f64::from(n) + 0.85 * sum;
            }
        }
        for (score, expected) in found.array(|k| k.scores).into_iter().zip(scores) {
            assert!((f64::from(score) / expected - 1.0).abs() < 1e-4, "{score} for {expected}");
        }
    }
}
