//! Whether a stream of lines from memory displaces lines of the last level that are used often, by the curve `stream`.
//!
//! ```text
//! cost of a line = near + (memory - near) * (1 - share there)        near: after the wait of the first, short stream
//! displaced      = 1 - share there after the stream / share there after a wait as long
//! ```
//!
//! A level in which all lines are alike (LRU) loses all of them to a stream of twice its size. One in which lines from
//! memory go first loses none. Neighbours displace lines meanwhile, which the wait shows.

use super::{
    figure::{Figure, Wanted, figure},
    fresh::share_there,
};
use crate::curve::{Curve, Pattern, Point};

/// Share of the lines that a wait must leave: else neighbours have displaced what the stream could.
const LEAST_LEFT: f64 = 0.3;

/// The figure `l3_stream_displaces`. `memory`: cycles of a load of memory alone.
///
/// It is of the longest stream during which neighbours leave enough.
pub(super) fn displaces(curve: &Curve, memory: f64) -> Figure {
    let wanted = Wanted {
        name: "l3_stream_displaces".into(),
        unit: "share",
        curve,
        note: "lines used often that a stream from memory displaces, of those that a wait as long leaves".into(),
        missing: "neighbours displace these lines before a stream could, or memory is no further away".into(),
    };
    figure(wanted, &|take| {
        let Pattern::Stream { chains, .. } = curve.pattern else { return None };
        let (first, streams) = curve.points.split_first()?;
        let (near, memory) = (take.trimmed(&first.control), memory / chains as f64);
        let displaced = |p: &Point| {
            let [after, left] = [&p.cycles, &p.control].map(|costs| share_there(take.trimmed(costs), near, memory));
            let left = left.filter(|&left| left >= LEAST_LEFT)?;
            Some((1.0 - after? / left).max(0.0))
        };
        streams.iter().rev().find_map(displaced).map(|share| (share, None))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Backing;

    /// A curve of a level 16 cycles away, memory being 400 away: shares there after streams, and after waits as long.
    fn made(shares: &[[f64; 2]]) -> Curve {
        let cost = |share: f64| 2.0 + 48.0 * (1.0 - share);
        let point = |(at, &[after, left]): (usize, &[f64; 2])| Point {
            cycles: vec![cost(after); 3],
            ns: vec![1.0; 3],
            control: vec![cost(left); 3],
            ..Point::new(1 << (24 + at))
        };
        let points = [[1.0, 1.0]].iter().chain(shares).enumerate().map(point).collect();
        let pattern = Pattern::Stream { bytes: 4 << 20, chains: 8 };
        Curve { name: "stream".into(), pattern, backing: Backing::Large, huge_share: None, frames: None, points }
    }

    #[test]
    fn the_longest_stream_counts_during_which_neighbours_leave_enough() {
        let of = |shares: &[[f64; 2]]| displaces(&made(shares), 400.0).value;
        assert!((of(&[[0.9, 1.0], [0.2, 0.8]]).unwrap() - 0.75).abs() < 1e-6);
        assert!((of(&[[0.9, 1.0], [0.0, 0.2]]).unwrap() - 0.1).abs() < 1e-6);
        assert_eq!(of(&[[0.1, 0.2]]), None);
        // More than a wait left: noise.
        assert_eq!(of(&[[1.0, 0.9]]), Some(0.0));
    }

    #[test]
    fn without_a_level_before_memory_there_is_no_figure() {
        assert_eq!(displaces(&made(&[[0.0, 1.0]]), 20.0).value, None);
    }
}
