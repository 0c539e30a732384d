//! Generators `bfs` and `friendster`: breadth-first searches of a graph, top-down or bottom-up by the size of the
//! frontier. Neighbour lists are read in sequence. Parents and frontier bits of neighbours are accessed at random.
//!
//! ```text
//! Clear --> choose: queue empty    --> next search, from Clear
//!             |     frontier large --> Pack --> Up, until the frontier is small and shrinks --> Unpack --> choose
//!             `---- otherwise      --> Down, one level --> choose
//! ```

use super::Describe;
use crate::{
    algorithm::{Algorithm, Sharing},
    flow::{FREE, flow, from, to},
    graph::{Built, Drawn, Graph, Kronecker},
    layout::Layout,
    memory::{Array, Kept, Memory, Setup},
    seed::{below, mix, nth},
};
use mmulab_trace::Loads;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Breadth-first searches of a Kronecker graph that change direction.
#[derive(Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct BfsDesc {
    /// The graph has 2^scale vertices; it is built in memory: 150 bytes a vertex. Default 14.
    #[schemars(range(min = 4, max = 28))]
    scale: u64,
    /// Edges for each vertex; each goes both ways. Default 16, as in Graph500.
    #[schemars(range(min = 1, max = 64))]
    edgefactor: u64,
    /// Searches, from random vertices. Default 1.
    #[schemars(range(min = 1, max = 1 << 20))]
    searches: u64,
    /// Seed of graph and searches. Default 1.
    #[schemars(range(min = 0, max = i64::MAX))]
    seed: u64,
}

impl Default for BfsDesc {
    fn default() -> Self {
        Self { scale: 14, edgefactor: 16, searches: 1, seed: 1 }
    }
}

impl Describe for BfsDesc {
    const NAME: &str = "bfs";
    type Algorithm = Bfs<Built>;

    fn algorithm(&self) -> Result<Bfs<Built>, String> {
        let graph = Kronecker::new(self.scale, self.edgefactor, self.seed)?;
        Ok(Bfs::new(Built::new(graph), self.searches, self.seed))
    }
}

/// The searches of `bfs` in a graph of Friendster's size, which is computed and not kept in memory. Degrees follow a
/// power law, and any two ends of edges are as likely to meet.
#[derive(Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct FriendsterDesc {
    /// The graph has 2^scale vertices; 8 bytes a vertex are kept in memory. Default 26; Friendster has 65.6 million
    /// (SNAP, com-Friendster).
    #[schemars(range(min = 4, max = 30))]
    scale: u64,
    /// Neighbours of a vertex on average. Default 55, Friendster's: 1.8 billion edges.
    #[schemars(range(min = 1, max = 100_000))]
    neighbours: u64,
    /// Most neighbours of a vertex. Default 5214, Friendster's.
    #[schemars(range(min = 2, max = 10_000_000))]
    most: u64,
    /// Searches, from random vertices. Default 1.
    #[schemars(range(min = 1, max = 1 << 20))]
    searches: u64,
    /// Seed of graph and searches. Default 1.
    #[schemars(range(min = 0, max = i64::MAX))]
    seed: u64,
}

impl Default for FriendsterDesc {
    fn default() -> Self {
        Self { scale: 26, neighbours: 55, most: 5214, searches: 1, seed: 1 }
    }
}

impl Describe for FriendsterDesc {
    const NAME: &str = "friendster";
    type Algorithm = Bfs<Drawn>;

    fn algorithm(&self) -> Result<Bfs<Drawn>, String> {
        let graph = Drawn::new(self.scale, self.neighbours as f64, self.most, self.seed)?;
        Ok(Bfs::new(graph, self.searches, self.seed))
    }
}

/// Breadth-first search as GAPBS does it (Beamer et al., "Direction-optimizing breadth-first search", SC 2012;
/// `bfs.cc`), on one thread. While the frontier is small, it goes from the queue's vertices to their neighbours. While
/// it is large, it goes from vertices without a parent to any neighbour in the frontier.
#[derive(Clone)]
pub struct Bfs<G> {
    layout: Layout,
    graph: G,
    offsets: Array<u64>,
    neighbours: Array<u32>,
    /// A parent's number, or minus the degree (minus one without neighbours) of a vertex not yet reached.
    parents: Kept<i32>,
    queue: Kept<u32>,
    /// Frontiers, a bit a vertex.
    bits: [Kept<u64>; 2],
    searches: u64,
    key: u64,
    searched: u64,
    phase: Phase,
    at: u64,
    /// What of the queue is this step's, and what was put behind it.
    head: u64,
    tail: u64,
    end: u64,
    /// Edges of the vertices in the frontier, and of those not yet reached.
    scout: i64,
    unexplored: i64,
    awake: u64,
    awoken: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Every vertex' parent is set to minus its degree.
    Clear,
    /// Down from the queue.
    Down,
    /// The queue becomes bits.
    Pack,
    /// Up from vertices without a parent.
    Up,
    /// The bits become a queue.
    Unpack,
}

/// GAPBS's `alpha` and `beta`: up when the frontier has more than 1/15 of the edges left, down when it has less than
/// 1/18 of the vertices.
const ALPHA: i64 = 15;
const BETA: u64 = 18;

impl<G: Graph> Bfs<G> {
    /// `searches` of `graph`.
    pub fn new(graph: G, searches: u64, seed: u64) -> Self {
        let n = graph.vertices();
        let mut layout = Layout::default();
        let offsets = layout.array(n + 1);
        let neighbours = layout.array(graph.room());
        let (parents, queue) = (layout.kept(n), layout.kept(n));
        let bits = [layout.kept(n.div_ceil(64)), layout.kept(n.div_ceil(64))];
        Self {
            layout,
            graph,
            offsets,
            neighbours,
            parents,
            queue,
            bits,
            searches,
            key: mix(!seed),
            searched: 0,
            phase: Phase::Clear,
            at: 0,
            head: 0,
            tail: 0,
            end: 0,
            scout: 0,
            unexplored: 0,
            awake: 0,
            awoken: 0,
        }
    }

    /// The first random vertex that has neighbours.
    fn source(&self) -> u64 {
        let n = self.graph.vertices();
        let tries = (0..).map(|i| below(nth(self.key ^ mix(self.searched), i), n));
        tries.take(1 << 20).find(|&v| self.graph.degree(v) > 0).unwrap_or(0)
    }

    /// Where the neighbours of `v` are.
    #[inline(always)]
    fn row(&self, m: &mut impl Memory, v: u64) -> (u64, u64) {
        let from = m.load(self.offsets, v, || self.graph.offset(v));
        let to = m.load(self.offsets, v + 1, || self.graph.offset(v + 1));
        (from, to)
    }

    #[inline(always)]
    fn neighbour(&self, m: &mut impl Memory, at: u64) -> u64 {
        m.load(self.neighbours, at, || self.graph.neighbour(at)).into()
    }

    #[inline(always)]
    fn clear(&mut self, m: &mut impl Memory) {
        m.block(0, 9);
        let (from, to) = self.row(m, self.at);
        m.put(self.parents, self.at, -((to - from).max(1) as i32));
        self.at += 1;
        if self.at == self.graph.vertices() {
            let source = self.source();
            m.block(1, 30);
            m.put(self.parents, source, source as i32);
            m.put(self.queue, 0, source as u32);
            (self.head, self.tail, self.end) = (0, 1, 1);
            self.scout = self.graph.degree(source) as i64;
            self.unexplored = self.graph.slots() as i64;
            self.choose();
        }
    }

    /// What the next step is, from a queue.
    fn choose(&mut self) {
        if self.head == self.tail {
            self.searched += 1;
            (self.phase, self.at) = (Phase::Clear, 0);
        } else if self.scout > self.unexplored / ALPHA {
            (self.phase, self.at) = (Phase::Pack, 0);
        } else {
            self.unexplored -= self.scout;
            self.scout = 0;
            self.phase = Phase::Down;
        }
    }

    #[inline(always)]
    fn down(&mut self, m: &mut impl Memory) {
        m.block(2, 8);
        let u = m.get(self.queue, self.head).into();
        let (from, to) = self.row(m, u);
        for at in from..to {
            let v = self.neighbour(m, at);
            m.block(3, 5);
            let parent = m.get(self.parents, v);
            if parent < 0 {
                m.block(4, 10);
                m.put(self.parents, v, u as i32);
                m.put(self.queue, self.end, v as u32);
                self.end += 1;
                self.scout -= i64::from(parent);
            }
        }
        self.head += 1;
        if self.head == self.tail {
            self.tail = self.end;
            self.choose();
        }
    }

    /// Sets the bit of the queue's next vertex; first all words are cleared.
    #[inline(always)]
    fn pack(&mut self, m: &mut impl Memory) {
        let words = self.graph.vertices().div_ceil(64);
        if self.at < words {
            m.block(5, 4);
            m.put(self.bits[0], self.at, 0);
            self.at += 1;
            return;
        }
        m.block(6, 9);
        let v = u64::from(m.get(self.queue, self.head + self.at - words));
        let word = m.get(self.bits[0], v / 64);
        m.put(self.bits[0], v / 64, word | 1 << (v % 64));
        self.at += 1;
        if self.at == words + self.tail - self.head {
            (self.awake, self.awoken) = (self.tail - self.head, 0);
            (self.phase, self.at) = (Phase::Up, 0);
        }
    }

    #[inline(always)]
    fn up(&mut self, m: &mut impl Memory) {
        let u = self.at;
        m.block(7, 6);
        if u.is_multiple_of(64) {
            m.put(self.bits[1], u / 64, 0);
        }
        if m.get(self.parents, u) < 0 {
            let (from, to) = self.row(m, u);
            for at in from..to {
                let v = self.neighbour(m, at);
                m.block(8, 8);
                if m.get(self.bits[0], v / 64) >> (v % 64) & 1 == 1 {
                    m.block(9, 9);
                    m.put(self.parents, u, v as i32);
                    let word = m.get(self.bits[1], u / 64);
                    m.put(self.bits[1], u / 64, word | 1 << (u % 64));
                    self.awoken += 1;
                    break;
                }
            }
        }
        self.at += 1;
        let n = self.graph.vertices();
        if self.at == n {
            self.bits.swap(0, 1);
            let goes_on = self.awoken >= self.awake || self.awoken > n / BETA;
            (self.awake, self.awoken, self.at) = (self.awoken, 0, 0);
            if !goes_on || self.awake == 0 {
                self.phase = Phase::Unpack;
                // What the queue held before is not looked at again: it is filled from its beginning.
                (self.head, self.tail, self.end) = (0, 0, 0);
            }
        }
    }

    #[inline(always)]
    fn unpack(&mut self, m: &mut impl Memory) {
        m.block(10, 5);
        let mut word = m.get(self.bits[0], self.at);
        while word != 0 {
            m.block(11, 7);
            m.put(self.queue, self.end, (self.at * 64 + u64::from(word.trailing_zeros())) as u32);
            self.end += 1;
            word &= word - 1;
        }
        self.at += 1;
        if self.at == self.graph.vertices().div_ceil(64) {
            self.tail = self.end;
            self.scout = 1;
            self.choose();
        }
    }
}

impl<G: Graph + Clone + Send + 'static> Algorithm for Bfs<G> {
    fn loads(&self) -> Option<Loads> {
        // Offsets of a vertex wait for the queue, its neighbours for its offset, and what is known of a neighbour for
        // its number. Edges do not wait for each other, nor do vertices. Going up, vertices come in order; their first
        // access may clear a word of bits, so that offsets are the second or the third one.
        const VERTEX: u8 = 1;
        const ROW: u8 = 2;
        const NEIGHBOUR: u8 = 3;
        flow(&[
            (2, &[to(VERTEX, FREE), to(ROW, from(VERTEX)), from(VERTEX), to(NEIGHBOUR, from(ROW))]),
            (3, &[from(NEIGHBOUR), to(NEIGHBOUR, from(ROW))]),
            (4, &[from(NEIGHBOUR), FREE, to(NEIGHBOUR, from(ROW))]),
            (6, &[to(VERTEX, FREE), from(VERTEX), from(VERTEX)]),
            (7, &[to(ROW, FREE), to(ROW, FREE), to(ROW, FREE), to(NEIGHBOUR, from(ROW))]),
            (8, &[from(NEIGHBOUR), to(NEIGHBOUR, from(ROW))]),
        ])
    }

    fn layout(&self) -> &Layout {
        &self.layout
    }

    fn rounds(&self) -> Option<u64> {
        None
    }

    fn built_bytes(&self) -> u64 {
        self.graph.bytes()
    }

    fn build(&mut self) {
        self.graph.build();
    }

    fn prepare(&self, setup: &mut impl Setup) {
        setup.fill(self.offsets, |v| self.graph.offset(v));
        let slots = self.graph.slots();
        setup.fill(self.neighbours, |slot| if slot < slots { self.graph.neighbour(slot) } else { 0 });
    }

    fn sharing(&self) -> Sharing {
        Sharing::Turns
    }

    #[inline(always)]
    fn round(&mut self, m: &mut impl Memory) -> bool {
        if self.searched == self.searches {
            return false;
        }
        match self.phase {
            Phase::Clear => self.clear(m),
            Phase::Down => self.down(m),
            Phase::Pack => self.pack(m),
            Phase::Up => self.up(m),
            Phase::Unpack => self.unpack(m),
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::model;
    use std::collections::VecDeque;

    /// How far each vertex is from `source`.
    fn distances(graph: &impl Graph, source: u64) -> Vec<Option<u32>> {
        let mut found = vec![None; graph.vertices() as usize];
        found[source as usize] = Some(0);
        let mut queue = VecDeque::from([source]);
        while let Some(u) = queue.pop_front() {
            for slot in graph.offset(u)..graph.offset(u + 1) {
                let v = graph.neighbour(slot);
                if found[v as usize].is_none() {
                    found[v as usize] = found[u as usize].map(|d| d + 1);
                    queue.push_back(u64::from(v));
                }
            }
        }
        found
    }

    /// Holds the parents of one search against the distances of vertices.
    fn check(bfs: Bfs<impl Graph + Clone + Send + 'static>) {
        let mut found = model(bfs);
        found.algorithm.searched = 0;
        let source = found.algorithm.source();
        let parents = found.array(|k| k.parents.array());
        let far = distances(&found.algorithm.graph, source);
        for (v, &parent) in parents.iter().enumerate() {
            match far[v] {
                None => assert!(parent < 0, "{v} cannot be reached"),
                Some(0) => assert_eq!(parent as usize, v),
                Some(d) => assert_eq!(far[parent as usize], Some(d - 1), "{v}"),
            }
        }
    }

    #[test]
    fn parents_are_one_step_nearer_to_the_source() {
        for (scale, degree, seed) in [(4, 1, 1), (9, 16, 2), (10, 2, 3)] {
            check(Bfs::new(Built::new(Kronecker::new(scale, degree, seed).unwrap()), 1, seed));
            check(Bfs::new(Drawn::new(scale, 1.0 + degree as f64, 64, seed).unwrap(), 1, seed));
        }
    }
}
