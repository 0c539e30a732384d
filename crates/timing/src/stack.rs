//! Where the cycles of a program went.

use schemars::JsonSchema;
use serde::Serialize;

/// Causes that retirement can wait for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Wait {
    /// Instructions that execute and retire.
    Work,
    /// The second TLB level, for a fetch.
    FetchSecondLevel,
    /// A page walk of a fetch.
    FetchWalk,
    /// Code that is not in the first-level cache.
    FetchMiss,
    /// A mispredicted branch.
    Branch,
    /// The second TLB level, for a load or store.
    SecondLevel,
    /// A page walk of a load or store, whose last line the first cache level had, the second, the third, memory.
    WalkL1,
    /// Second.
    WalkL2,
    /// Third.
    WalkL3,
    /// Memory.
    WalkMemory,
    /// A load's data, which the first cache level had, the second, the third, memory.
    DataL1,
    /// Second.
    DataL2,
    /// Third.
    DataL3,
    /// Memory.
    DataMemory,
    /// Stores that leave the store queue.
    Stores,
    /// Traps.
    Trap,
}

impl Wait {
    /// The wait for a walk whose last line level `by` had (0 the first, 3 or more memory).
    pub fn walk(by: u64) -> Self {
        [Self::WalkL1, Self::WalkL2, Self::WalkL3, Self::WalkMemory][by.min(3) as usize]
    }

    /// Whether it is for translation.
    pub fn is_translation(self) -> bool {
        matches!(
            self,
            Self::FetchSecondLevel
                | Self::FetchWalk
                | Self::SecondLevel
                | Self::WalkL1
                | Self::WalkL2
                | Self::WalkL3
                | Self::WalkMemory
        )
    }

    /// The wait for data that level `by` had.
    pub fn data(by: u64) -> Self {
        [Self::DataL1, Self::DataL2, Self::DataL3, Self::DataMemory][by.min(3) as usize]
    }
}

/// Cycles by what retirement waited for in each: they add up to all cycles.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Stack {
    /// Instructions that execute and retire.
    pub work: u64,
    /// The second TLB level, for fetches.
    pub fetch_second_level: u64,
    /// Walks for fetches.
    pub fetch_walk: u64,
    /// Code that the first-level cache did not have.
    pub fetch_miss: u64,
    /// Mispredicted branches.
    pub branch: u64,
    /// The second TLB level, for loads and stores.
    pub second_level: u64,
    /// Walks for loads and stores, by the cache level that had their last line, memory last.
    pub walk: [u64; 4],
    /// Data of loads, by the cache level that had them, memory last.
    pub data: [u64; 4],
    /// Stores that leave the store queue.
    pub stores: u64,
    /// Traps: what is in flight at a page fault is fetched again after it.
    pub trap: u64,
}

impl Stack {
    /// Adds cycles of a wait.
    #[inline(always)]
    pub(crate) fn add(&mut self, wait: Wait, cycles: u64) {
        let place = match wait {
            Wait::Work => &mut self.work,
            Wait::FetchSecondLevel => &mut self.fetch_second_level,
            Wait::FetchWalk => &mut self.fetch_walk,
            Wait::FetchMiss => &mut self.fetch_miss,
            Wait::Branch => &mut self.branch,
            Wait::SecondLevel => &mut self.second_level,
            Wait::WalkL1 => &mut self.walk[0],
            Wait::WalkL2 => &mut self.walk[1],
            Wait::WalkL3 => &mut self.walk[2],
            Wait::WalkMemory => &mut self.walk[3],
            Wait::DataL1 => &mut self.data[0],
            Wait::DataL2 => &mut self.data[1],
            Wait::DataL3 => &mut self.data[2],
            Wait::DataMemory => &mut self.data[3],
            Wait::Stores => &mut self.stores,
            Wait::Trap => &mut self.trap,
        };
        *place += cycles;
    }

    /// Its sum: all cycles.
    pub fn total(&self) -> u64 {
        let Self { work, fetch_second_level, fetch_walk, fetch_miss, branch, second_level, walk, data, stores, trap } =
            *self;
        work + fetch_second_level
            + fetch_walk
            + fetch_miss
            + branch
            + second_level
            + walk.iter().sum::<u64>()
            + data.iter().sum::<u64>()
            + stores
            + trap
    }

    /// Cycles that the second TLB level took.
    pub fn at_second_level(&self) -> u64 {
        self.fetch_second_level + self.second_level
    }

    /// Cycles that walks took.
    pub fn at_walks(&self) -> u64 {
        self.fetch_walk + self.walk.iter().sum::<u64>()
    }

    /// Another core's besides.
    pub fn plus(&mut self, other: &Self) {
        self.with(other, |mine, theirs| *mine += theirs);
    }

    /// What was added since it was `before`.
    pub fn minus(mut self, before: &Self) -> Self {
        self.with(before, |mine, theirs| *mine -= theirs);
        self
    }

    /// Each part `by` times.
    pub fn times(mut self, by: u64) -> Self {
        self.with(&Self::default(), |mine, _| *mine *= by);
        self
    }

    /// Changes each part by the same part of another.
    fn with(&mut self, other: &Self, change: impl Fn(&mut u64, u64)) {
        let pairs = [
            (&mut self.work, other.work),
            (&mut self.fetch_second_level, other.fetch_second_level),
            (&mut self.fetch_walk, other.fetch_walk),
            (&mut self.fetch_miss, other.fetch_miss),
            (&mut self.branch, other.branch),
            (&mut self.second_level, other.second_level),
            (&mut self.stores, other.stores),
            (&mut self.trap, other.trap),
        ];
        let levels = self.walk.iter_mut().zip(other.walk).chain(self.data.iter_mut().zip(other.data));
        pairs.into_iter().chain(levels).for_each(|(mine, theirs)| change(mine, theirs));
    }
}
