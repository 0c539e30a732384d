use crate::{
    generator::{DATA, Round, Rounds},
    seed,
};

/// Loads that each tell where the next one goes: one random cycle through all nodes.
///
/// The cycle is a full-period linear congruential generator over the next power of two of nodes (Knuth, TAOCP vol. 2,
/// section 3.2.1.2, theorem A), so that it needs no memory; numbers beyond the last node are passed over.
pub struct Chase {
    nodes: u64,
    node_bytes: u64,
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
        // Multiplier 1 modulo 4 and odd increment give the full period; both follow from the seed.
        let mixed = seed::mix(seed);
        Self {
            nodes,
            node_bytes,
            references,
            mask: nodes.next_power_of_two() - 1,
            multiplier: (mixed & !3) | 5,
            increment: seed::mix(!seed) | 1,
            at: 0,
        }
    }
}

/// Spreads the weak low bits of the congruential sequence over the node number; a bijection under the mask.
#[inline]
fn mix(n: u64, mask: u64) -> u64 {
    let half = (64 - mask.leading_zeros()) / 2;
    let n = n ^ (n >> half.max(1));
    n.wrapping_mul(0x2545_f491_4f6c_dd1d) & mask
}

impl Rounds for Chase {
    fn footprint(&self) -> u64 {
        self.nodes * self.node_bytes
    }

    fn rounds(&self) -> u64 {
        self.references
    }

    fn instructions(&self) -> u32 {
        // Load the next address, count down, branch.
        3
    }

    #[inline]
    fn next(&mut self) -> Round {
        loop {
            self.at = self.at.wrapping_mul(self.multiplier).wrapping_add(self.increment) & self.mask;
            let node = mix(self.at, self.mask);
            if node < self.nodes {
                return Round { read: Some(DATA.add(node * self.node_bytes)), write: None };
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_node_comes_once_a_turn() {
        for nodes in [1u64, 2, 3, 100, 4096, 5000] {
            let mut c = Chase::new(nodes * 64, 64, u64::MAX, nodes);
            let turn: std::collections::BTreeSet<_> = (0..nodes).map(|_| c.next().read.unwrap()).collect();
            assert_eq!(turn.len() as u64, nodes);
            assert_eq!(c.next().read, Chase::new(nodes * 64, 64, 1, nodes).next().read);
        }
    }
}
