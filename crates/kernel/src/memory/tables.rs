//! Page tables take their memory from the kernel's here; their events become counters and work.

use super::Memory;
use crate::{Note, WorkKind};
use mmulab_addr::{LINE_BYTES, PageOrder, Pfn};
use mmulab_frames::Mobility;
use mmulab_pagetable::{TableEvent, TableFrames};

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
        self.touch(pfn, self.base);
        self.count_table_frames(self.base);
        Some(pfn)
    }

    fn give_back(&mut self, pfn: Pfn) {
        self.work.add(WorkKind::TableFrame, 1);
        self.table_frames -= self.base.base_pages();
        self.frames.free(pfn, self.base, self.cpu);
    }

    /// Its cost is part of the merge or resize.
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
                self.table_news.push(Note::TablesMerged { level, levels });
            }
            TableEvent::Unmerged { level, levels, written } => {
                counts.unmerges.add(level, levels);
                counts.copied_entries += written;
                self.work.add(WorkKind::TableMerge, 1);
                self.table_news.push(Note::TablesUnmerged { level, levels });
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
                self.table_news.push(Note::TableResized { level, from, to, pieces });
            }
            TableEvent::WalkTabled => {
                counts.walk_table_writes += 1;
                self.work.add(WorkKind::EntryWrite, 1);
            }
            TableEvent::NoResize { .. } => counts.refused_resize += 1,
        }
    }
}
