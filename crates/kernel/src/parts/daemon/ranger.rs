//! Daemon *ranger*: pages of a mapping brought into frames that follow each other. Sources: Yan, Lustig, Nellans and
//! Bhattacharjee, *Translation Ranger*, ISCA 2019; the published kernel,
//! github.com/ysarch-lab/translation_ranger_isca_2019, mm/mem_defrag.c.
//!
//! ```text
//! mapping   [ 0 | 1 | 2 | 3 | 4 | ... ]       the anchor: page 0 belongs into frame A, page i into A + i
//!             |   |   |   |   |
//! frames    A [ 0 | 1 | D | - | U | ... ]     2 and D change places, whoever D belongs to
//!                                             3 moves to its frame, which is free
//!                                             4 stays: U cannot move, or is of another size
//! ```
//!
//! An anchor is an area of frames as long as the mapping, which no other anchor has: the lowest one. It has the
//! mapping's place within 2 MiB (1 GiB, for mappings as large). Once all base pages of 2 MiB are in their frames, they
//! become one page in place (`mem_defrag_promote_thp`). Pages of 2 MiB move and change places as a whole. Mappings
//! below 10 MiB are left alone (`defrag_size_threshold`).
//!
//! The published kernel keeps only the anchors of one process apart from each other. Those of two processes may
//! coincide, and then their pages change places at each scan. Here all anchors are kept apart.

use super::scan::limits::Limits;
use super::scan::mappings::{Cursor, Here, Step};
use super::scan::pace::{Pace, Scan};
use crate::memory::pages::Use;
use crate::parts::part::{Part, Wrong};
use crate::parts::settings::{DaemonSettings, Served};
use crate::parts::traits::{Daemon, Declare, Declares};
use crate::ranges::Span;
use crate::report::counts::{EventKind, Refusal};
use crate::space::compaction::Compaction;
use crate::space::migration::{At, Migration, ReverseMap};
use crate::space::system::SystemCx;
use crate::space::vma::Vma;
use crate::space::{AddressSpace, Found};
use crate::{KernelError, WorkKind};
use mmulab_addr::{BASE_SHIFT, PageOrder, Pfn, VirtAddr};
use mmulab_pagetable::Leaf;
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;

/// The smallest mapping that it works on, if a policy says nothing else: `defrag_size_threshold` times 2 MiB.
const SMALLEST: u64 = 5 << 21;

/// Where the pages of a mapping belong.
#[derive(Clone, Copy, Debug)]
struct Anchor {
    /// The number of the mapping's first page.
    page: u64,
    /// Its frame.
    pfn: u64,
    /// Frames of the area.
    frames: u64,
}

impl Anchor {
    fn target(&self, va: u64) -> Pfn {
        Pfn(self.pfn + (va >> BASE_SHIFT) - self.page)
    }
}

/// The daemon, its anchors and the progress of its scan.
#[derive(Debug)]
pub(crate) struct Ranger {
    pace: Pace,
    limits: Limits,
    /// The smallest mapping that it works on, in bytes.
    smallest: u64,
    /// By the serial number of the address space, and the first address of the mapping.
    anchors: BTreeMap<(u64, u64), Anchor>,
    cursor: Cursor,
}

impl Part<DaemonSettings<'_>> for Ranger {
    const NAME: &'static str = "ranger";
    const ABOUT: &'static str = "Translation Ranger's: it brings the pages of a mapping into frames that follow each \
         other, by moves and exchanges; base pages that fill 2M become one page there.";

    /// # Errors
    /// Limits beyond a region, or a scan of nothing.
    fn new(settings: &DaemonSettings) -> Result<Self, Wrong> {
        let DaemonSettings { desc, enabled, .. } = *settings;
        let (pace, limits) = (Pace::new(desc)?, Limits::new(desc, enabled)?);
        let smallest = settings.smallest_mapping.unwrap_or(SMALLEST);
        Ok(Self { pace, limits, smallest, anchors: BTreeMap::new(), cursor: Cursor::default() })
    }
}

impl Declare for Ranger {
    fn declares(_: Served) -> Declares {
        let how = "in place, by a daemon, where 2M came together";
        Declares { sizes: &[PageOrder::P2M], how, allocation: ", brought together by a daemon" }
    }
}

impl Ranger {
    fn scan(&mut self, system: &mut SystemCx) -> Result<Scan, KernelError> {
        // Free frames may wait in per-CPU lists.
        system.shared.memory.frames.drain();
        let of_mapping = |&(serial, start): &(u64, u64)| {
            let mut spaces = system.spaces.iter().flatten();
            let space = spaces.find(|space| space.serial == serial);
            space.and_then(|space| space.vmas.find(start)).is_some_and(|span| span.start == start)
        };
        self.anchors.retain(|key, _| of_mapping(key));
        let mut places: Option<Places> = None;
        self.cursor.begin();
        while self.pace.goes_on() {
            let Step::Mapping(Here { slot, serial, span, from }) = self.cursor.next(system, |_| true) else {
                if self.cursor.is_through() {
                    break;
                }
                continue;
            };
            self.cursor.go_to(span.end);
            if !self.limits.is_eligible(&span.value) || span.end - span.start < self.smallest {
                self.pace.looked_at(1);
                continue;
            }
            let Some(anchor) = self.anchor(system, serial, &span) else {
                system.refuse(Refusal::RangerNoArea, span.start);
                self.pace.looked_at(1);
                continue;
            };
            let size = PageOrder::P2M.bytes();
            let to = (from / size * size).saturating_add(size).min(span.end);
            self.cursor.go_to(to);
            self.pace.looked_at((to - from) >> BASE_SHIFT);
            let places = places.get_or_insert_with(|| Places::of(system));
            if defragment(system, places, slot, anchor, (from, to)) && to - from == size {
                promote(system, slot, &span.value, anchor, from)?;
            }
        }
        Ok(Scan::Done)
    }

    /// The anchor of a mapping: the one it has, or a new one. `None`: memory has no area as long that no other anchor
    /// has.
    fn anchor(&mut self, system: &SystemCx, serial: u64, span: &Span<Vma>) -> Option<Anchor> {
        let key = (serial, span.start);
        let (page, frames) = (span.start >> BASE_SHIFT, (span.end - span.start) >> BASE_SHIFT);
        if let Some(anchor) = self.anchors.get_mut(&key) {
            anchor.frames = anchor.frames.max(frames);
            return Some(*anchor);
        }
        let step =
            [PageOrder::P1G, PageOrder::P2M].into_iter().map(PageOrder::base_pages).find(|&s| frames >= s).unwrap_or(1);
        let align = |pfn: u64| {
            let first = pfn / step * step + page % step;
            if first < pfn { first + step } else { first }
        };
        let mut taken: Vec<_> = self.anchors.values().map(|anchor| (anchor.pfn, anchor.frames)).collect();
        taken.sort_unstable();
        let mut pfn = align(0);
        for (first, frames_of) in taken {
            if pfn + frames <= first {
                break;
            }
            pfn = pfn.max(align(first + frames_of));
        }
        let anchor = Anchor { page, pfn, frames };
        let fits = pfn + frames <= system.shared.memory.frames.total_frames();
        fits.then(|| {
            self.anchors.insert(key, anchor);
            anchor
        })
    }
}

/// Where pages are mapped, while pages move.
struct Places {
    small: ReverseMap,
    large: ReverseMap,
    /// Of pages that moved since the maps were made: the frame that they were in then, by the one that they are in.
    moved: FxHashMap<(PageOrder, Pfn), Pfn>,
}

impl Places {
    fn of(system: &SystemCx) -> Self {
        let (small, large) = (ReverseMap::of(system), ReverseMap::of_large(system, PageOrder::P2M));
        Self { small, large, moved: FxHashMap::default() }
    }

    fn recorded(&self, pfn: Pfn, order: PageOrder) -> Pfn {
        self.moved.get(&(order, pfn)).copied().unwrap_or(pfn)
    }

    /// Where the page of `order` at `pfn` is mapped, if there is one that can move.
    fn movable(&self, system: &SystemCx, pfn: Pfn, order: PageOrder) -> Option<Vec<(Pfn, At)>> {
        let map = if order == PageOrder::P4K { &self.small } else { &self.large };
        let here = map.movable_now(&system.shared.memory, pfn, self.recorded(pfn, order));
        here.map(<[_]>::to_vec)
    }

    /// The page at `from` is at `to` from now on; or, if they changed places, the other one is at `from`.
    fn note(&mut self, order: PageOrder, from: Pfn, to: Pfn, changed_places: bool) {
        let (page, other) = (self.recorded(from, order), self.recorded(to, order));
        self.moved.insert((order, to), page);
        if changed_places {
            self.moved.insert((order, from), other);
        }
    }
}

/// Makes one page of the base pages of the 2 MiB from `start` on, which lie in their frames, if they are the process's
/// own.
fn promote(system: &mut SystemCx, slot: usize, vma: &Vma, anchor: Anchor, start: u64) -> Result<(), KernelError> {
    let (space, mut cx) = system.at(slot);
    let mut whole = AddressSpace::leaf(vma, anchor.target(start), PageOrder::P2M, vma.prot, false);
    whole.accessed = false;
    for (_, leaf) in space.pages(cx.mem, &cx.memory.pages, start, start + PageOrder::P2M.bytes()) {
        let page = cx.memory.pages.get(leaf.pfn);
        if leaf.order != PageOrder::P4K || page.refs != 1 || page.used != Use::Anon || page.pooled {
            return Ok(());
        }
        whole.accessed |= leaf.accessed;
        whole.dirty |= leaf.dirty;
    }
    Ok(space.join(&mut cx, start, whole)?)
}

/// Brings the pages of a range of a mapping to their places, as far as possible. Returns whether every page of the
/// range is in memory and in its place.
fn defragment(system: &mut SystemCx, places: &mut Places, slot: usize, anchor: Anchor, (from, to): (u64, u64)) -> bool {
    let mut is_complete = true;
    let mut migration = Migration::new(system);
    let mut va = from;
    while va < to {
        let (space, mut cx) = system.at(slot);
        cx.work(WorkKind::EntryScan, 1);
        let leaf = match space.page(cx.mem, &cx.memory.pages, VirtAddr::new(va)) {
            Found::Leaf(leaf) => leaf,
            Found::Hole(room) => {
                va = (va & !(room.bytes() - 1)).saturating_add(room.bytes());
                is_complete = false;
                continue;
            }
        };
        let start = va & !(leaf.order.bytes() - 1);
        va = start + leaf.order.bytes();
        // A shared page of zeros stays where it is.
        if cx.memory.is_zero(leaf.pfn) {
            is_complete = false;
            continue;
        }
        if leaf.pfn != anchor.target(start)
            && let Err(why) = place(system, places, &mut migration, leaf, anchor.target(start))
        {
            system.refuse(why, start);
            is_complete = false;
        }
    }
    migration.finish(system);
    is_complete
}

/// Brings a page to the frame `target`.
fn place(
    system: &mut SystemCx,
    places: &mut Places,
    migration: &mut Migration,
    leaf: Leaf,
    target: Pfn,
) -> Result<(), Refusal> {
    let (order, old) = (leaf.order, leaf.pfn);
    if order != PageOrder::P4K && order != PageOrder::P2M {
        return Err(Refusal::RangerSize);
    }
    let here = places.movable(system, old, order).ok_or(Refusal::RangerUnmovable)?;
    let memory = &mut system.shared.memory;
    if memory.frames.take_at(target, order) {
        memory.work.add(if order == PageOrder::P4K { WorkKind::BaseFrame } else { WorkKind::LargeBlock }, 2);
        migration.copy_page(system, (old, target), order, &here);
        system.shared.memory.frames.free_run(old, order.base_pages());
        system.shared.counts.events.add(EventKind::RangerMoved, order.base_pages());
        places.note(order, old, target, false);
        return Ok(());
    }
    let Some(there) = places.movable(system, target, order) else {
        let other = if order == PageOrder::P4K { PageOrder::P2M } else { PageOrder::P4K };
        let is_of_other = places.movable(system, target.align_down(other), other).is_some();
        return Err(if is_of_other { Refusal::RangerSize } else { Refusal::RangerUnmovable });
    };
    migration.exchange(system, (old, &here), (target, &there), order);
    system.shared.counts.events.add(EventKind::RangerExchanged, order.base_pages());
    places.note(order, old, target, true);
    Ok(())
}

impl Daemon for Ranger {
    fn wakes_at(&self) -> u64 {
        self.pace.wakes_at()
    }

    fn wake(&mut self, system: &mut SystemCx, _: &mut Compaction, now_ns: u64) -> Result<(), KernelError> {
        let scan = self.scan(system);
        self.pace.sleep(&scan, now_ns);
        scan.map(drop)
    }
}
