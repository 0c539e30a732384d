//! Generator `pointer-chase`: loads along one random cycle through all nodes of an array. The value of each load gives
//! the address of the next, so no two loads can overlap. The generator computes the cycle and stores none of it.

use super::Describe;
use crate::{
    algorithm::Algorithm,
    layout::Layout,
    memory::{Array, Memory, Setup},
    seed,
};
use mmulab_addr::{Bytes, show_bytes};
use mmulab_trace::Loads;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Loads that each tell where the next one goes.
#[derive(Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ChaseDesc {
    /// Size of all nodes. Default 64M.
    #[schemars(extend("x-least" = "4K", "x-most" = "64T"))]
    footprint: Bytes,
    /// Size of a node, a multiple of 8 and at most the footprint. Default 64.
    #[schemars(extend("x-least" = "8", "x-most" = "64T"))]
    node: Bytes,
    /// Neighbouring nodes that are visited, in some order, before the chase goes elsewhere: a power of two, which the
    /// footprint holds a whole number of times. Default 1.
    #[schemars(range(min = 1, max = 4096))]
    together: u64,
    /// Loads. `k`, `M` and `G` are powers of 1000. Default 1000000.
    #[schemars(range(min = 0, max = 1u64 << 40))]
    references: u64,
    /// Seed. Default 1.
    #[schemars(range(min = 0, max = i64::MAX))]
    seed: u64,
}

impl Default for ChaseDesc {
    fn default() -> Self {
        Self { footprint: Bytes(64 << 20), node: Bytes(64), together: 1, references: 1_000_000, seed: 1 }
    }
}

impl Describe for ChaseDesc {
    const NAME: &str = "pointer-chase";
    type Algorithm = Chase;

    fn algorithm(&self) -> Result<Chase, String> {
        let (Bytes(footprint), Bytes(node)) = (self.footprint, self.node);
        if node > footprint {
            return Err(format!("node is {}: give 8 to the footprint, {}", show_bytes(node), show_bytes(footprint)));
        }
        if !node.is_multiple_of(8) {
            return Err(format!("node is {node}: give a multiple of 8"));
        }
        let (nodes, together) = (footprint / node, self.together);
        if !together.is_power_of_two() || !nodes.is_multiple_of(together) {
            return Err(format!("together is {together}: give a power of two that divides the {nodes} nodes"));
        }
        Ok(Chase::new(footprint, node, self.references, self.seed).together(together))
    }
}

/// Loads that each tell where the next one goes: one random cycle through all nodes.
///
/// Neighbouring nodes form groups of a fixed size, most often 1. The groups' cycle is a full-period linear congruential
/// generator over the next power of two of groups (Knuth, TAOCP vol. 2, section 3.2.1.2, theorem A), so that it needs
/// no memory; numbers beyond the last group are passed over. A node holds the number of the next one: the generator's,
/// and which of the group it is. The place of that node follows from it.
#[derive(Clone)]
pub struct Chase {
    layout: Layout,
    next: Array<u64>,
    nodes: u64,
    references: u64,
    /// log2 of the nodes of a group.
    together: u32,
    /// Of groups.
    mask: u64,
    multiplier: u64,
    increment: u64,
    at: u64,
}

impl Chase {
    /// A cycle through the nodes of `node_bytes` that fit in `footprint`.
    pub fn new(footprint: u64, node_bytes: u64, references: u64, seed: u64) -> Self {
        let nodes = footprint / node_bytes;
        let mut layout = Layout::default();
        let next = layout.records(nodes, node_bytes).field(0);
        // Multiplier 1 modulo 4 and odd increment give the full period; both follow from the seed.
        let mixed = seed::mix(seed);
        let chase = Self {
            layout,
            next,
            nodes,
            references,
            together: 0,
            mask: 0,
            multiplier: (mixed & !3) | 5,
            increment: seed::mix(!seed) | 1,
            at: 0,
        };
        chase.together(1)
    }

    /// The same, with groups of `together` nodes, a power of two that divides the nodes.
    fn together(mut self, together: u64) -> Self {
        self.together = together.trailing_zeros();
        self.mask = (self.nodes >> self.together).next_power_of_two() - 1;
        self.at = self.group_after(0) << self.together;
        self
    }

    /// The number after `at` that is a group's.
    #[inline(always)]
    fn group_after(&self, at: u64) -> u64 {
        let mut at = at;
        loop {
            at = at.wrapping_mul(self.multiplier).wrapping_add(self.increment) & self.mask;
            if mix(at, self.mask) < self.nodes >> self.together {
                return at;
            }
        }
    }

    /// The number of the node after that of number `at`.
    #[inline(always)]
    fn after(&self, at: u64) -> u64 {
        let last = (1 << self.together) - 1;
        if at & last < last { at + 1 } else { self.group_after(at >> self.together) << self.together }
    }

    /// Where the node of number `at` is.
    #[inline(always)]
    fn node(&self, at: u64) -> u64 {
        let (group, which) = (at >> self.together, at & ((1 << self.together) - 1));
        mix(group, self.mask) << self.together
            | (which.wrapping_mul(SPREAD).wrapping_add(group)) & ((1 << self.together) - 1)
    }

    /// The number of the node at `node`.
    fn number(&self, node: u64) -> u64 {
        let group = unmix(node >> self.together, self.mask);
        let which = node.wrapping_sub(group).wrapping_mul(seed::inverse(SPREAD)) & ((1 << self.together) - 1);
        group << self.together | which
    }
}

const SPREAD: u64 = 0x2545_f491_4f6c_dd1d;

fn half(mask: u64) -> u32 {
    ((64 - mask.leading_zeros()) / 2).max(1)
}

/// Spreads the weak low bits of the congruential sequence over the group's number; a bijection under the mask.
#[inline(always)]
fn mix(n: u64, mask: u64) -> u64 {
    (n ^ (n >> half(mask))).wrapping_mul(SPREAD) & mask
}

/// What [`mix`] made `node` of.
fn unmix(node: u64, mask: u64) -> u64 {
    let n = node.wrapping_mul(seed::inverse(SPREAD)) & mask;
    let mut found = n;
    for _ in 0..64 / half(mask) {
        found = n ^ (found >> half(mask));
    }
    found
}

impl Algorithm for Chase {
    fn loads(&self) -> Option<Loads> {
        Some(Loads::Dependent)
    }

    fn layout(&self) -> &Layout {
        &self.layout
    }

    fn rounds(&self) -> Option<u64> {
        Some(self.references)
    }

    fn instructions_before(&self, round: u64) -> Option<u64> {
        // Load the next address, count down, branch.
        round.checked_mul(3)
    }

    fn prepare(&self, setup: &mut impl Setup) {
        setup.fill(self.next, |node| self.after(self.number(node)));
    }

    fn seek(&mut self, round: u64) -> bool {
        // Where numbers are passed over, how many cannot be known without passing them.
        if self.nodes >> self.together != self.mask + 1 {
            return false;
        }
        let (groups, which) = (round >> self.together, round & ((1 << self.together) - 1));
        // x -> multiplier x + increment, done 2^i times, is of that form again.
        let (mut scale, mut shift, mut left) = (self.multiplier, self.increment, groups % (self.mask + 1));
        let mut at = self.group_after(0);
        while left > 0 {
            if left & 1 == 1 {
                at = at.wrapping_mul(scale).wrapping_add(shift) & self.mask;
            }
            shift = shift.wrapping_mul(scale.wrapping_add(1));
            scale = scale.wrapping_mul(scale);
            left >>= 1;
        }
        self.at = at << self.together | which;
        true
    }

    #[inline(always)]
    fn round(&mut self, m: &mut impl Memory) -> bool {
        m.block(0, 3);
        self.at = m.load(self.next, self.node(self.at), || self.after(self.at));
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::loads;

    #[test]
    fn every_node_comes_once_a_turn() {
        for nodes in [1u64, 2, 3, 100, 4096, 5000] {
            let twice = loads(Chase::new(nodes * 64, 64, 2 * nodes, nodes));
            let turn: std::collections::BTreeSet<_> = twice[..nodes as usize].iter().collect();
            assert_eq!(turn.len() as u64, nodes);
            assert_eq!(twice[..nodes as usize], twice[nodes as usize..]);
        }
    }

    #[test]
    fn neighbours_are_visited_together_in_some_order_and_what_comes_next_can_be_told_ahead() {
        for nodes in [64u64, 96] {
            let chase = || Chase::new(nodes * 64, 64, 2 * nodes, 3).together(8);
            let all = loads(chase());
            assert_eq!(all[..nodes as usize], all[nodes as usize..]);
            let place = |va: u64| (va - all.iter().min().unwrap()) / 64;
            let groups: Vec<std::collections::BTreeSet<u64>> =
                all[..nodes as usize].chunks(8).map(|eight| eight.iter().map(|&va| place(va)).collect()).collect();
            assert!(groups.iter().all(|g| g.len() == 8 && g.iter().all(|n| n / 8 == g.first().unwrap() / 8)));
            assert_eq!(groups.iter().collect::<std::collections::BTreeSet<_>>().len() as u64, nodes / 8);
            let chase = chase();
            assert!((0..nodes).all(|node| chase.node(chase.number(node)) == node));
        }
        let mut ahead = Chase::new(64 * 64, 64, 64, 3).together(8);
        let whole = loads(ahead.clone());
        assert!(ahead.seek(13));
        assert_eq!(loads(ahead)[..20], whole[13..33]);
    }

    #[test]
    fn a_node_tells_what_number_it_is_of() {
        for mask in [0u64, 1, 7, 255, 8191, (1 << 33) - 1] {
            for n in (0..1000).map(|n| n & mask) {
                assert_eq!(unmix(mix(n, mask), mask), n);
            }
        }
    }
}
