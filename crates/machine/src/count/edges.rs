//! Instruction misses by *edge*: the block of code that missed in the instruction TLB, and the block of the same thread
//! that ran before it. A block ends with a jump, a call or a return, so the edge is the jump that met the miss.

use super::cost::{Block, Cost};
use mmulab_addr::Pid;
use mmulab_kernel::RegionId;
use rustc_hash::FxHashMap;

/// A jump from one block to another. `from` is absent if the trace does not give it. Then a thread's turn, or a part of
/// the trace that is decoded at once, begins with the missing block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Edge {
    /// The process.
    pub pid: Pid,
    /// The block that missed.
    pub to: Block,
    /// The block that ran before it.
    pub from: Option<Block>,
}

/// Costs by edge.
#[derive(Default)]
pub struct Edges(FxHashMap<Edge, Cost>);

impl Edges {
    /// Adds a miss.
    pub fn add(&mut self, edge: Edge, cost: &Cost) {
        self.0.entry(edge).or_default().add(cost);
    }

    /// Puts what is filed under regions that are no more under the rows that sum them up.
    pub fn fold(&mut self, into: &FxHashMap<RegionId, RegionId>) {
        let renamed = |block: Block| Block { region: *into.get(&block.region).unwrap_or(&block.region), ..block };
        let moved = |edge: &Edge| Edge { to: renamed(edge.to), from: edge.from.map(renamed), ..*edge };
        let gone: Vec<_> = self.0.extract_if(|edge, _| moved(edge) != *edge).collect();
        for (edge, cost) in gone {
            self.add(moved(&edge), &cost);
        }
    }

    /// All edges, those with the most misses first.
    pub fn sorted(&self) -> Vec<(Edge, Cost)> {
        let mut edges: Vec<_> = self.0.iter().map(|(&edge, &cost)| (edge, cost)).collect();
        let weight = |cost: &Cost| (cost.l1i_misses, cost.stall_cycles, cost.walk_cycles);
        edges.sort_unstable_by(|(a, x), (b, y)| weight(y).cmp(&weight(x)).then(a.cmp(b)));
        edges
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mmulab_addr::VirtAddr;

    fn block(region: u32, addr: u64) -> Block {
        Block { region: RegionId(region), addr: VirtAddr::new(addr) }
    }

    fn missed(n: u64) -> Cost {
        Cost { l1i_misses: n, ..Cost::default() }
    }

    #[test]
    fn edges_of_folded_regions_go_to_their_rows_and_none_is_lost() {
        let mut edges = Edges::default();
        let edge = |to, from| Edge { pid: Pid(1), to, from };
        edges.add(edge(block(1, 64), Some(block(2, 0))), &missed(1));
        edges.add(edge(block(9, 64), Some(block(2, 0))), &missed(2));
        edges.add(edge(block(3, 0), None), &missed(5));
        edges.add(edge(block(3, 0), Some(block(1, 64))), &missed(4));
        edges.fold(&[(RegionId(1), RegionId(9))].into_iter().collect());
        let found = edges.sorted();
        let expected = [
            (edge(block(3, 0), None), missed(5)),
            (edge(block(3, 0), Some(block(9, 64))), missed(4)),
            (edge(block(9, 64), Some(block(2, 0))), missed(3)),
        ];
        assert_eq!(found, expected);
    }
}
