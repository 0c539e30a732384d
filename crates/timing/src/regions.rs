//! A prefetcher by region. It learns of a load instruction which lines near the one that it asks for are used after it.
//! It brings these lines with it.
//!
//! Processors have it under this name (AMD Software Optimization Guide for Zen 4, 57647, "hardware prefetchers": L1
//! Region). How theirs learns is not published. The rules here are those of spatial memory streaming (Somogyi and
//! others, ISCA 2006), for a region that lies around the first line:
//!
//! ```text
//! lines     -3  -2  -1   0   1   2   3        reach = 3
//!                        A       B            load A opens a region, load B finds its line in it
//! counts     0   0   0       0   2   0        of A's instruction: from 2 on, the line is brought when A misses
//! ```

use crate::{
    desc::MemoryTiming,
    tables::{PAGE_SHIFT, place},
};

/// Regions that are watched at once.
const WATCHED: usize = 16;
/// Furthest line of a region from its first.
const FURTHEST: usize = 8;
/// Largest count of a line, and the count from which it is brought.
const MOST: u8 = 3;
const BELIEVED: u8 = 2;

/// A set of lines around the first of a region: bit `FURTHEST + distance`.
type Near = u32;

/// A load instruction, and which lines near its own were used after it.
#[derive(Clone, Copy, Default, Debug)]
struct Load {
    /// The instruction and 1; 0 for none.
    load: u64,
    counts: [u8; 2 * FURTHEST + 1],
}

/// A region whose first line was asked for lately.
#[derive(Clone, Copy, Default, Debug)]
struct Region {
    /// The place of the load that opened it; its first line and 1, 0 for none.
    place: usize,
    load: u64,
    line: u64,
    used: Near,
}

/// The loads that a core follows, and the regions that they opened last.
#[derive(Clone, Debug)]
pub struct Regions {
    loads: Box<[Load]>,
    watched: [Region; WATCHED],
    oldest: usize,
    reach: u64,
}

impl Regions {
    /// As many loads, and lines to each side, as `desc` says.
    pub fn new(desc: &MemoryTiming) -> Self {
        let loads = if desc.region_reach == 0 { 0 } else { usize::from(desc.regions) };
        Self {
            loads: vec![Load::default(); loads].into(),
            watched: [Region::default(); WATCHED],
            oldest: 0,
            reach: u64::from(desc.region_reach).min(FURTHEST as u64),
        }
    }

    /// The instruction `load` missed the first level with `line` of physical memory. The lines to be brought with it.
    #[inline]
    pub fn see(&mut self, load: u64, line: u64) -> impl Iterator<Item = u64> + use<> {
        let wanted = if self.loads.is_empty() { 0 } else { self.wanted(load, line) };
        (0..2 * FURTHEST as u64 + 1)
            .filter(move |bit| wanted >> bit & 1 == 1)
            .map(move |bit| line + bit - FURTHEST as u64)
    }

    /// Which lines are to be brought.
    fn wanted(&mut self, load: u64, line: u64) -> Near {
        // The latest first.
        for at in (self.oldest..self.oldest + WATCHED).rev() {
            let region = &mut self.watched[at % WATCHED];
            let distance = line as i64 - (region.line as i64 - 1);
            if region.line > 0 && distance.unsigned_abs() <= self.reach {
                region.used |= 1 << (FURTHEST as i64 + distance);
                return 0;
            }
        }
        let place = place(load, self.loads.len());
        self.close(self.oldest);
        self.watched[self.oldest] = Region { place, load, line: line + 1, used: 0 };
        self.oldest = (self.oldest + 1) % WATCHED;
        let known = &mut self.loads[place];
        if known.load != load + 1 {
            *known = Load { load: load + 1, ..Load::default() };
            return 0;
        }
        // Not beyond the page.
        let offset = line as usize & ((1 << PAGE_SHIFT) - 1);
        let is_within = |bit: usize| (offset + bit).checked_sub(FURTHEST).is_some_and(|at| at >> PAGE_SHIFT == 0);
        let is_believed = |bit: usize| bit != FURTHEST && known.counts[bit] >= BELIEVED;
        (0..2 * FURTHEST + 1).filter(|&bit| is_believed(bit) && is_within(bit)).fold(0, |near, bit| near | 1 << bit)
    }

    /// Its load learns which lines of a region were used.
    fn close(&mut self, at: usize) {
        let Region { place, load, line, used } = self.watched[at];
        let known = &mut self.loads[place];
        if line == 0 || known.load != load + 1 {
            return;
        }
        for (bit, count) in known.counts.iter_mut().enumerate() {
            *count = if used >> bit & 1 == 1 { (*count + 1).min(MOST) } else { count.saturating_sub(1) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn regions(regions: u16, region_reach: u8) -> Regions {
        Regions::new(&MemoryTiming { regions, region_reach, ..MemoryTiming::default() })
    }

    /// Pairs of lines by two loads, the second `further` than the first: how many lines were brought in the last of 100
    /// rounds, and which.
    fn pairs(regions: &mut Regions, further: i64, offset: u64) -> Vec<i64> {
        let mut last = Vec::new();
        for n in 0..100u64 {
            let line = 64 * (n * 7919 % 1000) + offset;
            last = regions.see(1, line).map(|brought| brought as i64 - line as i64).collect();
            assert_eq!(regions.see(2, (line as i64 + further) as u64).count(), 0, "within the region of the first");
        }
        last
    }

    #[test]
    fn a_line_that_follows_another_is_brought_with_it_within_reach() {
        for further in [-3, -1, 1, 2, 3] {
            assert_eq!(pairs(&mut regions(64, 3), further, 20), [further]);
        }
        let mut regions = regions(64, 3);
        let brought = (0..100u64).map(|n| regions.see(1, 64 * n + 9).count() + regions.see(2, 64 * n + 13).count());
        assert_eq!(brought.sum::<usize>(), 0, "four lines further are another region");
    }

    #[test]
    fn lines_of_the_next_page_are_not_brought() {
        let mut regions = regions(64, 3);
        assert_eq!(pairs(&mut regions, 2, 20), [2]);
        assert_eq!(regions.see(1, 64 * 5000 + 61).collect::<Vec<_>>(), [64 * 5000 + 63]);
        assert_eq!(regions.see(1, 64 * 6000 + 62).count(), 0);
    }

    #[test]
    fn what_does_not_follow_any_more_is_forgotten() {
        let mut regions = regions(64, 3);
        pairs(&mut regions, 1, 20);
        // Regions of the pairs are closed by as many later ones. The second one without the line is the last that
        // brings it.
        let brought: Vec<usize> = (0..40u64).map(|n| regions.see(1, 64 * (9000 + n)).count()).collect();
        assert_eq!(brought.iter().sum::<usize>(), 17, "{brought:?}");
    }

    #[test]
    fn without_loads_or_reach_nothing_is_brought() {
        for (loads, reach) in [(0, 3), (64, 0)] {
            let mut regions = regions(loads, reach);
            assert!((0..100u64).all(|n| regions.see(1, 64 * n).count() + regions.see(2, 64 * n + 1).count() == 0));
        }
    }
}
