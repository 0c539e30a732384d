//! How long a line stays in a cache that neighbours share, and how far memory is without walks, by the curve `idle`.
//!
//! A round of a chase costs more the longer its lines were left alone, until all of them come from memory. If lines go at
//! random, the share that is left falls exponentially, and the mean time is the inverse of the slope of its logarithm.

use super::figures::{Figure, Take, Wanted, figure};
use crate::curve::{Curve, IDLE_CHAINS, Pattern, Point};

const LINE: f64 = 64.0;
/// The caches must make a round at least this much cheaper than memory, as a share; else there is nothing to fit.
const LEAST_GAIN: f64 = 0.2;
/// Points with a smaller share of the lines left say more of noise than of retention.
const LEAST_LEFT: f64 = 0.1;

/// The figure `l3_retention_cycles`. `mhz`: cycles of a microsecond.
pub(super) fn figure_of(curve: &Curve, mhz: f64) -> Figure {
    let wanted = Wanted {
        name: "l3_retention_cycles".into(),
        unit: "cycles",
        curve,
        note: "mean time after which an unused line is gone: neighbours fill the cache too".into(),
        missing: "lines that were left alone were as near as before: nobody displaces them, or the cache is out of \
                  reach of the curve"
            .into(),
    };
    figure(wanted, &|take| mean_stay(curve, take, mhz).map(|cycles| (cycles, None)))
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

/// The mean in cycles; None where waiting changes nothing.
fn mean_stay(curve: &Curve, take: &Take, mhz: f64) -> Option<f64> {
    let Pattern::Idle { bytes } = curve.pattern else { return None };
    let lines = bytes as f64 / LINE;
    let cost = |p: &Point| take.median(&p.cycles);
    let (first, last) = (curve.points.first()?, curve.points.last()?);
    let (near, far) = (cost(first), cost(last));
    if far - near < LEAST_GAIN * far {
        return None;
    }
    // From its use to the next one, a line is left alone for the wait and about a round.
    let left = |p: &Point| (far - cost(p)) / (far - near);
    let points: Vec<(f64, f64)> = curve
        .points
        .iter()
        .filter(|p| left(p) >= LEAST_LEFT)
        .map(|p| (p.x as f64 * mhz + lines * (near + cost(p)) / 2.0, left(p).ln()))
        .collect();
    let slope = slope(&points)?;
    (slope < 0.0).then(|| -1.0 / slope)
}

/// Of the line through points with the least squares.
fn slope(points: &[(f64, f64)]) -> Option<f64> {
    let n = points.len() as f64;
    let (mx, my) = (points.iter().map(|p| p.0).sum::<f64>() / n, points.iter().map(|p| p.1).sum::<f64>() / n);
    let (mut xy, mut xx) = (0.0, 0.0);
    for (x, y) in points {
        xy += (x - mx) * (y - my);
        xx += (x - mx) * (x - mx);
    }
    (points.len() >= 2 && xx > 0.0).then(|| xy / xx)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Backing;

    /// A curve over 4 MB: 6 cycles near, 75 far, and lines that stay for `mean` cycles on average.
    fn curve(mean: f64, mhz: f64) -> Curve {
        let lines = 65536.0;
        let mut near = 6.0;
        let mut points = Vec::new();
        for x in [1, 500, 1000, 2000, 4000, 8000, 16000, 64000, 500_000] {
            let mut cycles = near;
            // The round itself takes its time, in which lines go too.
            for _ in 0..50 {
                let age = x as f64 * mhz + lines * (near + cycles) / 2.0;
                cycles = 75.0 - 69.0 * (-age / mean).exp();
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
    fn the_mean_of_made_up_curves_is_found() {
        for mean in [5e6, 22e6, 100e6] {
            let found = figure_of(&curve(mean, 3500.0), 3500.0).value.unwrap();
            assert!((found / mean - 1.0).abs() < 0.15, "{found} of {mean}");
        }
    }

    #[test]
    fn memory_is_what_lines_take_that_were_left_alone_longest() {
        assert_eq!(memory_alone(&curve(22e6, 3500.0)).value, Some(600.0));
        assert_eq!(memory_alone(&curve(1e14, 3500.0)).value, None);
    }

    #[test]
    fn lines_that_stay_have_no_mean() {
        assert_eq!(figure_of(&curve(1e14, 3500.0), 3500.0).value, None);
    }
}
