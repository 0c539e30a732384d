//! Costs of a walk, and walks at once: by chases and by loads over base pages of which no TLB level holds a large part.

use super::figure::{Figure, Take, Wanted, figure};
use crate::curve::{Curve, Point};

/// Beyond the control, at the only point.
fn extra(point: &Point, take: &Take) -> f64 {
    take.quiet(&point.cycles) - take.quiet(&point.control)
}

/// All that the curves show. `hit`: cycles of a second-level hit, which each walk follows.
pub(super) fn figures<'a>(of: &dyn Fn(&str) -> Option<&'a Curve>, hit: f64) -> Vec<Figure> {
    let mut all = Vec::new();
    let missing = || "chases beyond the second level cost no more than packed ones".to_owned();
    let costs = [
        ("walk-far-4k", "walk_far_cycles_4k", "dependent walks over pages in random order"),
        (
            "walk-near-4k",
            "walk_near_cycles_4k",
            "dependent walks, eight after each other in one line of page-table entries",
        ),
        ("walk-near-2m", "walk_near_cycles_2m", "the same within 2 MB pages, whose entries are split into base pages"),
    ];
    for (curve, name, note) in costs {
        if let Some(curve) = of(curve) {
            let wanted = Wanted { name: name.into(), unit: "cycles", curve, note: note.into(), missing: missing() };
            all.push(figure(wanted, &|take| {
                Some((extra(&curve.points[0], take) - hit, None)).filter(|(cycles, _)| *cycles > 0.0)
            }));
        }
    }
    if let Some(loads) = of("walk-loads-4k") {
        let wanted = Wanted {
            name: "walks_of_loads_4k".into(),
            unit: "at once",
            curve: loads,
            note: "cost of a dependent walk over that of one among loads that do not wait for each other".into(),
            missing: missing(),
        };
        let point = &loads.points[0];
        let among = |take: &Take| Some(take.trimmed(&point.cycles) - take.trimmed(&point.control)).filter(|c| *c > 0.1);
        all.push(figure(wanted, &|take| {
            let among = among(take)?;
            let alone = match of("walk-far-4k") {
                _ if !point.alone.is_empty() => take.trimmed(&point.alone),
                // Earlier versions took it from other memory.
                far => extra(&far?.points[0], take),
            } - hit;
            (alone > 0.0).then_some((alone / among, None))
        }));
        let wanted = Wanted {
            name: "walk_of_loads_cycles_4k".into(),
            unit: "cycles",
            curve: loads,
            note: "from one walk to the next, among loads that do not wait for each other".into(),
            missing: missing(),
        };
        all.push(figure(wanted, &|take| Some((among(take)?, None))));
    }
    all
}
