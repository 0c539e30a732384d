//! The dearest places of a profile, and what all others come to.

use crate::{
    Machine,
    tally::{Cost, Place},
};
use serde::Serialize;

/// Places that are listed: half of the 16,400 blocks of code in which 1 G instructions of clang miss, and 16 GiB of memory
/// by 2 MiB, in results of a few megabytes at most.
const LISTED: usize = 8192;

#[derive(Debug, Serialize)]
pub(super) struct Places {
    places: Vec<PlaceReport>,
    rest: Rest,
}

#[derive(Debug, Serialize)]
struct PlaceReport {
    pid: u32,
    addr: mmulab_addr::VirtAddr,
    region: mmulab_kernel::RegionId,
    #[serde(flatten)]
    cost: Cost,
}

/// The places that are not listed.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
struct Rest {
    /// How many.
    places: u64,
    #[serde(flatten)]
    cost: Cost,
}

pub(super) fn places(machine: &Machine, found: Vec<Place>) -> Places {
    let report = |&(pid, addr, cost): &Place| PlaceReport {
        pid: pid.0,
        addr,
        region: machine.kernel.region_at(pid, addr),
        cost,
    };
    Places { places: found.iter().take(LISTED).map(report).collect(), rest: rest(&found) }
}

fn rest(found: &[Place]) -> Rest {
    found.iter().skip(LISTED).fold(Rest::default(), |mut rest, (_, _, cost)| {
        rest.places += 1;
        rest.cost.add(cost);
        rest
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use mmulab_addr::{Pid, VirtAddr};

    #[test]
    fn what_is_not_listed_is_summed() {
        let place = |n: u64| (Pid(1), VirtAddr::new(n << 12), Cost { walks: n, l1d_misses: 1, ..Cost::default() });
        let found: Vec<Place> = (0..LISTED as u64 + 3).rev().map(place).collect();
        let cost = Cost { walks: 1 + 2, l1d_misses: 3, ..Cost::default() };
        assert_eq!(rest(&found), Rest { places: 3, cost });
        assert_eq!(rest(&found[..LISTED]), Rest::default());
    }
}
