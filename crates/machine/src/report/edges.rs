//! The jumps that met the most instruction misses, and what all others come to.

use super::places::{LISTED, Rest};
use crate::count::{Block, Cost, Edge};
use mmulab_addr::{Pid, VirtAddr};
use mmulab_kernel::Kernel;
use schemars::JsonSchema;
use serde::Serialize;

/// Costs by edge.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct EdgeReports {
    /// The edges with the most misses.
    places: Vec<EdgeReport>,
    /// All others together.
    rest: Rest,
}

/// An edge that is listed: two blocks of code, each with the number of its region.
#[derive(Debug, Serialize, JsonSchema)]
struct EdgeReport {
    /// The process.
    pid: Pid,
    /// The first address of the block that missed.
    addr: VirtAddr,
    /// The number of the region that it lies in: the `id` of one of `regions`.
    region: u64,
    /// The block that its thread ran before; none where the trace does not say.
    from: Option<VirtAddr>,
    /// The number of the region that this one lies in.
    from_region: Option<u64>,
    /// Cost of translation of the fetch. With --timing, stalls are not known by edge.
    #[serde(flatten)]
    cost: Cost,
}

pub(super) fn edges(kernel: &Kernel, found: &[(Edge, Cost)]) -> EdgeReports {
    let number = |block: Block| kernel.region(block.region).number;
    let report = |&(Edge { pid, to, from }, cost): &(Edge, Cost)| EdgeReport {
        pid,
        addr: to.addr,
        region: number(to),
        from: from.map(|from| from.addr),
        from_region: from.map(number),
        cost,
    };
    let rest = found.iter().skip(LISTED).map(|(_, cost)| cost);
    EdgeReports { places: found.iter().take(LISTED).map(report).collect(), rest: Rest::of(rest) }
}
