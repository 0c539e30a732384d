//! One array: sets of ways, searched by key.

use crate::{
    ArrayDesc, Entry, GeometryError, Placement, Probe,
    key::{self, GLOBAL, MAX_SIZES, key},
};
use mmulab_addr::{Asid, PageOrder, Vpn};
use mmulab_sets::{EMPTY, Sets, geometry};

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
    sets: Sets,
    /// By set and way.
    entries: Vec<Entry>,
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
        let (sets, ways) = match geometry(u64::from(desc.entries), desc.ways, desc.replacement) {
            Ok(shape) => shape,
            Err(what) => return bad(what),
        };
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
            sets: Sets::new(sets, ways, desc.replacement, seed),
            entries: vec![NOTHING; sets * ways],
            held: [0; MAX_SIZES],
            globals: 0,
        })
    }

    /// The set of the page of `order` that holds `vpn`.
    #[inline(always)]
    fn set(&self, vpn: Vpn, order: PageOrder) -> usize {
        self.sets.set_of(vpn.0 >> order.get())
    }

    #[inline(always)]
    fn at(&self, set: usize, way: usize) -> usize {
        set * self.sets.ways() + way
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
            if let Some(way) = self.sets.find(set, key(vpn, asid, order, size)) {
                return (Some(Slot { set, way, size }), size as u32 + 1);
            }
            if self.globals != 0
                && let Some(way) = self.sets.find(set, key(vpn, GLOBAL, order, size))
            {
                return (Some(Slot { set, way, size }), size as u32 + 1);
            }
        }
        (None, self.sizes.len() as u32)
    }

    #[inline(always)]
    pub fn entry(&self, slot: Slot) -> &Entry {
        &self.entries[self.at(slot.set, slot.way)]
    }

    #[inline(always)]
    pub fn entry_mut(&mut self, slot: Slot) -> &mut Entry {
        let at = self.at(slot.set, slot.way);
        &mut self.entries[at]
    }

    /// The entry was used.
    #[inline(always)]
    pub fn touch(&mut self, slot: Slot) {
        self.sets.touch(slot.set, slot.way);
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
        let put = self.sets.put(set, wanted);
        let at = self.at(set, put.way);
        let old = std::mem::replace(&mut self.entries[at], entry);
        if put.present {
            return None;
        }
        self.held[size] += 1;
        self.globals += u32::from(entry.global);
        put.replaced.map(|gone| {
            self.forget(gone);
            self.evictions += 1;
            (key::asid(gone), old)
        })
    }

    fn forget(&mut self, old: u64) {
        self.held[key::size(old)] -= 1;
        self.globals -= u32::from(key::asid(old) == GLOBAL);
    }

    /// Drops every entry for which `drop` holds, telling `gone`.
    pub fn retain(&mut self, mut drop: impl FnMut(Asid, &Entry) -> bool, mut gone: impl FnMut(&Entry)) {
        for set in 0..self.sets.sets() {
            for way in 0..self.sets.ways() {
                let k = self.sets.key(set, way);
                let entry = self.entries[self.at(set, way)];
                if k != EMPTY && drop(key::asid(k), &entry) {
                    self.sets.remove(set, way);
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
            if to - from >= self.entries.len() as u64 {
                let meets = |e: &Entry| (from..=to).contains(&(e.vpn.0 >> order.get()));
                self.retain(|tag, e| e.order == order && (tag == asid || tag == GLOBAL) && meets(e), &mut gone);
                continue;
            }
            for page in from..=to {
                let vpn = Vpn(page << order.get());
                let set = self.set(vpn, order);
                for tag in [asid, GLOBAL] {
                    let wanted = key(vpn, tag, order, size);
                    if let Some(way) = self.sets.find(set, wanted) {
                        self.sets.remove(set, way);
                        self.forget(wanted);
                        gone(&self.entries[self.at(set, way)]);
                    }
                }
            }
        }
    }
}
