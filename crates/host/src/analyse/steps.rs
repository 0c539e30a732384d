//! Steps of a curve that can only rise: its flat parts (a level of a hierarchy each), and the knees between them.
//!
//! The curve is first made monotone (pool adjacent violators; Barlow and others, 1972), for a larger footprint never
//! has lower latency: a dip is noise. A flat part rises by at most [`FLAT`] over at least [`WIDE`] of `x`. A knee lies
//! where the latency is half way between two flat parts, because half of the accesses miss there. Its blur is from
//! where a tenth of them miss to where nine tenths do.

/// Most that a flat part may rise, as a factor.
const FLAT: f64 = 1.3;
/// Least that neighbouring flat parts differ by, as a factor.
const STEP: f64 = 1.4;
/// Least width of a flat part, as a factor of `x`.
const WIDE: f64 = 1.4;
/// A curve has left a level for good when it is above it by this factor: some sets overflow long before the last.
const LEFT: f64 = 1.6;
/// Least points of a flat part.
const POINTS: usize = 3;

/// A level: points of one latency.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Level {
    /// Index of its first point.
    pub first: usize,
    /// Index of its last point.
    pub last: usize,
    /// Its latency.
    pub cycles: f64,
}

/// Where one level gives way to the next.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Knee {
    /// Where half of the accesses miss.
    pub at: f64,
    /// Where a tenth of them miss.
    pub begins: f64,
    /// Where nine tenths of them miss.
    pub ends: f64,
}

/// A curve's levels, and the knees between them: one fewer.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Steps {
    /// By `x`.
    pub levels: Vec<Level>,
    /// Between each level and the next.
    pub knees: Vec<Knee>,
}

/// The nearest curve that never falls.
pub fn monotone(ys: &[f64]) -> Vec<f64> {
    // Blocks of a sum and a count; a block below the one before it joins it.
    let mut blocks: Vec<(f64, usize)> = Vec::new();
    for &y in ys {
        blocks.push((y, 1));
        while let [.., (a, n), (b, m)] = blocks[..] {
            if a / n as f64 <= b / m as f64 {
                break;
            }
            blocks.truncate(blocks.len() - 2);
            blocks.push((a + b, n + m));
        }
    }
    blocks.iter().flat_map(|&(sum, count)| std::iter::repeat_n(sum / count as f64, count)).collect()
}

/// The widest flat part between two indices; None where none is wide enough.
fn widest(xs: &[f64], ys: &[f64], from: usize, to: usize) -> Option<(usize, usize)> {
    let mut best: Option<(usize, usize)> = None;
    let mut last = from;
    for first in from..to {
        last = last.max(first);
        while last + 1 < to && ys[last + 1] <= ys[first] * FLAT {
            last += 1;
        }
        let wide = |(a, b): (usize, usize)| xs[b] / xs[a];
        let found = (first, last);
        if last + 1 - first >= POINTS && wide(found) >= WIDE && best.is_none_or(|b| wide(found) > wide(b)) {
            best = Some(found);
        }
    }
    best
}

fn flat_parts(xs: &[f64], ys: &[f64], from: usize, to: usize, found: &mut Vec<(usize, usize)>) {
    if let Some((first, last)) = widest(xs, ys, from, to) {
        flat_parts(xs, ys, from, first, found);
        found.push((first, last));
        flat_parts(xs, ys, last + 1, to, found);
    }
}

/// Where a monotone curve crosses `y` between two indices, `x` by logarithm.
pub(super) fn crossing(xs: &[f64], ys: &[f64], from: usize, to: usize, y: f64) -> f64 {
    let Some(above) = (from..=to).find(|&i| ys[i] >= y) else { return xs[to] };
    if above == from {
        return xs[from];
    }
    let (x0, x1, y0, y1) = (xs[above - 1], xs[above], ys[above - 1], ys[above]);
    let share = if y1 > y0 { (y - y0) / (y1 - y0) } else { 0.0 };
    (x0.ln() + (x1.ln() - x0.ln()) * share).exp()
}

/// The steps of a curve; `xs` rise, and all numbers are above 0.
pub fn steps(xs: &[f64], ys: &[f64]) -> Steps {
    let ys = monotone(ys);
    let mut parts = Vec::new();
    flat_parts(xs, &ys, 0, xs.len(), &mut parts);
    let mut levels: Vec<Level> = Vec::new();
    for (first, last) in parts {
        let level = Level { first, last, cycles: super::stats::median(&ys[first..=last]) };
        match levels.last_mut() {
            // A slope that rises slowly is one level, not many.
            Some(before) if level.cycles < before.cycles * STEP => {
                *before = Level { first: before.first, last, cycles: super::stats::median(&ys[before.first..=last]) };
            }
            _ => levels.push(level),
        }
    }
    let knees = levels
        .windows(2)
        .map(|pair| {
            let at = |share: f64| {
                let y = pair[0].cycles + (pair[1].cycles - pair[0].cycles) * share;
                crossing(xs, &ys, pair[0].first, pair[1].last, y)
            };
            Knee { at: at(0.5), begins: at(0.1), ends: at(0.9) }
        })
        .collect();
    Steps { levels, knees }
}

/// The knee behind the last level where nothing flat follows it. Costs beyond it may rise without end, as page tables
/// leave one cache after the other. At twice the `x` at which the curve leaves the level nearly every access misses, so
/// the cost there stands for the next level. None where the curve ends before, or does not rise.
pub fn departure(xs: &[f64], ys: &[f64], level: &Level) -> Option<(Knee, f64)> {
    let ys = monotone(ys);
    let last = (level.first..xs.len()).take_while(|&i| ys[i] <= level.cycles * LEFT).last()?;
    let left = xs[last] * 2.0;
    let beyond = xs.iter().position(|&x| x >= left)?;
    let next = ys[beyond];
    if next < level.cycles * STEP {
        return None;
    }
    let at = |share: f64| crossing(xs, &ys, level.first, beyond, level.cycles + (next - level.cycles) * share);
    Some((Knee { at: at(0.5), begins: at(0.1), ends: at(0.9) }, next))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_curve_that_falls_is_levelled() {
        assert_eq!(monotone(&[1.0, 3.0, 2.0, 4.0]), [1.0, 2.5, 2.5, 4.0]);
        assert_eq!(monotone(&[3.0, 2.0, 1.0]), [2.0, 2.0, 2.0]);
        assert_eq!(monotone(&[]), [0.0; 0]);
    }

    /// Three levels with sharp knees after 64 and after 1024.
    #[test]
    fn sharp_knees_are_found_where_they_are() {
        let xs: Vec<f64> = (3..=12).flat_map(|e| [1 << e, (1 << e) + (1 << (e - 1))]).map(f64::from).collect();
        let ys: Vec<f64> = xs
            .iter()
            .map(|&x| {
                if x <= 64.0 {
                    4.0
                } else if x <= 1024.0 {
                    11.0
                } else {
                    60.0
                }
            })
            .collect();
        let found = steps(&xs, &ys);
        let cycles: Vec<f64> = found.levels.iter().map(|l| l.cycles).collect();
        assert_eq!(cycles, [4.0, 11.0, 60.0]);
        assert!(
            (64.0..96.0).contains(&found.knees[0].at) && (1024.0..1536.0).contains(&found.knees[1].at),
            "{found:?}"
        );
        assert!(found.knees.iter().all(|k| k.begins <= k.at && k.at <= k.ends));
    }

    #[test]
    fn a_curve_without_steps_has_one_level() {
        let xs: Vec<f64> = (1..20).map(f64::from).collect();
        let found = steps(&xs, &[4.0; 19]);
        assert_eq!((found.levels.len(), found.knees.len()), (1, 0));
        assert_eq!(steps(&[], &[]), Steps::default());
        assert_eq!(steps(&[1.0], &[1.0]), Steps::default());
    }

    #[test]
    fn a_level_is_left_where_half_of_the_cost_at_twice_its_end_is_reached() {
        let xs: Vec<f64> = (0..40).map(|i| 64.0 * 1.2f64.powi(i)).collect();
        // Flat at 10 up to 1000, then 70, and rising on and on.
        let ys: Vec<f64> = xs.iter().map(|&x| if x <= 1000.0 { 10.0 } else { 70.0 * (x / 1000.0).sqrt() }).collect();
        let flat = steps(&xs, &ys).levels[0];
        let (knee, next) = departure(&xs, &ys, &flat).unwrap();
        assert!((900.0..1300.0).contains(&knee.at), "{knee:?}");
        assert!((70.0..130.0).contains(&next), "{next}");
        // A curve that ends at the level has no knee.
        assert_eq!(departure(&xs[..14], &ys[..14], &flat), None);
    }

    proptest! {
        #[test]
        fn monotone_curves_keep_their_sum_and_never_fall(ys in prop::collection::vec(0.1f64..100.0, 0..50)) {
            let found = monotone(&ys);
            prop_assert_eq!(found.len(), ys.len());
            prop_assert!(found.windows(2).all(|w| w[0] <= w[1]));
            prop_assert!((found.iter().sum::<f64>() - ys.iter().sum::<f64>()).abs() < 1e-6);
        }

        #[test]
        fn knees_lie_between_their_levels(ys in prop::collection::vec(1.0f64..1000.0, 1..60)) {
            let xs: Vec<f64> = (1..=ys.len()).map(|i| i as f64).collect();
            let found = steps(&xs, &ys);
            prop_assert_eq!(found.knees.len(), found.levels.len().saturating_sub(1));
            for (pair, knee) in found.levels.windows(2).zip(&found.knees) {
                prop_assert!(pair[0].last < pair[1].first && pair[0].cycles < pair[1].cycles);
                prop_assert!(xs[pair[0].first] <= knee.begins && knee.ends <= xs[pair[1].last]);
                prop_assert!(knee.begins <= knee.at && knee.at <= knee.ends);
            }
        }

        /// A step of a known place under noise of 5 %, as a quiet machine has it.
        #[test]
        fn a_noisy_step_is_found_near_its_place(at in 20usize..60, noise in prop::collection::vec(0.95f64..1.05, 100)) {
            let xs: Vec<f64> = (0..100).map(|i| 8.0 * 1.06f64.powi(i)).collect();
            let ys: Vec<f64> = (0..100).map(|i| noise[i] * if i < at { 4.0 } else { 11.0 }).collect();
            let found = steps(&xs, &ys);
            prop_assert_eq!(found.knees.len(), 1);
            prop_assert!((found.knees[0].at / xs[at]).ln().abs() < 0.07, "{:?} for {}", found.knees, xs[at]);
        }
    }
}
