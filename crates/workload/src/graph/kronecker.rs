//! Kronecker graphs, as Graph500 generates them: built in memory, as compressed rows.

use super::Graph;
use crate::seed::{Shuffle, mix, nth};

/// Initiator of the Graph500 generator (Graph500 specification 2.0, section 3.3): A, A + B and A + B + C, in 65536ths.
const QUADRANTS: [u64; 3] = [37_356, 49_807, 62_259];
/// Levels that one random number decides, 16 bits each.
const LEVELS: u32 = 4;

/// Most edges: built, they take 32 GiB.
const EDGES_MAX: u64 = 1 << 32;

/// A Kronecker graph: edge `i` is a function of the seed and `i`.
#[derive(Clone, Copy, Debug)]
pub struct Kronecker {
    /// The number of vertices is 2 to the power of it.
    pub scale: u32,
    /// Edges.
    pub edges: u64,
    labels: Shuffle,
    key: u64,
}

impl Kronecker {
    /// 2^`scale` vertices with `degree` edges each.
    pub fn new(scale: u64, degree: u64, seed: u64) -> Result<Self, String> {
        if degree << scale > EDGES_MAX {
            return Err(format!(
                "2^{scale} vertices of {degree} edges are more than {EDGES_MAX}: make the graph smaller"
            ));
        }
        Ok(Self {
            scale: scale as u32,
            edges: degree << scale,
            labels: Shuffle::new(1 << scale, !seed),
            key: mix(seed),
        })
    }

    /// Bytes that its [`Rows`] take while they are built: places of rows, twice, and neighbours.
    pub fn rows_bytes(&self, both: bool) -> u64 {
        16 * self.vertices() + 4 * self.edges * (1 + u64::from(both))
    }

    /// Vertices.
    pub fn vertices(&self) -> u64 {
        1 << self.scale
    }

    /// Where edge `i` goes from and to. Labels are shuffled, so that they tell nothing of the degree.
    pub fn edge(&self, i: u64) -> (u32, u32) {
        let (mut from, mut to, mut random) = (0, 0, 0);
        for level in 0..self.scale {
            random = if level % LEVELS == 0 { nth(self.key ^ mix(u64::from(level)), i) } else { random >> 16 };
            let quadrant = QUADRANTS.iter().filter(|&&end| random & 0xffff >= end).count() as u64;
            from = from << 1 | quadrant >> 1;
            to = to << 1 | quadrant & 1;
        }
        (self.labels.forth(from) as u32, self.labels.forth(to) as u32)
    }
}

/// A graph as compressed rows: the neighbours of each vertex in order, none twice, none itself.
#[derive(Clone, Default, Debug)]
pub struct Rows {
    /// Where each vertex' neighbours begin; one more than there are vertices.
    pub offsets: Vec<u64>,
    /// The neighbours.
    pub neighbours: Vec<u32>,
}

impl Rows {
    /// The rows of a graph; each edge goes both ways if `both`.
    pub fn new(graph: &Kronecker, both: bool) -> Self {
        let n = graph.vertices() as usize;
        let each = |visit: &mut dyn FnMut(u32, u32)| {
            for (from, to) in (0..graph.edges).map(|i| graph.edge(i)).filter(|(a, b)| a != b) {
                visit(from, to);
                if both {
                    visit(to, from);
                }
            }
        };
        let mut ends = vec![0u64; n + 1];
        each(&mut |from, _| ends[from as usize + 1] += 1);
        (0..n).for_each(|v| ends[v + 1] += ends[v]);
        let mut filled = ends.clone();
        let mut all = vec![0u32; ends[n] as usize];
        each(&mut |from, to| {
            all[filled[from as usize] as usize] = to;
            filled[from as usize] += 1;
        });
        let (mut offsets, mut kept) = (vec![0u64; n + 1], 0usize);
        for v in 0..n {
            let row = ends[v] as usize..ends[v + 1] as usize;
            all[row.clone()].sort_unstable();
            let first = kept;
            for i in row {
                if kept == first || all[kept - 1] != all[i] {
                    all[kept] = all[i];
                    kept += 1;
                }
            }
            offsets[v + 1] = kept as u64;
        }
        all.truncate(kept);
        Self { offsets, neighbours: all }
    }
}

/// A Kronecker graph whose edges go both ways, with its rows once they are built.
#[derive(Clone, Debug)]
pub struct Built {
    graph: Kronecker,
    rows: Rows,
}

impl Built {
    /// `graph`, not built yet.
    pub fn new(graph: Kronecker) -> Self {
        Self { graph, rows: Rows::default() }
    }
}

impl Graph for Built {
    fn vertices(&self) -> u64 {
        self.graph.vertices()
    }

    fn room(&self) -> u64 {
        2 * self.graph.edges
    }

    fn slots(&self) -> u64 {
        self.rows.neighbours.len() as u64
    }

    #[inline(always)]
    fn offset(&self, v: u64) -> u64 {
        self.rows.offsets[v as usize]
    }

    #[inline(always)]
    fn neighbour(&self, slot: u64) -> u32 {
        self.rows.neighbours[slot as usize]
    }

    fn bytes(&self) -> u64 {
        self.graph.rows_bytes(true)
    }

    fn build(&mut self) {
        self.rows = Rows::new(&self.graph, true);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn rows_are_the_edges() {
        let graph = Kronecker::new(8, 16, 1).unwrap();
        for both in [false, true] {
            let rows = Rows::new(&graph, both);
            let found: BTreeSet<(u32, u32)> = (0..256u32)
                .flat_map(|v| {
                    let row = rows.offsets[v as usize] as usize..rows.offsets[v as usize + 1] as usize;
                    rows.neighbours[row].iter().map(move |&to| (v, to)).collect::<Vec<_>>()
                })
                .collect();
            let edges = (0..graph.edges).map(|i| graph.edge(i)).filter(|(a, b)| a != b);
            let wanted: BTreeSet<_> =
                edges.flat_map(|(a, b)| if both { vec![(a, b), (b, a)] } else { vec![(a, b)] }).collect();
            assert_eq!(found, wanted);
            assert_eq!(rows.neighbours.len(), wanted.len(), "none twice");
        }
    }

    #[test]
    fn degrees_are_as_uneven_as_the_initiator_says() {
        // The share of edges from the first half of the vertices, before they are shuffled, is A + B at each level. So
        // the sum of all vertices' squared shares is ((A+B)^2 + (C+D)^2)^scale, here by degree.
        let graph = Kronecker::new(10, 64, 5).unwrap();
        let mut degrees = vec![0f64; 1024];
        (0..graph.edges).for_each(|i| degrees[graph.edge(i).0 as usize] += 1.0);
        let edges = graph.edges as f64;
        let squares: f64 = degrees.iter().map(|d| (d / edges) * (d / edges)).sum();
        let expected = (0.76f64.powi(2) + 0.24f64.powi(2)).powi(10);
        assert!((squares / expected - 1.0).abs() < 0.1, "{squares} of {expected}");
    }
}
