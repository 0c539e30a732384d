//! Generator `mcf`: pivots of a network simplex, in the manner of SPEC's mcf. Pricing loads arcs at a fixed distance,
//! and the potentials of their random end nodes. A pivot climbs the tree of nodes from both ends of the entering arc.
//! The update changes the potentials below one end. The phases of a pivot:
//!
//! ```text
//! Again --> Price --> Pivot --> Update
//!   ^                   |          |
//!   |                   | basket   |
//!   |                   | empty    |
//!   `-------------------+----------'
//! ```

use super::Describe;
use crate::{
    algorithm::Algorithm,
    layout::Layout,
    memory::{Array, Kept, Memory, Setup},
    seed::{below, mix, nth},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Pricing passes of a network simplex over the arcs of a large network.
#[derive(Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct McfDesc {
    /// Nodes, 104 bytes each, 12 of which are kept in memory. Default 10k.
    #[schemars(range(min = 16, max = 1u64 << 32))]
    nodes: u64,
    /// Arcs, 64 bytes each, 1 of which is kept. Default 100k.
    #[schemars(range(min = 16, max = 1u64 << 38))]
    arcs: u64,
    /// Pivots: each is a pass over a group of arcs, and a walk up the tree. Default 500.
    #[schemars(range(min = 0, max = 1u64 << 40))]
    pivots: u64,
    /// Seed. Default 1.
    #[schemars(range(min = 0, max = i64::MAX))]
    seed: u64,
}

impl Default for McfDesc {
    fn default() -> Self {
        Self { nodes: 10_000, arcs: 100_000, pivots: 500, seed: 1 }
    }
}

impl Describe for McfDesc {
    const NAME: &str = "mcf";
    type Algorithm = Mcf;

    fn algorithm(&self) -> Result<Mcf, String> {
        Ok(Mcf::new(self.nodes, self.arcs, self.pivots, self.seed))
    }
}

/// The network simplex of mcf (Löbel, "Solving large-scale real-world minimum-cost flow problems by a network simplex
/// method", 1996; SPEC CPU2000 to 2017, `pbeampp.c`): multiple partial pricing. Arcs are looked at in groups, one of
/// each few hundred in turn. Arcs whose reduced cost violates their bound go to a basket, and the worst one of it
/// enters. Then the cycle it closes is found by walking up from both of its ends, and the potentials of what hangs
/// below are changed.
///
/// The tree of nodes is given, by a function, and stays as it is. Pivots change potentials and the place of arcs (their
/// bound or the basis), but not the parents of nodes.
#[derive(Clone)]
pub struct Mcf {
    layout: Layout,
    cost: Array<i64>,
    tail: Array<u32>,
    head: Array<u32>,
    ident: Kept<u8>,
    potential: Kept<i64>,
    parent: Array<u32>,
    depth: Array<u32>,
    child: Array<u32>,
    sibling: Array<u32>,
    flow: Array<i64>,
    basket_arc: Kept<u64>,
    basket_cost: Kept<i64>,
    nodes: u64,
    arcs: u64,
    pivots: u64,
    groups: u64,
    group: u64,
    key: u64,
    basket: u64,
    pivot: u64,
    phase: Phase,
    /// What is looked at next: an arc of the group, or a node below the one that changes.
    at: u64,
    change: i64,
    /// Nodes below the changed one still to be visited, at most.
    left: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// What is in the basket is priced anew.
    Again,
    /// A group of arcs is priced.
    Price,
    /// The worst one enters.
    Pivot,
    /// Potentials below change.
    Update,
}

const ARC_BYTES: u64 = 64;
const NODE_BYTES: u64 = 104;
/// `pbeampp.c`: arcs in a group, and the basket's size.
const GROUP_ARCS: u64 = 300;
const BASKET: u64 = 100;
/// Arcs priced in a round.
const ARCS_A_ROUND: u64 = 32;
/// Nodes whose potential one pivot changes at most; below the root's children hang thousands.
const UPDATES: u64 = 1_000;
const COSTS: u64 = 10_000;

impl Mcf {
    /// A network of `nodes` and `arcs`.
    pub fn new(nodes: u64, arcs: u64, pivots: u64, seed: u64) -> Self {
        let mut layout = Layout::default();
        let (a, n) = (layout.records(arcs, ARC_BYTES), layout.records(nodes, NODE_BYTES));
        // perm[] points at the basket's entries: arc, cost and absolute cost.
        let b = layout.records(BASKET + GROUP_ARCS + 1, 24);
        Self {
            cost: a.field(0),
            tail: a.field(8),
            head: a.field(16),
            ident: layout.keep(a.field(24)),
            flow: a.field(48),
            potential: layout.keep(n.field(0)),
            parent: n.field(24),
            child: n.field(32),
            sibling: n.field(40),
            depth: n.field(96),
            basket_arc: layout.keep(b.field(0)),
            basket_cost: layout.keep(b.field(8)),
            layout,
            nodes,
            arcs,
            pivots,
            groups: arcs.div_ceil(GROUP_ARCS),
            group: 0,
            key: mix(seed),
            basket: 0,
            pivot: 0,
            phase: Phase::Again,
            at: 0,
            change: 0,
            left: 0,
        }
    }

    /// A node's parent: a heap's, over nodes in random order would be as good; the root is its own.
    fn parent_of(&self, node: u64) -> u32 {
        (node.saturating_sub(1) / FANOUT) as u32
    }

    fn depth_of(&self, node: u64) -> u32 {
        let (mut depth, mut node) = (0, node);
        while node > 0 {
            node = self.parent_of(node).into();
            depth += 1;
        }
        depth
    }

    fn child_of(&self, node: u64) -> u32 {
        let first = node * FANOUT + 1;
        if first < self.nodes { first as u32 } else { NOBODY }
    }

    fn sibling_of(&self, node: u64) -> u32 {
        if !node.is_multiple_of(FANOUT) && node + 1 < self.nodes { (node + 1) as u32 } else { NOBODY }
    }

    fn ends(&self, arc: u64) -> (u32, u32) {
        let random = nth(self.key, arc);
        (below(random, self.nodes) as u32, below(mix(random), self.nodes) as u32)
    }

    fn cost_of(&self, arc: u64) -> i64 {
        below(nth(!self.key, arc), COSTS) as i64
    }

    /// Its reduced cost, and whether that violates where the arc is at.
    #[inline(always)]
    fn price(&self, m: &mut impl Memory, arc: u64) -> Option<i64> {
        m.block(1, 13);
        let ident = m.get(self.ident, arc);
        if ident == BASIC {
            return None;
        }
        let (tail, head) = self.ends(arc);
        let cost = m.load(self.cost, arc, || self.cost_of(arc));
        let tail = m.load(self.tail, arc, || tail).into();
        let head = m.load(self.head, arc, || head).into();
        let reduced = cost - m.get(self.potential, tail) + m.get(self.potential, head);
        let violates = if ident == AT_LOWER { reduced < 0 } else { reduced > 0 };
        violates.then_some(reduced)
    }

    #[inline(always)]
    fn put(&mut self, m: &mut impl Memory, arc: u64, reduced: i64) {
        m.block(2, 8);
        m.put(self.basket_arc, self.basket, arc);
        m.put(self.basket_cost, self.basket, reduced);
        self.basket += 1;
    }

    /// The basket's arcs that still violate their bound stay, without the one that entered.
    fn again(&mut self, m: &mut impl Memory) {
        m.block(0, 15);
        let before = self.basket.min(BASKET);
        self.basket = 0;
        for i in 1..before {
            let arc = m.get(self.basket_arc, i);
            if let Some(reduced) = self.price(m, arc) {
                self.put(m, arc, reduced);
            }
        }
        (self.phase, self.at) = (Phase::Price, self.group);
    }

    #[inline(always)]
    fn priced(&mut self, m: &mut impl Memory) {
        for _ in 0..ARCS_A_ROUND {
            if self.at >= self.arcs {
                break;
            }
            let arc = self.at;
            self.at += self.groups;
            if let Some(reduced) = self.price(m, arc) {
                self.put(m, arc, reduced);
            }
        }
        if self.at >= self.arcs {
            self.group = (self.group + 1) % self.groups;
            self.phase = Phase::Pivot;
        }
    }

    fn enter(&mut self, m: &mut impl Memory) {
        m.block(3, 20);
        self.pivot += 1;
        (self.phase, self.at, self.left) = (Phase::Again, 0, 0);
        if self.basket == 0 {
            return;
        }
        // The worst one comes first (sort_basket; only the first is needed here).
        let mut worst = (0, m.get(self.basket_cost, 0));
        for i in 1..self.basket {
            m.block(4, 5);
            let cost = m.get(self.basket_cost, i);
            if cost.abs() > worst.1.abs() {
                worst = (i, cost);
            }
        }
        m.block(5, 12);
        let (first, arc) = (m.get(self.basket_arc, 0), m.get(self.basket_arc, worst.0));
        let cost = m.get(self.basket_cost, 0);
        m.put(self.basket_arc, worst.0, first);
        m.put(self.basket_cost, worst.0, cost);
        m.put(self.basket_arc, 0, arc);
        // primal_iminus: up from both ends to where they meet.
        let ends = self.ends(arc);
        let mut tail = u64::from(m.load(self.tail, arc, || ends.0));
        let head = u64::from(m.load(self.head, arc, || ends.1));
        let mut other = head;
        while tail != other {
            m.block(6, 10);
            let depths =
                (m.load(self.depth, tail, || self.depth_of(tail)), m.load(self.depth, other, || self.depth_of(other)));
            let side = if depths.0 >= depths.1 { &mut tail } else { &mut other };
            let node = *side;
            *side = m.load(self.parent, node, || self.parent_of(node)).into();
            m.load(self.flow, node % self.arcs, || 0);
        }
        m.block(7, 20);
        let ident = m.get(self.ident, arc);
        m.put(self.ident, arc, if ident == AT_LOWER { AT_UPPER } else { AT_LOWER });
        // What hangs below the arc's head gets the arc's reduced cost off, so that it does not violate any more.
        (self.phase, self.at) = (Phase::Update, head);
        (self.change, self.left) = (worst.1, UPDATES);
    }

    /// Changes a node's potential and goes on to its child, sibling, or the next sibling above (`refresh_potential`).
    #[inline(always)]
    fn update(&mut self, m: &mut impl Memory) {
        let node = self.at;
        m.block(8, 10);
        let before = m.get(self.potential, node);
        m.put(self.potential, node, before - self.change);
        self.left -= 1;
        let child = m.load(self.child, node, || self.child_of(node));
        if child != NOBODY && self.left > 0 {
            self.at = child.into();
            return;
        }
        let mut up = node;
        while self.left > 0 {
            m.block(9, 6);
            let sibling = m.load(self.sibling, up, || self.sibling_of(up));
            if sibling != NOBODY {
                self.at = sibling.into();
                return;
            }
            up = m.load(self.parent, up, || self.parent_of(up)).into();
            if up == 0 {
                break;
            }
        }
        (self.phase, self.at) = (Phase::Again, 0);
    }
}

const FANOUT: u64 = 3;
const NOBODY: u32 = u32::MAX;
// `defines.h`: where an arc is at.
const BASIC: u8 = 0;
const AT_LOWER: u8 = 1;
const AT_UPPER: u8 = 2;

impl Algorithm for Mcf {
    fn layout(&self) -> &Layout {
        &self.layout
    }

    fn rounds(&self) -> Option<u64> {
        None
    }

    fn prepare(&self, setup: &mut impl Setup) {
        setup.fill(self.cost, |arc| self.cost_of(arc));
        setup.fill(self.tail, |arc| self.ends(arc).0);
        setup.fill(self.head, |arc| self.ends(arc).1);
        setup.fill(self.flow, |_| 0);
        setup.fill(self.parent, |node| self.parent_of(node));
        setup.fill(self.depth, |node| self.depth_of(node));
        setup.fill(self.child, |node| self.child_of(node));
        setup.fill(self.sibling, |node| self.sibling_of(node));
        // One arc of as many as there are nodes is in the basis.
        let per = (self.arcs / self.nodes).max(1);
        setup.rows(self.arcs, |arc| [self.ident.cell(arc, if arc % per == 0 { BASIC } else { AT_LOWER })]);
        setup.rows(self.nodes, |node| [self.potential.cell(node, below(nth(self.key ^ 1, node), COSTS) as i64)]);
    }

    #[inline(always)]
    fn round(&mut self, m: &mut impl Memory) -> bool {
        if self.pivot == self.pivots && self.phase == Phase::Again {
            return false;
        }
        match self.phase {
            Phase::Again => self.again(m),
            Phase::Price => self.priced(m),
            Phase::Pivot => self.enter(m),
            Phase::Update => self.update(m),
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{model, ready};
    use std::collections::BTreeSet;

    #[test]
    fn the_tree_is_one() {
        let k = Mcf::new(500, 100, 1, 1);
        for node in 1..500 {
            let parent = k.parent_of(node).into();
            assert_eq!(k.depth_of(node), k.depth_of(parent) + 1);
            let mut children = BTreeSet::new();
            let mut child = k.child_of(parent);
            while child != NOBODY {
                children.insert(u64::from(child));
                child = k.sibling_of(child.into());
            }
            assert!(children.contains(&node) && children.iter().all(|&c| u64::from(k.parent_of(c)) == parent));
        }
    }

    #[test]
    fn the_arc_that_enters_is_the_worst_of_all_that_are_priced() {
        // One group: all arcs are priced.
        let mut found = ready(Mcf::new(50, 200, 1, 3));
        let k = &found.algorithm;
        let potential = |node: u32| below(nth(k.key ^ 1, node.into()), COSTS) as i64;
        let reduced = |arc: u64| k.cost_of(arc) - potential(k.ends(arc).0) + potential(k.ends(arc).1);
        let basic = |arc: &u64| arc.is_multiple_of(4);
        let worst = (0..200).filter(|a| !basic(a)).map(reduced).filter(|&r| r < 0).min().unwrap();
        while found.algorithm.pivot == 0 {
            found.algorithm.round(&mut found.memory);
        }
        assert_eq!(found.algorithm.change, worst);
    }

    #[test]
    fn all_pivots_are_made() {
        assert_eq!(model(Mcf::new(100, 5_000, 20, 1)).algorithm.pivot, 20);
    }
}
