//! Walk counters: walks by outcome, and PTE reads by table level and by the cache (or memory) that supplied the
//! line. A consistency check compares the sums, so that a counting error is found.

use schemars::JsonSchema;
use serde::Serialize;

/// Walks of one side.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct SideWalks {
    /// Walks begun.
    pub walks: u64,
    /// Walks that found a page they could use.
    pub completed: u64,
    /// Walks that ended in a page fault.
    pub faulted: u64,
    /// Page-table entries read, walk-cache hits left out.
    pub accesses: u64,
    /// Cycles the walks took, waiting for a free walker left out.
    pub cycles: u64,
}

/// Counts of one level of the table.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct LevelCounts {
    /// The level, counted from the leaves.
    pub level: u8,
    /// Walks that took its entry from a walk cache.
    pub from_walk_cache: u64,
    /// Entries read.
    pub reads: u64,
    /// Those reads by who had the line: the cache levels in order, then memory.
    pub served_by: Vec<u64>,
}

/// Counts of a walker.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct WalkCounts {
    /// For fetches.
    pub instruction: SideWalks,
    /// For loads and stores.
    pub data: SideWalks,
    /// By level, leaves first.
    pub levels: Vec<LevelCounts>,
}

impl SideWalks {
    fn add(&mut self, other: &Self) {
        self.walks += other.walks;
        self.completed += other.completed;
        self.faulted += other.faulted;
        self.accesses += other.accesses;
        self.cycles += other.cycles;
    }
}

impl WalkCounts {
    /// Adds another core's.
    pub fn add(&mut self, other: &Self) {
        self.instruction.add(&other.instruction);
        self.data.add(&other.data);
        if self.levels.is_empty() {
            self.levels = other.levels.clone();
            return;
        }
        for (mine, theirs) in self.levels.iter_mut().zip(&other.levels) {
            mine.from_walk_cache += theirs.from_walk_cache;
            mine.reads += theirs.reads;
            for (m, t) in mine.served_by.iter_mut().zip(&theirs.served_by) {
                *m += t;
            }
        }
    }

    /// Checks that the parts make up the sums.
    ///
    /// # Errors
    /// The first identity that does not hold.
    pub fn check(&self) -> Result<(), String> {
        for (name, side) in [("instruction", self.instruction), ("data", self.data)] {
            if side.completed + side.faulted != side.walks {
                return Err(format!(
                    "{name} walks: {} completed + {} faulted != {}",
                    side.completed, side.faulted, side.walks
                ));
            }
        }
        let reads: u64 = self.levels.iter().map(|l| l.reads).sum();
        if reads != self.instruction.accesses + self.data.accesses {
            return Err(format!("walk counters disagree: the levels read {reads} entries, the walks another number"));
        }
        match self.levels.iter().find(|l| l.served_by.iter().sum::<u64>() != l.reads) {
            Some(l) => Err(format!(
                "walk counters disagree: at level {}, {} entries were read, but caches and memory supplied another \
                 number",
                l.level, l.reads
            )),
            None => Ok(()),
        }
    }
}
