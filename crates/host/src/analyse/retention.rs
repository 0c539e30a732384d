//! How long a line stays in a cache that neighbours use too, and how far memory is without walks. The curves are
//! `idle-first`, `idle-second` and `idle`.
//!
//! A round of a chase costs more the longer its lines were left alone. Programs on other hardware threads of the core
//! displace lines of its own caches, and those on other cores displace lines of the last one. The share of lines that a
//! level has left at age `t` is a Weibull distribution, `exp(-(t / scale)^shape)`. What a level lost waits in the next
//! one, and is lost there by the distribution of that one from then on:
//!
//! ```text
//! mean cost at age t = near + (next - near) * lost(t) + (further - next) * lost after that(t)
//! ```
//!
//! The two parameters are those whose costs come nearest to the timed ones.

use super::figure::{Figure, Take, WHOLE, Wanted, figure};
use crate::curve::{Curve, Pattern, Point};

const LINE: f64 = 64.0;
/// Waiting must make a round at least this much dearer, as a share of what losing all lines would; else there is
/// nothing to fit.
const LEAST_GAIN: f64 = 0.2;
/// Logarithms of the shapes and of the scales, in cycles, that are tried first: from, to, and how many.
const SHAPES: (f64, f64, usize) = (-1.2, 2.5, 9);
const SCALES: (f64, f64, usize) = (6.9, 27.6, 24);
/// Each time the best one's neighbours at half the distance are tried next.
const HALVINGS: usize = 6;
/// How many times further than a level the next one may be: from, to, and how many are tried where nothing else shows
/// it.
const FURTHER: (f64, f64, usize) = (1.5, 8.0, 12);
/// Lines of a level that stand for all of them, each lost at an age of its own.
const LINES: usize = 16;

/// A Weibull distribution of the time that a line stays, in cycles.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stay {
    scale: f64,
    shape: f64,
}

impl Stay {
    /// The share of lines that are gone at `age`.
    fn lost(&self, age: f64) -> f64 {
        1.0 - (-(age.max(0.0) / self.scale).powf(self.shape)).exp()
    }

    /// The ages at which lines go, each as likely as any other.
    fn ages(&self) -> [f64; LINES] {
        let share = |at: usize| (at as f64 + 0.5) / LINES as f64;
        std::array::from_fn(|at| self.scale * (-(1.0 - share(at)).ln()).powf(1.0 / self.shape))
    }
}

/// What a load takes that hits in the level of a curve, in the next one, and in the one after that.
#[derive(Clone, Copy, Debug)]
pub(super) struct Costs {
    pub near: f64,
    pub next: f64,
    pub further: f64,
}

/// A curve over lines that are left alone, and what is known of the level that they lie in.
#[derive(Clone, Copy)]
pub(super) struct Left<'a> {
    pub curve: &'a Curve,
    /// The name of the level.
    pub level: &'a str,
    /// What its loads take. Without it the curve's cheapest point is near, and its last one memory, which is next.
    pub costs: Option<Costs>,
    /// How long lines stay in the next level.
    pub behind: Option<Stay>,
    /// Cycles of a microsecond.
    pub mhz: f64,
}

/// The figures `l1d_retention_cycles` and `l1d_retention_shape`, or those of another level.
pub(super) fn figures_of(left: &Left) -> [Figure; 2] {
    let wanted = |what: &str, unit, note: &str| Wanted {
        name: format!("{}_retention_{what}", left.level),
        unit,
        curve: left.curve,
        note: note.into(),
        missing: "lines that were left alone were as near as before: nobody displaces them, or the cache is out of \
                  reach of the curve"
            .into(),
    };
    let note = "37 % of the unused lines are left after it: neighbours fill the cache too";
    let scale = figure(wanted("cycles", "cycles", note), &|take| Some((left.stay(take)?.scale, None)));
    let note = "how alike the ages are at which unused lines go: 1 at random, larger at about the same age, smaller \
                where neighbours come and go";
    let shape = figure(wanted("shape", "", note), &|take| Some((left.stay(take)?.shape, None)));
    [scale, shape]
}

/// The figure `memory_alone_cycles`: what a load takes whose line was left alone longest. Its footprint is within the
/// reach of the TLBs, so that no walk is in it. A chase over all of a large footprint has walks.
pub(super) fn memory_alone(curve: &Curve) -> Figure {
    let Pattern::Idle { chains, .. } = curve.pattern else { unreachable!("the curve `idle` has this pattern") };
    let wanted = Wanted {
        name: "memory_alone_cycles".into(),
        unit: "cycles",
        curve,
        note: format!("lines that were left alone longest, {chains} loads at once"),
        missing: "lines that were left alone were as near as before".into(),
    };
    figure(wanted, &|take| {
        let cost = |p: &Point| take.median(&p.cycles);
        let (near, far) = (cost(curve.points.first()?), cost(curve.points.last()?));
        (far - near >= LEAST_GAIN * far).then_some((far * chains as f64, None))
    })
}

impl Left<'_> {
    /// How long lines stay; None where waiting changes nothing.
    pub(super) fn stay(&self, take: &Take) -> Option<Stay> {
        self.fit(take).map(|(_, stay)| stay)
    }

    /// What loads take, of which it is not known how far the next level is: as the curve shows it.
    pub(super) fn costs_by(&self, near: f64, further: f64) -> Option<Costs> {
        let (from, to, many) = FURTHER;
        let each = (0..many).map(|at| near * from * (to / from).powf(at as f64 / (many - 1) as f64));
        let fits = each.filter(|next| *next < further).filter_map(|next| {
            let costs = Costs { near, next, further };
            let (error, _) = Self { costs: Some(costs), ..*self }.fit(&WHOLE)?;
            Some((error, costs))
        });
        fits.min_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, costs)| costs)
    }

    /// The distribution that comes nearest, and its error; None where waiting changes nothing.
    fn fit(&self, take: &Take) -> Option<(f64, Stay)> {
        let Pattern::Idle { bytes, chains } = self.curve.pattern else { return None };
        // As if of a load that waits for the load before.
        let timed: Vec<f64> = self.curve.points.iter().map(|p| take.trimmed(&p.cycles) * chains as f64).collect();
        let last = *timed.last()?;
        let least = timed.iter().copied().fold(last, f64::min);
        let costs = self.costs.unwrap_or(Costs { near: least, next: last, further: last });
        // Of a curve by itself both ends are measured: what is between them must be more than noise.
        let gain = if self.costs.is_some() { costs.next - costs.near } else { costs.next };
        if costs.next <= costs.near || last - costs.near < LEAST_GAIN * gain {
            return None;
        }
        // From its use to the next one, a line is left alone for the wait and about a round.
        let each = bytes as f64 / LINE / chains as f64;
        let at = |(p, &cost): (&Point, &f64)| (p.x as f64 * self.mhz + each * (least + cost) / 2.0, cost);
        let points: Vec<(f64, f64)> = self.curve.points.iter().zip(&timed).map(at).collect();
        // A curve from a near level to memory is fitted by factors. Of one whose near end is only the cheapest point,
        // which has lost some lines too, differences count.
        let by_factor = self.costs.is_some();
        let on = |cost: f64| if by_factor { cost.max(costs.near).ln() } else { cost / last };
        let error =
            |stay: &Stay| points.iter().map(|&(age, cost)| (on(cost) - on(self.told(costs, stay, age))).powi(2)).sum();
        Some(nearest(error))
    }

    /// The mean cost of a load of lines of this age.
    fn told(&self, costs: Costs, stay: &Stay, age: f64) -> f64 {
        let Costs { near, next, further } = costs;
        let twice = match &self.behind {
            Some(behind) if further > next => {
                stay.ages().iter().map(|lost| behind.lost(age - lost)).sum::<f64>() / LINES as f64
            }
            _ => 0.0,
        };
        near + (next - near) * stay.lost(age) + (further - next) * twice
    }
}

/// The distribution with the least error: the best of a grid, then of smaller and smaller grids around the best one so
/// far.
fn nearest(error: impl Fn(&Stay) -> f64) -> (f64, Stay) {
    let between = |(from, to, many): (f64, f64, usize)| {
        let step = (to - from) / (many - 1) as f64;
        ((0..many).map(move |at| from + step * at as f64), step)
    };
    let ((scales, mut by_scale), (shapes, mut by_shape)) = (between(SCALES), between(SHAPES));
    let tried = |ln: (f64, f64)| {
        let stay = Stay { scale: ln.0.exp(), shape: ln.1.exp() };
        (error(&stay), ln)
    };
    let first = scales.flat_map(|scale| shapes.clone().map(move |shape| (scale, shape)));
    let least = |all: &mut dyn Iterator<Item = (f64, f64)>| all.map(tried).min_by(|a, b| a.0.total_cmp(&b.0));
    let mut found = least(&mut first.into_iter()).unwrap_or((f64::INFINITY, (0.0, 0.0)));
    for _ in 0..HALVINGS {
        (by_scale, by_shape) = (by_scale / 2.0, by_shape / 2.0);
        let around = (-1..=1).flat_map(|a| (-1..=1).map(move |b| (f64::from(a), f64::from(b))));
        let best = found.1;
        let mut near = around.map(|(a, b)| (best.0 + a * by_scale, (best.1 + b * by_shape).clamp(SHAPES.0, SHAPES.1)));
        found = least(&mut near).unwrap_or(found);
    }
    let (error, (scale, shape)) = found;
    (error, Stay { scale: scale.exp(), shape: shape.exp() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Backing;

    const MHZ: f64 = 3500.0;

    /// A curve over 4 MB: 6 cycles near, 75 far, and lines that stay as the distribution says.
    fn third(scale: f64, shape: f64) -> Curve {
        let lines = 65536.0;
        let mut points = Vec::new();
        for x in [1, 500, 1000, 2000, 4000, 8000, 16000, 64000, 500_000] {
            let mut cycles: f64 = 6.0;
            // The round itself takes its time, in which lines go too.
            for _ in 0..50 {
                let age = f64::from(x) * MHZ + lines * (6.0 + cycles) / 2.0;
                cycles = 6.0 + 69.0 * Stay { scale, shape }.lost(age);
            }
            points.push((u64::from(x as u32), cycles));
        }
        curve("idle", Pattern::Idle { bytes: 4 << 20, chains: 8 }, &points)
    }

    fn curve(name: &str, pattern: Pattern, points: &[(u64, f64)]) -> Curve {
        let point = |&(x, cycles): &(u64, f64)| Point {
            cycles: vec![cycles; 3],
            ns: vec![cycles / MHZ * 1000.0; 3],
            ..Point::new(x)
        };
        let points = points.iter().map(point).collect();
        Curve { name: name.into(), pattern, backing: Backing::Large, huge_share: None, frames: None, points }
    }

    fn left(curve: &Curve) -> Left<'_> {
        Left { curve, level: "l3", costs: None, behind: None, mhz: MHZ }
    }

    #[test]
    fn the_distribution_of_made_up_curves_is_found() {
        for scale in [8e6, 22e6, 60e6] {
            for shape in [1.0, 2.0, 3.0] {
                let found = figures_of(&left(&third(scale, shape))).map(|f| f.value.unwrap());
                assert!((found[0] / scale - 1.0).abs() < 0.15, "{found:?} of {scale}, {shape}");
                assert!((found[1] / shape - 1.0).abs() < 0.2, "{found:?} of {scale}, {shape}");
            }
        }
    }

    #[test]
    fn what_the_next_level_loses_too_is_told_apart() {
        // Lines leave the second level within a millisecond, 14 cycles away, and the third, 50 away, within four.
        let (second, third) = (Stay { scale: 1.5e6, shape: 0.8 }, Stay { scale: 14e6, shape: 2.0 });
        let costs = Costs { near: 14.0, next: 50.0, further: 580.0 };
        let lines = 4096.0;
        let mut points = Vec::new();
        for x in [1u64, 30, 100, 300, 1000, 2000, 4000, 8000] {
            let mut cycles = 14.0;
            for _ in 0..50 {
                let age = x as f64 * MHZ + lines * (14.0 + cycles) / 2.0;
                // A thousand lines, each with ages of its own.
                let one = |at: usize| {
                    let share = (at as f64 + 0.5) / 1000.0;
                    let leaves = second.scale * (-share.ln()).powf(1.0 / second.shape);
                    if leaves < age { 50.0 + 530.0 * third.lost(age - leaves) } else { 14.0 }
                };
                cycles = (0..1000).map(one).sum::<f64>() / 1000.0;
            }
            points.push((x, cycles));
        }
        let made = curve("idle-second", Pattern::Idle { bytes: 256 << 10, chains: 1 }, &points);
        let told = Left { curve: &made, level: "l2", costs: Some(costs), behind: Some(third), mhz: MHZ };
        let found = figures_of(&told).map(|f| f.value.unwrap());
        assert!((found[0] / second.scale - 1.0).abs() < 0.15, "{found:?}");
        assert!((found[1] / second.shape - 1.0).abs() < 0.2, "{found:?}");
        // It is seen where the next level is, if nothing says so.
        let seen = Left { costs: None, ..told }.costs_by(14.0, 580.0).unwrap();
        assert!((40.0..63.0).contains(&seen.next), "{seen:?}");
        // Taken to be lost to memory at once, they would seem to stay for longer.
        let blind = Left { costs: Some(Costs { next: 580.0, ..costs }), behind: None, ..told };
        assert!(figures_of(&blind)[0].value.unwrap() > 3.0 * second.scale);
    }

    #[test]
    fn memory_is_what_lines_take_that_were_left_alone_longest() {
        assert_eq!(memory_alone(&third(22e6, 1.0)).value, Some(600.0));
        assert_eq!(memory_alone(&third(1e14, 1.0)).value, None);
    }

    #[test]
    fn lines_that_stay_have_no_distribution() {
        assert!(figures_of(&left(&third(1e14, 1.0))).iter().all(|f| f.value.is_none()));
    }
}
