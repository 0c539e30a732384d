//! Compaction: pages move from low page blocks to free frames of high ones, until a block is free (mm/compaction.c).

use crate::cache::ObjectId;
use crate::counts::{Happening, Refusal};
use crate::gather::Gather;
use crate::kernel::Kernel;
use crate::pages::{Page, Use};
use crate::{Effects, Told, WorkKind};
use mmulab_addr::{BASE_BYTES, PageOrder, Pfn, VirtAddr};
use mmulab_frames::PhysMem;
use mmulab_pagetable::Leaf;

/// The most that failures put compaction off: the next 64 requests (`COMPACT_MAX_DEFER_SHIFT`).
const DEFER_SHIFT_MAX: u8 = 6;

/// Where compaction stands.
#[derive(Debug, Default)]
pub(crate) struct Compaction {
    /// The page block that pages are moved out of next, and the one they are moved to, from above.
    migrate: u64,
    free: u64,
    /// Requests put off since the last run, of 1 << `shift`.
    considered: u32,
    shift: u8,
}

/// Where a frame is mapped, or the page cache has it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum At {
    Cached(ObjectId, u64),
    Mapped { slot: usize, va: u64 },
    Hidden { slot: usize, va: u64 },
}

impl Kernel {
    /// Makes a block of 2 MiB, if it can; whether one is free now (`try_to_compact_pages`).
    pub(crate) fn compact(&mut self, mem: &mut PhysMem, fx: &mut Effects, at: u64) -> bool {
        let order = PageOrder::P2M;
        self.core.memory.frames.drain();
        if self.core.memory.frames.has_block(order) {
            return true;
        }
        // `compaction_deferred`
        let put_off = &mut self.compaction;
        if put_off.shift > 0 && put_off.considered + 1 < 1 << put_off.shift {
            put_off.considered += 1;
            self.refuse(Refusal::CompactionDeferred, at, fx);
            return false;
        }
        self.core.counts.happenings.add(Happening::Compaction, 1);
        let made = self.run_compaction(mem, fx, order);
        self.compaction.considered = 0;
        if made {
            self.compaction.shift = 0;
        } else {
            self.compaction.shift = (self.compaction.shift + 1).min(DEFER_SHIFT_MAX);
            self.refuse(Refusal::CompactionFailed, at, fx);
        }
        made
    }

    /// Counts a refusal that concerns no one address space.
    pub(crate) fn refuse(&mut self, why: Refusal, at: u64, fx: &mut Effects) {
        self.core.counts.refusals.add(why, 1);
        if fx.narrate {
            fx.told.push(Told::Refused { why, va: VirtAddr::new(at) });
        }
    }

    fn run_compaction(&mut self, mem: &mut PhysMem, fx: &mut Effects, order: PageOrder) -> bool {
        if self.compaction.migrate >= self.compaction.free {
            (self.compaction.migrate, self.compaction.free) = (0, self.core.memory.frames.page_blocks());
        }
        let places = self.places(mem);
        let mut room: Vec<Pfn> = Vec::new();
        let mut made = false;
        while !made && self.compaction.migrate < self.compaction.free {
            let block = self.compaction.migrate;
            if self.core.memory.frames.is_movable(block) && !self.empty_block(mem, fx, block, &places, &mut room) {
                break;
            }
            self.compaction.migrate += 1;
            made = self.core.memory.frames.has_block(order);
        }
        for pfn in room {
            self.core.memory.frames.free_run(pfn, 1);
        }
        made || self.core.memory.frames.has_block(order)
    }

    /// Where every base page that can move is, in the order of frames: what Linux knows by its reverse map.
    fn places(&self, mem: &PhysMem) -> Vec<(Pfn, At)> {
        let mut places: Vec<(Pfn, At)> =
            self.core.memory.cache.frames().map(|(pfn, id, page)| (pfn, At::Cached(id, page))).collect();
        for (slot, space) in self.spaces.iter().enumerate() {
            let Some(space) = space else { continue };
            for span in space.vmas.iter() {
                let mut next = span.start;
                while let Some((va, leaf)) = space.next_leaf(mem, next, span.end) {
                    if leaf.order == PageOrder::P4K {
                        places.push((leaf.pfn, At::Mapped { slot, va }));
                    }
                    next = va + leaf.order.bytes();
                }
            }
            let hidden = space.hidden.iter().filter(|(_, leaf)| leaf.order == PageOrder::P4K);
            places.extend(hidden.map(|(vpn, leaf)| (leaf.pfn, At::Hidden { slot, va: vpn.addr().raw() })));
        }
        places.sort_unstable();
        places
    }

    /// Moves what can be moved out of a page block; false when there is no room left to move it to.
    fn empty_block(
        &mut self,
        mem: &mut PhysMem,
        fx: &mut Effects,
        block: u64,
        places: &[(Pfn, At)],
        room: &mut Vec<Pfn>,
    ) -> bool {
        let pages = PageOrder::P2M.base_pages();
        let mut gathers: Vec<Gather> = Vec::new();
        gathers.resize_with(self.spaces.len(), Gather::default);
        let mut has_room = true;
        for old in (block * pages..(block + 1) * pages).map(Pfn) {
            let from = places.partition_point(|p| p.0 < old);
            let here = &places[from..from + places[from..].iter().take_while(|p| p.0 == old).count()];
            if here.is_empty() || !self.is_movable(old, here.len()) {
                continue;
            }
            while room.is_empty() && self.compaction.free > block + 1 {
                self.compaction.free -= 1;
                *room = self.core.memory.frames.isolate(self.compaction.free);
            }
            let Some(new) = room.pop() else {
                has_room = false;
                break;
            };
            self.move_page(mem, fx, (old, new), here, &mut gathers);
        }
        for (slot, gather) in gathers.into_iter().enumerate() {
            if self.spaces[slot].is_none() {
                continue;
            }
            let (space, mut cx) = self.at_work(mem, fx, slot, mmulab_addr::Pid(0));
            space.finish(&mut cx, gather);
        }
        has_room
    }

    /// Whether a frame is a base page of a program or of a file, and all its users are known.
    fn is_movable(&self, pfn: Pfn, users: usize) -> bool {
        let page = self.core.memory.pages.get(pfn);
        page.used != Use::None && page.order == 0 && !page.pooled && page.refs as usize == users
    }

    fn move_page(
        &mut self,
        mem: &mut PhysMem,
        fx: &mut Effects,
        (old, new): (Pfn, Pfn),
        here: &[(Pfn, At)],
        gathers: &mut [Gather],
    ) {
        let memory = &mut self.core.memory;
        *memory.pages.get_mut(new) = memory.pages.get(old);
        *memory.pages.get_mut(old) = Page::default();
        memory.work.add(WorkKind::CopyBytes, BASE_BYTES);
        for &(_, at) in here {
            match at {
                At::Cached(id, page) => self.core.memory.cache.move_to(id, page, new),
                At::Hidden { slot, va } => {
                    let space = self.spaces[slot].as_mut();
                    if let Some(leaf) = space.and_then(|s| s.hidden.get_mut(&VirtAddr::new(va).vpn())) {
                        leaf.pfn = new;
                    }
                }
                At::Mapped { slot, va } => {
                    let (space, mut cx) = self.at_work(mem, fx, slot, mmulab_addr::Pid(0));
                    if let Some((_, leaf)) = space.next_leaf(cx.mem, va, va + BASE_BYTES) {
                        space.set(&mut cx, va, Leaf { pfn: new, ..leaf }, &mut gathers[slot]);
                    }
                }
            }
        }
        self.core.memory.frames.free_run(old, 1);
        self.core.counts.happenings.add(Happening::Migrated, 1);
        if fx.narrate {
            fx.told.push(Told::Moved { from: old, to: new });
        }
    }
}
