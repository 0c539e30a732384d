//! Storage of the designs whose entries are bundles of pages of any size: an entry says from which page on, how many,
//! and which of them; a search asks all entries of the one set that the address names.
//!
//! With one index for all sizes a superpage belongs to every set that one of its parts falls in, and is written to all
//! of them (`mix`); with an index for each size it has one set (`colt++`).
//!
//! A fill that must reach every set is logged once ([`MirrorLog`]). If no observer is active, a set applies the log
//! when it is next probed.

mod bits;
mod bundle;
mod fill;
mod mirror_log;
mod search;
mod shape;

use super::{Change, Line, Looks, Plan};
use crate::{
    CoalescingCounts, Entry, MirrorCounts,
    desc::Mirrors,
    key::{GLOBAL, Value},
    pages::Slot,
};
use bits::bits;
use bundle::Bundle;
use mirror_log::MirrorLog;
use mmulab_addr::{Asid, PageOrder, Vpn};
use mmulab_assoc::{Keys, Ranges, SetIndex, Store, each};
use std::borrow::Cow;

pub use shape::{MAX_BITMAP, Shape};

/// The entries of an array of bundles.
#[derive(Clone)]
pub struct Bundles {
    shape: Shape,
    sets: SetIndex,
    ways: usize,
    /// The different ways to choose a set, each once.
    indexes: Vec<PageOrder>,
    /// By set and way.
    held: Vec<Bundle>,
    /// The pages of each, with its tag above them: what searches go by.
    ranges: Ranges,
    /// Whether there has ever been a global entry: until then no search need look for one.
    globals: bool,
    /// Empty ways in all.
    room: usize,
    /// Empty ways, by set.
    vacant: Vec<u16>,
    /// By set: ways whose entries have a tag in common, and have been found not to be one. Of any other set of ways
    /// nothing is known.
    apart: Vec<u64>,
    /// Order of replacement, by set. Its keys only mark occupied ways.
    order: Store,
    /// Fills of all sets that some have yet to apply; `None` where all are written at once.
    log: Option<MirrorLog>,
    /// Sets to write to: scratch, kept for its memory.
    targets: Vec<usize>,
    fills: u64,
    evictions: u64,
    invalidations: u64,
    pub counts: CoalescingCounts,
    pub mirroring: MirrorCounts,
}

impl Bundles {
    pub fn new(shape: Shape, plan: &Plan) -> Self {
        let (sets, ways) = (plan.sets, plan.ways);
        let mut indexes = shape.index.clone();
        indexes.sort_unstable();
        indexes.dedup();
        Self {
            sets: SetIndex::new(sets),
            ways,
            indexes,
            held: vec![Bundle::default(); sets * ways],
            ranges: Ranges::new(sets, ways),
            globals: false,
            room: sets * ways,
            vacant: vec![ways as u16; sets],
            apart: vec![0; sets],
            order: plan.store(),
            log: MirrorLog::new(sets, ways, plan.desc.replacement, shape.mirrors == Mirrors::Blind),
            targets: Vec::with_capacity(sets),
            fills: 0,
            evictions: 0,
            invalidations: 0,
            counts: CoalescingCounts::default(),
            mirroring: MirrorCounts::default(),
            shape,
        }
    }

    /// Neighbours of base pages matter if bundles of them may be made.
    pub fn looks(&self) -> Looks {
        let mut sizes = self.shape.sizes.iter().zip(&self.shape.group);
        Looks { base: sizes.any(|(&order, &group)| order == PageOrder::P4K && group > 1), large: true }
    }

    /// Fills, evictions and invalidations.
    pub fn traffic(&self) -> [u64; 3] {
        [self.fills, self.applied().evictions, self.invalidations]
    }

    /// As it is when all sets have applied the log.
    fn applied(&self) -> Cow<'_, Self> {
        match &self.log {
            Some(log) if log.is_any_behind() => {
                let mut copy = self.clone();
                copy.apply_all();
                Cow::Owned(copy)
            }
            _ => Cow::Borrowed(self),
        }
    }

    /// Applies the log to all sets.
    fn apply_all(&mut self) {
        if self.log.as_ref().is_some_and(MirrorLog::is_any_behind) {
            for set in 0..self.sets.count() {
                self.apply_pending(set);
            }
            self.log.as_mut().into_iter().for_each(MirrorLog::applied_by_all);
        }
    }

    /// Applies to `set` the fills of the log that it has not seen, before anything in it is read or changed. Whether
    /// there were any.
    #[inline(always)]
    fn apply_pending(&mut self, set: usize) -> bool {
        let is_behind = self.log.as_ref().is_some_and(|log| log.is_behind(set));
        if is_behind {
            self.apply_log(set);
        }
        is_behind
    }

    /// The set that a lookup of `vpn` as a page of some size asks.
    #[inline(always)]
    fn set(&self, vpn: Vpn, index: PageOrder) -> usize {
        self.sets.of(vpn.0 >> index.get())
    }

    #[inline(always)]
    fn at(&self, set: usize, way: usize) -> usize {
        set * self.ways + way
    }

    #[inline(always)]
    fn touch(&mut self, set: usize, way: usize) {
        if let Store::Upto4(keys) = &mut self.order {
            return keys.touch(set, way);
        }
        self.touch_any(set, way);
    }

    #[inline(never)]
    fn touch_any(&mut self, set: usize, way: usize) {
        each!(&mut self.order, keys => keys.touch(set, way));
    }

    #[inline(always)]
    fn slot(&self, set: usize, way: usize) -> Slot {
        let at = self.at(set, way);
        Slot { at: at as u32, size: self.held[at].size }
    }

    /// Translation of `vpn` by the entry at `slot`, which is occupied, and the size of the page that it covers.
    #[inline(always)]
    pub fn read(&self, slot: Slot, vpn: Vpn) -> (Value, PageOrder) {
        let held = &self.held[slot.at as usize];
        (held.value_of(vpn), held.order())
    }

    /// The eight pages of its size around `vpn`, as the entry at `at` holds them.
    pub fn line(&self, at: u32, vpn: Vpn) -> Option<Line> {
        let held = &self.held[at as usize];
        let mut line = Line::of_one_sized(vpn, held.order(), held.value_of(vpn));
        let known = held.eight(line.first);
        for (slot, pfn) in line.pfns.iter_mut().enumerate() {
            let page = line.first.0 + ((slot as u64) << held.order);
            *pfn = held.value.moved(page.wrapping_sub(held.base)).pfn().0;
        }
        (line.same, line.missing) = (known, !known);
        Some(line)
    }

    #[inline(always)]
    fn write(&mut self, set: usize, way: usize, new: Bundle) {
        let at = self.at(set, way);
        self.held[at] = new;
        self.apart[set] = 0;
        self.ranges.put(set, way, bundle::tagged(new.tag, new.base), new.span());
    }

    fn remove(&mut self, set: usize, way: usize) {
        self.write(set, way, Bundle::default());
        self.room += 1;
        self.vacant[set] += 1;
        each!(&mut self.order, keys => keys.remove(set, way));
    }

    /// Drops every entry with the tag of `asid`, none of the global ones; everything for `None`.
    pub fn drop_space(&mut self, asid: Option<Asid>, mut tell: impl FnMut(Change, Asid, &Entry)) {
        self.apply_all();
        if self.room == self.held.len() {
            return;
        }
        for set in 0..self.sets.count() {
            for way in 0..self.ways {
                let old = self.held[self.at(set, way)];
                if old.len != 0 && asid.is_none_or(|asid| old.tag == asid.0 && old.tag != GLOBAL.0) {
                    self.invalidations += 1;
                    old.tell(Change::Dropped, &mut tell);
                    self.remove(set, way);
                }
            }
        }
    }

    /// Drops what `asid` has, and what is global, of the `pages` base pages from `first`: from bitmaps those pages, in
    /// every mirror; runs go whole, for they cannot have holes.
    pub fn drop_range(&mut self, asid: Asid, first: Vpn, pages: u64, mut tell: impl FnMut(Change, Asid, &Entry)) {
        self.apply_all();
        if self.room == self.held.len() || pages == 0 {
            return;
        }
        let before = (pages - 1).min(bundle::MAX_SPAN);
        for set in 0..self.sets.count() {
            for block in 0..self.ranges.blocks() {
                for way in bits(self.meeting(set, block, asid.0, first.0 + before, before)) {
                    self.drop_part(set, block * 64 + way, first, pages, &mut tell);
                }
            }
        }
    }

    fn drop_part(
        &mut self,
        set: usize,
        way: usize,
        first: Vpn,
        pages: u64,
        tell: &mut impl FnMut(Change, Asid, &Entry),
    ) {
        let at = self.at(set, way);
        let old = self.held[at];
        if old.len == 0 || !old.meets(first, pages) {
            return;
        }
        self.invalidations += 1;
        let mut gone = old;
        if self.shape.bitmap[usize::from(old.size)] {
            let hit = |vpn: &Vpn| vpn.0 < first.0 + pages && vpn.0 + (1 << old.order) > first.0;
            gone.mask = old.pages().filter(hit).filter_map(|vpn| old.place(vpn)).fold(0, |m, at| m | 1 << at);
        }
        gone.tell(Change::Dropped, tell);
        if gone.count() == old.count() {
            self.remove(set, way);
        } else {
            self.held[at].mask &= !gone.mask;
            self.apart[set] = 0;
        }
    }

    /// The page's dirty bit has been set: an entry of this page alone says so; one of several stays clean, which is
    /// safe.
    pub fn set_dirty(&mut self, asid: Asid, vpn: Vpn) {
        for n in 0..self.indexes.len() {
            let set = self.set(vpn, self.indexes[n]);
            self.apply_pending(set);
            let (Some(way), _) = self.seek_in(set, asid, vpn) else { continue };
            let at = self.at(set, way);
            let held = &mut self.held[at];
            if held.count() == 1 {
                held.value = held.value.dirtied();
                self.apart[set] = 0;
            } else if !self.shape.mixed_dirty && !held.value.dirty() {
                self.forget(set, way, vpn, &mut |_, _| {});
            }
            return;
        }
    }

    /// Calls `tell` for every valid entry, page by page and mirror by mirror.
    pub fn all(&self, mut tell: impl FnMut(Asid, &Entry)) {
        for held in &self.applied().held {
            held.tell(Change::Filled, &mut |_, tag, entry| tell(tag, entry));
        }
    }
}
