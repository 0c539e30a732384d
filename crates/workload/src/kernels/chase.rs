use super::Describe;
use crate::{
    kernel::Kernel,
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
    /// Loads. `k`, `M` and `G` are powers of 1000. Default 1000000.
    #[schemars(range(min = 0, max = 1u64 << 40))]
    references: u64,
    /// Seed. Default 1.
    #[schemars(range(min = 0, max = i64::MAX))]
    seed: u64,
}

impl Default for ChaseDesc {
    fn default() -> Self {
        Self { footprint: Bytes(64 << 20), node: Bytes(64), references: 1_000_000, seed: 1 }
    }
}

impl Describe for ChaseDesc {
    const NAME: &str = "pointer-chase";
    type Kernel = Chase;

    fn kernel(&self) -> Result<Chase, String> {
        let (Bytes(footprint), Bytes(node)) = (self.footprint, self.node);
        if node > footprint {
            return Err(format!("node is {}: give 8 to the footprint, {}", show_bytes(node), show_bytes(footprint)));
        }
        if !node.is_multiple_of(8) {
            return Err(format!("node is {node}: give a multiple of 8"));
        }
        Ok(Chase::new(footprint, node, self.references, self.seed))
    }
}

/// Loads that each tell where the next one goes: one random cycle through all nodes.
///
/// The cycle is a full-period linear congruential generator over the next power of two of nodes (Knuth, TAOCP vol. 2,
/// section 3.2.1.2, theorem A), so that it needs no memory; numbers beyond the last node are passed over. A node holds the
/// generator's next number, which the place of the next node follows from.
#[derive(Clone)]
pub struct Chase {
    layout: Layout,
    next: Array<u64>,
    nodes: u64,
    references: u64,
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
        let mut chase = Self {
            layout,
            next,
            nodes,
            references,
            mask: nodes.next_power_of_two() - 1,
            multiplier: (mixed & !3) | 5,
            increment: seed::mix(!seed) | 1,
            at: 0,
        };
        chase.at = chase.after(0);
        chase
    }

    /// The number after `at` that is a node's.
    #[inline(always)]
    fn after(&self, at: u64) -> u64 {
        let mut at = at;
        loop {
            at = at.wrapping_mul(self.multiplier).wrapping_add(self.increment) & self.mask;
            if mix(at, self.mask) < self.nodes {
                return at;
            }
        }
    }
}

const SPREAD: u64 = 0x2545_f491_4f6c_dd1d;

fn half(mask: u64) -> u32 {
    ((64 - mask.leading_zeros()) / 2).max(1)
}

/// Spreads the weak low bits of the congruential sequence over the node number; a bijection under the mask.
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

impl Kernel for Chase {
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
        setup.fill(self.next, |node| self.after(unmix(node, self.mask)));
    }

    fn seek(&mut self, round: u64) -> bool {
        // Where numbers are passed over, how many cannot be known without passing them.
        if self.nodes != self.mask + 1 {
            return false;
        }
        // x -> multiplier x + increment, done 2^i times, is of that form again.
        let (mut scale, mut shift, mut left) = (self.multiplier, self.increment, round % self.nodes);
        let mut at = self.after(0);
        while left > 0 {
            if left & 1 == 1 {
                at = at.wrapping_mul(scale).wrapping_add(shift) & self.mask;
            }
            shift = shift.wrapping_mul(scale.wrapping_add(1));
            scale = scale.wrapping_mul(scale);
            left >>= 1;
        }
        self.at = at;
        true
    }

    #[inline(always)]
    fn round(&mut self, m: &mut impl Memory) -> bool {
        m.block(0, 3);
        self.at = m.load(self.next, mix(self.at, self.mask), || self.after(self.at));
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
    fn a_node_tells_what_number_it_is_of() {
        for mask in [0u64, 1, 7, 255, 8191, (1 << 33) - 1] {
            for n in (0..1000).map(|n| n & mask) {
                assert_eq!(unmix(mix(n, mask), mask), n);
            }
        }
    }
}
