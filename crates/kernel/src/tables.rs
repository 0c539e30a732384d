//! Page tables take their memory here, and tell what they do with it.

use crate::memory::Memory;
use crate::{Told, WorkKind};
use mmulab_addr::{LINE_BYTES, PageOrder, Pfn};
use mmulab_frames::Mobility;
use mmulab_pagetable::{TableEvent, TableFrames};
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

    fn add(&mut self, level: u8, levels: u8) {
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
    /// As a map by names of levels. Of three levels only what happened: few tables merge so many.
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        let all = 2..=Self::LEVELS as u8;
        let two = all.clone().map(|level| (levels_name(level, 2), self.get(level)));
        let three = all.map(|level| (level, self.three[usize::from(level) - 1])).filter(|(_, count)| *count > 0);
        s.collect_map(two.chain(three.map(|(level, count)| (levels_name(level, 3), count))))
    }
}

/// What page tables did of their own accord, in a run. All zero but for those that merge levels, or are found by
/// hashing.
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
    /// Changes written to guides (cuckoo walk tables).
    pub guide_writes: u64,
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
            (&mut self.guide_writes, before.guide_writes),
            (&mut self.refused_resize, before.refused_resize),
        ];
        pairs.into_iter().for_each(|(now, before)| *now -= before);
    }
}

impl Memory {
    /// A block is a table's from now on.
    fn table_block(&mut self, pfn: Pfn, order: PageOrder) {
        // Nodes are of 2 MiB, or 1 GiB. So are large pieces of hashed tables, which a huge page of a host suits as
        // well.
        if order >= PageOrder::P2M {
            self.touch_node(pfn, order)
        } else {
            self.touch(pfn, order)
        }
        self.count_table_frames(order);
    }

    fn count_table_frames(&mut self, order: PageOrder) {
        self.table_frames += order.base_pages();
        self.table_frames_peak = self.table_frames_peak.max(self.table_frames);
    }
}

/// Page-table frames are unmovable: nothing can rewrite the entries that point to them.
impl TableFrames for Memory {
    fn take(&mut self) -> Option<Pfn> {
        let pfn = self.take_of(Mobility::Unmovable)?;
        self.work.add(WorkKind::TableFrame, 1);
        self.touch(pfn, PageOrder::P4K);
        self.count_table_frames(PageOrder::P4K);
        Some(pfn)
    }

    fn give_back(&mut self, pfn: Pfn) {
        self.work.add(WorkKind::TableFrame, 1);
        self.table_frames -= 1;
        self.frames.free(pfn, PageOrder::P4K, self.cpu);
    }

    /// What it costs is part of the merge or resize.
    fn take_block(&mut self, order: PageOrder) -> Option<Pfn> {
        let pfn = self.frames.alloc(order, Mobility::Unmovable, self.cpu)?;
        self.table_block(pfn, order);
        Some(pfn)
    }

    fn take_contiguous(&mut self, order: PageOrder) -> Option<Pfn> {
        let pfn = self.frames.alloc_contiguous(order)?;
        self.table_block(pfn, order);
        Some(pfn)
    }

    fn give_back_block(&mut self, pfn: Pfn, order: PageOrder) {
        self.table_frames -= order.base_pages();
        if order.get() > self.frames.max_order() {
            self.frames.free_run(pfn, order.base_pages());
        } else {
            self.frames.free(pfn, order, self.cpu);
        }
    }

    fn happened(&mut self, what: TableEvent) {
        let counts = &mut self.table_counts;
        match what {
            TableEvent::Checked => counts.checks += 1,
            TableEvent::Merged { level, levels, written } => {
                counts.merges.add(level, levels);
                if levels > 2 {
                    // What a merge costs is said of 2 MiB (paper 5, section 5): zeroing 1 GiB comes besides.
                    self.work.add(WorkKind::LargeBlock, 1);
                    self.work.add(WorkKind::ZeroBytes, PageOrder::P1G.bytes());
                }
                counts.copied_entries += written;
                self.work.add(WorkKind::TableMerge, 1);
                self.table_news.push(Told::TablesMerged { level, levels });
            }
            TableEvent::Unmerged { level, levels, written } => {
                counts.unmerges.add(level, levels);
                counts.copied_entries += written;
                self.work.add(WorkKind::TableMerge, 1);
                self.table_news.push(Told::TablesUnmerged { level, levels });
            }
            TableEvent::NoBlock { .. } => counts.refused_no_block += 1,
            TableEvent::NoFrames { .. } => counts.refused_no_frames += 1,
            TableEvent::Kicked { lines, .. } => {
                counts.kicked_lines += lines;
                self.work.add(WorkKind::TableLine, lines);
            }
            TableEvent::Rehashed { lines, .. } => {
                counts.rehashed_lines += lines;
                self.work.add(WorkKind::TableLine, lines);
            }
            TableEvent::Resized { level, ways, from, to, pieces } => {
                let count = if to > from { &mut counts.grown } else { &mut counts.shrunk };
                *count += 1;
                let ways = u64::from(ways);
                self.work.add(WorkKind::LargeBlock, ways * pieces);
                self.work.add(WorkKind::ZeroBytes, ways * to * LINE_BYTES);
                self.table_news.push(Told::TableResized { level, from, to, pieces });
            }
            TableEvent::Guided => {
                counts.guide_writes += 1;
                self.work.add(WorkKind::EntryWrite, 1);
            }
            TableEvent::NoResize { .. } => counts.refused_resize += 1,
        }
    }
}
