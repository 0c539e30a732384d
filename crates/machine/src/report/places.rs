//! The costliest places of a profile, and the sum of all others.

use crate::count::{Cost, Place};
use mmulab_addr::{Pid, VirtAddr};
use mmulab_kernel::Kernel;
use schemars::JsonSchema;
use serde::Serialize;

/// Places that are listed. That is half of the 16,400 blocks of code in which 1 G instructions of clang miss, and 16
/// GiB of memory by 2 MiB. Results then have a few megabytes at most.
pub(super) const LISTED: usize = 8192;

/// Costs by place.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Places {
    /// The places with the highest cost.
    places: Vec<PlaceReport>,
    /// All others together.
    rest: Rest,
}

/// A place that is listed, with the number of its region.
#[derive(Debug, Serialize, JsonSchema)]
struct PlaceReport {
    /// The process.
    pid: Pid,
    /// The first address.
    addr: VirtAddr,
    /// The number of the region that it lies in: the `id` of one of `regions`.
    region: u64,
    /// Cost of translation there.
    #[serde(flatten)]
    cost: Cost,
}

/// The places that are not listed.
#[derive(Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub(super) struct Rest {
    /// How many.
    places: u64,
    /// Cost of translation there.
    #[serde(flatten)]
    cost: Cost,
}

impl Rest {
    /// The sum of these costs.
    pub fn of<'a>(costs: impl Iterator<Item = &'a Cost>) -> Self {
        costs.fold(Self::default(), |mut rest, cost| {
            rest.places += 1;
            rest.cost.add(cost);
            rest
        })
    }
}

pub(super) fn places(kernel: &Kernel, found: &[Place]) -> Places {
    let report = |&Place { pid, addr, region, cost }: &Place| PlaceReport {
        pid,
        addr,
        region: kernel.region(region).number,
        cost,
    };
    Places { places: found.iter().take(LISTED).map(report).collect(), rest: rest(found) }
}

fn rest(found: &[Place]) -> Rest {
    Rest::of(found.iter().skip(LISTED).map(|place| &place.cost))
}

#[cfg(test)]
mod tests {
    use super::*;
    use mmulab_kernel::RegionId;

    #[test]
    fn what_is_not_listed_is_summed() {
        let cost = |n| Cost { walks: n, l1d_misses: 1, ..Cost::default() };
        let place = |n| Place { pid: Pid(1), addr: VirtAddr::new(n << 12), region: RegionId(1), cost: cost(n) };
        let found: Vec<Place> = (0..LISTED as u64 + 3).rev().map(place).collect();
        let cost = Cost { walks: 1 + 2, l1d_misses: 3, ..Cost::default() };
        assert_eq!(rest(&found), Rest { places: 3, cost });
        assert_eq!(rest(&found[..LISTED]), Rest::default());
    }
}
