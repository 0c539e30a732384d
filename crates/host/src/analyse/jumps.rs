//! Figures of the front end, by the curve `jumps`: how many taken branches it knows, and what one that it does not know
//! takes.

use super::{
    figure::{Figure, Take, Wanted, figure},
    levels::xs,
    steps::{crossing, monotone},
};
use crate::curve::Curve;

/// Jumps that no buffer has take at least this many times what those take that the first buffer has.
const LEAST_RISE: f64 = 2.0;
/// Points of which the first ones are known, and the last ones are not.
const ENDS: usize = 3;

/// The figures `branch_targets` and `jump_cycles`: jumps of which half are known, and what one takes that is not. The
/// code of these is in the second-level cache.
///
/// Buffers choose their sets by the branch's address. Where sets fill at random, half of the jumps are in a set that is
/// too full when there are as many jumps as entries.
pub(super) fn figures(curve: &Curve) -> [Figure; 2] {
    let largest = curve.points.last().map_or(0, |p| p.x);
    let wanted = |name: &str, unit, note: &str| Wanted {
        name: name.into(),
        unit,
        curve,
        note: note.into(),
        missing: format!("jumps did not become slower up to {largest} of them"),
    };
    let costs = |take: &Take| {
        let costs = monotone(&curve.points.iter().map(|p| take.quiet(&p.cycles)).collect::<Vec<_>>());
        let (few, many) = (*costs.get(ENDS)?, *costs.last()?);
        (many >= LEAST_RISE * few && costs.len() > 2 * ENDS).then_some(costs)
    };
    let entries = wanted(
        "branch_targets",
        "branches",
        "taken branches whose target the front end knows before decoding; another hardware thread takes its share",
    );
    let cycles = wanted("jump_cycles", "cycles", "a jump that it does not know, with code in the second-level cache");
    [
        figure(entries, &|take| {
            let (xs, costs) = (xs(curve), costs(take)?);
            // The last buffer has its own cost, which is not that of the first one. So a jump that it has takes less
            // than a third of the last cost, and half of the way is well beyond.
            let (few, many) = (costs[ENDS], costs[costs.len() - 1]);
            let at = |share: f64| crossing(&xs, &costs, 0, costs.len() - 1, few + (many - few) * share);
            Some((at(0.5), Some([at(0.3), at(0.9)])))
        }),
        figure(cycles, &|take| Some((*costs(take)?.last()?, None))),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Backing, Confidence, Pattern, Point};

    /// Cycles of a jump on a Zen 3 guest, 28 November 2026, 16 bytes from one to the next.
    const TIMED: [(u64, f64); 12] = [
        (256, 1.70),
        (600, 2.11),
        (1000, 3.42),
        (1500, 3.94),
        (2000, 4.44),
        (3000, 8.46),
        (4000, 15.08),
        (5000, 19.49),
        (6000, 20.95),
        (7000, 22.88),
        (8000, 22.23),
        (12000, 22.32),
    ];

    fn curve(points: &[(u64, f64)]) -> Curve {
        let point = |&(x, cycles): &(u64, f64)| Point { cycles: vec![cycles; 3], ns: vec![cycles; 3], ..Point::new(x) };
        let points = points.iter().map(point).collect();
        let pattern = Pattern::Jumps;
        Curve { name: "jumps".into(), pattern, backing: Backing::Small, huge_share: None, frames: None, points }
    }

    #[test]
    fn a_timed_curve_has_an_end_and_a_cost_beyond_it() {
        let found = figures(&curve(&TIMED));
        let [entries, cycles] = [0, 1].map(|at| found[at].value.unwrap());
        assert!((3_400.0..4_000.0).contains(&entries) && (22.0..23.0).contains(&cycles), "{entries}, {cycles}");
        assert!(found.iter().all(|f| f.confidence == Confidence::High));
    }

    #[test]
    fn jumps_that_are_all_known_show_no_end() {
        let found = figures(&curve(&TIMED.map(|(x, _)| (x, 1.0))));
        assert!(found.iter().all(|f| f.value.is_none()));
    }
}
