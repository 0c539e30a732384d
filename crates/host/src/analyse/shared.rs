//! The share of a core and of the caches that others leave, by the curves `window`, `wide-adds` and its like,
//! `footprint-at-once` and `second-level`. The figures are averages of the present state of the computer, not of how it
//! was built.

use super::{
    figure::{Figure, Take, Wanted, figure},
    steps::{crossing, monotone},
};
use crate::curve::{Curve, Pattern, Point};

/// The largest number of instructions between loads must make a pair slower than the smallest number does, by at least
/// this factor. Loads that do not run at once do so.
const LEAST_RISE: f64 = 1.4;

/// The figure `window`: instructions that are in flight with a load that waits for memory.
///
/// If another program's hardware thread takes half of the window at times, the mean time of a pair rises in steps. Each
/// step is a size of the window. The work of a program while it waits goes with the window, so its time goes with the
/// inverse. The figure is the harmonic mean of the sizes.
pub(super) fn window(curve: &Curve) -> Figure {
    let note = "instructions between two loads of memory that still run at once: additions, loads, stores and branches";
    in_flight(curve, "window".into(), note, WIDTH)
}

/// Kinds of instructions that fill something smaller than the window, as in `window-loads`, and how many of them a core
/// of today begins in a cycle, about.
pub(super) const QUEUES: [(&str, f64); 4] = [("ints", 4.0), ("vectors", 3.0), ("loads", 2.0), ("stores", 1.0)];

/// The figures `ints_in_flight`, `vectors_in_flight`, `loads_in_flight` and `stores_in_flight`: instructions of one
/// kind that are in flight with a load that waits for memory. They take registers of a file, or places of a queue. The
/// mean is that of the window. `width`: how many begin in a cycle.
pub(super) fn queue(curve: &Curve, (kind, width): (&str, f64)) -> Figure {
    let note = "instructions of this kind alone between two loads of memory that still run at once";
    in_flight(curve, format!("{kind}_in_flight"), note, width)
}

/// Instructions between two loads of memory that still run at once. They begin by `width` in a cycle.
fn in_flight(curve: &Curve, name: String, note: &str, width: f64) -> Figure {
    let missing = "loads of memory ran at once, or did not, at all distances that were tried".into();
    let wanted = Wanted { name, unit: "instructions", curve, note: note.into(), missing };
    figure(wanted, &|take| harmonic(curve, width, take).map(|size| (size, None)))
}

/// The mean of sizes. The instructions between begin by `width` in a cycle.
fn harmonic(curve: &Curve, width: f64, take: &Take) -> Option<f64> {
    // The instructions between take time themselves. They run beside the loads while they are in the window, and behind
    // them otherwise. Half of their time is a fair share on both sides.
    let own = |p: &Point| p.x as f64 / width;
    let costs: Vec<f64> = curve.points.iter().map(|p| (take.trimmed(&p.cycles) - own(p)).max(1.0)).collect();
    let costs = monotone(&costs);
    let (first, last) = (costs.first()?, costs.last()?);
    if *last < LEAST_RISE * first {
        return None;
    }
    let sizes = curve.points.windows(2).map(|pair| (pair[0].x + pair[1].x) as f64 / 2.0);
    let inverse: f64 = costs.windows(2).zip(sizes).map(|(pair, size)| (pair[1] - pair[0]) / size).sum();
    Some((last - first) / inverse)
}

/// Instructions that a core of today dispatches in a cycle, about.
const WIDTH: f64 = 6.0;

/// The figures `adds_at_once`, `loads_at_once`, `stores_at_once`, `vectors_at_once` and `mixed_at_once`: independent
/// instructions of a kind, or of several, named as in `wide-adds`, that begin in a cycle.
pub(super) fn at_once(curve: &Curve, kind: &str) -> Figure {
    let what = if kind == "mixed" { "adds, loads, and vector registers added or zeroed, in turn," } else { kind };
    let wanted = Wanted {
        name: format!("{kind}_at_once"),
        unit: "in a cycle",
        curve,
        note: format!("{what} that do not wait for each other; another hardware thread of the core takes its share"),
        missing: String::new(),
    };
    figure(wanted, &|take| Some((1.0 / take.trimmed(&curve.points.first()?.cycles), None)))
}

/// Memory costs at least this many times what the caches behind the second level do.
const LEAST_FACTOR: f64 = 2.0;
/// From this many times the second level's size on, next to no load finds its line there.
const BEYOND_SECOND: f64 = 1.5;
/// Share of the loads that go to memory, of a footprint of which a level holds next to nothing.
const NEARLY_ALL: f64 = 0.9;

/// The figure `caches_bytes`: most bytes of which the caches held the lines, over all footprints.
///
/// A chase alone over some megabytes takes as long as neighbours need to displace its lines, so its curve shows their
/// haste. Many chases at once go round in a tenth of that time: their curve shows how much the caches can hold for this
/// computer. A host may give a guest a part of the ways (AMD PQoS, Intel CAT), which no table of the system tells.
///
/// Of a footprint, the caches hold the share of the loads that do not go to memory. A footprint that fits is held as a
/// whole. Of a larger one a level that resists such rounds still holds nearly as much as it can, so the most over all
/// footprints is the figure. A level that keeps the lines used last holds nothing of it. So where nearly all loads of
/// a footprint go to memory, the figure is where half of them do, if that is more. What memory costs is known from as
/// many chases over memory (`memory`), for the largest footprint may be far from all misses.
///
/// Loads of larger footprints also wait for more walks, so they become slower long before any of them goes to memory.
/// That is a slow rise. Where a footprint is too large, the rise is steep: the time of a load rises faster than the
/// footprint. So the caches hold all footprints up to the steepest step, and later ones are compared with its foot.
///
/// ```text
/// cycles              ,-'`  memory
///                   ,'
/// caches  ____,,--''          walks, then lines
///                  ^ the foot of the steepest step
/// ```
pub(super) fn caches(curve: &Curve, memory: &Curve, second: Option<f64>) -> Figure {
    let largest = curve.points.last().map_or(0, |p| p.x);
    let wanted = Wanted {
        name: "caches_bytes".into(),
        unit: "bytes",
        curve,
        note: "all levels together: the most over footprints of what loads found in caches".into(),
        missing: format!("loads did not become slower up to {largest} bytes"),
    };
    let chains = match curve.pattern {
        Pattern::FootprintAtOnce { chains } => chains,
        _ => 1,
    };
    figure(wanted, &|take| {
        let far = take.quiet(&memory.points.iter().find(|p| p.x == chains)?.cycles);
        let first = second.map_or(0.0, |second| BEYOND_SECOND * second);
        let beyond = curve.points.iter().filter(|p| p.x as f64 >= first);
        let (xs, costs): (Vec<f64>, Vec<f64>) = beyond.map(|p| (p.x as f64, take.quiet(&p.cycles))).unzip();
        let fastest = costs.iter().copied().reduce(f64::min)?;
        let slowest = costs.iter().copied().reduce(f64::max)?;
        if slowest < LEAST_FACTOR * fastest || far <= fastest {
            return None;
        }
        let rising = monotone(&costs);
        let foot = foot_of_steepest(&xs, &rising)?;
        let near = rising[foot];
        let missed = |cost: f64| if far > near { ((cost - near) / (far - near)).clamp(0.0, 1.0) } else { 1.0 };
        let beyond = xs.iter().zip(&costs).skip(foot + 1);
        let held = beyond.map(|(x, &cost)| x * (1.0 - missed(cost))).fold(xs[foot], f64::max);
        if missed(slowest) < NEARLY_ALL {
            return Some((held, None));
        }
        let knee = crossing(&xs, &rising, foot, rising.len() - 1, near + (far - near) / 2.0);
        Some((held.max(knee), None))
    })
}

/// The index where the steepest step of a curve begins, by the ratios of costs and of footprints.
fn foot_of_steepest(xs: &[f64], costs: &[f64]) -> Option<usize> {
    let slope = |at: usize| (costs[at + 1] / costs[at]).ln() / (xs[at + 1] / xs[at]).ln();
    (0..xs.len().checked_sub(1)?).max_by(|&a, &b| slope(a).total_cmp(&slope(b)))
}

/// The figure `l2_left_bytes`: what the second level holds of a chase, in the mean over moments.
///
/// Beside a busy hardware thread, the level holds fewer lines for this computer, and in the next moment all again. The
/// share of the loads that hit, summed over footprints, is the mean of what is held. The smallest footprint of the
/// curve hits always, and of the largest one next to nothing hits, for a chase meets its oldest line next.
pub(super) fn second_level(curve: &Curve) -> Figure {
    let wanted = Wanted {
        name: "l2_left_bytes".into(),
        unit: "bytes",
        curve,
        note:
            "share of the loads that hit, summed over footprints; another hardware thread of the core takes its share"
                .into(),
        missing: "loads of the largest footprint were as fast as those of the smallest one".into(),
    };
    figure(wanted, &|take| {
        let costs: Vec<f64> = curve.points.iter().map(|p| take.trimmed(&p.cycles)).collect();
        let (near, far) = (*costs.first()?, *costs.last()?);
        let hits = |cost: f64| ((far - cost) / (far - near)).clamp(0.0, 1.0);
        let pairs = curve.points.windows(2).zip(costs.windows(2));
        let held = |(points, costs): (&[Point], &[f64])| {
            (points[1].x - points[0].x) as f64 * (hits(costs[0]) + hits(costs[1])) / 2.0
        };
        (far >= LEAST_FACTOR * near).then(|| (curve.points[0].x as f64 + pairs.map(held).sum::<f64>(), None))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Backing, Pattern,
        window::{BETWEEN, Between},
    };

    /// A core whose window is `sizes.0` for a share of the time, and else `sizes.1`; memory is 540 cycles away.
    fn curve(share: f64, sizes: (f64, f64)) -> Curve {
        let pair = |x: f64, size: f64| {
            let own = 2.0 * x / WIDTH;
            if x < size { 540.0 + (own - size / WIDTH).max(0.0) } else { 1080.0 + own - size / WIDTH }
        };
        let point = |&x: &u64| {
            let cycles = share * pair(x as f64, sizes.0) + (1.0 - share) * pair(x as f64, sizes.1);
            Point { cycles: vec![cycles; 3], ns: vec![cycles; 3], ..Point::new(x) }
        };
        let pattern = Pattern::Window { bytes: 1 << 28, of: Between::Mixed };
        let points = BETWEEN.iter().map(point).collect();
        Curve { name: "window".into(), pattern, backing: Backing::Large, huge_share: None, frames: None, points }
    }

    #[test]
    fn a_window_is_found_and_of_a_shared_one_the_harmonic_mean() {
        for (share, sizes, expected) in [(0.0, (160.0, 320.0), 320.0), (1.0, (160.0, 320.0), 160.0)] {
            let found = window(&curve(share, sizes)).value.unwrap();
            assert!((found / expected - 1.0).abs() < 0.1, "{found} of {expected}");
        }
        let found = window(&curve(0.5, (160.0, 320.0))).value.unwrap();
        assert!((found / 213.0 - 1.0).abs() < 0.1, "{found}");
        assert_eq!(window(&curve(0.0, (1e4, 1e4))).value, None);
        let found = queue(&curve(0.0, (128.0, 128.0)), ("loads", WIDTH));
        assert_eq!(found.name, "loads_in_flight");
        assert!((found.value.unwrap() / 128.0 - 1.0).abs() < 0.1, "{:?}", found.value);
    }

    /// A second level of 2 MB, of which a neighbour takes half in some of nine moments.
    fn chases(busy: usize) -> Curve {
        let cost = |x: u64, held: u64| if x <= held { 2.0 } else { 12.0 };
        let point = |&x: &u64| {
            let moments = (0..9).map(|at| cost(x, if at < busy { 1 << 20 } else { 2 << 20 }));
            Point { cycles: moments.collect(), ns: vec![1.0; 9], ..Point::new(x) }
        };
        let points = (2..=24).map(|eighth| eighth << 17).collect::<Vec<u64>>().iter().map(point).collect();
        let pattern = Pattern::FootprintAtOnce { chains: 1 };
        Curve { name: "second-level".into(), pattern, backing: Backing::Large, huge_share: None, frames: None, points }
    }

    #[test]
    fn what_the_second_level_holds_is_the_mean_of_its_moments() {
        let mb = f64::from(1 << 20);
        for (busy, expected) in [(0, 2.0), (3, 5.0 / 3.0), (9, 1.0)] {
            let found = second_level(&chases(busy)).value.unwrap() / mb;
            // Half a step lies between a footprint that fits and the next one, and interrupts have the highest tenth.
            assert!((found - expected).abs() < 0.14, "{found} MB of {expected}");
        }
        let mut flat = chases(0);
        flat.points.truncate(10);
        assert_eq!(second_level(&flat).value, None);
    }
}
