//! Storage of the designs whose entries are groups of base pages: a lookup compares all entries of a set. Groups lie in
//! the set that their design chooses; pages of the table as they are (`whole`) in that of their own number.

use super::{
    Change, FillInput, Line, Storage,
    group::{BASE, EntryOf, GroupDesign, GroupEntry, SEVERAL},
};
use crate::{
    CoalescingCounts, Entry,
    key::{GLOBAL, Value},
    pages::Slot,
};
use mmulab_addr::{Asid, PageOrder, Vpn};
use mmulab_assoc::{EMPTY, Keys, SetIndex, Store, each};

/// The entries of an array under one design.
pub struct GroupStore<R: GroupDesign> {
    design: R,
    sets: SetIndex,
    ways: usize,
    /// Pages of the table held, by size: a size of which none is held is not searched.
    larger: Vec<(PageOrder, u32)>,
    /// Entries held that are not `whole`.
    groups: usize,
    /// Which way of a set is replaced next. Its keys are but marks of occupied ways, each different.
    order: Store,
    next: u64,
    held: Vec<Option<EntryOf<R>>>,
    room: usize,
    fills: u64,
    evictions: u64,
    invalidations: u64,
    counts: CoalescingCounts,
}

impl<R: GroupDesign> GroupStore<R> {
    pub fn new(design: R, sets: usize, ways: usize, order: Store) -> Self {
        Self {
            design,
            sets: SetIndex::new(sets),
            ways,
            larger: Vec::new(),
            groups: 0,
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
        self.sets.of(vpn.0 >> order.get())
    }

    fn set_of(&self, held: &EntryOf<R>) -> usize {
        self.set(held.first, if held.whole { held.order() } else { self.design.index() })
    }

    /// The entry that translates `vpn`: a group of base pages first, then pages of the table by size.
    fn seek(&self, asid: Asid, vpn: Vpn) -> Option<usize> {
        let sizes = std::iter::once(self.design.index()).chain(self.larger.iter().map(|&(order, _)| order));
        for (at, order) in sizes.enumerate() {
            let set = self.set(vpn, order);
            let ways = &self.held[set * self.ways..(set + 1) * self.ways];
            let fits = |h: &EntryOf<R>| {
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

    fn slot(&self, at: usize, held: &EntryOf<R>) -> Slot {
        Slot { at: at as u32, size: self.class(held) }
    }

    fn class(&self, held: &EntryOf<R>) -> u8 {
        match held.whole {
            true => self.design.class(held.order()),
            false if held.count() == 1 => BASE,
            false => SEVERAL,
        }
    }

    /// Passes each base page the entry translates to `tell`, or the page of the table it is.
    fn tell(held: &EntryOf<R>, change: Change, tell: &mut impl FnMut(Change, Asid, &Entry)) {
        if held.whole {
            return tell(change, held.tag, &held.value.entry(held.first, held.order()));
        }
        for vpn in held.each() {
            tell(change, held.tag, &R::value(held, vpn).entry(vpn, PageOrder::P4K));
        }
    }

    fn count(&mut self, held: &EntryOf<R>, by: i32) {
        self.room = self.room.wrapping_add_signed(-by as isize);
        if !held.whole {
            self.groups = self.groups.wrapping_add_signed(by as isize);
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

    fn remove(&mut self, at: usize) -> Option<EntryOf<R>> {
        let held = self.held[at].take()?;
        each!(&mut self.order, keys => keys.remove(at / self.ways, at % self.ways));
        self.count(&held, -1);
        Some(held)
    }

    /// Leaves `left` of the entry at `at`, and passes the removed pages to `tell`.
    fn cut(&mut self, at: usize, left: Option<EntryOf<R>>, tell: &mut impl FnMut(Change, Asid, &Entry)) {
        let Some(old) = self.held[at] else { return };
        let gone = left.map_or(old, |left| GroupEntry { mask: old.mask & !left.mask, ..old });
        Self::tell(&gone, Change::Dropped, tell);
        match left {
            Some(_) => self.held[at] = left,
            None => {
                self.remove(at);
            }
        }
    }

    /// Drops the entries that meet `drop`.
    fn drop_if(&mut self, drop: impl Fn(&EntryOf<R>) -> bool, mut tell: impl FnMut(Change, Asid, &Entry)) {
        if self.room == self.held.len() {
            return;
        }
        for at in 0..self.held.len() {
            if self.held[at].as_ref().is_some_and(&drop) {
                self.invalidations += 1;
                self.cut(at, None, &mut tell);
            }
        }
    }

    /// A page of the table has been read for `vpn`: entries of groups that translate it would be found before it.
    fn drop_groups_of(&mut self, vpn: Vpn, tag: Asid, tell: &mut impl FnMut(Change, Asid, &Entry)) {
        let set = self.set(vpn, self.design.index());
        for at in set * self.ways..(set + 1) * self.ways {
            if self.held[at].is_some_and(|old| !old.whole && old.tag == tag && old.covers(vpn)) {
                self.counts.destroyed += 1;
                self.invalidations += 1;
                self.cut(at, None, tell);
            }
        }
    }
}

impl<R: GroupDesign> Storage for GroupStore<R> {
    fn hit(&mut self, asid: Asid, vpn: Vpn) -> Option<Slot> {
        let at = self.seek(asid, vpn)?;
        each!(&mut self.order, keys => keys.touch(at / self.ways, at % self.ways));
        self.held[at].as_ref().map(|held| self.slot(at, held))
    }

    fn read(&self, slot: Slot, vpn: Vpn) -> (Value, PageOrder) {
        let held = self.held[slot.at as usize].as_ref().expect("a slot is of an entry");
        (if held.whole { held.value } else { R::value(held, vpn) }, held.order())
    }

    fn line(&self, at: u32, vpn: Vpn) -> Option<Line> {
        let held = self.held[at as usize].filter(|h| !h.whole)?;
        let value = R::value(&held, vpn);
        let mut line = Line::of_one(vpn, value);
        for slot in 0..8 {
            let page = Vpn(line.first.0 + slot);
            if held.covers(page) && R::value(&held, page).alike(value) {
                line.add(slot as usize, R::value(&held, page).pfn().0);
            }
        }
        Some(line)
    }

    /// No two entries of groups then speak for one base page.
    fn put(&mut self, asid: Asid, vpn: Vpn, input: FillInput, mut tell: impl FnMut(Change, Asid, &Entry)) -> Slot {
        let (value, order) = input.page();
        let tag = if value.global() { GLOBAL } else { asid };
        let alone;
        let line = match input {
            FillInput::Line(line) => Some(line),
            // A base page without neighbours is a line of one, not a page of the table beside the groups.
            FillInput::Page(value, PageOrder::P4K) => {
                alone = Line::of_one(vpn, value);
                Some(&alone)
            }
            FillInput::Large(_) | FillInput::Page(..) => None,
        };
        let made = match line {
            Some(line) => {
                let set = self.set(vpn, self.design.index());
                self.design.make(line, tag, &self.held[set * self.ways..(set + 1) * self.ways])
            }
            None => GroupEntry::of_page(vpn, value, order),
        };
        let walked = line.is_some_and(|line| line.walked);
        let mut new = GroupEntry { tag, ..made };
        self.fills += 1;
        self.counts.coalesced += u64::from(walked && new.count() > 1);
        Self::tell(&new, Change::Filled, &mut tell);
        if self.groups != 0 && new.whole && order == PageOrder::P4K {
            self.drop_groups_of(vpn, tag, &mut tell);
        }
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
                self.design.join(&old, &new)
            };
            if let Some(joined) = joined {
                new = GroupEntry { tag, ..joined };
                match place {
                    None => place = Some(at),
                    Some(_) => {
                        self.remove(at);
                    }
                }
            } else if !new.whole && new.each().any(|vpn| old.covers(vpn)) {
                self.counts.destroyed += u64::from(old.count() > 1);
                let left = R::without(&old, &new);
                self.invalidations += u64::from(left.is_none());
                self.cut(at, left, &mut tell);
            }
        }
        let at = match place {
            Some(at) => {
                each!(&mut self.order, keys => keys.touch(set, at - set * self.ways));
                at
            }
            None => {
                self.next = (self.next + 1) % EMPTY;
                let (next, room) = (self.next, self.room != 0);
                let (way, _) = each!(&mut self.order, keys => keys.admit(set, next, room));
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

    fn drop_space(&mut self, asid: Option<Asid>, tell: impl FnMut(Change, Asid, &Entry)) {
        self.drop_if(|h| asid.is_none_or(|asid| h.tag == asid && h.tag != GLOBAL), tell);
    }

    fn drop_range(&mut self, asid: Asid, first: Vpn, pages: u64, mut tell: impl FnMut(Change, Asid, &Entry)) {
        if self.room == self.held.len() {
            return;
        }
        for at in 0..self.held.len() {
            let is_named = |h: &EntryOf<R>| (h.tag == asid || h.tag == GLOBAL) && h.meets(first, pages);
            if let Some(old) = self.held[at].filter(is_named) {
                self.invalidations += 1;
                let left = if old.whole { None } else { R::invalidated(&old, first, pages) };
                self.cut(at, left, &mut tell);
            }
        }
    }

    fn set_dirty(&mut self, asid: Asid, vpn: Vpn) {
        let Some(at) = self.seek(asid, vpn) else { return };
        let Some(held) = self.held[at] else { return };
        let dirty =
            if held.whole { Some(GroupEntry { value: held.value.dirtied(), ..held }) } else { R::dirtied(&held, vpn) };
        if dirty.is_some() {
            self.held[at] = dirty;
        } else {
            self.counts.destroyed += 1;
            self.invalidations += 1;
            self.remove(at);
        }
    }

    fn traffic(&self) -> [u64; 3] {
        [self.fills, self.evictions, self.invalidations]
    }

    fn all(&self, mut tell: impl FnMut(Asid, &Entry)) {
        for held in self.held.iter().flatten() {
            Self::tell(held, Change::Filled, &mut |_, tag, entry| tell(tag, entry));
        }
    }

    fn coalescing(&self) -> Option<CoalescingCounts> {
        Some(self.counts)
    }
}
