//! Units that are busy for a while with each job, where jobs are asked for in another order than they begin.
//!
//! A core in time goes through a program once, in its order. A load that waits for another one asks for a fill buffer
//! of a cycle far ahead. A later load that waits for nothing asks for one of now. If each unit only knew when it is
//! free again, the first load would keep a buffer from the second one that it does not use yet. So a calendar keeps,
//! for each cycle, how many units are busy in it:
//!
//! ```text
//! 2 units     cycle  0         10        20        30        40
//! A asks for  0      |--- A ---|         |         |         |
//! B asks for  25     |         |         |    |--- B ---|    |
//! C asks for  5      |    |--- C ---|    |         |         |      C begins before B
//! D asks for  5      |         |--- D ---|         |         |      A and C are busy until 10
//! busy               1    2    2    1    0    1    1    0
//! ```
//!
//! Jobs take their turn in the order in which they ask: who asks later gets what is left.

/// Cycles whose use is kept. A power of two.
const KEPT: u64 = 1 << 16;
/// Cycles that are looked at together.
const TOGETHER: usize = 32;

/// How many units are busy in each cycle.
///
/// A ring of [`KEPT`] cycles up to the last one in which a unit is busy. A job that is asked for before these finds its
/// units free, and leaves no trace.
#[derive(Clone, Debug)]
pub struct Calendar {
    units: u16,
    /// Of the cycles from `from` on, each at its number modulo [`KEPT`].
    busy: Box<[u16]>,
    from: u64,
    /// From then on all units are free.
    free: u64,
}

impl Calendar {
    /// `units` units, all free. None counts as one.
    pub fn new(units: u16) -> Self {
        Self { units: units.max(1), busy: vec![0; KEPT as usize].into(), from: 0, free: 0 }
    }

    /// The first cycle at `earliest` or later from which on a unit is free for `cycles`; it is busy for these then.
    /// A job of more than 65,536 cycles counts as one of 65,536.
    #[inline]
    pub fn take(&mut self, earliest: u64, cycles: u64) -> u64 {
        if earliest < self.from || cycles == 0 {
            return earliest;
        }
        let cycles = cycles.min(KEPT);
        let start = if earliest < self.free { self.search(earliest, cycles) } else { earliest };
        self.keep_until(start + cycles);
        self.each(start, start + cycles, |busy| busy.iter_mut().for_each(|count| *count += 1));
        start
    }

    /// Another clock counts from here on, which shows `after` where the one so far shows `before`.
    pub fn rebase(&mut self, before: u64, after: u64) {
        let ahead = self.free.saturating_sub(before);
        let left: Vec<u16> = (before..before + ahead).map(|cycle| self.busy[place(cycle)]).collect();
        *self = Self::new(self.units);
        self.keep_until(after + ahead);
        for (cycle, &busy) in (after..).zip(&left) {
            self.busy[place(cycle)] = busy;
        }
    }

    /// The first cycle from `start` on at which a unit is free for `cycles`.
    fn search(&self, mut start: u64, cycles: u64) -> u64 {
        while start < self.free {
            match self.last_full(start, (start + cycles).min(self.free)) {
                Some(full) => start = full + 1,
                None => break,
            }
        }
        start
    }

    /// The last of these cycles, at most [`KEPT`] of them, in which all units are busy.
    fn last_full(&self, from: u64, to: u64) -> Option<u64> {
        let (first, last) = (place(from), place(to));
        let in_part = |part: &[u16]| {
            // A chunk without a full cycle is passed over by vector instructions, which know no early end.
            let full = |chunk: &[u16]| chunk.iter().fold(false, |any, &count| any | (count >= self.units));
            let (n, chunk) = part.rchunks(TOGETHER).enumerate().find(|(_, chunk)| full(chunk))?;
            let within = chunk.iter().rposition(|&count| count >= self.units)?;
            Some(part.len() - n * TOGETHER - chunk.len() + within)
        };
        if first < last {
            return in_part(&self.busy[first..last]).map(|at| from + at as u64);
        }
        let before_end = KEPT - first as u64;
        in_part(&self.busy[..last])
            .map(|at| from + before_end + at as u64)
            .or_else(|| in_part(&self.busy[first..]).map(|at| from + at as u64))
    }

    /// Cycles before `to` have a place, and those too long before have none any more.
    fn keep_until(&mut self, to: u64) {
        let from = to.saturating_sub(KEPT).max(self.from);
        // Nothing was noted from `free` on.
        let used = self.free.clamp(self.from, from);
        self.each(self.from, used, |busy| busy.fill(0));
        self.from = from;
        self.free = self.free.max(to);
    }

    /// Does something to these cycles, at most [`KEPT`] of them, in two parts at most.
    #[inline(always)]
    fn each(&mut self, from: u64, to: u64, mut change: impl FnMut(&mut [u16])) {
        if from == to {
            return;
        }
        let (first, last) = (place(from), place(to));
        if first < last {
            change(&mut self.busy[first..last]);
        } else {
            change(&mut self.busy[first..]);
            change(&mut self.busy[..last]);
        }
    }
}

/// Where a cycle stands.
#[inline(always)]
fn place(cycle: u64) -> usize {
    (cycle % KEPT) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_job_of_later_keeps_no_unit_from_one_of_now() {
        let mut calendar = Calendar::new(2);
        assert_eq!([(0, 10), (25, 10), (5, 10), (5, 10)].map(|(at, cycles)| calendar.take(at, cycles)), [0, 25, 5, 10]);
        // From 25 to 30 both would be busy with a job of 20 cycles that begins at 15, and a second one.
        assert_eq!([calendar.take(15, 20), calendar.take(20, 10)], [15, 35]);
    }

    #[test]
    fn one_unit_fills_its_gaps() {
        let mut calendar = Calendar::new(1);
        assert_eq!(
            [(100, 50), (0, 100), (0, 10), (160, 0)].map(|(at, cycles)| calendar.take(at, cycles)),
            [100, 0, 150, 160]
        );
    }

    #[test]
    fn jobs_before_the_cycles_that_are_kept_find_units_free() {
        let mut calendar = Calendar::new(1);
        assert_eq!([calendar.take(0, 10), calendar.take(3 * KEPT, 10), calendar.take(5, 10)], [0, 3 * KEPT, 5]);
        assert_eq!(calendar.take(3 * KEPT - 5, 10), 3 * KEPT + 10);
    }

    #[test]
    fn jobs_go_on_under_another_clock() {
        let mut calendar = Calendar::new(1);
        assert_eq!(calendar.take(1000, 100), 1000);
        calendar.rebase(1040, 7);
        assert_eq!([calendar.take(7, 10), calendar.take(0, 7)], [67, 0]);
        calendar.rebase(5000, 2);
        assert_eq!(calendar.take(2, 10), 2);
    }

    proptest! {
        #[test]
        fn a_job_begins_in_the_first_cycle_that_has_room(
            units in 1u16..6,
            jobs in prop::collection::vec((0u64..400, 0u64..300), 1..300),
        ) {
            let mut calendar = Calendar::new(units);
            // Near where the ring closes, and often as far ahead as units can follow.
            let origin = KEPT - 5000;
            let mut used = vec![0u16; 200_000];
            for (n, (ahead, cycles)) in jobs.into_iter().enumerate() {
                let earliest = origin + n as u64 * 40 + ahead;
                let room = |start: u64| (start..start + cycles).all(|at| used[(at - origin) as usize] < units);
                let expected = (earliest..).find(|&start| room(start)).unwrap();
                for at in expected..expected + cycles {
                    used[(at - origin) as usize] += 1;
                }
                prop_assert_eq!(calendar.take(earliest, cycles), expected);
            }
        }
    }
}
