//! How much of a region of memory is free, and how much of it could be moved elsewhere: whether compaction can empty
//! it. One page that cannot move spoils a region, and all moves out of it would be for nothing.

use super::finder::Finder;
use super::system::SystemCx;
use mmulab_addr::{PageOrder, Pfn};
use rustc_hash::FxHashMap;

/// Frames of aligned regions of one size, each as it was when it was first looked at.
pub(crate) struct Census {
    order: PageOrder,
    seen: FxHashMap<u64, Region>,
}

#[derive(Clone, Copy)]
struct Region {
    free: u64,
    movable: u64,
}

impl Census {
    /// Of no region of `order` yet.
    pub fn new(order: PageOrder) -> Self {
        Self { order, seen: FxHashMap::default() }
    }

    /// The region that a frame lies in.
    pub fn region(&self, pfn: Pfn) -> u64 {
        pfn.0 >> self.order.get()
    }

    /// How many regions memory has. What is left beyond the last whole one is none.
    pub fn regions(&self, system: &SystemCx) -> u64 {
        system.shared.memory.frames.total_frames() >> self.order.get()
    }

    /// Looks at the region around a frame, unless it was looked at before: to be called before anything in it is taken,
    /// moved or freed. Pages can move if one of the finders, of two sizes, knows all their users.
    pub fn look(&mut self, system: &SystemCx, pfn: Pfn, small: &mut Finder, large: &mut Finder) {
        let region = self.region(pfn);
        if region >= self.regions(system) || self.seen.contains_key(&region) {
            return;
        }
        let (first, frames) = (pfn.align_down(self.order), self.order.base_pages());
        // Runs of frames of which more is known than the finders have to be asked.
        let memory = &system.shared.memory;
        let free: Vec<_> = memory.frames.free_within(first, self.order).collect();
        let occupied: Vec<_> = memory.frames.occupants(first, frames).collect();
        let sum = |runs: &[(Pfn, u64)]| runs.iter().map(|run| run.1).sum::<u64>();
        let mut seen = Region { free: sum(&free), movable: sum(&occupied) };
        let mut known: Vec<_> = free.into_iter().chain(occupied).collect();
        known.sort_unstable();
        let mut at = first.0;
        for (start, frames) in known.into_iter().chain([(Pfn(first.0 + frames), 0)]) {
            while at < start.0 {
                let step = if large.movable(system, Pfn(at)).is_some() { large.order() } else { small.order() };
                if step == large.order() || small.movable(system, Pfn(at)).is_some() {
                    seen.movable += step.base_pages();
                }
                at += step.base_pages();
            }
            at = start.0 + frames;
        }
        self.seen.insert(region, seen);
    }

    /// Free frames of a region that was looked at.
    pub fn free(&self, region: u64) -> u64 {
        self.seen.get(&region).map_or(0, |seen| seen.free)
    }

    /// Frames of a region whose pages can move.
    pub fn movable(&self, region: u64) -> u64 {
        self.seen.get(&region).map_or(0, |seen| seen.movable)
    }

    /// Whether a region is in use, and all that is in it can move.
    pub fn can_be_emptied(&self, region: u64) -> bool {
        let (free, movable) = (self.free(region), self.movable(region));
        movable > 0 && free + movable == self.order.base_pages()
    }
}
