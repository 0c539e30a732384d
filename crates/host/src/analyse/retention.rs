//! How long a line stays in a cache that neighbours share, and how far memory is without walks, by the curve `idle`.
//!
//! A round of a chase costs more the longer its lines were left alone, until all of them come from memory. The share that is
//! left at age `t` is fitted by a Weibull distribution, `exp(-(t / scale)^shape)`: `ln(-ln(share))` is a straight line over
//! `ln(t)`, and its slope is the shape.

use super::figures::{Figure, Take, Wanted, figure};
use crate::curve::{Curve, IDLE_CHAINS, Pattern, Point};

const LINE: f64 = 64.0;
/// The caches must make a round at least this much cheaper than memory, as a share; else there is nothing to fit.
const LEAST_GAIN: f64 = 0.2;
/// Points with a smaller share of the lines left, or gone, say more of noise than of retention.
const LEAST_LEFT: f64 = 0.03;
/// Shapes that a machine can have.
const SHAPES: (f64, f64) = (0.5, 20.0);

/// The figures `l3_retention_cycles` and `l3_retention_shape`. `mhz`: cycles of a microsecond.
pub(super) fn figures_of(curve: &Curve, mhz: f64) -> [Figure; 2] {
    let wanted = |name: &str, unit, note: &str| Wanted {
        name: name.into(),
        unit,
        curve,
        note: note.into(),
        missing: "lines that were left alone were as near as before: nobody displaces them, or the cache is out of \
                  reach of the curve"
            .into(),
    };
    let note = "37 % of the unused lines are left after it: neighbours fill the cache too";
    let scale =
        figure(wanted("l3_retention_cycles", "cycles", note), &|take| Some((fit(curve, take, mhz)?.scale, None)));
    let note = "how alike the ages are at which unused lines go: 1 at random, larger at about the same age";
    let shape = figure(wanted("l3_retention_shape", "", note), &|take| Some((fit(curve, take, mhz)?.shape, None)));
    [scale, shape]
}

/// The figure `memory_alone_cycles`: what a load takes whose line was left alone longest. Its footprint is within the reach
/// of the TLBs, so that no walk is in it, as walks are in a chase over all of a large footprint.
pub(super) fn memory_alone(curve: &Curve) -> Figure {
    let wanted = Wanted {
        name: "memory_alone_cycles".into(),
        unit: "cycles",
        curve,
        note: format!("lines that were left alone longest, {IDLE_CHAINS} loads at once"),
        missing: "lines that were left alone were as near as before".into(),
    };
    figure(wanted, &|take| {
        let cost = |p: &Point| take.median(&p.cycles);
        let (near, far) = (cost(curve.points.first()?), cost(curve.points.last()?));
        (far - near >= LEAST_GAIN * far).then_some((far * IDLE_CHAINS as f64, None))
    })
}

/// A Weibull distribution of the time that a line stays, in cycles.
struct Stay {
    scale: f64,
    shape: f64,
}

/// The distribution; None where waiting changes nothing.
fn fit(curve: &Curve, take: &Take, mhz: f64) -> Option<Stay> {
    let Pattern::Idle { bytes } = curve.pattern else { return None };
    let lines = bytes as f64 / LINE;
    let cost = |p: &Point| take.median(&p.cycles);
    let (first, last) = (curve.points.first()?, curve.points.last()?);
    let (near, far) = (cost(first), cost(last));
    if far - near < LEAST_GAIN * far {
        return None;
    }
    let mut points = Vec::new();
    for p in &curve.points[1..] {
        let left = (far - cost(p)) / (far - near);
        if (LEAST_LEFT..=1.0 - LEAST_LEFT).contains(&left) {
            // From its use to the next one, a line is left alone for the wait and about a round.
            let age = p.x as f64 * mhz + lines * (near + cost(p)) / 2.0;
            // An error of the share weighs little where the logarithm of its logarithm is steep.
            points.push([age.ln(), (-left.ln()).ln(), (left * left.ln()).powi(2)]);
        }
    }
    let line = line_through(&points)?;
    let shape = line.slope.clamp(SHAPES.0, SHAPES.1);
    Some(Stay { scale: (line.x - line.y / shape).exp(), shape })
}

/// A line through the middle of points.
struct Line {
    x: f64,
    y: f64,
    slope: f64,
}

/// The line with the least squares of `[x, y, weight]`. Through one point it has slope 1: nothing more is known.
fn line_through(points: &[[f64; 3]]) -> Option<Line> {
    let mean = |of: fn(&[f64; 3]) -> f64| {
        points.iter().map(|p| of(p) * p[2]).sum::<f64>() / points.iter().map(|p| p[2]).sum::<f64>()
    };
    let (x, y) = (mean(|p| p[0]), mean(|p| p[1]));
    let xy: f64 = points.iter().map(|p| p[2] * (p[0] - x) * (p[1] - y)).sum();
    let xx: f64 = points.iter().map(|p| p[2] * (p[0] - x).powi(2)).sum();
    (!points.is_empty()).then(|| Line { x, y, slope: if xx > 0.0 { xy / xx } else { 1.0 } })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Backing;

    /// A curve over 4 MB: 6 cycles near, 75 far, and lines that stay as the distribution says.
    fn curve(scale: f64, shape: f64, mhz: f64) -> Curve {
        let lines = 65536.0;
        let mut near = 6.0;
        let mut points = Vec::new();
        for x in [1, 500, 1000, 2000, 4000, 8000, 16000, 64000, 500_000] {
            let mut cycles = near;
            // The round itself takes its time, in which lines go too.
            for _ in 0..50 {
                let age: f64 = x as f64 * mhz + lines * (near + cycles) / 2.0;
                cycles = 75.0 - 69.0 * (-(age / scale).powf(shape)).exp();
            }
            if x == 1 {
                near = cycles;
            }
            points.push(Point { x, cycles: vec![cycles; 3], ns: vec![cycles / mhz * 1000.0; 3], control: vec![] });
        }
        let pattern = Pattern::Idle { bytes: 4 << 20 };
        Curve { name: "idle".into(), pattern, backing: Backing::Large, huge_share: None, points }
    }

    #[test]
    fn the_distribution_of_made_up_curves_is_found() {
        for scale in [8e6, 22e6, 60e6] {
            for shape in [1.0, 2.0, 3.0] {
                let found = figures_of(&curve(scale, shape, 3500.0), 3500.0).map(|f| f.value.unwrap());
                assert!((found[0] / scale - 1.0).abs() < 0.15, "{found:?} of {scale}, {shape}");
                assert!((found[1] / shape - 1.0).abs() < 0.2, "{found:?} of {scale}, {shape}");
            }
        }
    }

    #[test]
    fn memory_is_what_lines_take_that_were_left_alone_longest() {
        assert_eq!(memory_alone(&curve(22e6, 1.0, 3500.0)).value, Some(600.0));
        assert_eq!(memory_alone(&curve(1e14, 1.0, 3500.0)).value, None);
    }

    #[test]
    fn lines_that_stay_have_no_distribution() {
        assert!(figures_of(&curve(1e14, 1.0, 3500.0), 3500.0).iter().all(|f| f.value.is_none()));
    }
}
