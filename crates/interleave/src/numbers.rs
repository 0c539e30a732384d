//! Process and thread numbers of a mix: every member gets a range of its own, so numbers of different members never
//! collide. With virtual machines, the upper bits name the machine; without, a member has 10,000 numbers.
//!
//! ```text
//! bits                 31 .. 24             23 .. 0
//! virtual machines   | member        | number in the guest           |
//! processes          | 0             | member * 10,000 + own number  |
//! ```

use crate::Apart;
use std::collections::{BTreeMap, BTreeSet};

/// Bits of the number of a process in a trace; what is above is the number of its virtual machine.
pub const PID_BITS: u32 = 24;
/// Virtual machines that there can be.
pub const MACHINES_MAX: usize = 1 << (32 - PID_BITS);
/// Numbers that each member has for its processes, and for its threads, if all are processes of one machine. Member `n`
/// (from 0) has those from `n * NUMBERS` on; the first of them is not used.
pub const NUMBERS: u32 = 10_000;
/// Members that one machine can have.
pub const MEMBERS_MAX: usize = ((1 << PID_BITS) / NUMBERS) as usize;

/// The numbers of a member's processes (or threads) in its own trace, and in the mix. A number that the member has room
/// for is kept; the others are given from the top. So what a process is called follows from its member alone.
#[derive(Debug)]
pub struct Numbers {
    base: u32,
    /// The first number that is too great.
    end: u32,
    given: BTreeMap<u32, u32>,
    taken: BTreeSet<u32>,
}

impl Numbers {
    /// Those of member `index`.
    pub fn new(index: usize, apart: Apart) -> Self {
        let index = index as u32;
        let (base, end) = match apart {
            Apart::Processes => (index * NUMBERS, NUMBERS),
            Apart::Machines => (index << PID_BITS, 1 << PID_BITS),
        };
        Self { base, end, given: BTreeMap::new(), taken: BTreeSet::new() }
    }

    /// The number of what the member calls `own`; none if it has had too many.
    pub fn of(&mut self, own: u32) -> Option<u32> {
        if let Some(&given) = self.given.get(&own) {
            return Some(given);
        }
        let fits = (1..self.end).contains(&own) && !self.taken.contains(&own);
        let local = if fits { own } else { (1..self.end).rev().find(|n| !self.taken.contains(n))? };
        self.taken.insert(local);
        self.given.insert(own, self.base + local);
        Some(self.base + local)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_kept_where_they_fit() {
        let mut numbers = Numbers::new(2, Apart::Processes);
        let given: Vec<_> = [1, 7, 10_000, 9_999, 2_765_542, 7, 0].map(|n| numbers.of(n)).into();
        let expected = [20_001, 20_007, 29_999, 29_998, 29_997, 20_007, 29_996];
        assert_eq!(given, expected.map(Some));
        let mut of_machine = Numbers::new(3, Apart::Machines);
        assert_eq!(of_machine.of(10_001), Some(3 << 24 | 10_001));
    }

    #[test]
    fn there_are_only_so_many() {
        let mut numbers = Numbers::new(0, Apart::Processes);
        assert!((0..NUMBERS - 1).all(|n| numbers.of(n + 50_000).is_some()));
        assert_eq!(numbers.of(1), None);
        assert_eq!(MEMBERS_MAX, 1677);
    }
}
