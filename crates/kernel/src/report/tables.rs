//! Counters of page tables that merge levels or are found by hashing.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Serialize, Serializer};
use std::borrow::Cow;

/// How often something happened between a level of a page table and the level below, or the two below.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ByLevels {
    two: [u64; Self::LEVELS],
    three: [u64; Self::LEVELS],
}

impl ByLevels {
    /// Levels a table can have.
    const LEVELS: usize = 5;

    pub(crate) fn add(&mut self, level: u8, levels: u8) {
        let counts = if levels == 2 { &mut self.two } else { &mut self.three };
        counts[usize::from(level) - 1] += 1;
    }

    fn subtract(&mut self, before: &Self) {
        self.two.iter_mut().zip(before.two).for_each(|(now, before)| *now -= before);
        self.three.iter_mut().zip(before.three).for_each(|(now, before)| *now -= before);
    }

    /// Of two levels, where `level` is the upper one.
    pub fn get(&self, level: u8) -> u64 {
        self.two[usize::from(level) - 1]
    }
}

/// Levels as a node of them is called: `"2+1"` stands for PMD and PTE.
pub fn levels_name(level: u8, levels: u8) -> String {
    let names: Vec<_> = (0..levels).map(|down| (level - down).to_string()).collect();
    names.join("+")
}

impl JsonSchema for ByLevels {
    fn schema_name() -> Cow<'static, str> {
        "ByLevels".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "object",
            "description": "By the levels of a node, uppermost first, as `2+1`.",
            "additionalProperties": { "type": "integer", "minimum": 0 },
        })
    }
}

impl Serialize for ByLevels {
    /// As a map by names of levels. Counts of three levels are left out where they are 0: few tables merge three.
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        let all = 2..=Self::LEVELS as u8;
        let two = all.clone().map(|level| (levels_name(level, 2), self.get(level)));
        let three = all.map(|level| (level, self.three[usize::from(level) - 1])).filter(|(_, count)| *count > 0);
        s.collect_map(two.chain(three.map(|(level, count)| (levels_name(level, 3), count))))
    }
}

/// Counts of merges and resizes of page tables in a run. All are zero, except for tables that merge levels or are found
/// by hashing.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, JsonSchema)]
pub struct TableCounts {
    /// How often a table was looked at, whether it should be merged with its children.
    pub checks: u64,
    /// Tables merged with their children, by level.
    pub merges: ByLevels,
    /// Taken apart again.
    pub unmerges: ByLevels,
    /// Entries copied for both.
    pub copied_entries: u64,
    /// Tables that were not merged, because no block of 2 MiB, or 1 GiB, was free.
    pub refused_no_block: u64,
    /// Nodes that were not taken apart, because there were too few free frames.
    pub refused_no_frames: u64,
    /// Ways of hashed tables made, or begun to be made larger.
    pub grown: u64,
    /// Begun to be made smaller.
    pub shrunk: u64,
    /// Lines pushed aside by others, or moved up where one went.
    pub kicked_lines: u64,
    /// Lines moved to ways of another size.
    pub rehashed_lines: u64,
    /// Changes written to cuckoo walk tables.
    pub walk_table_writes: u64,
    /// Tables that stayed as large as they were, because there was no memory for another size.
    pub refused_resize: u64,
}

impl TableCounts {
    /// Takes away what these counts stood at before.
    pub fn subtract(&mut self, before: &Self) {
        let Self { checks, merges, unmerges, copied_entries, refused_no_block, refused_no_frames, .. } = self;
        merges.subtract(&before.merges);
        unmerges.subtract(&before.unmerges);
        let pairs = [
            (checks, before.checks),
            (copied_entries, before.copied_entries),
            (refused_no_block, before.refused_no_block),
            (refused_no_frames, before.refused_no_frames),
            (&mut self.grown, before.grown),
            (&mut self.shrunk, before.shrunk),
            (&mut self.kicked_lines, before.kicked_lines),
            (&mut self.rehashed_lines, before.rehashed_lines),
            (&mut self.walk_table_writes, before.walk_table_writes),
            (&mut self.refused_resize, before.refused_resize),
        ];
        pairs.into_iter().for_each(|(now, before)| *now -= before);
    }
}
