//! Compaction: pages move from low page blocks to free frames of high ones, until a block is free (mm/compaction.c).
//!
//! Blocks larger than a page block are what Elastic Translations adds (paper 3, section IV-C: compaction works for 32
//! MiB). Whole pages of 2 MiB are moved for them, too, as long as all else can move out of their 32 MiB. Base pages may
//! take a whole block, if no block is left that is partly in use. Linux itself moves base pages only, for it makes no
//! block larger than a page block.
//!
//! ```text
//! 32 MiB    | 2M  4K..  -   2M |  -    -   2M  2M |      a page of 2 MiB goes to the highest block that is free
//!             '-----------------------'
//! ```

use super::census::Census;
use super::finder::Finder;
use super::migration::Migration;
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
        let blocks = system.shared.memory.frames.page_blocks();
        let large = (order > PageOrder::P2M).then(|| LargePages::of(system, order));
        let mut work = Work { small: Finder::new(PageOrder::P4K), large, room: Vec::new() };
        let mut made = false;
        // Whole blocks are room, too, for a block larger than they are: the scanners may meet.
        while !made && (self.migrate < self.free || work.large.is_some() && self.migrate < blocks) {
            let block = self.migrate;
            if system.shared.memory.frames.is_movable(block) {
                if let Some(large) = &mut work.large {
                    large.empty_block(system, block, &mut work.small);
                }
                if !self.empty_block(system, block, &mut work) && work.large.is_none() {
                    break;
                }
            }
            self.migrate += 1;
            made = system.shared.memory.frames.has_block(order);
        }
        for pfn in work.room {
            system.shared.memory.frames.free_run(pfn, 1);
        }
        made || system.shared.memory.frames.has_block(order)
    }

    /// Moves what can be moved out of a page block; false when there is no room left to move it to.
    fn empty_block(&mut self, system: &mut SystemCx, block: u64, work: &mut Work) -> bool {
        let Work { small, large, room } = work;
        let pages = PageOrder::P2M.base_pages();
        let mut migration = Migration::new(system);
        let mut has_room = true;
        for old in (block * pages..(block + 1) * pages).map(Pfn) {
            let Some(here) = small.movable(system, old) else { continue };
            while room.is_empty() && self.free > block + 1 {
                self.free -= 1;
                if let Some(large) = large {
                    large.look_if_free(system, self.free, small);
                }
                *room = system.shared.memory.frames.isolate(self.free);
            }
            if room.is_empty()
                && let Some(head) = large.as_mut().and_then(|large| large.take_block(system, block, small))
            {
                room.extend((head.0..head.0 + pages).rev().map(Pfn));
            }
            let Some(new) = room.pop() else {
                has_room = false;
                break;
            };
            migration.move_page(system, (old, new), &here);
            small.arrived(new);
        }
        migration.finish(system);
        has_room
    }
}

/// A run of compaction.
struct Work {
    /// Finds base pages.
    small: Finder,
    /// For a block larger than a page block.
    large: Option<LargePages>,
    /// Free frames that were taken to move pages to.
    room: Vec<Pfn>,
}

/// The pages of 2 MiB that are moved for blocks larger than they are.
struct LargePages {
    /// The size of the block that is wanted.
    order: PageOrder,
    pages: Finder,
    /// Regions as they were before this run changed them.
    census: Census,
    /// The page block to look for room in next, from above.
    room: u64,
}

impl LargePages {
    /// As they are now.
    fn of(system: &SystemCx, order: PageOrder) -> Self {
        let room = system.shared.memory.frames.page_blocks();
        Self { order, pages: Finder::new(PageOrder::P2M), census: Census::new(order), room }
    }

    /// Looks at the region of a page block before frames of the block are taken, if any are free.
    fn look_if_free(&mut self, system: &SystemCx, block: u64, small: &mut Finder) {
        let head = Pfn(block << PageOrder::P2M.get());
        if system.shared.memory.frames.free_within(head, PageOrder::P2M).next().is_some() {
            self.census.look(system, head, small, &mut self.pages);
        }
    }

    /// Moves the page of 2 MiB that fills a page block to another block, if there are both.
    fn empty_block(&mut self, system: &mut SystemCx, block: u64, small: &mut Finder) {
        let old = Pfn(block << PageOrder::P2M.get());
        self.census.look(system, old, small, &mut self.pages);
        let Some(here) = self.pages.movable(system, old) else { return };
        let Some(new) = self.take_block(system, block, small) else { return };
        let mut migration = Migration::new(system);
        migration.copy_page(system, (old, new), PageOrder::P2M, &here);
        self.pages.arrived(new);
        system.shared.memory.frames.free_run(old, PageOrder::P2M.base_pages());
        migration.finish(system);
    }

    /// Takes the highest free block of 2 MiB in a region above that of a page block, if that region can be emptied. A
    /// region that is wholly in use is left alone: its pages may be one translation already.
    fn take_block(&mut self, system: &mut SystemCx, block: u64, small: &mut Finder) -> Option<Pfn> {
        let shift = self.order.get() - PageOrder::P2M.get();
        let region = block >> shift;
        if !self.census.can_be_emptied(region) || self.census.free(region) == 0 {
            return None;
        }
        while self.room > (region + 1) << shift {
            self.room -= 1;
            let head = Pfn(self.room << PageOrder::P2M.get());
            if system.shared.memory.frames.can_take_at(head, PageOrder::P2M) {
                self.census.look(system, head, small, &mut self.pages);
                system.shared.memory.frames.take_at(head, PageOrder::P2M);
                return Some(head);
            }
        }
        None
    }
}
