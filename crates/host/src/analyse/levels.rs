//! What accesses cost beyond their control, and the steps in it: over pages, the levels of the TLB.

use super::{
    figure::Take,
    stats::median,
    steps::{Knee, Steps, departure, steps},
};
use crate::curve::{Curve, Point};

/// Cycles of a load that hits in the first level of everything, by the smallest control.
pub(super) fn base_of(curve: &Curve) -> f64 {
    curve.points.first().map_or(1.0, |p| median(&p.control)).max(1.0)
}

/// Quiet cost of each point less that of its control, plus what a load of the first-level cache costs, so that steps
/// are factors.
pub(super) fn extra(curve: &Curve, take: &Take) -> Vec<f64> {
    let base = base_of(curve);
    let one = |p: &Point| (take.quiet(&p.cycles) - take.quiet(&p.control) + base).max(base / 2.0);
    curve.points.iter().map(one).collect()
}

pub(super) fn xs(curve: &Curve) -> Vec<f64> {
    curve.points.iter().map(|p| p.x as f64).collect()
}

pub(super) fn extra_steps(curve: &Curve, take: &Take) -> Steps {
    steps(&xs(curve), &extra(curve, take))
}

/// What a curve over pages shows of two TLB levels.
pub(super) struct Levels {
    pub first: Option<Knee>,
    pub hit_cycles: Option<f64>,
    pub second: Option<Knee>,
    pub walk_cycles: Option<f64>,
}

pub(super) fn tlb_levels(curve: &Curve, take: &Take) -> Levels {
    let (xs, ys) = (xs(curve), extra(curve, take));
    let found = steps(&xs, &ys);
    let beyond = found.levels.get(1).and_then(|level| departure(&xs, &ys, level));
    Levels {
        first: found.knees.first().copied(),
        hit_cycles: found.levels.get(1).map(|l| l.cycles - found.levels[0].cycles),
        second: beyond.map(|(knee, _)| knee),
        walk_cycles: beyond.map(|(_, next)| next - found.levels[1].cycles),
    }
}
