//! Lines on their way to a core: how many at once, how fast memory gives them, and when each arrives.

use crate::desc::MemoryTiming;
use mmulab_calendar::Calendar;

/// Lines whose arrival is kept. Lines with the same number modulo this share an entry, which the later one takes.
const KEPT: usize = 4096;
/// Cycles of a period in which memory gives a number of lines.
const PERIOD: u64 = 256;
/// Periods kept.
const PERIODS: usize = 4096;
/// Bytes of a line.
const LINE: u64 = 64;

/// A line on its way, or lately come.
#[derive(Clone, Copy, Default, Debug)]
struct Coming {
    /// Its number and 1; 0 for none.
    line: u64,
    there: u64,
    by: u64,
}

/// When a line is there, and from how far away it comes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Arrival {
    /// The cycle in which it is there.
    pub at: u64,
    /// How far away it comes from: 0 for the first cache, more for those behind it and for memory.
    pub by: u64,
}

/// Lines on their way to one core.
#[derive(Clone, Debug)]
pub struct Lines {
    coming: Box<[Coming]>,
    /// When the last of them is there: from then on none is on its way, and none is looked for.
    last: u64,
    /// Fill buffers: a later load may need one before an earlier load does.
    buffers: Calendar,
}

impl Lines {
    /// As many buffers as `desc` says.
    pub fn new(desc: &MemoryTiming) -> Self {
        Self { coming: vec![Coming::default(); KEPT].into(), last: 0, buffers: Calendar::new(desc.fill_buffers) }
    }

    /// The arrival of a line that is still on its way at `at`, if it is.
    #[inline(always)]
    pub fn coming(&self, at: u64, line: u64) -> Option<Arrival> {
        if at >= self.last {
            return None;
        }
        let entry = &self.coming[line as usize % KEPT];
        (entry.line == line + 1 && entry.there > at).then_some(Arrival { at: entry.there, by: entry.by })
    }

    /// A miss at `at` that takes `cycles`: it begins when a buffer is free. When the line is there.
    #[inline(always)]
    pub fn miss(&mut self, at: u64, cycles: u64, line: u64, by: u64) -> u64 {
        let there = self.buffers.take(at, cycles) + cycles;
        self.note(line, there, by);
        there
    }

    /// A line that arrives without a buffer of the core: one that was prefetched.
    #[inline(always)]
    pub fn note(&mut self, line: u64, there: u64, by: u64) {
        self.coming[line as usize % KEPT] = Coming { line: line + 1, there, by };
        self.last = self.last.max(there);
    }
}

/// Memory bandwidth of all cores: a number of lines in each period.
#[derive(Clone, Debug)]
pub struct Bandwidth {
    most: u32,
    periods: Box<[(u64, u32)]>,
}

impl Bandwidth {
    /// As fast as `desc` says.
    pub fn new(desc: &MemoryTiming) -> Self {
        let lines = desc.bytes_per_cycle * PERIOD as f64 / LINE as f64;
        Self { most: lines.max(1.0) as u32, periods: vec![(0, 0); PERIODS].into() }
    }

    /// When memory begins with a line that is wanted at `at`: in the first period that has room.
    #[inline(always)]
    pub fn take(&mut self, at: u64) -> u64 {
        let mut period = at / PERIOD;
        loop {
            let entry = &mut self.periods[period as usize % PERIODS];
            if entry.0 < period {
                *entry = (period, 0);
            }
            if entry.0 > period {
                // Long past: what was given then is not known any more.
                return at;
            }
            if entry.1 < self.most {
                entry.1 += 1;
                return at.max(period * PERIOD);
            }
            period += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn desc(fill_buffers: u16, bytes_per_cycle: f64) -> MemoryTiming {
        MemoryTiming { fill_buffers, bytes_per_cycle, ..MemoryTiming::default() }
    }

    #[test]
    fn a_third_miss_waits_for_one_of_two_buffers_and_a_second_one_to_a_line_joins() {
        let mut lines = Lines::new(&desc(2, 1.0));
        assert_eq!([lines.miss(0, 100, 1, 3), lines.miss(10, 100, 2, 3), lines.miss(20, 100, 3, 3)], [100, 110, 200]);
        assert_eq!(lines.coming(50, 1), Some(Arrival { at: 100, by: 3 }));
        assert_eq!((lines.coming(100, 1), lines.coming(50, 9)), (None, None));
    }

    #[test]
    fn a_load_that_waits_keeps_no_buffer_from_a_later_one() {
        let mut lines = Lines::new(&desc(1, 1.0));
        assert_eq!([(500, 1), (0, 2), (0, 3)].map(|(at, line)| lines.miss(at, 100, line, 3)), [600, 100, 200]);
    }

    #[test]
    fn memory_gives_so_many_lines_in_a_period() {
        // Half a byte a cycle: 2 lines in 256 cycles.
        let mut memory = Bandwidth::new(&desc(1, 0.5));
        assert_eq!([memory.take(10), memory.take(11), memory.take(12), memory.take(300)], [10, 11, 256, 300]);
        assert_eq!(memory.take(13), 512);
    }
}
