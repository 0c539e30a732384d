//! The TLBs as docs/concepts/tlbs.md states them, by lists and without a thought for speed. It shares no code with the
//! crate but the descriptions and the words entries and outcomes are told in.

pub mod flat;
pub mod mixed;

use mmulab_addr::{Access, Asid, PageOrder, Pfn, Prot, Side, VirtAddr, Vpn};
use mmulab_assoc::{Replacement, Ways};
use mmulab_pagetable::{Format, Invalidate, Leaf, Walked};
use mmulab_tlb::{ArrayDesc, Entry, HierarchyDesc, Inclusion, Observer, Outcome, Placement, Probe, SideCounts};
use std::collections::BTreeMap;

/// A change of an array, as observers and the model list them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Change {
    Filled(usize, Entry),
    Evicted(usize, Entry),
    Invalidated(usize, Entry),
}

#[derive(Default)]
pub struct Listener(pub Vec<Change>);

impl Observer for Listener {
    const ACTIVE: bool = true;

    fn filled(&mut self, array: usize, entry: &Entry) {
        self.0.push(Change::Filled(array, *entry));
    }

    fn evicted(&mut self, array: usize, entry: &Entry) {
        self.0.push(Change::Evicted(array, *entry));
    }

    fn invalidated(&mut self, array: usize, entry: &Entry) {
        self.0.push(Change::Invalidated(array, *entry));
    }
}

pub fn array(name: &str, level: u8, side: Placement, entries: u32, ways: Ways, sizes: &[PageOrder]) -> ArrayDesc {
    ArrayDesc {
        hit_cycles: if level == 1 { 0 } else { 7 },
        ..ArrayDesc::plain(name, (level, side), (entries, ways), sizes)
    }
}

pub fn walked(leaf: Leaf) -> Walked {
    Walked { leaf, line: [0; 8], slot: 0, level: 1, format: Format::x86(4) }
}

#[derive(Clone, Copy)]
struct Held {
    tag: u16,
    entry: Entry,
    used: u64,
}

struct NaiveArray {
    desc: ArrayDesc,
    sizes: Vec<PageOrder>,
    sets: Vec<Vec<Option<Held>>>,
    bits: Vec<Vec<bool>>,
    rng: u128,
    hits: BTreeMap<String, u64>,
    fills: u64,
    evictions: u64,
    invalidations: u64,
}

impl NaiveArray {
    fn set_of(&self, vpn: Vpn, order: PageOrder) -> usize {
        ((vpn.0 >> order.get()) % self.sets.len() as u64) as usize
    }

    fn find(&self, asid: u16, vpn: Vpn) -> Option<(usize, usize)> {
        for &order in &self.sizes {
            let set = self.set_of(vpn, order);
            for tag in [asid, 0] {
                let is = |h: &Option<Held>| {
                    h.is_some_and(|h| h.tag == tag && h.entry.order == order && h.entry.vpn == vpn.align_down(order))
                };
                if let Some(way) = self.sets[set].iter().position(is) {
                    return Some((set, way));
                }
            }
        }
        None
    }

    fn used(&mut self, set: usize, way: usize, now: u64) {
        if let Some(held) = &mut self.sets[set][way] {
            held.used = now;
        }
        let (mut low, mut high, mut node) = (0, self.sets[set].len(), 1);
        while self.desc.replacement == Replacement::TreePlru && high - low > 1 {
            let middle = (low + high) / 2;
            self.bits[set][node] = way < middle;
            (low, high, node) = if way < middle { (low, middle, 2 * node) } else { (middle, high, 2 * node + 1) };
        }
    }

    fn victim(&mut self, set: usize) -> usize {
        let ways = self.sets[set].len();
        match self.desc.replacement {
            Replacement::Lru => {
                (0..ways).min_by_key(|&w| self.sets[set][w].expect("a full set has no empty way").used).expect("ways")
            }
            Replacement::TreePlru => {
                let (mut low, mut high, mut node) = (0, ways, 1);
                while high - low > 1 {
                    let middle = (low + high) / 2;
                    let up = self.bits[set][node];
                    (low, high, node) = if up { (middle, high, 2 * node + 1) } else { (low, middle, 2 * node) };
                }
                low
            }
            Replacement::Random => {
                self.rng = self.rng.wrapping_mul(0x2360_ed05_1fc6_5da4_4385_df64_9fcc_f645);
                let mixed = (self.rng >> 64) as u64 ^ self.rng as u64;
                let drawn = mixed.rotate_right((self.rng >> 122) as u32) as u32;
                ((u64::from(drawn) * ways as u64) >> 32) as usize
            }
        }
    }
}

/// The TLBs of a core.
pub struct Naive {
    arrays: Vec<NaiveArray>,
    inclusive: bool,
    now: u64,
    /// By level and side.
    pub counts: [[SideCounts; 2]; 2],
    pub told: Vec<Change>,
}

fn serves(desc: &ArrayDesc, level: u8, side: Side) -> bool {
    let side = match side {
        Side::Instruction => Placement::Instruction,
        Side::Data => Placement::Data,
    };
    desc.level == level && (desc.side == side || desc.side == Placement::Both)
}

impl Naive {
    pub fn new(desc: &[ArrayDesc], rules: &HierarchyDesc) -> Self {
        let arrays = desc.iter().enumerate().map(|(at, d)| {
            let ways = match d.ways {
                Ways::Full => d.entries,
                Ways::Count(n) => n,
            } as usize;
            let sets = d.entries as usize / ways;
            let mut sizes = d.sizes.clone();
            sizes.sort();
            NaiveArray {
                desc: d.clone(),
                hits: sizes.iter().map(|s| (s.to_string(), 0)).collect(),
                sizes,
                sets: vec![vec![None; ways]; sets],
                bits: vec![vec![false; 2 * ways]; sets],
                rng: (0xcafe_f00d_d15e_a5e5 ^ ((at as u128 + 1) << 1)) | 1,
                fills: 0,
                evictions: 0,
                invalidations: 0,
            }
        });
        Self {
            arrays: arrays.collect(),
            inclusive: rules.inclusion == Inclusion::Inclusive,
            now: 0,
            counts: Default::default(),
            told: Vec::new(),
        }
    }

    fn search(&mut self, level: u8, side: Side, asid: u16, vpn: Vpn) -> Option<(usize, Entry, u32)> {
        self.now += 1;
        let counts = &mut self.counts[usize::from(level) - 1][side as usize];
        counts.accesses += 1;
        for (index, a) in self.arrays.iter_mut().enumerate().filter(|(_, a)| serves(&a.desc, level, side)) {
            if let Some((set, way)) = a.find(asid, vpn) {
                a.used(set, way, self.now);
                counts.hits += 1;
                let entry = a.sets[set][way].expect("found").entry;
                *a.hits.get_mut(&entry.order.to_string()).expect("its size") += 1;
                let place = a.sizes.iter().position(|&s| s == entry.order).expect("its size") as u32 + 1;
                let probes = if a.desc.probe == Probe::Serial { place } else { 1 };
                return Some((index, entry, a.desc.hit_cycles * probes));
            }
        }
        counts.misses += 1;
        None
    }

    pub fn access(&mut self, asid: Asid, va: VirtAddr, access: Access) -> Outcome {
        let side = access.side();
        if let Some((_, entry, _)) = self.search(1, side, asid.0, va.vpn()) {
            return judge(1, 0, entry, access);
        }
        if let Some((_, entry, cycles)) = self.search(2, side, asid.0, va.vpn()) {
            self.put_level(1, side, asid.0, va.vpn(), entry);
            return judge(2, cycles, entry, access);
        }
        let takes =
            |a: &NaiveArray| a.desc.hit_cycles * if a.desc.probe == Probe::Serial { a.sizes.len() as u32 } else { 1 };
        let slowest = self.arrays.iter().filter(|a| serves(&a.desc, 2, side)).map(takes).max();
        Outcome::Miss { cycles: slowest.unwrap_or(0) }
    }

    pub fn fill(&mut self, asid: Asid, va: VirtAddr, access: Access, leaf: &Leaf) {
        let entry = Entry {
            vpn: va.vpn().align_down(leaf.order),
            pfn: leaf.pfn,
            order: leaf.order,
            prot: leaf.prot,
            user: leaf.user,
            dirty: leaf.dirty,
            global: leaf.global,
        };
        for level in [2, 1] {
            self.put_level(level, access.side(), asid.0, va.vpn(), entry);
        }
    }

    fn put_level(&mut self, level: u8, side: Side, asid: u16, vpn: Vpn, entry: Entry) {
        let candidates = || {
            self.arrays.iter().enumerate().filter(|(_, a)| serves(&a.desc, level, side) && a.desc.victim_of.is_none())
        };
        let whole = candidates().find(|(_, a)| a.sizes.contains(&entry.order)).map(|(i, _)| (i, entry.order));
        let part =
            || candidates().find_map(|(i, a)| a.desc.smash_to.filter(|&part| part < entry.order).map(|part| (i, part)));
        let Some((index, order)) = whole.or_else(part) else { return };
        let first = vpn.align_down(order);
        let part = Entry { vpn: first, pfn: Pfn(entry.pfn.0 + first.0 - entry.vpn.0), order, ..entry };
        self.put(index, if part.global { 0 } else { asid }, part);
    }

    fn put(&mut self, index: usize, tag: u16, entry: Entry) {
        self.now += 1;
        let a = &mut self.arrays[index];
        a.fills += 1;
        let set = a.set_of(entry.vpn, entry.order);
        let same = |h: &Option<Held>| {
            h.is_some_and(|h| h.tag == tag && h.entry.vpn == entry.vpn && h.entry.order == entry.order)
        };
        let mut old = None;
        let way = match a.sets[set].iter().position(same).or_else(|| a.sets[set].iter().position(Option::is_none)) {
            Some(way) => way,
            None => {
                let way = a.victim(set);
                old = a.sets[set][way];
                a.evictions += 1;
                way
            }
        };
        a.sets[set][way] = Some(Held { tag, entry, used: 0 });
        a.used(set, way, self.now);
        self.told.push(Change::Filled(index, entry));
        let Some(old) = old else { return };
        self.told.push(Change::Evicted(index, old.entry));
        let name = self.arrays[index].desc.name.clone();
        for below in 0..self.arrays.len() {
            let b = &self.arrays[below];
            if b.desc.victim_of.as_ref() == Some(&name) && b.sizes.contains(&old.entry.order) {
                self.put(below, old.tag, old.entry);
            }
        }
        if self.inclusive && self.arrays[index].desc.level == 2 {
            let (first, pages) = (old.entry.vpn.0, old.entry.order.base_pages());
            self.drop(|a, h| a.level == 1 && (h.tag == old.tag || h.tag == 0) && meets(&h.entry, first, pages));
        }
    }

    fn drop(&mut self, which: impl Fn(&ArrayDesc, &Held) -> bool) {
        for (index, a) in self.arrays.iter_mut().enumerate() {
            for held in a.sets.iter_mut().flatten() {
                if let Some(h) = held.filter(|h| which(&a.desc, h)) {
                    *held = None;
                    a.invalidations += 1;
                    self.told.push(Change::Invalidated(index, h.entry));
                }
            }
        }
    }

    pub fn set_dirty(&mut self, asid: Asid, va: VirtAddr) {
        for a in self.arrays.iter_mut().filter(|a| a.desc.side != Placement::Instruction) {
            if let Some((set, way)) = a.find(asid.0, va.vpn()) {
                a.sets[set][way].as_mut().expect("found").entry.dirty = true;
            }
        }
    }

    pub fn invalidate(&mut self, what: &Invalidate) {
        let ours = |h: &Held, asid: Asid| h.tag == asid.0 || h.tag == 0;
        match *what {
            Invalidate::Page { asid, va, order } => {
                self.drop(|_, h| ours(h, asid) && meets(&h.entry, va.vpn().align_down(order).0, order.base_pages()))
            }
            Invalidate::Range { asid, range, .. } => {
                let first = range.start.vpn().0;
                let pages = range.end.raw().div_ceil(4096) - first;
                self.drop(|_, h| ours(h, asid) && range.bytes() > 0 && meets(&h.entry, first, pages));
            }
            Invalidate::Asid(asid) => self.drop(|_, h| h.tag == asid.0 && !h.entry.global),
            Invalidate::All => self.drop(|_, _| true),
        }
    }

    /// Hits by size, fills, evictions and invalidations of each array.
    pub fn array_counts(&self) -> Vec<(BTreeMap<String, u64>, u64, u64, u64)> {
        self.arrays.iter().map(|a| (a.hits.clone(), a.fills, a.evictions, a.invalidations)).collect()
    }
}

fn meets(e: &Entry, first: u64, pages: u64) -> bool {
    e.vpn.0 < first + pages && first < e.vpn.0 + e.order.base_pages()
}

fn judge(level: u8, cycles: u32, entry: Entry, access: Access) -> Outcome {
    let right = match access {
        Access::Fetch => entry.prot.has(Prot::X),
        Access::Read => entry.prot != Prot::NONE,
        Access::Write => entry.prot.has(Prot::W),
    };
    match (right, access == Access::Write && !entry.dirty, level) {
        (false, ..) => Outcome::Denied { level, cycles },
        (true, true, _) => Outcome::NeedDirty { level, cycles },
        (true, false, 1) => Outcome::L1 { entry },
        (true, false, _) => Outcome::L2 { entry, cycles },
    }
}
