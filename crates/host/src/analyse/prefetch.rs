//! The effect of prefetchers on a chase. No load can begin before the one before it is done, so that any load faster
//! than memory was brought ahead. The curve `strides` has equal steps. The curve `pairs` has lines in random order,
//! each followed by another one near it.

use super::figure::{Figure, Take, Wanted, figure};
use crate::curve::{Curve, Point};

/// A step of one line: a stream, which prefetchers treat on its own.
const STREAM: u64 = 1;

/// The figures `stream_cycles` and `stride_cycles`: what a load takes.
pub(super) fn figures(curve: &Curve) -> Vec<Figure> {
    let of = |name: &str, note: &str, takes_part: &dyn Fn(u64) -> bool| {
        let wanted = Wanted {
            name: name.into(),
            unit: "cycles",
            curve,
            note: note.into(),
            missing: "no point of this step was measured".into(),
        };
        figure(wanted, &|take| mean(curve, take, takes_part).map(|cycles| (cycles, None)))
    };
    vec![
        of("stream_cycles", "a load of the next line of memory, which needs the one before", &|step| step == STREAM),
        of(
            "stride_cycles",
            "a load some lines further on in memory, in another page each time, which needs the one before",
            &|step| step != STREAM,
        ),
    ]
}

/// A second load of a pair that takes less than this share of the first one was brought with it.
const BROUGHT: f64 = 0.5;

/// The figure `region_lines`: how far from a line the next one may lie that a prefetcher brings with it. `alone`: the
/// cycles of a load that nothing is brought for.
pub(super) fn region(curve: &Curve, alone: f64) -> Figure {
    let wanted = Wanted {
        name: "region_lines".into(),
        unit: "lines",
        curve,
        note: "up to this distance the second load of a pair takes less than half of the first one".into(),
        missing: "no pair was measured".into(),
    };
    figure(wanted, &|take| {
        let brought = |p: &&Point| 2.0 * take.quiet(&p.cycles) - alone < BROUGHT * alone;
        let last = curve.points.iter().take_while(brought).last();
        (!curve.points.is_empty()).then(|| (last.map_or(0.0, |p| p.x as f64), None))
    })
}

fn mean(curve: &Curve, take: &Take, takes_part: &dyn Fn(u64) -> bool) -> Option<f64> {
    let points: Vec<&Point> = curve.points.iter().filter(|p| takes_part(p.x)).collect();
    let sum: f64 = points.iter().map(|p| take.quiet(&p.cycles)).sum();
    (!points.is_empty()).then(|| sum / points.len() as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Backing, Pattern};

    #[test]
    fn pairs_are_brought_up_to_a_distance() {
        let point = |(x, cycles): (u64, f64)| Point { cycles: vec![cycles; 5], ns: vec![cycles; 5], ..Point::new(x) };
        let found = |cycles: [f64; 4]| {
            let points = [1, 2, 3, 4].into_iter().zip(cycles).map(point).collect();
            let pattern = Pattern::Pairs { bytes: 1 << 20 };
            let curve = Curve {
                name: "pairs".into(),
                pattern,
                backing: Backing::Small,
                huge_share: None,
                frames: None,
                points,
            };
            region(&curve, 500.0).value
        };
        // A pair of which the second load hits takes 500 and 20 cycles, and 260 on average.
        assert_eq!(found([260.0, 260.0, 262.0, 380.0]), Some(3.0));
        assert_eq!(found([500.0, 500.0, 260.0, 500.0]), Some(0.0));
    }

    #[test]
    fn streams_and_other_strides_are_told_apart() {
        let point = |(x, cycles): (u64, f64)| Point { cycles: vec![cycles; 5], ns: vec![cycles; 5], ..Point::new(x) };
        let points = [(1, 8.0), (65, 50.0), (129, 54.0)].map(point).to_vec();
        let pattern = Pattern::Strides { bytes: 1 << 20 };
        let curve =
            Curve { name: "strides".into(), pattern, backing: Backing::Small, huge_share: None, frames: None, points };
        let found = figures(&curve);
        assert_eq!(found.iter().map(|f| f.value).collect::<Vec<_>>(), [Some(8.0), Some(52.0)]);
        let none = Curve { points: curve.points[..1].to_vec(), ..curve };
        assert_eq!(figures(&none)[1].value, None);
    }
}
