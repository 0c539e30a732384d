//! One array: sets of ways, searched by key.
//!
//! A design that finds or fills otherwise (coalescing, mirrors, skewed sets) is another file with these methods, and an
//! enum of designs in the hierarchy.

use crate::{
    ArrayDesc, Entry, GeometryError, Placement, Probe,
    key::{self, GLOBAL, MAX_SIZES, Value, key},
};
use mmulab_addr::{Asid, PageOrder, Vpn};
use mmulab_sets::{EMPTY, Keys, Store, each, geometry};

/// Most entries an array may have: far above any TLB built, and small enough that no description exhausts memory.
const MAX_ENTRIES: u32 = 1 << 16;
/// Longest latency: far above any, and small enough that no sum overflows.
const MAX_CYCLES: u32 = 10_000;

/// An array in use.
pub struct Array {
    pub name: String,
    pub level: u8,
    pub placement: Placement,
    pub smash_to: Option<PageOrder>,
    pub sizes: Vec<PageOrder>,
    /// Latency of a hit, by size number.
    pub hit_cycles: [u32; MAX_SIZES],
    /// Latency of finding nothing.
    pub miss_cycles: u32,
    /// Hits by size number.
    pub hits: [u64; MAX_SIZES],
    pub body: Body,
    store: Store,
}

/// What an array keeps beside its keys.
pub struct Body {
    pub fills: u64,
    pub evictions: u64,
    pub invalidations: u64,
    /// The sizes, where a search finds them without a detour.
    orders: [PageOrder; MAX_SIZES],
    sets: u64,
    /// `sets - 1` where that is a mask; else sets are found by modulo.
    mask: Option<u64>,
    /// By set and way.
    values: Vec<Value>,
    /// Entries held of each size.
    held: [u32; MAX_SIZES],
    /// Bit `n`: entries of size number `n` are held; a size nobody holds is not searched.
    present: u8,
    /// Empty ways in all.
    empty: u32,
    /// Global entries held: while there are none, no lookup need look for them.
    globals: u32,
}

/// Where an entry lies.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Slot {
    at: u32,
    /// The size number.
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

impl Array {
    pub fn new(desc: &ArrayDesc, seed: u64) -> Result<Self, GeometryError> {
        let bad = |what: String| Err(GeometryError { array: desc.name.clone(), what });
        if !(1..=MAX_ENTRIES).contains(&desc.entries) {
            return bad(format!("{} entries: give 1 to {MAX_ENTRIES}", desc.entries));
        }
        let (sets, ways) = match geometry(u64::from(desc.entries), desc.ways, desc.replacement) {
            Ok(shape) => shape,
            Err(what) => return bad(what),
        };
        if !matches!(desc.level, 1 | 2) {
            return bad(format!("level is {}: give 1 or 2", desc.level));
        }
        if desc.level == 1 && (desc.hit_cycles != 0 || desc.probe != Probe::Parallel) {
            return bad("a first level answers within the pipeline: leave out hit_cycles and probe".into());
        }
        if desc.hit_cycles > MAX_CYCLES {
            return bad(format!("hit_cycles is {}: give 0 to {MAX_CYCLES}", desc.hit_cycles));
        }
        if desc.sizes.is_empty() {
            return bad("sizes is empty: name at least one page size".into());
        }
        if desc.sizes.len() > MAX_SIZES {
            return bad(format!("{} sizes: give at most {MAX_SIZES}", desc.sizes.len()));
        }
        let mut sizes = desc.sizes.clone();
        sizes.sort_unstable();
        if let Some(twice) = sizes.windows(2).find(|w| w[0] == w[1]) {
            return bad(format!("sizes names {} twice: name it once", twice[0]));
        }
        if let Some(part) = desc.smash_to
            && !sizes.contains(&part)
        {
            return bad(format!("smash_to is {part}: name one of its sizes"));
        }
        let serial = desc.probe == Probe::Serial;
        let mut orders = [PageOrder::P4K; MAX_SIZES];
        orders[..sizes.len()].copy_from_slice(&sizes);
        let store = Store::new(sets, ways, desc.replacement, seed);
        let body = Body {
            fills: 0,
            evictions: 0,
            invalidations: 0,
            orders,
            sets: sets as u64,
            mask: sets.is_power_of_two().then_some(sets as u64 - 1),
            values: vec![Value::default(); sets * each!(&store, keys => keys.stride())],
            held: [0; MAX_SIZES],
            present: 0,
            empty: desc.entries,
            globals: 0,
        };
        Ok(Self {
            name: desc.name.clone(),
            level: desc.level,
            placement: desc.side,
            smash_to: desc.smash_to,
            hit_cycles: std::array::from_fn(|n| desc.hit_cycles * if serial { n as u32 + 1 } else { 1 }),
            miss_cycles: desc.hit_cycles * if serial { sizes.len() as u32 } else { 1 },
            sizes,
            hits: [0; MAX_SIZES],
            body,
            store,
        })
    }

    /// Where the translation of `vpn` lies: smallest size first, the address space's own before a global one. It is used.
    #[inline(always)]
    pub fn hit(&mut self, asid: Asid, vpn: Vpn) -> Option<Slot> {
        each!(&mut self.store, keys => {
            let (slot, set, way) = self.body.seek(keys, asid, vpn)?;
            keys.touch(set, way);
            Some(slot)
        })
    }

    /// The page-table entry's dirty bit has been set.
    pub fn set_dirty(&mut self, asid: Asid, vpn: Vpn) {
        if let Some((slot, ..)) = each!(&self.store, keys => self.body.seek(keys, asid, vpn)) {
            let value = &mut self.body.values[slot.at as usize];
            *value = value.dirtied();
        }
    }

    /// What the entry at `slot` says.
    #[inline(always)]
    pub fn value(&self, slot: Slot) -> Value {
        self.body.values[slot.at as usize]
    }

    /// The size of size number `size`.
    #[inline(always)]
    pub fn order(&self, size: u8) -> PageOrder {
        self.body.orders[usize::from(size)]
    }

    /// Writes an entry of size number `size` for the page that holds `vpn`, most recently used: in place of one with the
    /// same key (which `absent` tells there is not), else in the first empty way, else in the victim's. Where it is now, and
    /// what it replaced.
    #[inline(always)]
    pub fn put(&mut self, asid: Asid, vpn: Vpn, size: u8, value: Value, absent: bool) -> (Slot, Option<Gone>) {
        each!(&mut self.store, keys => self.body.put(keys, asid, vpn, size, value, absent))
    }

    /// Drops every entry for which `drop` holds of its tag, first page and size, telling `gone`.
    pub fn drop_if(&mut self, drop: impl Fn(Asid, Vpn, PageOrder) -> bool, mut gone: impl FnMut(&Entry)) {
        each!(&mut self.store, keys => self.body.drop_if(keys, drop, &mut gone));
    }

    /// Drops the entries of `asid`, and the global ones, that meet the `pages` base pages from `first`, telling `gone`.
    pub fn drop_range(&mut self, asid: Asid, first: Vpn, pages: u64, mut gone: impl FnMut(&Entry)) {
        each!(&mut self.store, keys => self.body.drop_range(keys, asid, first, pages, &mut gone));
    }
}

impl Body {
    /// The set that the page of `order` that holds `vpn` falls in: the low bits of its number, or the remainder where
    /// the sets are no power of two.
    #[inline(always)]
    fn set(&self, vpn: Vpn, order: PageOrder) -> usize {
        let index = vpn.0 >> order.get();
        match self.mask {
            Some(mask) => (index & mask) as usize,
            None => (index % self.sets) as usize,
        }
    }

    #[inline(always)]
    fn seek(&self, keys: &impl Keys, asid: Asid, vpn: Vpn) -> Option<(Slot, usize, usize)> {
        let mut sizes = self.present;
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
                return Some((Slot { at: (set * keys.stride() + way) as u32, size: size as u8 }, set, way));
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
        drop: impl Fn(Asid, Vpn, PageOrder) -> bool,
        gone: &mut impl FnMut(&Entry),
    ) {
        if self.present == 0 {
            return;
        }
        for set in 0..self.sets as usize {
            for way in 0..keys.stride() {
                let k = keys.key(set, way);
                if k != EMPTY && drop(key::asid(k), key::vpn(k), self.orders[key::size(k)]) {
                    gone(&self.remove(keys, set, way));
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
