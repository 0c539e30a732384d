//! Compaction: pages move from low page blocks to free frames of high ones, until a block is free (mm/compaction.c).

use super::migration::{Migration, ReverseMap};
use super::system::SystemCx;
use crate::report::counts::{EventKind, Refusal};
use mmulab_addr::{PageOrder, Pfn};

/// The most that failures put compaction off: the next 64 requests (`COMPACT_MAX_DEFER_SHIFT`).
const DEFER_SHIFT_MAX: u8 = 6;

/// The progress of compaction through memory, and how long failures put it off.
#[derive(Debug, Default)]
pub(crate) struct Compaction {
    /// The page block that pages are moved out of next, and the one they are moved to, from above.
    migrate: u64,
    free: u64,
    /// Requests put off since the last run, of 1 << `shift`.
    considered: u32,
    shift: u8,
    /// The smallest order that failed lately: requests of smaller ones are not put off (`compact_order_failed`).
    failed: PageOrder,
}

impl Compaction {
    /// Makes a block of `order`, if it can; whether one is free now (`try_to_compact_pages`).
    pub fn compact(&mut self, system: &mut SystemCx, order: PageOrder, at: u64) -> bool {
        system.shared.memory.frames.drain();
        if system.shared.memory.frames.has_block(order) {
            return true;
        }
        // `compaction_deferred`
        if order >= self.failed && self.shift > 0 && self.considered + 1 < 1 << self.shift {
            self.considered += 1;
            system.refuse(Refusal::CompactionDeferred, at);
            return false;
        }
        system.shared.counts.events.add(EventKind::Compaction, 1);
        let made = self.run(system, order);
        self.considered = 0;
        if made {
            // `compaction_defer_reset`
            self.shift = 0;
            self.failed = self.failed.max(PageOrder::new(order.get() + 1));
        } else {
            // `defer_compaction`
            self.failed = self.failed.min(order);
            self.shift = (self.shift + 1).min(DEFER_SHIFT_MAX);
            system.refuse(Refusal::CompactionFailed, at);
        }
        made
    }

    fn run(&mut self, system: &mut SystemCx, order: PageOrder) -> bool {
        if self.migrate >= self.free {
            (self.migrate, self.free) = (0, system.shared.memory.frames.page_blocks());
        }
        let places = ReverseMap::of(system);
        let mut room: Vec<Pfn> = Vec::new();
        let mut made = false;
        while !made && self.migrate < self.free {
            let block = self.migrate;
            let is_movable = system.shared.memory.frames.is_movable(block);
            if is_movable && !self.empty_block(system, block, &places, &mut room) {
                break;
            }
            self.migrate += 1;
            made = system.shared.memory.frames.has_block(order);
        }
        for pfn in room {
            system.shared.memory.frames.free_run(pfn, 1);
        }
        made || system.shared.memory.frames.has_block(order)
    }

    /// Moves what can be moved out of a page block; false when there is no room left to move it to.
    fn empty_block(&mut self, system: &mut SystemCx, block: u64, places: &ReverseMap, room: &mut Vec<Pfn>) -> bool {
        let pages = PageOrder::P2M.base_pages();
        let mut migration = Migration::new(system);
        let mut has_room = true;
        for old in (block * pages..(block + 1) * pages).map(Pfn) {
            let Some(here) = places.movable(&system.shared.memory, old) else { continue };
            while room.is_empty() && self.free > block + 1 {
                self.free -= 1;
                *room = system.shared.memory.frames.isolate(self.free);
            }
            let Some(new) = room.pop() else {
                has_room = false;
                break;
            };
            migration.move_page(system, (old, new), here);
        }
        migration.finish(system);
        has_room
    }
}
