//! How the last level treats lines that memory sent until they are used from it, by the curve `fresh`.
//!
//! ```text
//! cost of a line = near + (memory - near) * (1 - share there)        share there at age t = admitted * exp(-t / scale)
//! ```
//!
//! `near` is the curve's control: lines that came back from the level often. A level that treats all lines alike has
//! them all, so it admits about 1.

use super::figure::{Figure, Take, Wanted, figure};
use crate::curve::{AWAY_ROUNDS, Curve, Pattern};

/// Memory must take at least this many times what the level does: else shares are noise.
const LEAST_FACTOR: f64 = 1.5;
/// Of the share that is there first, the part that must go while lines wait: else nothing says for how long they stay.
const LEAST_LOSS: f64 = 0.2;
/// Logarithms of scales that are tried, in cycles: from, to, and how many.
const SCALES: (f64, f64, usize) = (9.0, 25.0, 321);
const LINE: f64 = 64.0;

/// The share admitted, and the time after which 1/e of it is left, in cycles.
#[derive(Clone, Copy, Debug)]
struct Fit {
    admits: f64,
    scale: f64,
}

/// The figures `l3_fresh_admits` and `l3_fresh_retention_cycles`. `memory`: cycles of a load of memory alone; `mhz`:
/// cycles of a microsecond.
pub(super) fn figures(curve: &Curve, memory: f64, mhz: f64) -> [Figure; 2] {
    let wanted = |name: &str, unit, note: &str, missing: &str| Wanted {
        name: name.into(),
        unit,
        curve,
        note: note.into(),
        missing: missing.into(),
    };
    let note = "share of the lines from memory that the level takes in when the second level evicts them";
    let missing = "lines that are used often are no nearer than memory";
    let admits = figure(wanted("l3_fresh_admits", "share", note, missing), &|take| {
        shares(curve, memory, mhz, take).map(|shares| (fit(&shares).admits, None))
    });
    let note = "37 % of the lines that were taken in, and not used from there yet, are left after it";
    let missing = "as many of such lines were left after the longest wait as after the shortest one";
    let scale = figure(wanted("l3_fresh_retention_cycles", "cycles", note, missing), &|take| {
        let shares = shares(curve, memory, mhz, take)?;
        let ([(_, first), ..], [.., (_, last)]) = (&*shares, &*shares) else { return None };
        (*last < (1.0 - LEAST_LOSS) * first).then(|| (fit(&shares).scale, None))
    });
    [admits, scale]
}

/// Of each point, the age of its lines and the share of them that is there.
fn shares(curve: &Curve, memory: f64, mhz: f64, take: &Take) -> Option<Vec<(f64, f64)>> {
    let Pattern::Fresh { bytes, chains } = curve.pattern else { return None };
    let memory = memory / chains as f64;
    let of = |p: &crate::Point| {
        let near = take.trimmed(&p.control);
        // Lines leave the second level while the first of the rounds goes on that send them away.
        let sent = (AWAY_ROUNDS as f64 - 0.5) * bytes as f64 / LINE * near;
        Some((p.x as f64 * mhz + sent, share_there(take.trimmed(&p.cycles), near, memory)?))
    };
    curve.points.iter().map(of).collect()
}

/// The share of some lines that a level had, by what they cost in the mean, and what one costs there and from memory.
/// None where these two are too near each other.
pub(super) fn share_there(cost: f64, near: f64, memory: f64) -> Option<f64> {
    (memory >= LEAST_FACTOR * near).then(|| ((memory - cost) / (memory - near)).clamp(0.0, 1.0))
}

/// The fit with the smallest squares. Of each scale, the share that is best is known.
fn fit(shares: &[(f64, f64)]) -> Fit {
    let (from, to, many) = SCALES;
    let tried = (0..many).map(|at| {
        let scale = (from + (to - from) * at as f64 / (many - 1) as f64).exp();
        let left = |age: f64| (-age / scale).exp();
        let (product, square) =
            shares.iter().fold((0.0, 0.0), |(p, s), &(age, share)| (p + share * left(age), s + left(age).powi(2)));
        let admits = if square > 0.0 { (product / square).min(1.0) } else { 0.0 };
        let error: f64 = shares.iter().map(|&(age, share)| (share - admits * left(age)).powi(2)).sum();
        (error, Fit { admits, scale })
    });
    tried.min_by(|a, b| a.0.total_cmp(&b.0)).map_or(Fit { admits: 0.0, scale: 0.0 }, |(_, fit)| fit)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Backing, Point};

    const MHZ: f64 = 3000.0;
    const MEMORY: f64 = 400.0;

    /// A curve of a level 100 cycles away, over which lines go as the fit says.
    fn made(fit: Fit) -> Curve {
        let near = 100.0 / 8.0;
        let sent = 1.5 * f64::from(3 << 20) / LINE * near;
        let point = |&x: &u64| {
            let there = fit.admits * (-(x as f64 * MHZ + sent) / fit.scale).exp();
            let cycles = near + (MEMORY / 8.0 - near) * (1.0 - there);
            Point { cycles: vec![cycles; 3], ns: vec![1.0; 3], control: vec![near; 3], ..Point::new(x) }
        };
        let points = [1, 300, 1000, 3000, 9000].iter().map(point).collect();
        let pattern = Pattern::Fresh { bytes: 3 << 20, chains: 8 };
        Curve { name: "fresh".into(), pattern, backing: Backing::Large, huge_share: None, frames: None, points }
    }

    #[test]
    fn what_made_a_curve_is_found() {
        for (admits, scale) in [(0.5, 17e6), (0.9, 6e6), (0.2, 40e6)] {
            let [share, time] = figures(&made(Fit { admits, scale }), MEMORY, MHZ).map(|f| f.value.unwrap());
            assert!((share / admits - 1.0).abs() < 0.05, "{share} of {admits}");
            assert!((time / scale - 1.0).abs() < 0.1, "{time} of {scale}");
        }
    }

    #[test]
    fn a_level_that_treats_all_lines_alike_admits_all_of_them() {
        let [share, time] = figures(&made(Fit { admits: 1.0, scale: 1e12 }), MEMORY, MHZ);
        assert!(share.value.unwrap() > 0.98);
        assert_eq!(time.value, None);
    }

    #[test]
    fn without_a_level_before_memory_there_is_no_figure() {
        let curve = made(Fit { admits: 0.5, scale: 17e6 });
        assert!(figures(&curve, 110.0, MHZ).iter().all(|f| f.value.is_none()));
    }
}
