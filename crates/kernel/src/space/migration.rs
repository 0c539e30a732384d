//! Pages moved to other frames, wherever they are mapped: what compaction and promotion by migration are made of.

use super::Gather;
use super::system::SystemCx;
use crate::memory::Memory;
use crate::memory::cache::ObjectId;
use crate::memory::pages::{Page, Use};
use crate::report::counts::Happening;
use crate::{Told, WorkKind};
use mmulab_addr::{BASE_BYTES, PageOrder, Pfn, VirtAddr};
use mmulab_pagetable::Leaf;

/// Where a frame is mapped, or the page cache has it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum At {
    Cached(ObjectId, u64),
    Mapped { slot: usize, va: u64 },
    Hidden { slot: usize, va: u64 },
}

/// Where every base page that can move is, in the order of frames: what Linux knows by its reverse map.
pub(crate) struct ReverseMap(Vec<(Pfn, At)>);

impl ReverseMap {
    /// Of all address spaces and the page cache, as they are now.
    pub fn of(system: &SystemCx) -> Self {
        let cached = system.shared.memory.cache.frames();
        let mut places: Vec<(Pfn, At)> = cached.map(|(pfn, id, page)| (pfn, At::Cached(id, page))).collect();
        for (slot, space) in system.spaces.iter().enumerate() {
            let Some(space) = space else { continue };
            for span in space.vmas.iter() {
                let leaves = space.leaves(system.mem, span.start, span.end);
                let small = leaves.filter(|(_, leaf)| leaf.order == PageOrder::P4K);
                places.extend(small.map(|(va, leaf)| (leaf.pfn, At::Mapped { slot, va })));
            }
            let hidden = space.hidden.iter().filter(|(_, leaf)| leaf.order == PageOrder::P4K);
            places.extend(hidden.map(|(vpn, leaf)| (leaf.pfn, At::Hidden { slot, va: vpn.addr().raw() })));
        }
        places.sort_unstable();
        Self(places)
    }

    /// The places of a frame, if the page in it can move: a base page of a program or of a file, all of whose users
    /// are known.
    pub fn movable(&self, memory: &Memory, pfn: Pfn) -> Option<&[(Pfn, At)]> {
        let from = self.0.partition_point(|p| p.0 < pfn);
        let users = self.0[from..].iter().take_while(|p| p.0 == pfn).count();
        let page = memory.pages.get(pfn);
        let moves =
            users > 0 && page.used != Use::None && page.order == 0 && !page.pooled && page.refs as usize == users;
        moves.then(|| &self.0[from..from + users])
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
        let memory = &mut system.shared.memory;
        *memory.pages.get_mut(new) = memory.pages.get(old);
        *memory.pages.get_mut(old) = Page::default();
        memory.work.add(WorkKind::CopyBytes, BASE_BYTES);
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
                    if let Some((_, leaf)) = space.next_leaf(cx.mem, va, va + BASE_BYTES) {
                        space.set(&mut cx, va, Leaf { pfn: new, ..leaf }, &mut self.0[slot]);
                    }
                }
            }
        }
        system.shared.memory.frames.free_run(old, 1);
        system.shared.counts.happenings.add(Happening::Migrated, 1);
        if system.fx.narrate {
            system.fx.told.push(Told::Moved { from: old, to: new });
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
