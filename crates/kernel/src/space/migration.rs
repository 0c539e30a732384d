//! Pages moved to other frames, wherever they are mapped: what compaction and promotion by migration are made of.

use super::system::SystemCx;
use super::{Found, Gather};
use crate::memory::Memory;
use crate::memory::cache::ObjectId;
use crate::memory::pages::{Page, Use};
use crate::report::counts::EventKind;
use crate::{Note, WorkKind};
use mmulab_addr::{PageOrder, Pfn, VirtAddr};
use mmulab_pagetable::Leaf;

/// Where a frame is mapped, or the page cache has it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum At {
    Cached(ObjectId, u64),
    Mapped { slot: usize, va: u64 },
    Hidden { slot: usize, va: u64 },
}

/// Where every page of one size that can move is, in the order of frames: what Linux knows by its reverse map.
pub(crate) struct ReverseMap {
    places: Vec<(Pfn, At)>,
    order: PageOrder,
}

impl ReverseMap {
    /// Of the base pages of all address spaces and the page cache, as they are now.
    pub fn of(system: &SystemCx) -> Self {
        let cached = system.shared.memory.cache.frames();
        Self::with(system, PageOrder::P4K, cached.map(|(pfn, id, page)| (pfn, At::Cached(id, page))).collect())
    }

    /// Of the pages of `order`, which are larger, in all address spaces.
    pub fn of_large(system: &SystemCx, order: PageOrder) -> Self {
        Self::with(system, order, Vec::new())
    }

    fn with(system: &SystemCx, order: PageOrder, mut places: Vec<(Pfn, At)>) -> Self {
        for (slot, space) in system.spaces.iter().enumerate() {
            let Some(space) = space else { continue };
            for span in space.vmas.iter() {
                let pages = space.pages(system.mem, &system.shared.memory.pages, span.start, span.end);
                let small = pages.filter(|(_, leaf)| leaf.order == order);
                places.extend(small.map(|(va, leaf)| (leaf.pfn, At::Mapped { slot, va })));
            }
            let hidden = space.hidden.iter().filter(|(_, leaf)| leaf.order == order);
            places.extend(hidden.map(|(vpn, leaf)| (leaf.pfn, At::Hidden { slot, va: vpn.addr().raw() })));
        }
        places.sort_unstable();
        Self { places, order }
    }

    /// The places of the page that begins with a frame, if the page can move. It can if it is a page of a program or of
    /// a file, and all its users are known.
    pub fn movable(&self, memory: &Memory, pfn: Pfn) -> Option<&[(Pfn, At)]> {
        self.movable_now(memory, pfn, pfn)
    }

    /// The same of a page that begins with `pfn` now, and began with `recorded` when the map was made. A page that
    /// occupied memory before the program began can move as well, and has no places: no simulated page table maps it.
    pub fn movable_now(&self, memory: &Memory, pfn: Pfn, recorded: Pfn) -> Option<&[(Pfn, At)]> {
        if self.order == PageOrder::P4K && memory.frames.is_occupant(pfn) {
            return Some(&[]);
        }
        let from = self.places.partition_point(|p| p.0 < recorded);
        let users = self.places[from..].iter().take_while(|p| p.0 == recorded).count();
        let page = memory.pages.get(pfn);
        let is_known = match self.order {
            PageOrder::P4K => page.order == 0 && page.refs as usize == users,
            // A large page may be one of which each frame is counted by itself.
            order => users == 1 && memory.pages.is_exclusive(pfn, order),
        };
        let moves = users > 0 && page.used != Use::None && !page.pooled && is_known;
        moves.then(|| &self.places[from..from + users])
    }
}

/// Pages that are being moved, and the flushes that this owes, one for each address space.
pub(crate) struct Migration(Vec<Gather>);

impl Migration {
    /// Of no page yet.
    pub fn new(system: &SystemCx) -> Self {
        let mut gathers = Vec::new();
        gathers.resize_with(system.spaces.len(), Gather::default);
        Self(gathers)
    }

    /// Copies the page in frame `old`, mapped at `here`, to the frame `new`, and frees `old`.
    pub fn move_page(&mut self, system: &mut SystemCx, (old, new): (Pfn, Pfn), here: &[(Pfn, At)]) {
        self.copy_page(system, (old, new), PageOrder::P4K, here);
        system.shared.memory.frames.free_run(old, 1);
    }

    /// Copies the page of `order` in the frames from `old` on to those from `new` on. Who frees `old` is the caller's
    /// to say.
    pub fn copy_page(&mut self, system: &mut SystemCx, (old, new): (Pfn, Pfn), order: PageOrder, here: &[(Pfn, At)]) {
        let memory = &mut system.shared.memory;
        if here.is_empty() {
            memory.frames.relocate_occupant(old, new);
        } else {
            let frames = if memory.pages.is_whole(old, order) { 1 } else { order.base_pages() };
            for i in 0..frames {
                let page = std::mem::take(memory.pages.get_mut(Pfn(old.0 + i)));
                *memory.pages.get_mut(Pfn(new.0 + i)) = Page { folio: 0, ..page };
            }
        }
        memory.work.add(WorkKind::CopyBytes, order.bytes());
        self.point(system, here, new);
        system.shared.counts.events.add(EventKind::Migrated, order.base_pages());
        if system.effects.narrate {
            let moved = (0..order.base_pages()).map(|i| (Pfn(old.0 + i), Pfn(new.0 + i)));
            system.effects.notes.extend(moved.map(|(from, to)| Note::Moved { from, to }));
        }
    }

    /// Has two pages of `order` change places, each given by its first frame and where it is mapped. Both are copied.
    pub fn exchange(
        &mut self,
        system: &mut SystemCx,
        (first, here): (Pfn, &[(Pfn, At)]),
        (second, there): (Pfn, &[(Pfn, At)]),
        order: PageOrder,
    ) {
        let memory = &mut system.shared.memory;
        for (from, to, places) in [(first, second, here), (second, first, there)] {
            if places.is_empty() {
                memory.frames.relocate_occupant(from, to);
            }
        }
        for i in 0..order.base_pages() {
            let (a, b) = (Pfn(first.0 + i), Pfn(second.0 + i));
            let (page, other) = (memory.pages.get(a), memory.pages.get(b));
            *memory.pages.get_mut(a) = Page { folio: 0, ..other };
            *memory.pages.get_mut(b) = Page { folio: 0, ..page };
        }
        memory.work.add(WorkKind::CopyBytes, 2 * order.bytes());
        self.point(system, here, second);
        self.point(system, there, first);
        system.shared.counts.events.add(EventKind::Migrated, 2 * order.base_pages());
        if system.effects.narrate {
            let pairs = (0..order.base_pages()).map(|i| (Pfn(first.0 + i), Pfn(second.0 + i)));
            system.effects.notes.extend(pairs.map(|(first, second)| Note::Exchanged { first, second }));
        }
    }

    /// Has every user of a page find it in the frames from `new` on.
    fn point(&mut self, system: &mut SystemCx, here: &[(Pfn, At)], new: Pfn) {
        for &(_, at) in here {
            match at {
                At::Cached(id, page) => system.shared.memory.cache.move_to(id, page, new),
                At::Hidden { slot, va } => {
                    let space = system.spaces[slot].as_mut();
                    if let Some(leaf) = space.and_then(|s| s.hidden.get_mut(&VirtAddr::new(va).vpn())) {
                        leaf.pfn = new;
                    }
                }
                At::Mapped { slot, va } => {
                    let (space, mut cx) = system.at(slot);
                    let Found::Leaf(leaf) = space.probe(cx.mem, VirtAddr::new(va)) else { continue };
                    // Unfolding takes no frame, so that it cannot fail.
                    if let Ok(page) = space.alone(&mut cx, VirtAddr::new(va), leaf) {
                        space.set(&mut cx, va, Leaf { pfn: new, ..page }, &mut self.0[slot]);
                    }
                }
            }
        }
    }

    /// Sends the flushes.
    pub fn finish(self, system: &mut SystemCx) {
        for (slot, gather) in self.0.into_iter().enumerate() {
            if system.spaces[slot].is_some() {
                let (space, mut cx) = system.at(slot);
                space.finish(&mut cx, gather);
            }
        }
    }
}
