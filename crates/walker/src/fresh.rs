//! Lines of a victim cache that were not used from it yet.
//!
//! A line that leaves the second level may never be used again. A cache that knows it takes in a part of these lines,
//! and lets them go first, or sooner than others:
//!
//! ```text
//!              by chance           used from there
//!   memory ----------------> fresh ----------------> a line like all others
//!             `--> forgotten      `--> goes next, or after a time of its own
//! ```

use crate::{FreshDesc, retention::Retention};
use mmulab_addr::{GOLDEN, mix};

/// Which lines of a cache are fresh, and which lines may become so.
pub struct Fresh {
    /// Whether lines of page tables are fresh, too.
    tables: bool,
    goes_next: bool,
    /// Below which number a line is admitted; None admits all.
    below: Option<u64>,
    drawn: u64,
    /// By slot.
    is: Vec<bool>,
    retention: Option<Retention>,
}

impl Fresh {
    /// A cache of `slots` lines.
    pub fn new(slots: usize, desc: &FreshDesc) -> Self {
        Self {
            tables: desc.tables,
            goes_next: desc.goes_next,
            below: (desc.admits < 1.0).then_some((desc.admits * u64::MAX as f64) as u64),
            drawn: 0,
            is: vec![false; slots],
            retention: desc.retention_cycles.map(|cycles| Retention::new(slots, cycles, 1.0)),
        }
    }

    /// Whether lines that memory sent, for a walk or not, are fresh.
    #[inline]
    pub fn has_kind(&self, is_table: bool) -> bool {
        self.tables || !is_table
    }

    /// Whether fresh lines go before all others of their set.
    #[inline]
    pub fn goes_next(&self) -> bool {
        self.goes_next
    }

    /// Whether the next line is admitted.
    #[inline]
    pub fn admits(&mut self, is_table: bool) -> bool {
        if !self.has_kind(is_table) {
            return true;
        }
        let Some(below) = self.below else { return true };
        self.drawn += 1;
        mix(self.drawn.wrapping_mul(GOLDEN)) < below
    }

    /// Whether the line in `slot` is fresh and has a time of its own to stay.
    #[inline]
    pub fn has(&self, slot: usize) -> bool {
        self.retention.is_some() && self.is[slot]
    }

    /// The line in `slot` was taken in at `now` cycles.
    #[inline]
    pub fn place(&mut self, slot: usize, now: u64) {
        self.is[slot] = true;
        if let Some(retention) = &mut self.retention {
            retention.place(slot, now);
        }
    }

    /// The line in `slot` was used.
    #[inline]
    pub fn used(&mut self, slot: usize) {
        self.is[slot] = false;
    }

    /// When a neighbour displaced the fresh `line` in `slot`, if one did by `now` cycles.
    #[inline]
    pub fn displaced(&self, slot: usize, line: u64, now: u64) -> Option<u64> {
        self.retention.as_ref()?.displaced(slot, line, now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_share_asked_for_is_admitted() {
        for admits in [0.0, 0.01, 0.3, 0.999, 1.0] {
            let mut fresh = Fresh::new(1, &FreshDesc { admits, retention_cycles: None, goes_next: true, tables: true });
            let admitted = (0..100_000).filter(|_| fresh.admits(false)).count() as f64 / 100_000.0;
            assert!((admitted - admits).abs() < 0.005, "{admitted} of {admits}");
        }
    }

    #[test]
    fn only_fresh_lines_have_a_time_of_their_own() {
        let mut fresh =
            Fresh::new(2, &FreshDesc { admits: 1.0, retention_cycles: Some(1 << 20), goes_next: true, tables: true });
        fresh.place(1, 0);
        assert!(fresh.has(1) && !fresh.has(0));
        let left = (0..1000).filter(|&line| fresh.displaced(1, line, 1 << 20).is_none()).count();
        assert!((330..410).contains(&left), "{left} of 1000 after the time in which 1/e stays");
        fresh.used(1);
        assert!(!fresh.has(1));
    }
}
