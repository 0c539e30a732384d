//! What translation adds to a chase over every line of a footprint, so that a TLB is not taken for a cache.
//!
//! The lines come in random order, many to a page. Of a TLB level with `entries`, all in use, the share `1 - entries /
//! pages` of the loads misses.

use super::{figure::Take, levels::tlb_levels};
use crate::{curve::Curve, region::PAGE};

/// What misses of both TLB levels cost.
#[derive(Default)]
pub(super) struct Translation {
    /// Entries, and the cycles that a miss adds.
    levels: [(f64, f64); 2],
}

impl Translation {
    /// By a curve over base pages: `pages-4k`. A level that it does not show adds nothing.
    pub fn of(pages: &Curve, take: &Take) -> Self {
        let found = tlb_levels(pages, take);
        let level = |knee: Option<super::steps::Knee>, cycles: Option<f64>| {
            (knee.map_or(f64::INFINITY, |knee| knee.at), cycles.unwrap_or(0.0))
        };
        Self { levels: [level(found.first, found.hit_cycles), level(found.second, found.walk_cycles)] }
    }

    /// Cycles that it adds to each load of a chase over `bytes`.
    pub fn cycles(&self, bytes: f64) -> f64 {
        let pages = bytes / PAGE as f64;
        self.levels.iter().map(|(entries, cycles)| (1.0 - entries / pages).max(0.0) * cycles).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loads_miss_by_the_share_of_pages_without_entry() {
        let both = Translation { levels: [(64.0, 8.0), (1024.0, 100.0)] };
        let cycles = [64, 128, 2048, 4096].map(|pages| both.cycles(f64::from(pages) * PAGE as f64));
        assert_eq!(cycles, [0.0, 4.0, 8.0 * 31.0 / 32.0 + 50.0, 8.0 * 63.0 / 64.0 + 75.0]);
        assert_eq!(Translation::default().cycles(1e9), 0.0);
    }
}
