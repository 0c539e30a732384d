//! Storage of the designs whose entries are pages of one size each: sets of ways, searched by key.

use crate::{
    Entry,
    key::{self, GLOBAL, MAX_SIZES, Value, key},
};
use mmulab_addr::{Asid, PageOrder, Vpn};
use mmulab_assoc::{EMPTY, Keys, SetIndex, Store, each};

/// Where an entry was found or written. Eight bytes, and what it says stays where it is: it passes through registers.
#[derive(Clone, Copy)]
pub struct Slot {
    /// Where it lies.
    pub at: u32,
    /// The number of its size, or of its class.
    pub size: u8,
}

/// An entry that made way for another.
pub struct Gone {
    key: u64,
    pub order: PageOrder,
    pub value: Value,
}

impl Gone {
    pub fn asid(&self) -> Asid {
        key::asid(self.key)
    }

    pub fn vpn(&self) -> Vpn {
        key::vpn(self.key)
    }

    pub fn entry(&self) -> Entry {
        self.value.entry(self.vpn(), self.order)
    }
}

/// An array of pages.
pub struct Pages {
    store: Store,
    body: Body,
}

/// Data that an array keeps besides its keys.
pub struct Body {
    fills: u64,
    evictions: u64,
    invalidations: u64,
    /// The sizes, where a search finds them without a detour.
    orders: [PageOrder; MAX_SIZES],
    sets: SetIndex,
    /// By set and way.
    values: Vec<Value>,
    /// Entries held of each size.
    held: [u32; MAX_SIZES],
    /// Bit `n`: entries of size number `n` are held; a size of which none is held is not searched.
    present: u8,
    /// Empty ways in all.
    empty: u32,
    /// Global entries held: while there are none, no lookup need look for them.
    globals: u32,
}

impl Pages {
    /// An array of `entries`, empty.
    pub fn new(store: Store, sets: usize, entries: u32, sizes: &[PageOrder]) -> Self {
        let mut orders = [PageOrder::P4K; MAX_SIZES];
        orders[..sizes.len()].copy_from_slice(sizes);
        let body = Body {
            fills: 0,
            evictions: 0,
            invalidations: 0,
            orders,
            sets: SetIndex::new(sets),
            values: vec![Value::default(); sets * each!(&store, keys => keys.stride())],
            held: [0; MAX_SIZES],
            present: 0,
            empty: entries,
            globals: 0,
        };
        Self { store, body }
    }

    /// The entry that translates `vpn`, which counts as used. Sizes are searched in order; the address space's own
    /// entry comes before a global one.
    #[inline(always)]
    pub fn hit(&mut self, asid: Asid, vpn: Vpn) -> Option<Slot> {
        // Most programs have no page of 1 GiB, so that the array for these is empty.
        if self.body.present == 0 {
            return None;
        }
        each!(&mut self.store, keys => {
            let (slot, set, way) = self.body.seek(keys, asid, vpn)?;
            keys.touch(set, way);
            Some(slot)
        })
    }

    /// The entry that translates `vpn` as a page of size number `size`, which counts as used.
    pub fn hit_size(&mut self, asid: Asid, vpn: Vpn, size: usize) -> Option<Slot> {
        each!(&mut self.store, keys => {
            let (slot, set, way) = self.body.seek_among(keys, asid, vpn, self.body.present & 1 << size)?;
            keys.touch(set, way);
            Some(slot)
        })
    }

    /// The entry that translates `vpn`, without counting it as used.
    pub fn find(&self, asid: Asid, vpn: Vpn) -> Option<Slot> {
        each!(&self.store, keys => self.body.seek(keys, asid, vpn)).map(|(slot, ..)| slot)
    }

    /// Value of the entry at `slot`.
    #[inline(always)]
    pub fn value(&self, slot: Slot) -> Value {
        self.body.values[slot.at as usize]
    }

    /// Has it say something else.
    pub fn set_value(&mut self, slot: Slot, value: Value) {
        self.body.values[slot.at as usize] = value;
    }

    /// The size of size number `size`.
    #[inline(always)]
    pub fn order(&self, size: u8) -> PageOrder {
        self.body.orders[usize::from(size)]
    }

    /// Writes an entry of size number `size` for the page that holds `vpn`, most recently used. It goes in place of one
    /// with the same key (`absent` states that none has it), else into the first empty way, else into the victim's.
    /// Returns its place and the entry that it replaced.
    #[inline(always)]
    pub fn put(&mut self, asid: Asid, vpn: Vpn, size: u8, value: Value, absent: bool) -> (Slot, Option<Gone>) {
        each!(&mut self.store, keys => self.body.put(keys, asid, vpn, size, value, absent))
    }

    /// An entry was written to the array that stands for this one.
    pub fn count_fill(&mut self) {
        self.body.fills += 1;
    }

    /// Drops the entry at `slot`.
    pub fn drop_at(&mut self, slot: Slot) {
        each!(&mut self.store, keys => {
            let stride = keys.stride();
            self.body.remove(keys, slot.at as usize / stride, slot.at as usize % stride);
        });
    }

    /// Drops what translates `vpn` as a page of size number `size`: the address space's own and the global one.
    pub fn drop_one(&mut self, asid: Asid, vpn: Vpn, size: usize) -> [Option<Entry>; 2] {
        each!(&mut self.store, keys => self.body.drop_one(keys, asid, vpn, size))
    }

    /// Drops every entry of `asid`, none of the global ones; everything for `None`. Each goes to `gone`.
    pub fn drop_space(&mut self, asid: Option<Asid>, mut gone: impl FnMut(&Entry)) {
        each!(&mut self.store, keys => match asid {
            Some(asid) => self.body.drop_if(keys, |tag, _, _| tag == asid && tag != GLOBAL, &mut gone),
            None => self.body.drop_if(keys, |_, _, _| true, &mut gone),
        });
    }

    /// Drops the entries of `asid`, and the global ones, that meet the `pages` base pages from `first`, telling `gone`.
    pub fn drop_range(&mut self, asid: Asid, first: Vpn, pages: u64, mut gone: impl FnMut(&Entry)) {
        each!(&mut self.store, keys => self.body.drop_range(keys, asid, first, pages, &mut gone));
    }

    /// Replaces by nothing every entry of which `lose` says so, telling `gone`: another one took its place and is not
    /// modelled.
    pub fn displace(&mut self, mut lose: impl FnMut() -> bool, mut gone: impl FnMut(&Entry)) {
        let before = self.body.invalidations;
        each!(&mut self.store, keys => self.body.drop_if(keys, |_, _, _| lose(), &mut gone));
        self.body.evictions += std::mem::replace(&mut self.body.invalidations, before) - before;
    }

    /// Calls `tell` for every valid entry with its ASID.
    pub fn all(&self, mut tell: impl FnMut(Asid, &Entry)) {
        each!(&self.store, keys => self.body.all(keys, &mut tell));
    }

    /// Fills, evictions and invalidations so far.
    pub fn traffic(&self) -> [u64; 3] {
        [self.body.fills, self.body.evictions, self.body.invalidations]
    }
}

impl Body {
    /// The set that the page of `order` that holds `vpn` falls in: the low bits of its number, or the remainder where
    /// the sets are no power of two.
    #[inline(always)]
    fn set(&self, vpn: Vpn, order: PageOrder) -> usize {
        self.sets.of(vpn.0 >> order.get())
    }

    #[inline(always)]
    fn seek(&self, keys: &impl Keys, asid: Asid, vpn: Vpn) -> Option<(Slot, usize, usize)> {
        self.seek_among(keys, asid, vpn, self.present)
    }

    /// Among the sizes whose bit is set.
    #[inline(always)]
    fn seek_among(&self, keys: &impl Keys, asid: Asid, vpn: Vpn, mut sizes: u8) -> Option<(Slot, usize, usize)> {
        while sizes != 0 {
            let size = sizes.trailing_zeros() as usize;
            sizes &= sizes - 1;
            let order = self.orders[size];
            let set = self.set(vpn, order);
            let mut way = keys.find(set, key(vpn, asid, order, size));
            if way.is_none() && self.globals != 0 {
                way = keys.find(set, key(vpn, GLOBAL, order, size));
            }
            if let Some(way) = way {
                let at = set * keys.stride() + way;
                return Some((Slot { at: at as u32, size: size as u8 }, set, way));
            }
        }
        None
    }

    #[inline(always)]
    fn put(
        &mut self,
        keys: &mut impl Keys,
        asid: Asid,
        vpn: Vpn,
        size: u8,
        value: Value,
        absent: bool,
    ) -> (Slot, Option<Gone>) {
        let order = self.orders[usize::from(size)];
        let global = value.global();
        let wanted = key(vpn, if global { GLOBAL } else { asid }, order, usize::from(size));
        let set = self.set(vpn, order);
        self.fills += 1;
        if !absent && let Some(way) = keys.find(set, wanted) {
            keys.touch(set, way);
            let at = set * keys.stride() + way;
            self.values[at] = value;
            return (Slot { at: at as u32, size }, None);
        }
        debug_assert!(keys.find(set, wanted).is_none());
        let (way, old) = keys.admit(set, wanted, self.empty != 0);
        let at = set * keys.stride() + way;
        let slot = Slot { at: at as u32, size };
        let was = std::mem::replace(&mut self.values[at], value);
        if old == EMPTY {
            self.count_in(wanted);
            return (slot, None);
        }
        self.evictions += 1;
        // Most entries make way for one of their kind: nothing to count then.
        if key::size(old) != usize::from(size) || self.globals != 0 || global {
            self.count_in(wanted);
            self.count_out(old);
        }
        (slot, Some(Gone { key: old, order: self.orders[key::size(old)], value: was }))
    }

    fn count_in(&mut self, new: u64) {
        let size = key::size(new);
        self.held[size] += 1;
        self.present |= 1 << size;
        self.empty = self.empty.wrapping_sub(1);
        self.globals += u32::from(key::asid(new) == GLOBAL);
    }

    fn count_out(&mut self, old: u64) {
        let size = key::size(old);
        self.held[size] -= 1;
        self.present &= !(u8::from(self.held[size] == 0) << size);
        self.empty = self.empty.wrapping_add(1);
        self.globals -= u32::from(key::asid(old) == GLOBAL);
    }

    fn remove(&mut self, keys: &mut impl Keys, set: usize, way: usize) -> Entry {
        let old = keys.key(set, way);
        keys.remove(set, way);
        self.count_out(old);
        self.invalidations += 1;
        self.values[set * keys.stride() + way].entry(key::vpn(old), self.orders[key::size(old)])
    }

    fn drop_if(
        &mut self,
        keys: &mut impl Keys,
        mut drop: impl FnMut(Asid, Vpn, PageOrder) -> bool,
        gone: &mut impl FnMut(&Entry),
    ) {
        if self.present == 0 {
            return;
        }
        for set in 0..self.sets.count() {
            for way in 0..keys.stride() {
                let k = keys.key(set, way);
                if k != EMPTY && drop(key::asid(k), key::vpn(k), self.orders[key::size(k)]) {
                    gone(&self.remove(keys, set, way));
                }
            }
        }
    }

    /// Drops what translates `vpn` as a page of size number `size`: the address space's own and the global one.
    fn drop_one(&mut self, keys: &mut impl Keys, asid: Asid, vpn: Vpn, size: usize) -> [Option<Entry>; 2] {
        if self.held[size] == 0 {
            return [None; 2];
        }
        let order = self.orders[size];
        let set = self.set(vpn, order);
        [asid, GLOBAL].map(|tag| {
            let way = keys.find(set, key(vpn, tag, order, size))?;
            Some(self.remove(keys, set, way))
        })
    }

    fn all(&self, keys: &impl Keys, tell: &mut impl FnMut(Asid, &Entry)) {
        for set in 0..self.sets.count() {
            for way in 0..keys.stride() {
                let k = keys.key(set, way);
                if k != EMPTY {
                    let value = self.values[set * keys.stride() + way];
                    tell(key::asid(k), &value.entry(key::vpn(k), self.orders[key::size(k)]));
                }
            }
        }
    }

    fn drop_range(&mut self, keys: &mut impl Keys, asid: Asid, first: Vpn, pages: u64, gone: &mut impl FnMut(&Entry)) {
        for size in 0..MAX_SIZES {
            if self.held[size] == 0 {
                continue;
            }
            let order = self.orders[size];
            let (from, to) = (first.0 >> order.get(), (first.0 + pages - 1) >> order.get());
            if to - from >= self.values.len() as u64 {
                let meets = |vpn: Vpn| (from..=to).contains(&(vpn.0 >> order.get()));
                self.drop_if(keys, |tag, vpn, o| o == order && (tag == asid || tag == GLOBAL) && meets(vpn), gone);
                continue;
            }
            for page in from..=to {
                let vpn = Vpn(page << order.get());
                let set = self.set(vpn, order);
                for tag in [asid, GLOBAL] {
                    if let Some(way) = keys.find(set, key(vpn, tag, order, size)) {
                        gone(&self.remove(keys, set, way));
                    }
                }
            }
        }
    }
}
