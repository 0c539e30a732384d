//! Storage of the designs whose entries are no pages: each says which pages it translates, and a search asks all
//! entries of a set.

use super::Line;
use crate::{
    CoalescingCounts, Entry,
    key::{GLOBAL, Value},
    pages::Slot,
};
use mmulab_addr::{Asid, PageOrder, Pfn, Vpn};
use mmulab_sets::{EMPTY, Store, each};

/// Page sizes an array of these designs tells apart in its counts.
pub const BASE: u8 = 0;
/// Entries of several base pages.
pub const SEVERAL: u8 = 1;

/// What a fill brings.
#[derive(Clone, Copy)]
pub enum Known<'a> {
    /// A base page, and its neighbours.
    Line(&'a Line),
    /// A larger page, and its neighbours of the same size.
    Large(&'a Line),
    /// A page of any size.
    Page(Value, PageOrder),
}

impl Known<'_> {
    /// What is known of the page alone, and its size.
    pub fn page(&self) -> (Value, PageOrder) {
        match *self {
            Self::Line(line) | Self::Large(line) => (line.value, line.order),
            Self::Page(value, order) => (value, order),
        }
    }
}

/// What happened to an entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Change {
    /// It was written.
    Filled,
    /// It made way for another.
    Evicted,
    /// It made way for another in this set, in an array that holds copies of it in other sets.
    EvictedFrom(u32),
    /// It must not be used any more.
    Dropped,
}

/// An entry: the pages from `first` on, those beyond the eighth all, the first eight by `mask`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Held {
    pub tag: Asid,
    /// A page of the table as it is, rather than what a line of entries gave.
    pub whole: bool,
    pub mask: u8,
    /// Three bits for each of the first eight pages, for designs with frames in any order.
    pub low: u32,
    pub pages: u32,
    pub first: Vpn,
    /// Of `first`, or of what the design counts from.
    pub value: Value,
}

impl Held {
    /// Whether it translates `vpn`.
    #[inline]
    pub fn covers(&self, vpn: Vpn) -> bool {
        let at = vpn.0.wrapping_sub(self.first.0);
        at < u64::from(self.pages) && (at >= 8 || self.mask >> at & 1 == 1)
    }

    /// Whether it translates some page of both.
    pub fn meets(&self, first: Vpn, pages: u64) -> bool {
        let (from, to) = (first.0.max(self.first.0), (first.0 + pages).min(self.first.0 + u64::from(self.pages)));
        // Beyond the first eight there are no holes.
        (from..to).any(|vpn| self.covers(Vpn(vpn)))
    }

    /// The base pages it translates.
    pub fn each(&self) -> impl Iterator<Item = Vpn> + '_ {
        (0..u64::from(self.pages)).map(|at| Vpn(self.first.0 + at)).filter(|&vpn| self.covers(vpn))
    }

    fn count(&self) -> u32 {
        self.mask.count_ones() + self.pages.saturating_sub(8)
    }

    fn order(&self) -> PageOrder {
        if self.whole { PageOrder::new(self.pages.trailing_zeros() as u8) } else { PageOrder::P4K }
    }
}

/// What tells the designs apart.
pub trait Rule {
    /// What chooses the set of a base page: its number at this size.
    fn index(&self) -> PageOrder;
    /// The entry a line gives; the tag is the caller's.
    fn make(&self, line: &Line) -> Held;
    /// The frame of a page of an entry.
    fn frame(held: &Held, vpn: Vpn) -> Pfn;
    /// Both in one, if they may be.
    fn join(&self, old: &Held, new: &Held) -> Option<Held>;
    /// What is left of `old` when `new` speaks for its own pages.
    fn without(old: &Held, new: &Held) -> Option<Held>;
    /// Which of the array's counts an entry of `pages` that is a page of the table goes under.
    fn class(&self, order: PageOrder) -> u8;
}

/// The entries of an array under one design.
pub struct Scan<R> {
    pub rule: R,
    sets: usize,
    ways: usize,
    /// Larger pages held, by order: a size nobody holds is not searched.
    larger: Vec<(PageOrder, u32)>,
    /// Who goes next. Its keys are but marks of occupied ways, each different.
    order: Store,
    next: u64,
    held: Vec<Option<Held>>,
    room: usize,
    fills: u64,
    evictions: u64,
    invalidations: u64,
    pub counts: CoalescingCounts,
}

impl<R: Rule> Scan<R> {
    pub fn new(rule: R, sets: usize, ways: usize, order: Store) -> Self {
        Self {
            rule,
            sets,
            ways,
            larger: Vec::new(),
            order,
            next: 0,
            held: vec![None; sets * ways],
            room: sets * ways,
            fills: 0,
            evictions: 0,
            invalidations: 0,
            counts: CoalescingCounts::default(),
        }
    }

    fn set(&self, vpn: Vpn, order: PageOrder) -> usize {
        ((vpn.0 >> order.get()) % self.sets as u64) as usize
    }

    fn set_of(&self, held: &Held) -> usize {
        self.set(held.first, if held.whole { held.order() } else { self.rule.index() })
    }

    /// The entry that translates `vpn`: one of base pages first, then by size.
    fn seek(&self, asid: Asid, vpn: Vpn) -> Option<usize> {
        let sizes = std::iter::once(self.rule.index()).chain(self.larger.iter().map(|&(order, _)| order));
        for (at, order) in sizes.enumerate() {
            let set = self.set(vpn, order);
            let ways = &self.held[set * self.ways..(set + 1) * self.ways];
            let fits = |h: &Held| {
                (h.tag == asid || h.tag == GLOBAL)
                    && h.whole == (at != 0)
                    && h.covers(vpn)
                    && (at == 0 || h.order() == order)
            };
            if let Some(way) = ways.iter().position(|h| h.as_ref().is_some_and(fits)) {
                return Some(set * self.ways + way);
            }
        }
        None
    }

    fn slot(&self, at: usize, held: &Held) -> Slot {
        Slot { at: at as u32, size: self.class(held) }
    }

    /// What the entry at `slot`, which is occupied, says of `vpn`, and the size of the page that it says it of.
    pub fn read(&self, slot: Slot, vpn: Vpn) -> (Value, PageOrder) {
        let held = self.held[slot.at as usize].as_ref().expect("a slot is of an entry");
        (if held.whole { held.value } else { held.value.at(R::frame(held, vpn)) }, held.order())
    }

    fn class(&self, held: &Held) -> u8 {
        match held.whole {
            true => self.rule.class(held.order()),
            false if held.count() == 1 => BASE,
            false => SEVERAL,
        }
    }

    pub fn hit(&mut self, asid: Asid, vpn: Vpn) -> Option<Slot> {
        let at = self.seek(asid, vpn)?;
        each!(&mut self.order, keys => mmulab_sets::Keys::touch(keys, at / self.ways, at % self.ways));
        self.held[at].as_ref().map(|held| self.slot(at, held))
    }

    /// What the entry at `at` knows of the line of base page `vpn`.
    pub fn line(&self, at: u32, vpn: Vpn) -> Option<Line> {
        let held = self.held[at as usize].filter(|h| !h.whole)?;
        let mut line = Line::of_one(vpn, held.value.at(R::frame(&held, vpn)));
        for slot in 0..8 {
            let page = Vpn(line.first.0 + slot);
            if held.covers(page) {
                line.add(slot as usize, R::frame(&held, page).0);
            }
        }
        Some(line)
    }

    /// Each base page the entry translates, or the page of the table it is.
    fn tell(held: &Held, change: Change, tell: &mut impl FnMut(Change, Asid, &Entry)) {
        if held.whole {
            return tell(change, held.tag, &held.value.entry(held.first, held.order()));
        }
        for vpn in held.each() {
            tell(change, held.tag, &held.value.at(R::frame(held, vpn)).entry(vpn, PageOrder::P4K));
        }
    }

    fn count(&mut self, held: &Held, by: i32) {
        self.room = self.room.wrapping_add_signed(-by as isize);
        if !held.whole {
            return;
        }
        let order = held.order();
        match self.larger.binary_search_by_key(&order, |l| l.0) {
            Ok(at) => {
                self.larger[at].1 = self.larger[at].1.wrapping_add_signed(by);
                if self.larger[at].1 == 0 {
                    self.larger.remove(at);
                }
            }
            Err(at) => self.larger.insert(at, (order, by.unsigned_abs())),
        }
    }

    fn remove(&mut self, at: usize) -> Option<Held> {
        let held = self.held[at].take()?;
        each!(&mut self.order, keys => mmulab_sets::Keys::remove(keys, at / self.ways, at % self.ways));
        self.count(&held, -1);
        Some(held)
    }

    /// Takes in what is known of `vpn`. No two entries then speak for one base page.
    pub fn put(&mut self, asid: Asid, vpn: Vpn, known: Known, mut tell: impl FnMut(Change, Asid, &Entry)) -> Slot {
        let (mut new, walked) = match known {
            Known::Line(line) => (self.rule.make(line), line.walked),
            Known::Large(line) => (page(vpn, line.value, line.order), false),
            Known::Page(value, order) => (page(vpn, value, order), false),
        };
        new.tag = if new.value.global() { GLOBAL } else { asid };
        self.fills += 1;
        self.counts.coalesced += u64::from(walked && new.count() > 1);
        Self::tell(&new, Change::Filled, &mut tell);
        let set = self.set_of(&new);
        let mut place = None;
        for at in set * self.ways..(set + 1) * self.ways {
            let Some(old) = self.held[at] else { continue };
            if old.tag != new.tag || old.whole != new.whole {
                continue;
            }
            let joined = if new.whole {
                (old.first == new.first && old.pages == new.pages).then_some(new)
            } else {
                self.rule.join(&old, &new)
            };
            if let Some(joined) = joined {
                new = joined;
                match place {
                    None => place = Some(at),
                    Some(_) => {
                        self.remove(at);
                    }
                }
            } else if !new.whole && new.each().any(|vpn| old.covers(vpn)) {
                self.counts.destroyed += u64::from(old.count() > 1);
                let left = R::without(&old, &new);
                let gone = match left {
                    Some(left) => Held { mask: old.mask & !left.mask, ..old },
                    None => old,
                };
                Self::tell(&gone, Change::Dropped, &mut tell);
                match left {
                    Some(_) => self.held[at] = left,
                    None => {
                        self.invalidations += 1;
                        self.remove(at);
                    }
                }
            }
        }
        let at = match place {
            Some(at) => {
                each!(&mut self.order, keys => mmulab_sets::Keys::touch(keys, set, at - set * self.ways));
                at
            }
            None => {
                self.next = (self.next + 1) % EMPTY;
                let (next, room) = (self.next, self.room != 0);
                let (way, _) = each!(&mut self.order, keys => mmulab_sets::Keys::admit(keys, set, next, room));
                let at = set * self.ways + way;
                if let Some(old) = self.held[at].take() {
                    self.evictions += 1;
                    self.count(&old, -1);
                    Self::tell(&old, Change::Evicted, &mut tell);
                }
                self.count(&new, 1);
                at
            }
        };
        self.held[at] = Some(new);
        self.slot(at, &new)
    }

    /// Drops every entry with the tag of `asid`, none of the global ones; everything for `None`.
    pub fn drop_space(&mut self, asid: Option<Asid>, tell: impl FnMut(Change, Asid, &Entry)) {
        self.drop_if(|h| asid.is_none_or(|asid| h.tag == asid && h.tag != GLOBAL), tell);
    }

    /// Drops every entry of `asid`, and every global one, that translates one of the `pages` base pages from `first`.
    pub fn drop_range(&mut self, asid: Asid, first: Vpn, pages: u64, tell: impl FnMut(Change, Asid, &Entry)) {
        self.drop_if(|h| (h.tag == asid || h.tag == GLOBAL) && h.meets(first, pages), tell);
    }

    /// Drops the entries that meet `drop`, which is told whose they are.
    fn drop_if(&mut self, drop: impl Fn(&Held) -> bool, mut tell: impl FnMut(Change, Asid, &Entry)) {
        if self.room == self.held.len() {
            return;
        }
        for at in 0..self.held.len() {
            if self.held[at].as_ref().is_some_and(&drop)
                && let Some(old) = self.remove(at)
            {
                self.invalidations += 1;
                Self::tell(&old, Change::Dropped, &mut tell);
            }
        }
    }

    /// The page's dirty bit has been set: an entry of this page alone says so, one of several is no longer true.
    pub fn set_dirty(&mut self, asid: Asid, vpn: Vpn) {
        let Some(at) = self.seek(asid, vpn) else { return };
        match &mut self.held[at] {
            Some(held) if held.whole || held.count() == 1 => held.value = held.value.dirtied(),
            Some(held) if !held.value.dirty() => {
                self.counts.destroyed += 1;
                self.invalidations += 1;
                self.remove(at);
            }
            _ => {}
        }
    }

    /// Fills, evictions and invalidations.
    pub fn traffic(&self) -> [u64; 3] {
        [self.fills, self.evictions, self.invalidations]
    }

    /// Tells of all that is held.
    pub fn all(&self, mut tell: impl FnMut(Asid, &Entry)) {
        for held in self.held.iter().flatten() {
            Self::tell(held, Change::Filled, &mut |_, tag, entry| tell(tag, entry));
        }
    }
}

/// A page of the table.
fn page(vpn: Vpn, value: Value, order: PageOrder) -> Held {
    let pages = order.base_pages() as u32;
    let mask = if pages < 8 { ((1u16 << pages) - 1) as u8 } else { u8::MAX };
    Held { tag: GLOBAL, whole: true, mask, low: 0, pages, first: vpn.align_down(order), value }
}
