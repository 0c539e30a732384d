//! One array: sets of ways, searched by key.

use crate::{
    ArrayDesc, Entry, GeometryError, Placement, Probe, Replacement, Ways,
    key::{self, EMPTY, GLOBAL, MAX_SIZES, key},
    recency::Recency,
};
use mmulab_addr::{Asid, PageOrder, Vpn};

/// Most ways a set may have.
const MAX_WAYS: u32 = 256;
/// Most entries an array may have.
const MAX_ENTRIES: u32 = 65536;

/// An array in use.
pub struct Array {
    pub name: String,
    pub level: u8,
    pub placement: Placement,
    pub hit_cycles: u32,
    pub serial: bool,
    pub smash_to: Option<PageOrder>,
    pub sizes: Vec<PageOrder>,
    /// Hits by size number.
    pub hits: [u64; MAX_SIZES],
    pub fills: u64,
    pub evictions: u64,
    pub invalidations: u64,
    sets: u64,
    /// `sets - 1` where that is a mask; else sets are found by modulo.
    mask: Option<u64>,
    ways: usize,
    /// Ways rounded up to what one compare covers; the ones above `ways` stay empty for ever.
    stride: usize,
    keys: Vec<u64>,
    entries: Vec<Entry>,
    recency: Recency,
    /// Entries held of each size: a size nobody holds is not searched.
    held: [u32; MAX_SIZES],
    /// Global entries held: while there are none, no lookup need look for them.
    globals: u32,
}

/// Where an entry lies.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Slot {
    set: usize,
    way: usize,
    /// The size number.
    pub size: usize,
}

const NOTHING: Entry = Entry {
    vpn: Vpn(0),
    pfn: mmulab_addr::Pfn(0),
    order: PageOrder::P4K,
    prot: mmulab_addr::Prot::NONE,
    dirty: false,
    global: false,
};

impl Array {
    pub fn new(desc: &ArrayDesc, seed: u64) -> Result<Self, GeometryError> {
        let bad = |what: String| Err(GeometryError { array: desc.name.clone(), what });
        let entries = desc.entries;
        if !(1..=MAX_ENTRIES).contains(&entries) {
            return bad(format!("entries is {entries}: give 1 to {MAX_ENTRIES}"));
        }
        let ways = match desc.ways {
            Ways::Full => entries,
            Ways::Count(ways) => ways,
        };
        if ways == 0 || entries % ways != 0 {
            let near = (1..=entries.min(MAX_WAYS)).filter(|w| entries.is_multiple_of(*w));
            let near = near.min_by_key(|w| w.abs_diff(ways)).unwrap_or(1);
            return bad(format!("{ways} ways do not divide {entries} entries; {near} would"));
        }
        if ways > MAX_WAYS {
            return bad(format!("{ways} ways are more than {MAX_WAYS}"));
        }
        if !matches!(desc.level, 1 | 2) {
            return bad(format!("level is {}: give 1 or 2", desc.level));
        }
        if desc.sizes.is_empty() {
            return bad("sizes is empty: name at least one page size".into());
        }
        if desc.sizes.len() > MAX_SIZES {
            return bad(format!("{} sizes are more than {MAX_SIZES}", desc.sizes.len()));
        }
        let mut sizes = desc.sizes.clone();
        sizes.sort_unstable();
        sizes.dedup();
        if sizes.len() != desc.sizes.len() {
            return bad("sizes names one page size twice".into());
        }
        if let Some(part) = desc.smash_to
            && !sizes.contains(&part)
        {
            return bad(format!("smash_to is {part}, which is not among its sizes"));
        }
        let sets = u64::from(entries / ways);
        let ways = ways as usize;
        let recency = match desc.replacement {
            Replacement::Lru => Recency::lru(sets as usize, ways),
            Replacement::TreePlru if !ways.is_power_of_two() => {
                return bad(format!("tree-plru needs a power of two of ways, not {ways}; use lru or random"));
            }
            Replacement::TreePlru => Recency::tree(sets as usize, ways),
            Replacement::Random => Recency::random(seed, ways),
        };
        let stride = match ways {
            1..=4 => 4,
            5..=8 => 8,
            9..=12 => 12,
            13..=16 => 16,
            more => more.next_multiple_of(8),
        };
        Ok(Self {
            name: desc.name.clone(),
            level: desc.level,
            placement: desc.side,
            hit_cycles: desc.hit_cycles,
            serial: desc.probe == Probe::Serial,
            smash_to: desc.smash_to,
            sizes,
            hits: [0; MAX_SIZES],
            fills: 0,
            evictions: 0,
            invalidations: 0,
            sets,
            mask: sets.is_power_of_two().then_some(sets - 1),
            ways,
            stride,
            keys: vec![EMPTY; sets as usize * stride],
            entries: vec![NOTHING; sets as usize * ways],
            recency,
            held: [0; MAX_SIZES],
            globals: 0,
        })
    }

    /// The set of the page of `order` that holds `vpn`.
    #[inline(always)]
    fn set(&self, vpn: Vpn, order: PageOrder) -> usize {
        let page = vpn.0 >> order.get();
        match self.mask {
            Some(mask) => (page & mask) as usize,
            None => (page % self.sets) as usize,
        }
    }

    /// The way of `set` that has `wanted`.
    #[inline(always)]
    fn find(&self, set: usize, wanted: u64) -> Option<usize> {
        /// All ways compared, then the first that matched: no branch per way.
        #[inline(always)]
        fn of<const N: usize>(keys: &[u64], wanted: u64) -> Option<usize> {
            let keys: &[u64; N] = keys[..N].try_into().expect("a set is a stride long");
            let mut matched = 0u32;
            for (way, &k) in keys.iter().enumerate() {
                matched |= u32::from(k == wanted) << way;
            }
            (matched != 0).then(|| matched.trailing_zeros() as usize)
        }
        let keys = &self.keys[set * self.stride..(set + 1) * self.stride];
        match self.stride {
            4 => of::<4>(keys, wanted),
            8 => of::<8>(keys, wanted),
            12 => of::<12>(keys, wanted),
            16 => of::<16>(keys, wanted),
            _ => keys.chunks_exact(8).enumerate().find_map(|(i, eight)| of::<8>(eight, wanted).map(|w| i * 8 + w)),
        }
    }

    /// Where the translation of `vpn` lies, and how many probes in turn that took.
    #[inline(always)]
    pub fn lookup(&self, asid: Asid, vpn: Vpn) -> (Option<Slot>, u32) {
        for size in 0..self.sizes.len() {
            if self.held[size] == 0 {
                continue;
            }
            let order = self.sizes[size];
            let set = self.set(vpn, order);
            if let Some(way) = self.find(set, key(vpn, asid, order, size)) {
                return (Some(Slot { set, way, size }), size as u32 + 1);
            }
            if self.globals != 0
                && let Some(way) = self.find(set, key(vpn, GLOBAL, order, size))
            {
                return (Some(Slot { set, way, size }), size as u32 + 1);
            }
        }
        (None, self.sizes.len() as u32)
    }

    #[inline(always)]
    pub fn entry(&self, slot: Slot) -> &Entry {
        &self.entries[slot.set * self.ways + slot.way]
    }

    #[inline(always)]
    pub fn entry_mut(&mut self, slot: Slot) -> &mut Entry {
        &mut self.entries[slot.set * self.ways + slot.way]
    }

    /// The entry was used.
    #[inline(always)]
    pub fn touch(&mut self, slot: Slot) {
        self.recency.touch(slot.set, slot.way);
    }

    /// What of `entry` (that translates `vpn`) the array would hold: all, a part, or nothing.
    #[inline]
    pub fn fit(&self, entry: &Entry, vpn: Vpn) -> Option<(usize, Entry)> {
        if let Some(size) = self.sizes.iter().position(|&o| o == entry.order) {
            return Some((size, *entry));
        }
        let part = self.smash_to.filter(|&part| part < entry.order)?;
        let size = self.sizes.iter().position(|&o| o == part)?;
        Some((size, entry.part(vpn.addr(), part)))
    }

    /// Writes `entry` of size number `size`, most recently used; returns what it replaced. An entry with the same key
    /// is overwritten in place; else the first empty way is taken; else the victim goes.
    #[inline]
    pub fn insert(&mut self, asid: Asid, size: usize, entry: Entry) -> Option<(Asid, Entry)> {
        let tag = if entry.global { GLOBAL } else { asid };
        let wanted = key(entry.vpn, tag, entry.order, size);
        let set = self.set(entry.vpn, entry.order);
        self.fills += 1;
        if let Some(way) = self.find(set, wanted) {
            self.entries[set * self.ways + way] = entry;
            self.recency.touch(set, way);
            return None;
        }
        let empty = self.find(set, EMPTY).filter(|&way| way < self.ways);
        let mut replaced = None;
        let way = match empty {
            Some(way) => way,
            None => {
                let way = self.recency.victim(set);
                let old = self.keys[set * self.stride + way];
                self.forget(old);
                self.evictions += 1;
                replaced = Some((key::asid(old), self.entries[set * self.ways + way]));
                way
            }
        };
        self.keys[set * self.stride + way] = wanted;
        self.entries[set * self.ways + way] = entry;
        self.held[size] += 1;
        self.globals += u32::from(entry.global);
        self.recency.touch(set, way);
        replaced
    }

    fn forget(&mut self, old: u64) {
        self.held[key::size(old)] -= 1;
        self.globals -= u32::from(key::asid(old) == GLOBAL);
    }

    /// Drops every entry for which `drop` holds, telling `gone`.
    pub fn retain(&mut self, mut drop: impl FnMut(Asid, &Entry) -> bool, mut gone: impl FnMut(&Entry)) {
        for set in 0..self.sets as usize {
            for way in 0..self.ways {
                let k = self.keys[set * self.stride + way];
                let entry = self.entries[set * self.ways + way];
                if k != EMPTY && drop(key::asid(k), &entry) {
                    self.keys[set * self.stride + way] = EMPTY;
                    self.forget(k);
                    gone(&entry);
                }
            }
        }
    }

    /// Drops the entries of `asid` (or global) that meet the `pages` base pages from `first`, telling `gone`.
    pub fn drop_range(&mut self, asid: Asid, first: Vpn, pages: u64, mut gone: impl FnMut(&Entry)) {
        for size in 0..self.sizes.len() {
            if self.held[size] == 0 {
                continue;
            }
            let order = self.sizes[size];
            let (from, to) = (first.0 >> order.get(), (first.0 + pages - 1) >> order.get());
            if to - from >= self.sets * self.ways as u64 {
                let meets = |e: &Entry| (from..=to).contains(&(e.vpn.0 >> order.get()));
                self.retain(|tag, e| e.order == order && (tag == asid || tag == GLOBAL) && meets(e), &mut gone);
                continue;
            }
            for page in from..=to {
                let vpn = Vpn(page << order.get());
                let set = self.set(vpn, order);
                for tag in [asid, GLOBAL] {
                    let wanted = key(vpn, tag, order, size);
                    if let Some(way) = self.find(set, wanted) {
                        self.keys[set * self.stride + way] = EMPTY;
                        self.forget(wanted);
                        gone(&self.entries[set * self.ways + way]);
                    }
                }
            }
        }
    }
}
