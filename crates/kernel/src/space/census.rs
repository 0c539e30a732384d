//! How much of each region of memory is free, and how much of it could be moved elsewhere: whether compaction can
//! empty it. One page that cannot move spoils a region, and all moves out of it would be for nothing.

use super::migration::ReverseMap;
use super::system::SystemCx;
use mmulab_addr::{PageOrder, Pfn};

/// Frames of every aligned region of one size.
pub(crate) struct Census {
    order: PageOrder,
    free: Vec<u64>,
    movable: Vec<u64>,
}

impl Census {
    /// Of the regions of `order`; pages can move if one of the maps knows all their users.
    pub fn of(system: &SystemCx, order: PageOrder, maps: &[&ReverseMap]) -> Self {
        let memory = &system.shared.memory;
        let free = memory.frames.free_by_region(order);
        let frames = order.base_pages();
        let occupants = |region: usize| memory.frames.occupants(Pfn(region as u64 * frames), frames);
        let mut movable: Vec<u64> = (0..free.len()).map(occupants).collect();
        for map in maps {
            for pfn in map.movable_frames(memory) {
                if let Some(count) = movable.get_mut((pfn.0 >> order.get()) as usize) {
                    *count += map.order().base_pages();
                }
            }
        }
        Self { order, free, movable }
    }

    /// How many regions there are.
    pub fn regions(&self) -> usize {
        self.free.len()
    }

    /// Free frames of a region.
    pub fn free(&self, region: usize) -> u64 {
        self.free[region]
    }

    /// Frames of a region whose pages can move.
    pub fn movable(&self, region: usize) -> u64 {
        self.movable[region]
    }

    /// Whether a region is in use, and all that is in it can move.
    pub fn can_be_emptied(&self, region: usize) -> bool {
        let of = |counts: &[u64]| counts.get(region).copied().unwrap_or(0);
        of(&self.movable) > 0 && of(&self.free) + of(&self.movable) == self.order.base_pages()
    }
}
