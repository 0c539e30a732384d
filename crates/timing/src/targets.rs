//! Branch target buffers: the front end learns from them, before it has decoded a branch, that there is one and where
//! it goes.

use crate::{
    desc::{BranchTargets, TargetBuffer},
    tables::place,
};

/// A way that has no branch: none ends at the last byte of the address space.
const EMPTY: u64 = u64::MAX;

/// The buffers of a core, nearest first.
#[derive(Clone, Debug)]
pub struct Targets {
    levels: Vec<Level>,
    decode_cycles: u64,
}

/// One buffer: sets of branches, the one used last in front.
#[derive(Clone, Debug)]
struct Level {
    branches: Box<[u64]>,
    sets: usize,
    ways: usize,
    bubbles: u64,
}

impl Level {
    /// The set of the branch at this address.
    #[inline(always)]
    fn set(&mut self, branch: u64) -> &mut [u64] {
        let set = place(branch, self.sets);
        &mut self.branches[set * self.ways..][..self.ways]
    }

    /// Whether it has the branch, which is its latest then.
    #[inline(always)]
    fn has(&mut self, branch: u64) -> bool {
        let set = self.set(branch);
        let found = set.iter().position(|&kept| kept == branch);
        if let Some(at) = found {
            set[..=at].rotate_right(1);
        }
        found.is_some()
    }

    /// The branch takes the place of the one that was used longest ago.
    #[inline(always)]
    fn fill(&mut self, branch: u64) {
        let set = self.set(branch);
        set.rotate_right(1);
        set[0] = branch;
    }
}

impl Targets {
    /// Empty buffers, as `desc` says, which [`BranchTargets::check`] found good.
    pub fn new(desc: &BranchTargets) -> Self {
        let level = |buffer: &TargetBuffer| {
            let (entries, ways) = (buffer.entries as usize, buffer.ways as usize);
            let branches = vec![EMPTY; entries].into();
            Level { branches, sets: entries / ways, ways, bubbles: u64::from(buffer.bubbles) }
        };
        Self { levels: desc.buffers.iter().map(level).collect(), decode_cycles: u64::from(desc.decode_cycles) }
    }

    /// Cycles from the arrival of code to the fetch at a target that only decoding finds.
    pub fn decode_cycles(&self) -> u64 {
        self.decode_cycles
    }

    /// Cycles that the front end loses at the branch at `at`; None if no buffer has it. A branch that is taken is in
    /// all of them afterwards: one that never was takes no entry.
    #[inline(always)]
    pub fn look(&mut self, at: u64, taken: bool) -> Option<u64> {
        let found = self.levels.iter_mut().position(|level| level.has(at));
        if taken {
            let missed = found.unwrap_or(self.levels.len());
            self.levels[..missed].iter_mut().for_each(|level| level.fill(at));
        }
        found.map(|level| self.levels[level].bubbles)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn targets() -> Targets {
        let buffer = |entries, ways, bubbles| TargetBuffer { entries, ways, bubbles };
        Targets::new(&BranchTargets { buffers: vec![buffer(2, 2, 0), buffer(64, 64, 3)], decode_cycles: 10 })
    }

    #[test]
    fn a_taken_branch_is_in_all_buffers_and_the_nearest_forgets_the_oldest() {
        let mut targets = targets();
        assert_eq!(targets.look(0x10, true), None);
        assert_eq!(targets.look(0x10, true), Some(0));
        assert_eq!((targets.look(0x20, true), targets.look(0x30, true)), (None, None));
        // 0x10 is the oldest of three, and two fit.
        assert_eq!(targets.look(0x10, true), Some(3));
        assert_eq!(targets.look(0x10, true), Some(0));
    }

    #[test]
    fn a_branch_that_was_never_taken_takes_no_entry() {
        let mut targets = targets();
        assert_eq!((targets.look(0x10, false), targets.look(0x10, false)), (None, None));
        targets.look(0x10, true);
        assert_eq!(targets.look(0x10, false), Some(0));
    }

    #[test]
    fn branches_are_spread_over_the_sets() {
        let mut targets = Targets::new(&BranchTargets {
            buffers: vec![TargetBuffer { entries: 1024, ways: 8, bubbles: 0 }],
            decode_cycles: 10,
        });
        (0..400).for_each(|n| assert_eq!(targets.look(16 * n, true), None));
        let kept = (0..400).filter(|n| targets.look(16 * n, true).is_some()).count();
        assert!(kept > 360, "{kept}");
    }
}
