//! What prefetchers do for a chase whose steps are all equal, by the curve `strides`: no load can begin before the one
//! before it is done, so that any load faster than memory was brought ahead.

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
    fn streams_and_other_strides_are_told_apart() {
        let point =
            |(x, cycles): (u64, f64)| Point { x, cycles: vec![cycles; 5], ns: vec![cycles; 5], control: vec![] };
        let points = [(1, 8.0), (65, 50.0), (129, 54.0)].map(point).to_vec();
        let pattern = Pattern::Strides { bytes: 1 << 20 };
        let curve = Curve { name: "strides".into(), pattern, backing: Backing::Small, huge_share: None, points };
        let found = figures(&curve);
        assert_eq!(found.iter().map(|f| f.value).collect::<Vec<_>>(), [Some(8.0), Some(52.0)]);
        let none = Curve { points: curve.points[..1].to_vec(), ..curve };
        assert_eq!(figures(&none)[1].value, None);
    }
}
