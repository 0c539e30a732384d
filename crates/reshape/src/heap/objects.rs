//! Lookup from a recorded address to the object that contains it. Each load and store asks, so pages of objects are
//! kept in tables of 1 GiB, and recent tables are found without hashing.
//!
//! ```text
//! address --> 1 GiB table --> page --> one object: its distance to the new place
//!                               '----> several objects: by granules of 8 bytes
//! ```

use mmulab_addr::BASE_SHIFT;
use rustc_hash::FxHashMap;

/// Objects begin at multiples of this; what an object's last one has beyond its end is the object's, too.
pub const GRANULE: u64 = 8;
const GRANULE_SHIFT: u32 = GRANULE.trailing_zeros();
const GRANULES: usize = 1 << (BASE_SHIFT - GRANULE_SHIFT);
/// Addresses that one table of pages covers: 1 GiB.
const REGION_SHIFT: u32 = 30;
const PAGES: usize = 1 << (REGION_SHIFT - BASE_SHIFT);
/// Tables found lately.
const RECENT: usize = 16;
/// Of a page: it belongs to several objects, told by granules.
const PARTED: u32 = 1 << 31;
/// Of a page: an allocator of the recording has it.
const HELD: u32 = 1 << 30;
const NONE: u32 = 0;
/// The number of no region: addresses have 57 bits.
const NO_REGION: u64 = u64::MAX;

/// An object that lives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Object {
    /// Where it is in the recording.
    pub from: u64,
    /// Bytes asked for.
    pub len: u64,
    /// Where the modelled allocator has it.
    pub to: u64,
}

impl Object {
    /// Where its last granule ends.
    fn end(&self) -> u64 {
        (self.from + self.len.max(1)).next_multiple_of(GRANULE)
    }
}

/// What a reference of the recording is to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Found {
    /// An object, which is this much further on now, modulo 2^64.
    Object(u64),
    /// What the recorded allocator keeps between objects.
    Between,
    /// Something else.
    Elsewhere,
}

/// Which object an address of the recording belongs to. Each GiB that has objects has a table of pages, and each page
/// that no object has alone has a table of granules. A look costs the same however many objects there are.
#[derive(Clone, Debug)]
pub struct Objects {
    regions: FxHashMap<u64, u32>,
    /// By the region's number modulo [`RECENT`]: a region, and its table plus 1, or that it has none.
    recent: [(u64, u32); RECENT],
    tables: Vec<Vec<u32>>,
    parted: Vec<[u32; GRANULES]>,
    /// Granules of a parted page that belong to objects.
    parted_used: Vec<u16>,
    parted_free: Vec<u32>,
    /// By number minus 1.
    objects: Vec<Object>,
    free: Vec<u32>,
}

impl Objects {
    pub fn new() -> Self {
        Self {
            regions: FxHashMap::default(),
            recent: [(NO_REGION, NONE); RECENT],
            tables: Vec::new(),
            parted: Vec::new(),
            parted_used: Vec::new(),
            parted_free: Vec::new(),
            objects: Vec::new(),
            free: Vec::new(),
        }
    }

    /// What a reference to `address` is to.
    #[inline(always)]
    pub fn find(&mut self, address: u64) -> Found {
        let region = address >> REGION_SHIFT;
        let (seen, mut table) = self.recent[region as usize % RECENT];
        if seen != region {
            table = self.table_of(region);
        }
        let Some(table) = self.tables.get((table as usize).wrapping_sub(1)) else { return Found::Elsewhere };
        let page = table[page_in(address)];
        match self.objects.get((self.number_in(page, address) as usize).wrapping_sub(1)) {
            Some(object) => Found::Object(object.to.wrapping_sub(object.from)),
            None if page & HELD != 0 => Found::Between,
            None => Found::Elsewhere,
        }
    }

    /// The object that `address` belongs to.
    pub fn at(&self, address: u64) -> Option<&Object> {
        self.objects.get((self.number_at(address) as usize).wrapping_sub(1))
    }

    /// The number of the object that has `address` in the page of this entry, plus 1.
    #[inline(always)]
    fn number_in(&self, page: u32, address: u64) -> u32 {
        let number = page & !(PARTED | HELD);
        if page & PARTED == 0 { number } else { self.parted[number as usize][granule_in(address)] }
    }

    /// Whether an allocator has the page of `address`.
    pub fn is_held(&self, address: u64) -> bool {
        let table = self.regions.get(&(address >> REGION_SHIFT));
        table.is_some_and(|&table| self.tables[table as usize][page_in(address)] & HELD != 0)
    }

    /// An allocator has the mapping `from` to `end`; told of the part in the same GiB as `address`, so that mappings of
    /// any length may be reserved.
    pub fn hold(&mut self, (from, end): (u64, u64), address: u64) {
        let first = address >> REGION_SHIFT << REGION_SHIFT;
        let (from, last) = (from.max(first), (end - 1).min(first + (1 << REGION_SHIFT) - 1));
        let table = self.table_for(address);
        self.tables[table][page_in(from)..=page_in(last)].iter_mut().for_each(|page| *page |= HELD);
    }

    /// No allocator has pages from `from` to `end`, but for those that objects are in.
    pub fn renew(&mut self, from: u64, end: u64) {
        if from >= end {
            return;
        }
        for (&region, &table) in &self.regions {
            let first = region << REGION_SHIFT;
            let (from, last) = (from.max(first), (end - 1).min(first + (1 << REGION_SHIFT) - 1));
            if from <= last {
                let pages = &mut self.tables[table as usize][page_in(from)..=page_in(last)];
                pages.iter_mut().filter(|page| **page == HELD).for_each(|page| *page = NONE);
            }
        }
    }

    /// The region's table plus 1; remembers it, also that there is none.
    #[cold]
    fn table_of(&mut self, region: u64) -> u32 {
        let table = self.regions.get(&region).map_or(NONE, |index| index + 1);
        self.recent[region as usize % RECENT] = (region, table);
        table
    }

    /// Adds an object. Those that it overlaps, whose end was not told, end here; they are put into `ended`.
    pub fn add(&mut self, object: Object, ended: &mut Vec<Object>) {
        self.end_within(object.from, object.end(), ended);
        let number = match self.free.pop() {
            Some(number) => {
                self.objects[number as usize - 1] = object;
                number
            }
            None => {
                self.objects.push(object);
                self.objects.len() as u32
            }
        };
        self.fill(&object, NONE, number);
    }

    /// Takes the object that begins at `from` away.
    pub fn remove(&mut self, from: u64) -> Option<Object> {
        let number = self.number_at(from);
        let object = *self.objects.get((number as usize).wrapping_sub(1))?;
        if object.from != from {
            return None;
        }
        self.fill(&object, number, NONE);
        self.free.push(number);
        Some(object)
    }

    fn number_at(&self, address: u64) -> u32 {
        let Some(&table) = self.regions.get(&(address >> REGION_SHIFT)) else { return NONE };
        self.number_in(self.tables[table as usize][page_in(address)], address)
    }

    fn end_within(&mut self, from: u64, end: u64, ended: &mut Vec<Object>) {
        let mut at = from;
        while at < end {
            let number = self.number_at(at);
            if number != NONE {
                let object = self.objects[number as usize - 1];
                at = object.end();
                ended.extend(self.remove(object.from));
                continue;
            }
            at = match self.is_empty_page(at) {
                true => (at | ((1 << BASE_SHIFT) - 1)) + 1,
                false => at + GRANULE,
            };
        }
    }

    fn is_empty_page(&self, address: u64) -> bool {
        let table = self.regions.get(&(address >> REGION_SHIFT));
        table.is_none_or(|&table| self.tables[table as usize][page_in(address)] & !HELD == NONE)
    }

    /// Has the granules of `object`, which are `was`'s, be `now`'s.
    fn fill(&mut self, object: &Object, was: u32, now: u32) {
        let (mut at, end) = (object.from, object.end());
        while at < end {
            let page_end = (at >> BASE_SHIFT << BASE_SHIFT) + (1 << BASE_SHIFT);
            let stop = end.min(page_end);
            let (table, page) = (self.table_for(at), page_in(at));
            let entry = self.tables[table][page] & !HELD;
            let whole = stop - at == 1 << BASE_SHIFT;
            self.tables[table][page] = HELD | if whole && entry == was { now } else { self.part(entry, at, stop, now) };
            at = stop;
        }
    }

    /// Parts the page of `entry`, if it is not, and has its granules from `at` to `stop` be `now`'s; its new entry.
    fn part(&mut self, entry: u32, at: u64, stop: u64, now: u32) -> u32 {
        let index = if entry & PARTED != 0 {
            (entry ^ PARTED) as usize
        } else {
            let used = if entry == NONE { 0 } else { GRANULES as u16 };
            match self.parted_free.pop() {
                Some(index) => {
                    self.parted[index as usize].fill(entry);
                    self.parted_used[index as usize] = used;
                    index as usize
                }
                None => {
                    self.parted.push([entry; GRANULES]);
                    self.parted_used.push(used);
                    self.parted.len() - 1
                }
            }
        };
        let count = ((stop - at) >> GRANULE_SHIFT) as usize;
        self.parted[index][granule_in(at)..][..count].fill(now);
        let used = &mut self.parted_used[index];
        *used = if now == NONE { *used - count as u16 } else { *used + count as u16 };
        if *used == 0 {
            self.parted_free.push(index as u32);
            return NONE;
        }
        index as u32 | PARTED
    }

    fn table_for(&mut self, address: u64) -> usize {
        let next = self.tables.len() as u32;
        let region = address >> REGION_SHIFT;
        let table = *self.regions.entry(region).or_insert(next);
        if table == next {
            self.tables.push(vec![NONE; PAGES]);
            self.recent[region as usize % RECENT] = (region, next + 1);
        }
        table as usize
    }
}

fn page_in(address: u64) -> usize {
    (address >> BASE_SHIFT) as usize % PAGES
}

fn granule_in(address: u64) -> usize {
    (address >> GRANULE_SHIFT) as usize % GRANULES
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::{BTreeMap, BTreeSet};

    /// Adds and removals of objects, small and large, some of which overlap.
    fn steps() -> impl Strategy<Value = Vec<(bool, u64, u64)>> {
        let len = prop_oneof![8 => 0u64..200, 2 => 0u64..20000];
        prop::collection::vec((prop::bool::weighted(0.6), 0u64..4096, len), 1..200)
    }

    proptest! {
        #[test]
        fn each_address_belongs_to_the_object_that_a_list_says(steps in steps()) {
            let (mut objects, mut list) = (Objects::new(), BTreeMap::<u64, Object>::new());
            let mut held = BTreeSet::new();
            for (add, at, len) in steps {
                // Across the end of a region.
                let from = (1 << REGION_SHIFT) - 16384 + at * GRANULE;
                if add {
                    let object = Object { from, len, to: from + (1 << 40) };
                    let mut ended = Vec::new();
                    objects.add(object, &mut ended);
                    let meets = |o: &Object| o.from < object.end() && from < o.end();
                    let met: Vec<_> = list.values().copied().filter(meets).collect();
                    prop_assert_eq!(&ended, &met);
                    list.retain(|from, _| !met.iter().any(|o| o.from == *from));
                    list.insert(from, object);
                    held.extend(from >> BASE_SHIFT..=(object.end() - 1) >> BASE_SHIFT);
                } else {
                    prop_assert_eq!(objects.remove(from), list.remove(&from));
                }
                for address in (from.saturating_sub(64)..from + len + 64).step_by(7) {
                    let expected = list.values().find(|o| (o.from..o.end()).contains(&address));
                    prop_assert_eq!(objects.at(address), expected);
                    let found = objects.find(address);
                    prop_assert_eq!(matches!(found, Found::Object(delta) if delta == 1 << 40), expected.is_some());
                    prop_assert!(found != Found::Elsewhere || !held.contains(&(address >> BASE_SHIFT)));
                    prop_assert!(found != Found::Between || held.contains(&(address >> BASE_SHIFT)));
                }
            }
        }
    }
}
