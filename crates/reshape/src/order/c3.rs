//! Call-chain clustering (C3): an order of functions in which callers stand beside what they call most, and the hottest
//! code comes first. Source: Ottoni and Maher, Optimizing Function Placement for Large-Scale Data-Center Applications,
//! CGO 2017.
//!
//! ```text
//! hottest first:   is its most likely caller in another cluster?   does the sum fit?   is it dense enough?
//!                     '-- yes: caller's cluster, then its own, become one cluster
//! in the end:      clusters by density, densest first; what never ran stays as it was
//! ```

/// The most bytes of a cluster, and the loss of density that a merge may bring. The third is the least share of a
/// function's calls that its most likely caller must have. They are those of LLVM's linker (lld/ELF/CallGraphSort.cpp),
/// which names the paper.
pub const CLUSTER_BYTES: u64 = 1 << 20;
const DENSITY_LOSS: u128 = 8;
const LEAST_SHARE: u64 = 10;

/// A function.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Node {
    /// Its bytes.
    pub bytes: u64,
    /// Instructions that it executed.
    pub weight: u64,
    /// How often it was entered.
    pub entered: u64,
}

/// Calls of one function by another.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Call {
    /// The caller.
    pub from: usize,
    /// The function that is called.
    pub to: usize,
    /// How often.
    pub count: u64,
}

struct Cluster {
    members: Vec<usize>,
    bytes: u64,
    weight: u64,
}

/// The order in which C3 lays functions out: their numbers, all of them.
pub fn order(nodes: &[Node], calls: &[Call], cluster_bytes: u64) -> Vec<usize> {
    // The most likely caller of each: of equals the first in the file.
    let mut callers: Vec<Option<Call>> = vec![None; nodes.len()];
    for &call in calls.iter().filter(|call| call.from != call.to) {
        let best = &mut callers[call.to];
        let better = |known: Call| (call.count, known.from) > (known.count, call.from);
        if best.is_none_or(better) {
            *best = Some(call);
        }
    }
    let mut clusters: Vec<Cluster> = nodes
        .iter()
        .enumerate()
        .map(|(number, node)| Cluster { members: vec![number], bytes: node.bytes, weight: node.weight })
        .collect();
    let mut cluster_of: Vec<usize> = (0..nodes.len()).collect();
    let mut hottest: Vec<usize> = (0..nodes.len()).filter(|&number| nodes[number].weight > 0).collect();
    hottest.sort_by(|&a, &b| denser(weight_of(&nodes[b]), weight_of(&nodes[a])));
    for number in hottest {
        let Some(call) = callers[number] else { continue };
        // Not so where no caller is likely: others would be as near.
        if call.count * LEAST_SHARE <= nodes[number].entered || nodes[call.from].weight == 0 {
            continue;
        }
        let (into, from) = (cluster_of[call.from], cluster_of[number]);
        if into == from || clusters[into].bytes + clusters[from].bytes > cluster_bytes {
            continue;
        }
        if is_too_thin(&clusters[into], &clusters[from]) {
            continue;
        }
        let gone = std::mem::replace(&mut clusters[from], Cluster { members: Vec::new(), bytes: 0, weight: 0 });
        gone.members.iter().for_each(|&member| cluster_of[member] = into);
        let grown = &mut clusters[into];
        grown.members.extend(gone.members);
        grown.bytes += gone.bytes;
        grown.weight += gone.weight;
    }
    // What never ran keeps its order, behind all else: the sort is stable.
    clusters.retain(|cluster| !cluster.members.is_empty());
    clusters.sort_by(|a, b| denser((b.weight, b.bytes), (a.weight, a.bytes)));
    clusters.into_iter().flat_map(|cluster| cluster.members).collect()
}

fn weight_of(node: &Node) -> (u64, u64) {
    (node.weight, node.bytes)
}

/// Compares weight by byte, without rounding. What has no bytes is as if it had one.
fn denser(a: (u64, u64), b: (u64, u64)) -> std::cmp::Ordering {
    let product = |weight: u64, bytes: u64| u128::from(weight) * u128::from(bytes.max(1));
    product(a.0, b.1).cmp(&product(b.0, a.1))
}

/// Whether both together are less dense than the caller's cluster by more than the loss that is allowed.
fn is_too_thin(caller: &Cluster, callee: &Cluster) -> bool {
    let (weight, bytes) = (caller.weight + callee.weight, caller.bytes + callee.bytes);
    u128::from(weight) * u128::from(caller.bytes.max(1)) * DENSITY_LOSS
        < u128::from(caller.weight) * u128::from(bytes.max(1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn node(bytes: u64, weight: u64, entered: u64) -> Node {
        Node { bytes, weight, entered }
    }

    fn call(from: usize, to: usize, count: u64) -> Call {
        Call { from, to, count }
    }

    /// The five functions of docs/scenarios/function-order.md.
    #[test]
    fn five_functions() {
        let nodes = [node(4096, 100, 1), node(4096, 0, 0), node(2048, 400, 10), node(4096, 0, 0), node(2048, 900, 20)];
        let calls = [call(0, 2, 10), call(2, 4, 15), call(0, 4, 5)];
        // 4 joins 2, its most likely caller; 2, now with 4, joins 0.
        assert_eq!(order(&nodes, &calls, CLUSTER_BYTES), [0, 2, 4, 1, 3]);
        // In a cluster of a page, 0 has no room for the other two, which are denser.
        assert_eq!(order(&nodes, &calls, 4096), [2, 4, 0, 1, 3]);
    }

    #[test]
    fn a_caller_that_makes_a_tenth_of_the_calls_is_not_likely() {
        let nodes = [node(64, 10, 1), node(64, 50, 100)];
        assert_eq!(order(&nodes, &[call(0, 1, 10)], CLUSTER_BYTES), [1, 0]);
        assert_eq!(order(&nodes, &[call(0, 1, 11)], CLUSTER_BYTES), [0, 1]);
    }

    #[test]
    fn a_hot_caller_is_not_diluted() {
        // 800 instructions in 16 bytes; a callee of 4 KB that ran once would make that less than an eighth as dense.
        let nodes = [node(16, 800, 1), node(4096, 1, 1)];
        assert_eq!(order(&nodes, &[call(0, 1, 1)], CLUSTER_BYTES), [0, 1]);
        let other = [node(16, 800, 1), node(4096, 1, 1), node(16, 400, 1)];
        assert_eq!(order(&other, &[call(0, 1, 1)], CLUSTER_BYTES), [0, 2, 1]);
    }

    proptest! {
        /// Every function is laid out once, whatever the graph; what never ran comes last, in its order.
        #[test]
        fn an_order_is_a_permutation(
            nodes in prop::collection::vec((0u64..9000, 0u64..100, 0u64..100), 1..40),
            calls in prop::collection::vec((0usize..40, 0usize..40, 1u64..100), 0..99),
            most in 0u64..20_000,
        ) {
            let made = nodes.into_iter().map(|(bytes, weight, entered)| node(bytes, weight, entered));
            let nodes: Vec<Node> = made.collect();
            let n = nodes.len();
            let calls: Vec<Call> = calls.into_iter().map(|(from, to, count)| call(from % n, to % n, count)).collect();
            let found = order(&nodes, &calls, most);
            let mut sorted = found.clone();
            sorted.sort_unstable();
            prop_assert_eq!(sorted, (0..n).collect::<Vec<_>>());
            let cold: Vec<usize> = found.iter().copied().skip_while(|&at| nodes[at].weight > 0).collect();
            prop_assert!(cold.iter().all(|&at| nodes[at].weight == 0));
            prop_assert!(cold.is_sorted());
        }
    }
}
