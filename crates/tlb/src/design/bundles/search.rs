//! Lookup: the search of one set, which also merges copies that it finds.

use super::{Bundles, bits::bits, bundle, bundle::Bundle};
use crate::{key::GLOBAL, pages::Slot};
use mmulab_addr::{Asid, Vpn};

impl Bundles {
    /// The ways of a block of `set` whose entries, of this tag or global ones, meet the base pages from `last - before`
    /// to `last`, counting those that they leave out. Empty ways may be among them if `before` is not 0.
    #[inline(always)]
    pub(super) fn meeting(&self, set: usize, block: usize, tag: u16, last: u64, before: u64) -> u64 {
        let mut found = self.ranges.meeting(set, block, bundle::tagged(tag, last), before);
        if self.globals && tag != GLOBAL.0 {
            found |= self.ranges.meeting(set, block, bundle::tagged(GLOBAL.0, last), before);
        }
        found
    }

    /// As [`Self::meeting`] for the one page `vpn` and the ways of one block.
    #[inline(always)]
    fn meeting_by_one(&self, set: usize, asid: Asid, vpn: Vpn) -> u64 {
        let ways = &self.held[set * self.ways..(set + 1) * self.ways];
        let is = |h: &Bundle| h.near(vpn) & ((h.tag == asid.0) | (h.tag == GLOBAL.0));
        ways.iter().enumerate().fold(0, |found, (way, held)| found | u64::from(is(held)) << way)
    }

    /// The way of `set` that translates `vpn`, and the number of ways that have its tag. Of these, bitmaps may not
    /// contain the page.
    #[inline(always)]
    pub(super) fn seek_in(&self, set: usize, asid: Asid, vpn: Vpn) -> (Option<usize>, u32) {
        let (mut found, mut count) = (None, 0);
        for block in 0..self.ranges.blocks() {
            let near = self.meeting(set, block, asid.0, vpn.0, 0);
            count += near.count_ones();
            for way in bits(near) {
                let way = block * 64 + way;
                if found.is_none() && self.held[self.at(set, way)].place(vpn).is_some() {
                    found = Some(way);
                }
            }
        }
        (found, count)
    }

    /// The entry that translates `vpn`, which counts as used. Further copies in the set are found and dropped.
    #[inline(always)]
    pub fn hit(&mut self, asid: Asid, vpn: Vpn) -> Option<Slot> {
        if let [index] = self.indexes[..]
            && self.ranges.blocks() == 1
        {
            let set = self.set(vpn, index);
            let near = if self.apply_pending(set) {
                // Ranges just written one by one cannot be read four at a time before they have left the host's store
                // buffer.
                self.meeting_by_one(set, asid, vpn)
            } else {
                self.meeting(set, 0, asid.0, vpn.0, 0)
            };
            let is = |way: usize| self.held[set * self.ways + way].place(vpn).is_some();
            let holding = bits(near).fold(0u64, |holding, way| holding | u64::from(is(way)) << way);
            let one_at_most = |ways: u64| ways & ways.wrapping_sub(1) == 0;
            if one_at_most(near) || (near == self.apart[set] && one_at_most(holding)) {
                if holding == 0 {
                    return None;
                }
                let way = holding.trailing_zeros() as usize;
                self.touch(set, way);
                return Some(self.slot(set, way));
            }
        }
        self.hit_among(asid, vpn)
    }

    /// As [`Self::hit`], for whatever sets and ways there are.
    #[inline(never)]
    fn hit_among(&mut self, asid: Asid, vpn: Vpn) -> Option<Slot> {
        for n in 0..self.indexes.len() {
            let set = self.set(vpn, self.indexes[n]);
            self.apply_pending(set);
            let (mut found, count) = self.seek_in(set, asid, vpn);
            if count > 1 {
                found = self.unite(set, asid, vpn);
            }
            if let Some(way) = found {
                self.touch(set, way);
                return Some(self.slot(set, way));
            }
        }
        None
    }

    /// Merges the entries of `set` that have the tag of `vpn`: the first gets the pages that the others translate
    /// beyond it. Of two that both translate `vpn` and cannot be merged, the larger stays. Returns what translates
    /// `vpn` then.
    #[inline(never)]
    fn unite(&mut self, set: usize, asid: Asid, vpn: Vpn) -> Option<usize> {
        let alike = |h: &Bundle| h.near(vpn) && (h.tag == asid.0 || h.tag == GLOBAL.0);
        let first = set * self.ways;
        let before = self.mirroring.duplicates;
        for keep in 0..self.ways {
            for way in keep + 1..self.ways {
                let (kept, other) = (self.held[first + keep], self.held[first + way]);
                if !alike(&kept) {
                    break;
                }
                if !alike(&other) {
                    continue;
                }
                let both = kept.place(vpn).is_some() && other.place(vpn).is_some();
                match self.shape.join_copies(&kept, &other) {
                    Some(joined) => self.write(set, keep, joined),
                    None if both && other.count() > kept.count() => self.write(set, keep, other),
                    None if both => {}
                    None => continue,
                }
                self.remove(set, way);
                self.mirroring.duplicates += 1;
            }
        }
        if self.mirroring.duplicates == before && self.ranges.blocks() == 1 {
            self.apart[set] = self.meeting_by_one(set, asid, vpn);
        }
        (0..self.ways).find(|&way| {
            let held = &self.held[first + way];
            alike(held) && held.place(vpn).is_some()
        })
    }
}
