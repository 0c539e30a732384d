//! The dearest places of a profile, and what all others come to.

use crate::tally::{Cost, Place};
use serde::Serialize;

/// Places that are listed: half of the 16,400 blocks of code in which 1 G instructions of clang miss, and 16 GiB of memory
/// by 2 MiB, in results of a few megabytes at most.
const LISTED: usize = 8192;

#[derive(Debug, Serialize)]
pub(super) struct Places {
    places: Vec<Place>,
    rest: Rest,
}

/// The places that are not listed.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
struct Rest {
    /// How many.
    places: u64,
    #[serde(flatten)]
    cost: Cost,
}

pub(super) fn places(mut found: Vec<Place>) -> Places {
    let rest = rest(&found);
    found.truncate(LISTED);
    Places { places: found, rest }
}

fn rest(found: &[Place]) -> Rest {
    found.iter().skip(LISTED).fold(Rest::default(), |mut rest, place| {
        rest.places += 1;
        rest.cost.add(&place.cost);
        rest
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use mmulab_addr::{Pid, VirtAddr};

    #[test]
    fn what_is_not_listed_is_summed() {
        let cost = |n| Cost { walks: n, l1d_misses: 1, ..Cost::default() };
        let place = |n| Place { pid: Pid(1), addr: VirtAddr::new(n << 12), region: None, cost: cost(n) };
        let found: Vec<Place> = (0..LISTED as u64 + 3).rev().map(place).collect();
        let cost = Cost { walks: 1 + 2, l1d_misses: 3, ..Cost::default() };
        assert_eq!(rest(&found), Rest { places: 3, cost });
        assert_eq!(rest(&found[..LISTED]), Rest::default());
    }
}
