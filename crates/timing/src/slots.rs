//! Units that begin a number of instructions in each cycle, in any order.

use crate::per_cycle::{PerCycle, Places};

/// Cycles whose use is kept. Cycles that are this far apart share an entry.
const KEPT: usize = 4096;

/// Bits of an entry below its cycle: how many units are used in it, and its step above these.
const USED_BITS: u32 = 8;
const STEP_BITS: u32 = 12;
const CYCLE: u32 = USED_BITS + STEP_BITS;
const USED: u64 = (1 << USED_BITS) - 1;
/// Furthest that a step goes.
const MOST: u64 = (1 << STEP_BITS) - 1;
/// A cycle of which no unit is used; its step is 1.
const UNUSED: u64 = 1 << USED_BITS;

/// The units of a kind.
///
/// A table of [`KEPT`] entries, each for the latest cycle that was used and falls on it: the cycle, and units used. An
/// instruction whose cycle falls on an entry kept for a later one finds its units free, and leaves no trace. So an
/// instruction that issues thousands of cycles before another costs no search.
///
/// Where instructions are dispatched faster than the units begin them, hundreds of cycles in a row are full. So each
/// full cycle keeps how far ahead a search goes on, its step. The cycles between are full. A search that passes two of
/// them joins their steps:
///
/// ```text
/// cycle      7      8      9      10     11
/// used       full   full   full   full   1 of 2
/// step       2      1      1      1              a search from 7 looks at 7, 9, 10, 11
/// step then  3      1      2      1              the next one at 7, 10, 11
///
/// entry      | cycle: 44 bits | step: 12 | used: 8 |
/// ```
///
/// Most searches begin in the run of full cycles that the last one went through. So this run is kept, and passed over
/// at once.
#[derive(Clone, Debug)]
pub struct Slots {
    places: Places,
    entries: Box<[u64; KEPT]>,
    /// A run of cycles that are all full: its first, and the one behind it.
    full: (u64, u64),
}

impl Slots {
    /// `width` units.
    pub fn new(width: PerCycle) -> Self {
        Self { places: width.places(), entries: Box::new([UNUSED; KEPT]), full: (0, 0) }
    }

    /// The first cycle at `earliest` or later in which a unit is free; it is taken.
    #[inline(always)]
    pub fn take(&mut self, earliest: u64) -> u64 {
        let mut cycle = earliest;
        // The full cycle that led here.
        let mut before = None;
        loop {
            let at = cycle as usize % KEPT;
            let mut entry = self.entries[at];
            let kept = entry >> CYCLE;
            if kept > cycle {
                return cycle;
            }
            if kept < cycle {
                // Of a cycle that has no place, this says that it is full.
                entry = cycle << CYCLE | UNUSED;
                self.entries[at] = entry;
            }
            let places = self.places.of(cycle);
            if entry & USED < places {
                self.entries[at] = entry + 1;
                self.note(earliest, cycle + u64::from((entry & USED) + 1 == places));
                return cycle;
            }
            if cycle == earliest && self.full.0 <= cycle && cycle < self.full.1 {
                cycle = self.full.1;
                continue;
            }
            let step = entry >> USED_BITS & MOST;
            if let Some(before) = before.replace(at) {
                let entry = &mut self.entries[before];
                let room = MOST - (*entry >> USED_BITS & MOST);
                *entry += step.min(room) << USED_BITS;
            }
            cycle += step;
        }
    }

    /// All cycles from `from` to the one before `to` are full.
    #[inline(always)]
    fn note(&mut self, from: u64, to: u64) {
        let (first, end) = self.full;
        if from <= end && first <= to {
            self.full = (first.min(from), end.max(to));
        } else if from < to {
            self.full = (from, to);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_third_instruction_waits_for_one_of_two_units() {
        let mut slots = Slots::new(PerCycle::from(2.0));
        assert_eq!([slots.take(7), slots.take(7), slots.take(7), slots.take(5), slots.take(7)], [7, 7, 8, 5, 8]);
        // A cycle on the same entry, long after: the earlier one is free for all from then on.
        assert_eq!(slots.take(7 + KEPT as u64), 7 + KEPT as u64);
        assert_eq!([slots.take(7), slots.take(7), slots.take(7)], [7, 7, 7]);
    }

    #[test]
    fn the_first_free_cycle_is_found_however_many_before_it_are_full() {
        for width in [1.0, 2.0, 5.0, 0.25, 1.5, 2.3] {
            let width = PerCycle::from(width);
            let (mut slots, places) = (Slots::new(width), width.places());
            let mut used = vec![0; 4 * KEPT];
            let mut x = 12345u64;
            for n in 0..1500u64 {
                x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                // Up to 200 cycles after a point that moves on more slowly than the units can follow.
                let earliest = width.cycles_of(n) / 2 + (x >> 33) % 200;
                let free = (earliest..).find(|&cycle| used[cycle as usize] < places.of(cycle)).unwrap();
                used[free as usize] += 1;
                assert_eq!(slots.take(earliest), free, "{n} of {width:?}");
            }
        }
    }
}
