//! How a bundle comes into the set that was probed for it, and into the others that its pages fall in.

use super::{Bundles, bits::bits, bundle::Bundle, mirror_log::MirrorLog};
use crate::{
    Entry,
    desc::Mirrors,
    design::{Change, FillInput},
    key::GLOBAL,
    pages::Slot,
};
use mmulab_addr::{Asid, Vpn};
use mmulab_assoc::{Keys, each};

/// The key of an occupied way.
const TAKEN: u64 = 0;

impl Bundles {
    /// The sets that pages of `bundle` fall in, but that of `vpn`.
    fn find_targets(&mut self, bundle: &Bundle, vpn: Vpn) {
        let index = self.shape.index[usize::from(bundle.size)];
        let probed = self.set(vpn, index);
        let mut targets = std::mem::take(&mut self.targets);
        targets.clear();
        let regions = (1u64 << bundle.order) >> index.get();
        for page in bundle.pages() {
            let first = page.0 >> index.get();
            targets.extend((first..first + regions.max(1)).map(|at| self.sets.of(at)));
            if targets.len() > 4 * self.sets.count() {
                targets.sort_unstable();
                targets.dedup();
            }
        }
        targets.sort_unstable();
        targets.dedup();
        targets.retain(|&set| set != probed);
        self.targets = targets;
    }

    /// Writes `new` into a way of `set`, the first empty one or else the victim's. Which.
    #[inline(always)]
    fn admit(&mut self, set: usize, new: Bundle, tell: &mut impl FnMut(Change, &Bundle)) -> usize {
        let room = self.vacant[set] != 0;
        let (way, _) = each!(&mut self.order, keys => keys.admit(set, TAKEN, room));
        let old = self.held[self.at(set, way)];
        self.write(set, way, new);
        if old.len == 0 {
            self.room -= 1;
            self.vacant[set] -= 1;
        } else {
            self.evictions += 1;
            tell(Change::EvictedFrom(set as u32), &old);
        }
        way
    }

    /// Writes a bundle for the page `vpn` and its neighbours, or extends one. If it is `watched`, `tell` is called for
    /// all changes, in all sets.
    pub fn put(
        &mut self,
        asid: Asid,
        vpn: Vpn,
        input: FillInput,
        watched: bool,
        mut tell: impl FnMut(Change, Asid, &Entry),
    ) -> Slot {
        if watched {
            self.apply_all();
        }
        let mut tell = |change, bundle: &Bundle| {
            if watched {
                bundle.tell(change, &mut tell);
            }
        };
        let (mut new, walked) = self.shape.make(asid, vpn, &input);
        self.globals |= new.tag == GLOBAL.0;
        self.fills += 1;
        self.counts.coalesced += u64::from(walked && new.count() > 1);
        let probed = self.set(vpn, self.shape.index[usize::from(new.size)]);
        self.apply_pending(probed);
        // What translates the page, and what the bundle continues.
        let (tag, last, before) = (new.tag, new.base + new.span(), new.span() + 1);
        let near = |block| self.meeting(probed, block, tag, last, before);
        let (mut place, mut was_held) = (None, false);
        if !(0..self.ranges.blocks()).all(|block| near(block) == 0) {
            (new, place, was_held) = self.merge(probed, vpn, new, &mut tell);
        }
        if watched {
            tell(Change::Filled, &{ new });
        }
        let way = match place {
            Some(way) => {
                self.write(probed, way, new);
                self.touch(probed, way);
                way
            }
            None => self.admit(probed, new, &mut tell),
        };
        self.mirroring.writes += 1;
        // A walk for a page that this set translates did not follow a miss: it set a dirty bit or found other rights.
        // Mirrors are written on misses (paper 4, section 4.3); the other sets walk for themselves when they are asked.
        let index = self.shape.index[usize::from(new.size)].get();
        if !was_held && self.sets.count() > 1 && new.base >> index != (new.base + new.span() - 1) >> index {
            self.spread(new, vpn, probed, watched, &mut tell);
        }
        self.slot(probed, way)
    }

    /// Joins `new` with the entries of `set` near it. Returns the bundle that one of them makes with it, the way of
    /// that entry, and whether any entry of the set translated `vpn` before. Entries that cannot be joined forget
    /// `vpn`.
    #[inline(never)]
    fn merge(
        &mut self,
        set: usize,
        vpn: Vpn,
        mut new: Bundle,
        tell: &mut impl FnMut(Change, &Bundle),
    ) -> (Bundle, Option<usize>, bool) {
        let (tag, last, before) = (new.tag, new.base + new.span(), new.span() + 1);
        let (mut place, mut was_held) = (None, false);
        for block in 0..self.ranges.blocks() {
            for way in bits(self.meeting(set, block, tag, last, before)) {
                let way = block * 64 + way;
                let old = self.held[self.at(set, way)];
                if old.len == 0 {
                    continue;
                }
                let held_it = old.place(vpn).is_some();
                was_held |= held_it;
                match self.shape.join(&old, &new) {
                    Some(joined) if place.is_none() => {
                        self.mirroring.extended += u64::from(!held_it && old.count() < joined.count());
                        (new, place) = (joined, Some(way));
                    }
                    None if held_it => self.forget(set, way, vpn, tell),
                    _ => {}
                }
            }
        }
        (new, place, was_held)
    }

    /// Writes copies of `new`, which the set of `vpn` holds, to all other sets that its pages fall in.
    #[inline(always)]
    fn spread(&mut self, new: Bundle, vpn: Vpn, probed: usize, watched: bool, tell: &mut impl FnMut(Change, &Bundle)) {
        let regions = (1u64 << new.order) >> self.shape.index[usize::from(new.size)].get();
        let everywhere = regions >= self.sets.count() as u64;
        let others = if everywhere {
            self.sets.count() - 1
        } else {
            self.find_targets(&{ new }, vpn);
            self.targets.len()
        };
        self.mirroring.writes += others as u64;
        if self.shape.mirrors == Mirrors::Merged {
            self.mirroring.reads += others as u64;
        }
        if everywhere && !watched && self.log.is_some() {
            if self.log.as_ref().is_some_and(MirrorLog::is_full) {
                self.apply_all();
            }
            self.log.as_mut().into_iter().for_each(|log| log.append(new, probed));
        } else if everywhere {
            for set in (0..self.sets.count()).filter(|&set| set != probed) {
                self.mirror(set, new, tell);
            }
        } else {
            for n in 0..others {
                let set = self.targets[n];
                self.apply_pending(set);
                self.mirror(set, new, tell);
            }
        }
    }

    /// Writes a copy of `new` into `set`.
    #[inline]
    fn mirror(&mut self, set: usize, new: Bundle, tell: &mut impl FnMut(Change, &Bundle)) {
        if self.shape.mirrors == Mirrors::Merged {
            for way in 0..self.ways {
                if let Some(joined) = self.shape.join(&self.held[self.at(set, way)], &new) {
                    self.write(set, way, joined);
                    return self.touch(set, way);
                }
            }
        }
        self.admit(set, new, tell);
    }

    /// Removes the page `vpn` from an entry that no longer covers all that is known of it, or drops the entry.
    pub(super) fn forget(&mut self, set: usize, way: usize, vpn: Vpn, tell: &mut impl FnMut(Change, &Bundle)) {
        let at = self.at(set, way);
        let old = self.held[at];
        self.counts.destroyed += u64::from(old.count() > 1);
        let Some(place) = old.place(vpn) else { return };
        if self.shape.bitmap[usize::from(old.size)] && old.count() > 1 {
            self.held[at].mask &= !(1 << place);
            self.apart[set] = 0;
            tell(Change::Dropped, &Bundle { mask: 1 << place, ..old });
        } else {
            self.invalidations += 1;
            tell(Change::Dropped, &old);
            self.remove(set, way);
        }
    }

    /// Applies to `set` the fills of the log that it has not seen.
    #[inline(never)]
    pub(super) fn apply_log(&mut self, set: usize) {
        let Some(log) = &mut self.log else { return };
        if self.vacant[set] == 0 && log.all_evict() {
            let count = log.behind(set);
            if let Some(mut order) = each!(&mut self.order, keys => keys.turn(set, count)) {
                // What came last lies where was used last.
                let end = log.take(set).0.end;
                self.evictions += count;
                self.apart[set] = 0;
                let held = &mut self.held[set * self.ways..(set + 1) * self.ways];
                for n in 1..=count.min(held.len() as u64) {
                    let (new, first, span) = log.fill(end - n);
                    let way = (order & 15) as usize;
                    held[way] = *new;
                    self.ranges.put(set, way, *first, *span);
                    order >>= 4;
                }
                return;
            }
        }
        let (fills, traceless) = log.take(set);
        self.evictions += traceless;
        for n in fills {
            let Some(log) = &self.log else { return };
            let (new, ..) = *log.fill(n);
            self.mirror(set, new, &mut |_, _| {});
        }
    }
}
