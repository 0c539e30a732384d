//! A skewed array for several page sizes (Seznec, IEEE Transactions on Computers 2004; paper 4, section 5.1): each way
//! is hashed by its own function, and each page size has as many ways as every other. Which ways those are depends on
//! address bits above the largest page, so that all ways serve where only one size is used. Replacement is by time
//! stamps, for a page's ways lie in different sets.
//!
//! ```text
//! | flags | ASID, page number | page size | frame | time stamp |
//! ```

use super::{About, Built, Change, Cost, FillInput, Guesses, Keys, Kind, Line, Looks, Plan, Reads, Storage};
use crate::{
    CoalescingCounts, Entry, Probe,
    key::{GLOBAL, Value},
    pages::Slot,
};
use mmulab_addr::{Asid, GOLDEN, PageOrder, Vpn};
use mmulab_assoc::Replacement;

pub const ABOUT: About = About {
    name: "skew",
    doc: "One page of the table; each way has a hash function of its own, each size as many ways as the others, and \
          the page used longest ago goes (skewed: Seznec, IEEE Transactions on Computers 2004; paper 4, section 5.1). \
          No `group`.",
    keys: Keys { serial: true, predictor: Guesses::Always, ..Keys::OF_GROUPS },
    coalesces: false,
    cost: |_, _| Cost { extra_bits: STAMP_BITS, range_bits: 0, reads: Reads::HashedWays },
};

/// A time stamp: 8 bits, as the bucketed stamps of Sanchez and Kozyrakis, The ZCache (MICRO 2010; paper 4's [37]).
const STAMP_BITS: u32 = 8;

pub fn build(plan: &Plan) -> Result<Built<Entries>, String> {
    if plan.desc.replacement != Replacement::Lru {
        return Err("design skew replaces by time stamps: leave out replacement".into());
    }
    plan.no_group()?;
    let (sets, ways, sizes) = (plan.sets, plan.ways, plan.sizes.len());
    if plan.is_full() || !ways.is_multiple_of(sizes) {
        return Err(format!(
            "{ways} ways in {sets} sets: design skew gives each of {sizes} sizes as many ways, in more than one set"
        ));
    }
    if plan.desc.probe == Probe::Serial {
        return Err("design skew searches all its ways at once: leave out probe".into());
    }
    Ok(Built {
        kind: Kind::Own(Box::new(Entries::new(plan.sizes, sets, ways / sizes))),
        sizes: plan.sizes.to_vec(),
        classes: plan.size_names(),
        group: None,
        looks: Looks::default(),
    })
}

/// An entry; `stamp` 0 where the place is empty.
#[derive(Clone, Copy, Default)]
struct SkewEntry {
    vpn: u64,
    value: Value,
    /// When it was last used.
    stamp: u64,
    tag: u16,
    size: u8,
}

/// The entries of a skewed array.
pub struct Entries {
    sizes: Vec<PageOrder>,
    sets: u64,
    /// Ways of one size.
    ways: usize,
    /// By way and set.
    held: Vec<SkewEntry>,
    occupied: usize,
    clock: u64,
    fills: u64,
    evictions: u64,
    invalidations: u64,
}

impl Entries {
    /// An array of `sets` entries a way, `ways` for each of `sizes`.
    pub fn new(sizes: &[PageOrder], sets: usize, ways: usize) -> Self {
        let held = vec![SkewEntry::default(); sets * ways * sizes.len()];
        Self {
            sizes: sizes.to_vec(),
            sets: sets as u64,
            ways,
            held,
            occupied: 0,
            clock: 0,
            fills: 0,
            evictions: 0,
            invalidations: 0,
        }
    }

    /// Where `way` of those of size number `size` would hold the page of `vpn`.
    #[inline]
    fn place(&self, vpn: Vpn, size: usize, way: usize) -> usize {
        // The same for whatever size the page has: above the largest.
        let turn = (vpn.0 >> self.sizes[self.sizes.len() - 1].get()) as usize;
        let way = (size + turn) % self.sizes.len() * self.ways + way;
        let page = vpn.0 >> self.sizes[size].get();
        // One odd constant a way, and the upper bits: Fibonacci hashing (Knuth, The Art of Computer Programming vol. 3,
        // section 6.4).
        let hash = page.wrapping_mul(GOLDEN.wrapping_mul(2 * way as u64 + 1));
        // Multiply-shift to any number of sets.
        let set = ((u128::from(hash) * u128::from(self.sets)) >> 64) as usize;
        way * self.sets as usize + set
    }

    fn seek(&self, asid: Asid, vpn: Vpn, size: usize) -> Option<usize> {
        let page = vpn.align_down(self.sizes[size]).0;
        (0..self.ways).map(|way| self.place(vpn, size, way)).find(|&at| {
            let h = &self.held[at];
            h.stamp != 0 && h.vpn == page && usize::from(h.size) == size && (h.tag == asid.0 || h.tag == GLOBAL.0)
        })
    }

    fn entry(&self, held: &SkewEntry) -> Entry {
        held.value.entry(Vpn(held.vpn), self.sizes[usize::from(held.size)])
    }

    fn drop_if(&mut self, goes: impl Fn(&SkewEntry, PageOrder) -> bool, mut tell: impl FnMut(Change, Asid, &Entry)) {
        if self.occupied == 0 {
            return;
        }
        for at in 0..self.held.len() {
            let old = self.held[at];
            if old.stamp != 0 && goes(&old, self.sizes[usize::from(old.size)]) {
                self.invalidations += 1;
                self.occupied -= 1;
                tell(Change::Dropped, Asid(old.tag), &self.entry(&old));
                self.held[at] = SkewEntry::default();
            }
        }
    }
}

impl Storage for Entries {
    /// The entry that translates `vpn` as a page of size number `size`, which counts as used.
    fn hit_size(&mut self, asid: Asid, vpn: Vpn, size: usize) -> Option<Slot> {
        let at = self.seek(asid, vpn, size)?;
        self.clock += 1;
        self.held[at].stamp = self.clock;
        Some(Slot { at: at as u32, size: size as u8 })
    }

    /// The entry that translates `vpn`, smaller sizes first, which counts as used.
    fn hit(&mut self, asid: Asid, vpn: Vpn) -> Option<Slot> {
        (0..self.sizes.len()).find_map(|size| self.hit_size(asid, vpn, size))
    }

    /// Value of the entry at `slot`, and the size of its page.
    fn read(&self, slot: Slot, _: Vpn) -> (Value, PageOrder) {
        (self.held[slot.at as usize].value, self.sizes[usize::from(slot.size)])
    }

    /// Of the neighbours nothing is known.
    fn line(&self, _: u32, _: Vpn) -> Option<Line> {
        None
    }

    /// Takes in what is known of `vpn`: in its place, else in an empty one, else in that of the page used longest ago.
    fn put(&mut self, asid: Asid, vpn: Vpn, input: FillInput, mut tell: impl FnMut(Change, Asid, &Entry)) -> Slot {
        let (value, order) = input.page();
        let size = self.sizes.iter().position(|&o| o == order).unwrap_or_default();
        let tag = if value.global() { GLOBAL.0 } else { asid.0 };
        self.fills += 1;
        self.clock += 1;
        let new = SkewEntry { vpn: vpn.align_down(order).0, value, stamp: self.clock, tag, size: size as u8 };
        let at = match self.seek(asid, vpn, size) {
            Some(at) => at,
            None => {
                let oldest = (0..self.ways).map(|way| self.place(vpn, size, way)).min_by_key(|&at| self.held[at].stamp);
                let at = oldest.unwrap_or_default();
                let old = self.held[at];
                if old.stamp == 0 {
                    self.occupied += 1;
                } else {
                    self.evictions += 1;
                    tell(Change::Evicted, Asid(old.tag), &self.entry(&old));
                }
                at
            }
        };
        self.held[at] = new;
        tell(Change::Filled, Asid(tag), &self.entry(&new));
        Slot { at: at as u32, size: size as u8 }
    }

    /// Drops every entry with the tag of `asid`, none of the global ones; everything for `None`.
    fn drop_space(&mut self, asid: Option<Asid>, tell: impl FnMut(Change, Asid, &Entry)) {
        self.drop_if(|h, _| asid.is_none_or(|asid| h.tag == asid.0 && h.tag != GLOBAL.0), tell);
    }

    /// Drops what `asid` has, and what is global, of the `pages` base pages from `first`.
    fn drop_range(&mut self, asid: Asid, first: Vpn, pages: u64, tell: impl FnMut(Change, Asid, &Entry)) {
        let meets = |h: &SkewEntry, order: PageOrder| h.vpn < first.0 + pages && first.0 < h.vpn + order.base_pages();
        self.drop_if(|h, order| (h.tag == asid.0 || h.tag == GLOBAL.0) && meets(h, order), tell);
    }

    /// The page's dirty bit has been set.
    fn set_dirty(&mut self, asid: Asid, vpn: Vpn) {
        if let Some(at) = (0..self.sizes.len()).find_map(|size| self.seek(asid, vpn, size)) {
            self.held[at].value = self.held[at].value.dirtied();
        }
    }

    /// Fills, evictions and invalidations.
    fn traffic(&self) -> [u64; 3] {
        [self.fills, self.evictions, self.invalidations]
    }

    /// Calls `tell` for every valid entry.
    fn all(&self, mut tell: impl FnMut(Asid, &Entry)) {
        for held in self.held.iter().filter(|h| h.stamp != 0) {
            tell(Asid(held.tag), &self.entry(held));
        }
    }

    fn coalescing(&self) -> Option<CoalescingCounts> {
        None
    }
}
