//! Two levels of arrays, as one core has them.

use crate::{
    ArrayCounts, ArrayDesc, Entry, GeometryError, HierarchyCounts, HierarchyDesc, Inclusion, Observer, Outcome,
    SideCounts,
    array::{Array, Slot},
};
use mmulab_addr::{Access, Asid, PageOrder, Side, VirtAddr, VirtRange, Vpn};
use mmulab_pagetable::{Invalidate, Walked};
use std::collections::BTreeMap;

/// The TLBs of one core.
pub struct Hierarchy {
    arrays: Vec<Array>,
    /// Arrays searched at the first level, by side.
    first: [Vec<usize>; 2],
    /// Arrays searched at the second level, by side.
    second: [Vec<usize>; 2],
    /// For each array, the ones that take its evicted entries.
    victims: Vec<Vec<usize>>,
    /// Arrays that only take evicted entries.
    is_victim: Vec<bool>,
    inclusive: bool,
    counts: [SideCounts; 2],
    second_counts: [SideCounts; 2],
    /// The last page used, by lane.
    recent: [Recent; 2],
    /// Each side's lane: one for both where they share a first-level array, whose order of use is then common.
    lane: [usize; 2],
}

/// The last page a lane used, which is the most recently used entry of its array: touching it again changes nothing
/// but the counts.
#[derive(Clone, Copy)]
struct Recent {
    /// Base page and tag; [`NOBODY`] when something has changed since.
    page: u64,
    entry: Entry,
    array: usize,
    slot: Slot,
    /// Hits not yet added to the counts, by side.
    run: [u64; 2],
}

const NOBODY: u64 = u64::MAX;

#[inline(always)]
fn page_of(asid: Asid, va: VirtAddr) -> u64 {
    (va.vpn().0 << 16) | u64::from(asid.0)
}

impl Hierarchy {
    /// Builds the arrays.
    ///
    /// # Errors
    /// A geometry that cannot be, or arrays that contradict each other.
    pub fn new(desc: &[ArrayDesc], rules: &HierarchyDesc) -> Result<Self, GeometryError> {
        let bad = |array: &str, what: String| Err(GeometryError { array: array.to_owned(), what });
        let arrays: Vec<Array> = desc.iter().zip(1..).map(|(d, seed)| Array::new(d, seed)).collect::<Result<_, _>>()?;
        let is_victim: Vec<bool> = desc.iter().map(|d| d.victim_of.is_some()).collect();
        let mut victims = vec![Vec::new(); arrays.len()];
        for (index, d) in desc.iter().enumerate() {
            if desc[..index].iter().any(|other| other.name == d.name) {
                return bad(&d.name, "two arrays have this name".into());
            }
            if let Some(of) = &d.victim_of {
                match desc.iter().position(|other| other.name == *of && other.level == 1) {
                    Some(above) if d.level == 2 => victims[above].push(index),
                    _ => return bad(&d.name, format!("victim_of is '{of}': name an array of level 1, from level 2")),
                }
            }
        }
        let mut lists: [[Vec<usize>; 2]; 2] = Default::default();
        for side in [Side::Instruction, Side::Data] {
            for (index, a) in arrays.iter().enumerate().filter(|(_, a)| a.placement.serves(side)) {
                let list = &mut lists[usize::from(a.level) - 1][side as usize];
                for &other in list.iter() {
                    let both = a.sizes.iter().find(|s| arrays[other].sizes.contains(s));
                    if let Some(size) = both.filter(|_| is_victim[index] == is_victim[other]) {
                        let what =
                            format!("'{}' of the same level and side holds {size} pages too", arrays[other].name);
                        return bad(&a.name, what);
                    }
                }
                list.push(index);
            }
            if lists[0][side as usize].is_empty() {
                let name = if side == Side::Data { "data" } else { "instruction" };
                return bad("(all)", format!("no array of level 1 serves the {name} side"));
            }
        }
        if rules.asid_bits > 16 {
            return bad("(rules)", format!("asid_bits is {}: give 0 to 16", rules.asid_bits));
        }
        let [first, second] = lists;
        let nothing = Recent {
            page: NOBODY,
            entry: Entry {
                vpn: Vpn(0),
                pfn: mmulab_addr::Pfn(0),
                order: PageOrder::P4K,
                prot: mmulab_addr::Prot::NONE,
                dirty: false,
                global: false,
            },
            array: 0,
            slot: Slot::default(),
            run: [0; 2],
        };
        let shared = first[0].iter().any(|index| first[1].contains(index));
        Ok(Self {
            arrays,
            first,
            second,
            victims,
            is_victim,
            inclusive: rules.inclusion == Inclusion::Inclusive,
            counts: Default::default(),
            second_counts: Default::default(),
            recent: [nothing; 2],
            lane: if shared { [0, 0] } else { [0, 1] },
        })
    }

    /// Looks a reference up.
    #[inline(always)]
    pub fn access<O: Observer>(&mut self, asid: Asid, va: VirtAddr, access: Access, obs: &mut O) -> Outcome {
        let side = access.side() as usize;
        let recent = &mut self.recent[self.lane[side]];
        if recent.page == page_of(asid, va) && recent.entry.ready(access) {
            recent.run[side] += 1;
            return Outcome::L1 { entry: recent.entry };
        }
        self.search(asid, va, access, obs)
    }

    /// A lookup that the most recent page does not answer.
    #[inline]
    fn search<O: Observer>(&mut self, asid: Asid, va: VirtAddr, access: Access, obs: &mut O) -> Outcome {
        let side = access.side();
        let vpn = va.vpn();
        // Until the lookup has an answer nobody is the most recent: what it touches comes before the old one.
        self.settle(self.lane[side as usize]);
        self.counts[side as usize].accesses += 1;
        for at in 0..self.first[side as usize].len() {
            let index = self.first[side as usize][at];
            let array = &mut self.arrays[index];
            if let (Some(slot), _) = array.lookup(asid, vpn) {
                array.hits[slot.size] += 1;
                array.touch(slot);
                let entry = *array.entry(slot);
                self.counts[side as usize].hits += 1;
                return self.hit(1, 0, asid, va, access, index, slot, entry);
            }
        }
        self.counts[side as usize].misses += 1;
        self.search_second(asid, va, access, obs)
    }

    #[inline]
    fn search_second<O: Observer>(&mut self, asid: Asid, va: VirtAddr, access: Access, obs: &mut O) -> Outcome {
        let side = access.side();
        let vpn = va.vpn();
        let mut cycles = 0;
        self.second_counts[side as usize].accesses += 1;
        for at in 0..self.second[side as usize].len() {
            let array = &mut self.arrays[self.second[side as usize][at]];
            let (found, probes) = array.lookup(asid, vpn);
            let latency = array.hit_cycles * if array.serial { probes } else { 1 };
            if let Some(slot) = found {
                array.hits[slot.size] += 1;
                array.touch(slot);
                let entry = *array.entry(slot);
                self.second_counts[side as usize].hits += 1;
                let first = self.put_first(side, asid, vpn, &entry, obs);
                return match first {
                    Some((index, slot)) => self.hit(2, latency, asid, va, access, index, slot, entry),
                    None if !entry.prot.allows(access) => Outcome::Denied { level: 2, cycles: latency },
                    None if !entry.ready(access) => Outcome::NeedDirty { level: 2, cycles: latency },
                    None => Outcome::L2 { entry, cycles: latency },
                };
            }
            // Arrays of a level are searched side by side: the slowest decides.
            cycles = cycles.max(latency);
        }
        self.second_counts[side as usize].misses += 1;
        Outcome::Miss { cycles }
    }

    /// What a found entry comes to; it becomes the side's most recent page.
    #[inline(always)]
    #[allow(clippy::too_many_arguments)]
    fn hit(
        &mut self,
        level: u8,
        cycles: u32,
        asid: Asid,
        va: VirtAddr,
        access: Access,
        array: usize,
        slot: Slot,
        entry: Entry,
    ) -> Outcome {
        if !entry.prot.allows(access) {
            return Outcome::Denied { level, cycles };
        }
        if !entry.ready(access) {
            return Outcome::NeedDirty { level, cycles };
        }
        self.recent[self.lane[access.side() as usize]] =
            Recent { page: page_of(asid, va), entry, array, slot, run: [0; 2] };
        if level == 1 { Outcome::L1 { entry } } else { Outcome::L2 { entry, cycles } }
    }

    /// Adds the hits of a lane's most recent page to the counts, and forgets which page that was.
    #[inline(always)]
    fn settle(&mut self, lane: usize) {
        let recent = &mut self.recent[lane];
        recent.page = NOBODY;
        let run = std::mem::take(&mut recent.run);
        self.arrays[recent.array].hits[recent.slot.size] += run[0] + run[1];
        for (counts, run) in self.counts.iter_mut().zip(run) {
            counts.accesses += run;
            counts.hits += run;
        }
    }

    /// Something changed: the most recent pages must be looked up again.
    fn unsettle(&mut self) {
        self.settle(0);
        self.settle(1);
    }

    /// Takes in what a walk for `va` found: second level first, then the first.
    #[inline]
    pub fn fill<O: Observer>(&mut self, asid: Asid, va: VirtAddr, access: Access, walked: &Walked, obs: &mut O) {
        let side = access.side();
        let entry = Entry::of(va, &walked.leaf);
        for at in 0..self.second[side as usize].len() {
            let index = self.second[side as usize][at];
            if self.is_victim[index] {
                continue;
            }
            if let Some((size, part)) = self.arrays[index].fit(&entry, va.vpn()) {
                self.put(index, asid, size, part, obs);
            }
        }
        self.put_first(side, asid, va.vpn(), &entry, obs);
        self.unsettle();
    }

    /// Writes an entry into the first-level array that holds its size; where it is now.
    #[inline]
    fn put_first<O: Observer>(
        &mut self,
        side: Side,
        asid: Asid,
        vpn: Vpn,
        entry: &Entry,
        obs: &mut O,
    ) -> Option<(usize, Slot)> {
        for at in 0..self.first[side as usize].len() {
            let index = self.first[side as usize][at];
            if let Some((size, part)) = self.arrays[index].fit(entry, vpn) {
                self.put(index, asid, size, part, obs);
                return self.arrays[index].lookup(asid, vpn).0.map(|slot| (index, slot));
            }
        }
        None
    }

    #[inline]
    fn put<O: Observer>(&mut self, index: usize, asid: Asid, size: usize, entry: Entry, obs: &mut O) {
        let replaced = self.arrays[index].insert(asid, size, entry);
        if O::ACTIVE {
            obs.filled(index, &entry);
        }
        let Some((tag, old)) = replaced else { return };
        if O::ACTIVE {
            obs.evicted(index, &old);
        }
        self.after_eviction(index, tag, old, obs);
    }

    fn after_eviction<O: Observer>(&mut self, index: usize, tag: Asid, old: Entry, obs: &mut O) {
        for at in 0..self.victims[index].len() {
            let victim = self.victims[index][at];
            if let Some(size) = self.arrays[victim].sizes.iter().position(|&o| o == old.order) {
                self.put(victim, tag, size, old, obs);
            }
        }
        if self.inclusive && self.arrays[index].level == 2 {
            for above in self.arrays.iter_mut().enumerate().filter(|(_, a)| a.level == 1) {
                drop_range(above, tag, old.vpn, old.order.base_pages(), obs);
            }
            self.unsettle();
        }
    }

    /// The walker has set the dirty bit of the page that holds `va`: every entry for it says so.
    pub fn set_dirty(&mut self, asid: Asid, va: VirtAddr) {
        self.unsettle();
        for array in &mut self.arrays {
            if let (Some(slot), _) = array.lookup(asid, va.vpn()) {
                array.entry_mut(slot).dirty = true;
            }
        }
    }

    /// Forgets what must not be used any more.
    pub fn invalidate<O: Observer>(&mut self, what: &Invalidate, obs: &mut O) {
        self.unsettle();
        for (index, array) in self.arrays.iter_mut().enumerate() {
            match *what {
                Invalidate::Page { asid, va, order } => {
                    drop_range((index, array), asid, va.vpn().align_down(order), order.base_pages(), obs);
                }
                Invalidate::Range { asid, range } => {
                    let VirtRange { start, .. } = range;
                    let pages = (range.bytes() + start.offset_in(PageOrder::P4K)).div_ceil(mmulab_addr::BASE_BYTES);
                    if pages != 0 {
                        drop_range((index, array), asid, start.vpn(), pages, obs);
                    }
                }
                Invalidate::Asid(asid) => drop_if((index, array), |tag, _| tag == asid, obs),
                Invalidate::All => drop_if((index, array), |_, _| true, obs),
            }
        }
    }

    /// The counts so far.
    pub fn counts(&mut self) -> HierarchyCounts {
        self.unsettle();
        let accesses = |a: &Array| -> u64 {
            [Side::Instruction, Side::Data]
                .into_iter()
                .filter(|&side| a.placement.serves(side))
                .map(|side| if a.level == 1 { self.counts[side as usize] } else { self.second_counts[side as usize] })
                .map(|c| c.accesses)
                .sum()
        };
        // Arrays of a level are searched together, so a lookup that one answers is a miss of its neighbours.
        let array = |a: &Array| {
            let hits: u64 = a.hits.iter().sum();
            let by_size: BTreeMap<_, _> = a.sizes.iter().zip(a.hits).map(|(s, h)| (s.to_string(), h)).collect();
            ArrayCounts {
                name: a.name.clone(),
                level: a.level,
                side: format!("{:?}", a.placement).to_lowercase(),
                accesses: accesses(a),
                hits,
                misses: accesses(a) - hits,
                fills: a.fills,
                evictions: a.evictions,
                invalidations: a.invalidations,
                hits_by_size: by_size,
            }
        };
        HierarchyCounts {
            l1i: self.counts[0],
            l1d: self.counts[1],
            l2i: self.second_counts[0],
            l2d: self.second_counts[1],
            arrays: self.arrays.iter().map(array).collect(),
        }
    }

    /// What the arrays are called, in the order observers number them.
    pub fn names(&self) -> Vec<String> {
        self.arrays.iter().map(|a| a.name.clone()).collect()
    }

    /// The level of array `index`.
    pub fn level(&self, index: usize) -> u8 {
        self.arrays[index].level
    }
}

fn drop_range<O: Observer>((index, array): (usize, &mut Array), asid: Asid, first: Vpn, pages: u64, obs: &mut O) {
    let mut gone = 0;
    array.drop_range(asid, first, pages, |e| {
        gone += 1;
        obs.invalidated(index, e);
    });
    array.invalidations += gone;
}

fn drop_if<O: Observer>((index, array): (usize, &mut Array), drop: impl Fn(Asid, &Entry) -> bool, obs: &mut O) {
    let mut gone = 0;
    array.retain(drop, |e| {
        gone += 1;
        obs.invalidated(index, e);
    });
    array.invalidations += gone;
}
