//! Smart compaction: a wholly free region of 1 GiB, made by moving as little as possible (Ram, Panwar and Basu,
//! *Trident*, MICRO 2021).
//!
//! ```text
//! region of 1 GiB     0        1        2        3
//! free frames       60 %     98 %      5 %     40 %      the most free one that nothing unmovable lies in is emptied
//! cannot move       some     none     none     none
//!                              |        ^        ^
//!                              '--------'--------'       its pages go to the least free regions first, and 0 is not
//!                                                        emptied, whatever its share
//! ```
//!
//! Linux's compaction goes through all of memory from below and moves whatever it meets. For 1 GiB it would move many
//! pages for nothing, because one page that cannot move spoils a region.

use super::census::Census;
use super::finder::Finder;
use super::migration::Migration;
use super::system::SystemCx;
use crate::report::counts::{EventKind, Refusal};
use mmulab_addr::{PageOrder, Pfn};

/// Empties the region of `order` that this takes the fewest moves for; whether one is wholly free now.
pub(crate) fn empty_region(system: &mut SystemCx, order: PageOrder, at: u64) -> bool {
    system.shared.memory.frames.drain();
    // The two sizes of pages that move: the others make their region one that cannot be emptied.
    let (mut large, mut small) = (Finder::new(PageOrder::P2M), Finder::new(PageOrder::P4K));
    let mut census = Census::new(order);
    let regions = census.regions(system);
    for region in 0..regions {
        census.look(system, Pfn(region << order.get()), &mut small, &mut large);
    }
    let candidates = (0..regions).filter(|&region| census.can_be_emptied(region));
    let source = candidates.max_by_key(|&region| (census.free(region), std::cmp::Reverse(region)));
    let Some(source) = source else {
        system.refuse(Refusal::SmartNoRegion, at);
        return false;
    };
    let mut targets: Vec<u64> = (0..regions).filter(|&r| r != source && census.free(r) > 0).collect();
    targets.sort_by_key(|&r| census.free(r));
    if targets.iter().map(|&r| census.free(r)).sum::<u64>() < census.movable(source) {
        system.refuse(Refusal::SmartNoRoom, at);
        return false;
    }
    system.shared.counts.events.add(EventKind::SmartCompaction, 1);
    let mut room = Room { order, targets, blocks: Vec::new(), small: Vec::new() };
    let mut migration = Migration::new(system);
    let mut is_empty = true;
    for mut finder in [large, small] {
        let (size, first) = (finder.order(), source << order.get());
        room.begin();
        for old in (first..first + order.base_pages()).step_by(size.base_pages() as usize).map(Pfn) {
            let Some(here) = finder.movable(system, old) else { continue };
            let Some(new) = room.take(system, size) else {
                is_empty = false;
                break;
            };
            migration.copy_page(system, (old, new), size, &here);
            system.shared.memory.frames.free_run(old, size.base_pages());
        }
    }
    migration.finish(system);
    for pfn in room.small {
        system.shared.memory.frames.free_run(pfn, 1);
    }
    if !is_empty {
        system.refuse(Refusal::SmartNoRoom, at);
    }
    is_empty
}

/// Free frames of the regions that pages move to.
struct Room {
    order: PageOrder,
    /// Regions, the least free one first.
    targets: Vec<u64>,
    /// Page blocks to look at next, the next one last, and whether blocks that are wholly free count.
    blocks: Vec<(u64, bool)>,
    /// Base frames that were taken and not used yet, the lowest last.
    small: Vec<Pfn>,
}

impl Room {
    /// Looks at all blocks again: those partly in use of each region before those that are wholly free.
    fn begin(&mut self) {
        let shift = self.order.get() - PageOrder::P2M.get();
        let of = |region: u64| region << shift..(region + 1) << shift;
        let each = |whole: bool| self.targets.iter().flat_map(move |&r| of(r).map(move |block| (block, whole)));
        let mut by_region: Vec<_> = each(false).chain(each(true)).collect();
        let place = |region: u64| self.targets.iter().position(|&r| r == region);
        by_region.sort_by_key(|&(block, whole)| (place(block >> shift), whole, block));
        by_region.reverse();
        self.blocks = by_region;
    }

    /// A free page of `size`.
    fn take(&mut self, system: &mut SystemCx, size: PageOrder) -> Option<Pfn> {
        let frames = &mut system.shared.memory.frames;
        if size == PageOrder::P4K
            && let Some(pfn) = self.small.pop()
        {
            return Some(pfn);
        }
        while let Some((block, whole)) = self.blocks.pop() {
            let head = Pfn(block << PageOrder::P2M.get());
            if whole && frames.take_at(head, PageOrder::P2M) {
                if size == PageOrder::P2M {
                    return Some(head);
                }
                self.small = (0..PageOrder::P2M.base_pages()).rev().map(|i| Pfn(head.0 + i)).collect();
            } else if !whole && size == PageOrder::P4K {
                self.small = frames.isolate(block);
                self.small.reverse();
            }
            if let Some(pfn) = self.small.pop() {
                return Some(pfn);
            }
        }
        None
    }
}
