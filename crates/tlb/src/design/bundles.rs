//! Storage of the designs whose entries are bundles of pages of any size: an entry says from which page on, how many, and
//! which of them; a search asks all entries of the one set that the address names.
//!
//! With one index for all sizes a superpage belongs to every set that one of its parts falls in, and is written to all of
//! them (`mix`); with an index for each size it has one set (`colt++`).

use super::{Change, Known, Line};
use crate::{
    CoalescingCounts, Entry, MirrorCounts,
    desc::{Frames, Mirrors, Span},
    key::{GLOBAL, Value},
    pages::Slot,
};
use mmulab_addr::{Asid, PageOrder, Vpn};
use mmulab_sets::{Keys, Store, each};

/// Most pages of a bundle that is a bitmap: the bits of a word.
pub const MAX_BITMAP: u16 = 64;

/// What sets the designs apart.
#[derive(Clone, Debug)]
pub struct Shape {
    /// The page sizes, smallest first.
    pub sizes: Vec<PageOrder>,
    /// By size: the most pages of a bundle, a power of two.
    pub group: Vec<u16>,
    /// By size: whether the pages are told by a bitmap, else by a length.
    pub bitmap: Vec<bool>,
    /// By size: what chooses the set is the number of the page of this size.
    pub index: Vec<PageOrder>,
    /// Where bundles told by a length may begin.
    pub span: Span,
    /// Where their frames may lie.
    pub frames: Frames,
    /// What becomes of copies in other sets.
    pub mirrors: Mirrors,
    /// Pages that differ in the dirty bit alone may share a bundle, which is clean then.
    pub mixed_dirty: bool,
}

/// An entry; of no pages where the way is empty.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Bundle {
    /// The first page, by base pages.
    base: u64,
    /// Of that page, which a bitmap may leave out.
    value: Value,
    /// Which of the pages, for bitmaps; all ones for runs.
    mask: u64,
    tag: u16,
    /// Pages, those left out counted.
    len: u16,
    /// log2 of the base pages of one.
    order: u8,
    /// The number of its size.
    size: u8,
}

impl Bundle {
    /// The place of `vpn`'s page among its pages, if it is one of them.
    #[inline(always)]
    fn place(&self, vpn: Vpn) -> Option<u64> {
        let at = vpn.0.wrapping_sub(self.base) >> self.order;
        (at < u64::from(self.len) && self.mask >> (at & 63) & 1 == 1).then_some(at)
    }

    /// Whether `vpn`'s page is one of its pages or of those it leaves out: whether its tag is that of the page.
    #[inline(always)]
    fn near(&self, vpn: Vpn) -> bool {
        vpn.0.wrapping_sub(self.base) >> self.order < u64::from(self.len)
    }

    fn pages(&self) -> impl Iterator<Item = Vpn> + '_ {
        let page = |at: u64| Vpn(self.base + (at << self.order));
        (0..u64::from(self.len)).map(page).filter(|&vpn| self.place(vpn).is_some())
    }

    fn count(&self) -> u32 {
        let within = if self.len < 64 { (1 << self.len) - 1 } else { u64::MAX };
        (self.mask & within).count_ones() + u32::from(self.len).saturating_sub(64)
    }

    fn end(&self) -> u64 {
        self.base + (u64::from(self.len) << self.order)
    }

    /// Whether it has each page of `other`, of the same size.
    fn holds(&self, other: &Self) -> bool {
        other.pages().all(|vpn| self.place(vpn).is_some())
    }

    /// What it says of the page that holds `vpn`.
    fn value_of(&self, vpn: Vpn) -> Value {
        self.value.moved(((vpn.0 - self.base) >> self.order) << self.order)
    }

    fn order(&self) -> PageOrder {
        PageOrder::new(self.order)
    }

    /// Whether it meets the `pages` base pages from `first`.
    fn meets(&self, first: Vpn, pages: u64) -> bool {
        let (from, to) = (first.0.max(self.base), (first.0 + pages).min(self.end()));
        if self.mask == u64::MAX {
            return from < to;
        }
        from < to && self.pages().any(|vpn| vpn.0 < to && vpn.0 + (1 << self.order) > from)
    }

    fn tell(&self, change: Change, tell: &mut impl FnMut(Change, Asid, &Entry)) {
        for vpn in self.pages() {
            tell(change, Asid(self.tag), &self.value_of(vpn).entry(vpn, self.order()));
        }
    }
}

/// The entries of an array of bundles.
pub struct Bundles {
    shape: Shape,
    sets: usize,
    ways: usize,
    /// `sets - 1` where that is a mask; else sets are found by remainder.
    mask: Option<u64>,
    /// The different ways to choose a set, each once.
    indexes: Vec<PageOrder>,
    held: Vec<Bundle>,
    room: usize,
    /// Who goes next, by set; its keys are but marks of occupied ways.
    order: Store,
    /// Sets to write to: scratch, kept for its memory.
    targets: Vec<usize>,
    pub fills: u64,
    pub evictions: u64,
    pub invalidations: u64,
    pub counts: CoalescingCounts,
    pub mirroring: MirrorCounts,
}

/// The key of an occupied way.
const TAKEN: u64 = 0;

impl Bundles {
    pub fn new(shape: Shape, sets: usize, ways: usize, order: Store) -> Self {
        let mut indexes = shape.index.clone();
        indexes.sort_unstable();
        indexes.dedup();
        Self {
            sets,
            ways,
            mask: sets.is_power_of_two().then_some(sets as u64 - 1),
            indexes,
            held: vec![Bundle::default(); sets * ways],
            room: sets * ways,
            order,
            targets: Vec::with_capacity(sets),
            fills: 0,
            evictions: 0,
            invalidations: 0,
            counts: CoalescingCounts::default(),
            mirroring: MirrorCounts::default(),
            shape,
        }
    }

    #[inline(always)]
    fn wrap(&self, index: u64) -> usize {
        match self.mask {
            Some(mask) => (index & mask) as usize,
            None => (index % self.sets as u64) as usize,
        }
    }

    /// The set that a lookup of `vpn` as a page of some size asks.
    #[inline(always)]
    fn set(&self, vpn: Vpn, index: PageOrder) -> usize {
        self.wrap(vpn.0 >> index.get())
    }

    /// The entry of `set` that translates `vpn`, and how many have its tag: those of bitmaps may not tell of this page.
    #[inline(always)]
    fn seek_in(&self, set: usize, asid: Asid, vpn: Vpn) -> (Option<usize>, u32) {
        let first = set * self.ways;
        let (mut found, mut count) = (None, 0);
        for (way, held) in self.held[first..first + self.ways].iter().enumerate() {
            if held.near(vpn) && (held.tag == asid.0 || held.tag == GLOBAL.0) {
                count += 1;
                if held.place(vpn).is_some() {
                    found = found.or(Some(first + way));
                }
            }
        }
        (found, count)
    }

    fn touch(&mut self, at: usize) {
        each!(&mut self.order, keys => keys.touch(at / self.ways, at % self.ways));
    }

    fn slot(&self, at: usize) -> Slot {
        Slot { at: at as u32, size: self.held[at].size }
    }

    /// What translates `vpn`; it is used. Copies that the set holds of it are found out now, and go.
    #[inline]
    pub fn hit(&mut self, asid: Asid, vpn: Vpn) -> Option<Slot> {
        for n in 0..self.indexes.len() {
            let set = self.set(vpn, self.indexes[n]);
            let (mut found, count) = self.seek_in(set, asid, vpn);
            if count > 1 {
                found = self.unite(set, asid, vpn);
            }
            if let Some(at) = found {
                self.touch(at);
                return Some(self.slot(at));
            }
        }
        None
    }

    /// Makes one of the entries of `set` that have the tag of `vpn`: the first takes in what the others know beyond it. Of those
    /// that translate `vpn` and cannot be joined the larger stays. What translates `vpn` then.
    #[cold]
    fn unite(&mut self, set: usize, asid: Asid, vpn: Vpn) -> Option<usize> {
        let ways = set * self.ways..(set + 1) * self.ways;
        let alike = |h: &Bundle| h.near(vpn) && (h.tag == asid.0 || h.tag == GLOBAL.0);
        for keep in ways.clone() {
            for at in keep + 1..ways.end {
                let (first, other) = (self.held[keep], self.held[at]);
                if !alike(&first) || !alike(&other) {
                    continue;
                }
                let both = first.place(vpn).is_some() && other.place(vpn).is_some();
                match self.join(&first, &other) {
                    Some(joined) => self.held[keep] = joined,
                    None if both && other.count() > first.count() => self.held[keep] = other,
                    None if both => {}
                    None => continue,
                }
                self.remove(at);
                self.mirroring.duplicates += 1;
            }
        }
        ways.into_iter().find(|&at| alike(&self.held[at]) && self.held[at].place(vpn).is_some())
    }

    /// What the entry at `slot`, which is occupied, says of `vpn`, and the size of the page that it says it of.
    #[inline(always)]
    pub fn read(&self, slot: Slot, vpn: Vpn) -> (Value, PageOrder) {
        let held = &self.held[slot.at as usize];
        (held.value_of(vpn), held.order())
    }

    /// What the entry at `at` knows of the eight pages of its size around `vpn`.
    pub fn line(&self, at: u32, vpn: Vpn) -> Option<Line> {
        let held = &self.held[at as usize];
        let mut line = Line::of_one_sized(vpn, held.order(), held.value_of(vpn));
        for slot in 0..8u64 {
            let page = Vpn(line.first.0 + (slot << held.order));
            if held.place(page).is_some() {
                line.add(slot as usize, held.value_of(page).pfn().0);
            }
        }
        Some(line)
    }

    fn remove(&mut self, at: usize) {
        self.held[at] = Bundle::default();
        self.room += 1;
        each!(&mut self.order, keys => keys.remove(at / self.ways, at % self.ways));
    }

    /// The first page that a bundle of size number `size` with `vpn` may have, and the first beyond.
    fn limits(&self, size: usize, vpn: u64) -> (u64, u64) {
        let order = self.shape.sizes[size].get();
        let span = u64::from(self.shape.group[size]) << order;
        let free = !self.shape.bitmap[size] && self.shape.span == Span::Anywhere;
        if free { (0, u64::MAX) } else { (vpn & !(span - 1), (vpn & !(span - 1)) + span) }
    }

    /// Whether pages may share an entry that lie `distance` base pages below their frames.
    fn distance_allowed(&self, size: usize, distance: u64) -> bool {
        let span = u64::from(self.shape.group[size]) << self.shape.sizes[size].get();
        self.shape.frames == Frames::Any || distance & (span - 1) == 0
    }

    /// The entry that what is known of `vpn` gives.
    fn make(&self, asid: Asid, vpn: Vpn, known: &Known) -> (Bundle, bool) {
        let (value, order) = known.page();
        let size = self.shape.sizes.iter().position(|&o| o == order).unwrap_or_default();
        let tag = if value.global() { GLOBAL.0 } else { asid.0 };
        let page = vpn.align_down(order).0;
        let (from, _) = self.limits(size, page);
        let shift = order.get();
        let bitmap = self.shape.bitmap[size];
        let one = Bundle { base: page, value, mask: u64::MAX, tag, len: 1, order: shift, size: size as u8 };
        let based = |base: u64, len: u16, mask: u64, value: Value| Bundle {
            base,
            len,
            mask,
            value: value.moved(base.wrapping_sub(page)),
            ..one
        };
        let group = self.shape.group[size];
        let alone = if bitmap { based(from, group, 1 << ((page - from) >> shift), value) } else { one };
        let (Known::Line(line) | Known::Large(line)) = known else { return (alone, false) };
        let distance = value.pfn().0.wrapping_sub(page);
        if group == 1 || !self.distance_allowed(size, distance) {
            return (alone, line.walked);
        }
        let agree = line.same | if self.shape.mixed_dirty { line.other_dirty } else { 0 };
        let (from, to) = self.limits(size, page);
        let belongs = |slot: usize| {
            let at = line.first.0 + ((slot as u64) << shift);
            (from..to).contains(&at) && agree >> slot & 1 == 1 && line.pfns[slot].wrapping_sub(at) == distance
        };
        let taken = if bitmap {
            (0..8).filter(|&slot| belongs(slot)).fold(0u8, |mask, slot| mask | 1 << slot)
        } else {
            let below = (0..line.at).rev().take_while(|&slot| belongs(slot)).count();
            let above = (line.at + 1..8).take_while(|&slot| belongs(slot)).count();
            // The run is no longer than the limit where bundles may begin anywhere: what lies behind goes first.
            let below = below.min(usize::from(group) - 1);
            let above = above.min(usize::from(group) - 1 - below);
            (((1u16 << (below + above + 1)) - 1) << (line.at - below)) as u8
        };
        let value = if taken & line.other_dirty != 0 { value.cleaned() } else { value };
        let bundle = if bitmap {
            let at = |slot: usize| (line.first.0 + ((slot as u64) << shift)).wrapping_sub(from) >> shift;
            let mask = (0..8).filter(|slot| taken >> slot & 1 == 1).fold(0, |mask, slot| mask | 1 << at(slot));
            based(from, group, mask, value)
        } else {
            let first = line.first.0 + (u64::from(taken.trailing_zeros()) << shift);
            based(first, taken.count_ones() as u16, u64::MAX, value)
        };
        (bundle, line.walked)
    }

    /// Both in one, if they may be. Its dirty bit is set if both theirs are, or if the new one speaks for all pages of the
    /// old.
    fn join(&self, old: &Bundle, new: &Bundle) -> Option<Bundle> {
        let size = usize::from(new.size);
        let same_kind = (old.tag, old.size) == (new.tag, new.size) && old.len != 0;
        if !same_kind || !old.value.cleaned().alike(new.value.cleaned()) {
            return None;
        }
        let distance = |b: &Bundle| b.value.pfn().0.wrapping_sub(b.base);
        if distance(old) != distance(new) {
            return None;
        }
        if !self.shape.mixed_dirty && !old.value.alike(new.value) {
            return None;
        }
        let joined = if self.shape.bitmap[size] {
            (old.base == new.base).then_some(Bundle { mask: old.mask | new.mask, ..*new })?
        } else {
            let (from, to) = self.limits(size, new.base);
            let base = old.base.min(new.base);
            let end = old.end().max(new.end());
            let len = (end - base) >> new.order;
            let fits = base >= from && end <= to && len <= u64::from(self.shape.group[size]);
            if old.base > new.end() || new.base > old.end() || !fits {
                return None;
            }
            Bundle { base, len: len as u16, value: new.value.moved(base.wrapping_sub(new.base)), ..*new }
        };
        if joined.count() > 1 && !self.distance_allowed(size, distance(new)) {
            return (old.pages().eq(new.pages())).then_some(*new);
        }
        let dirty = new.value.dirty() && (old.value.dirty() || new.holds(old));
        let value = if dirty { joined.value } else { joined.value.cleaned() };
        Some(Bundle { value, ..joined })
    }

    /// The sets that pages of `bundle` fall in, that of `vpn` first.
    fn find_targets(&mut self, bundle: &Bundle, vpn: Vpn) {
        let index = self.shape.index[usize::from(bundle.size)];
        let probed = self.set(vpn, index);
        let mut targets = std::mem::take(&mut self.targets);
        targets.clear();
        let regions = (1u64 << bundle.order) >> index.get();
        if regions >= self.sets as u64 {
            targets.extend((0..self.sets).filter(|&set| set != probed));
        } else {
            for page in bundle.pages() {
                let first = page.0 >> index.get();
                targets.extend((first..first + regions.max(1)).map(|at| self.wrap(at)));
                if targets.len() > 4 * self.sets {
                    targets.sort_unstable();
                    targets.dedup();
                }
            }
            targets.sort_unstable();
            targets.dedup();
            targets.retain(|&set| set != probed);
        }
        self.targets = targets;
    }

    /// Writes `new` into a way of `set`, the first empty one or else the victim's. Where it is.
    fn admit(&mut self, set: usize, new: &Bundle, tell: &mut impl FnMut(Change, Asid, &Entry)) -> usize {
        let room = self.room != 0;
        let (way, _) = each!(&mut self.order, keys => keys.admit(set, TAKEN, room));
        let at = set * self.ways + way;
        let old = std::mem::replace(&mut self.held[at], *new);
        if old.len == 0 {
            self.room -= 1;
        } else {
            self.evictions += 1;
            old.tell(Change::Evicted, tell);
        }
        at
    }

    /// Takes in what is known of `vpn`.
    pub fn put(&mut self, asid: Asid, vpn: Vpn, known: Known, mut tell: impl FnMut(Change, Asid, &Entry)) -> Slot {
        let (mut new, walked) = self.make(asid, vpn, &known);
        self.fills += 1;
        self.counts.coalesced += u64::from(walked && new.count() > 1);
        let probed = self.set(vpn, self.shape.index[usize::from(new.size)]);
        let (mut place, mut grown) = (None, true);
        for at in probed * self.ways..(probed + 1) * self.ways {
            let old = self.held[at];
            if old.len == 0 || (old.tag != new.tag && old.tag != GLOBAL.0) {
                continue;
            }
            let held_it = old.place(vpn).is_some();
            match self.join(&old, &new) {
                Some(joined) if place.is_none() => {
                    grown = !(held_it && joined.count() == old.count());
                    self.mirroring.extended += u64::from(!held_it && old.count() < joined.count());
                    (new, place) = (joined, Some(at));
                }
                None if held_it => self.forget(at, vpn, &mut tell),
                _ => {}
            }
        }
        new.tell(Change::Filled, &mut tell);
        let at = match place {
            Some(at) => {
                self.held[at] = new;
                self.touch(at);
                at
            }
            None => self.admit(probed, &new, &mut tell),
        };
        self.mirroring.writes += 1;
        // An entry that was there and only changed what it says is this set's own affair.
        if grown {
            self.find_targets(&new, vpn);
            for n in 0..self.targets.len() {
                let set = self.targets[n];
                self.mirroring.writes += 1;
                self.mirror(set, &new, &mut tell);
            }
        }
        self.slot(at)
    }

    /// Writes a copy of `new` into `set`.
    fn mirror(&mut self, set: usize, new: &Bundle, tell: &mut impl FnMut(Change, Asid, &Entry)) {
        if self.shape.mirrors == Mirrors::Merged {
            self.mirroring.reads += 1;
            for at in set * self.ways..(set + 1) * self.ways {
                if let Some(joined) = self.join(&self.held[at], new) {
                    self.held[at] = joined;
                    return self.touch(at);
                }
            }
        }
        self.admit(set, new, tell);
    }

    /// What an entry says of `vpn` is no longer all there is to say: the page leaves it, or it goes.
    fn forget(&mut self, at: usize, vpn: Vpn, tell: &mut impl FnMut(Change, Asid, &Entry)) {
        let old = self.held[at];
        self.counts.destroyed += u64::from(old.count() > 1);
        let Some(place) = old.place(vpn) else { return };
        if self.shape.bitmap[usize::from(old.size)] && old.count() > 1 {
            self.held[at].mask &= !(1 << place);
            let page = vpn.align_down(old.order());
            tell(Change::Dropped, Asid(old.tag), &old.value_of(page).entry(page, old.order()));
        } else {
            self.invalidations += 1;
            old.tell(Change::Dropped, tell);
            self.remove(at);
        }
    }

    /// Drops every entry with the tag of `asid`, none of the global ones; everything for `None`.
    pub fn drop_space(&mut self, asid: Option<Asid>, mut tell: impl FnMut(Change, Asid, &Entry)) {
        if self.room == self.held.len() {
            return;
        }
        for at in 0..self.held.len() {
            let old = self.held[at];
            if old.len != 0 && asid.is_none_or(|asid| old.tag == asid.0 && old.tag != GLOBAL.0) {
                self.invalidations += 1;
                old.tell(Change::Dropped, &mut tell);
                self.remove(at);
            }
        }
    }

    /// Drops what `asid` has, and what is global, of the `pages` base pages from `first`: from bitmaps those pages, in every
    /// mirror; runs go whole, for they cannot have holes.
    pub fn drop_range(&mut self, asid: Asid, first: Vpn, pages: u64, mut tell: impl FnMut(Change, Asid, &Entry)) {
        if self.room == self.held.len() {
            return;
        }
        for at in 0..self.held.len() {
            let old = self.held[at];
            if old.len == 0 || (old.tag != asid.0 && old.tag != GLOBAL.0) || !old.meets(first, pages) {
                continue;
            }
            self.invalidations += 1;
            let mut gone = old;
            if self.shape.bitmap[usize::from(old.size)] {
                let hit = |vpn: &Vpn| vpn.0 < first.0 + pages && vpn.0 + (1 << old.order) > first.0;
                gone.mask = old.pages().filter(hit).filter_map(|vpn| old.place(vpn)).fold(0, |m, at| m | 1 << at);
            }
            gone.tell(Change::Dropped, &mut tell);
            if gone.count() == old.count() {
                self.remove(at);
            } else {
                self.held[at].mask &= !gone.mask;
            }
        }
    }

    /// The page's dirty bit has been set: an entry of this page alone says so; one of several stays clean, which is safe.
    pub fn set_dirty(&mut self, asid: Asid, vpn: Vpn) {
        for n in 0..self.indexes.len() {
            let (found, _) = self.seek_in(self.set(vpn, self.indexes[n]), asid, vpn);
            if let Some(at) = found {
                if self.held[at].count() == 1 {
                    self.held[at].value = self.held[at].value.dirtied();
                } else if !self.shape.mixed_dirty && !self.held[at].value.dirty() {
                    self.forget(at, vpn, &mut |_, _, _| {});
                }
                return;
            }
        }
    }

    /// Tells of all that is held, page by page and mirror by mirror.
    pub fn all(&self, mut tell: impl FnMut(Asid, &Entry)) {
        for held in &self.held {
            held.tell(Change::Filled, &mut |_, tag, entry| tell(tag, entry));
        }
    }
}
