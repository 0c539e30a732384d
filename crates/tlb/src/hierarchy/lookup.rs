//! Lookup: the first level, then the second, and what a found entry comes to.

use super::{Hierarchy, Query, SECOND_LEVEL, page_of, recent::NO_PAGE};
use crate::{Observer, Outcome, key::Value, pages::Slot};
use mmulab_addr::{Access, Asid, PageOrder, Side, VirtAddr};

impl Hierarchy {
    /// Looks a reference up. `asid` is not 0, the tag that global entries carry.
    #[inline(always)]
    pub fn access<O: Observer>(&mut self, asid: Asid, va: VirtAddr, access: Access, obs: &mut O) -> Outcome {
        if self.is_recent(asid, va, access) {
            let recent = &mut self.recent[access.side() as usize];
            recent.run += 1;
            return Outcome::L1 { entry: recent.value.entry(va.vpn(), recent.order) };
        }
        self.search(asid, va, access, obs)
    }

    /// A lookup that the most recent page does not answer.
    #[inline(always)]
    pub fn search<O: Observer>(&mut self, asid: Asid, va: VirtAddr, access: Access, obs: &mut O) -> Outcome {
        if self.is_plain {
            self.search_first::<true, O>(asid, va, access, obs)
        } else {
            self.search_first::<false, O>(asid, va, access, obs)
        }
    }

    /// The same. `PLAIN`: [`Self::is_plain`]. Not inlined: the caller's loop stays small.
    #[inline(never)]
    fn search_first<const PLAIN: bool, O: Observer>(
        &mut self,
        asid: Asid,
        va: VirtAddr,
        access: Access,
        obs: &mut O,
    ) -> Outcome {
        let q = Query::new(asid, va, access);
        // Until the lookup has an answer there is no most recent page: what it touches comes before the old one.
        self.flush_recent_for(q.side);
        self.missed[q.side] = NO_PAGE;
        if q.side == Side::Instruction as usize
            && let Some(in_flight) = &mut self.in_flight
        {
            in_flight.turn(page_of(q.asid, q.va));
        }
        let counts = &mut self.counts[0][q.side];
        counts.accesses += 1;
        for index in self.levels.of[0][q.side].search.iter() {
            let array = &mut self.arrays[index];
            let found = if PLAIN {
                array.hit_pages(q.asid, q.vpn)
            } else if self.guesses {
                array.hit_guessed(q.asid, q.vpn, self.code).map(|(slot, _)| slot)
            } else {
                array.hit(q.asid, q.vpn)
            };
            if let Some(slot) = found {
                array.hits[usize::from(slot.size)] += 1;
                counts.hits += 1;
                let (value, order) = if PLAIN { array.read_pages(slot) } else { array.read(slot, q.vpn) };
                return self.answer::<PLAIN>(q, 1, 0, value, order, Some((index as u8, slot)));
            }
        }
        counts.misses += 1;
        if q.side == Side::Instruction as usize
            && let Some(in_flight) = &mut self.in_flight
        {
            in_flight.replacing();
        }
        self.search_second::<PLAIN, O>(q, obs)
    }

    #[inline(always)]
    pub(super) fn search_second<const PLAIN: bool, O: Observer>(&mut self, q: Query, obs: &mut O) -> Outcome {
        let counts = &mut self.counts[1][q.side];
        counts.accesses += 1;
        let level = &self.levels.of[1][q.side];
        for index in level.search.iter() {
            let array = &mut self.arrays[index];
            let found = if !PLAIN && self.guesses {
                array.hit_guessed(q.asid, q.vpn, self.code)
            } else {
                let slot = if PLAIN { array.hit_pages(q.asid, q.vpn) } else { array.hit(q.asid, q.vpn) };
                slot.map(|slot| (slot, array.hit_cycles[usize::from(slot.size)]))
            };
            if let Some((slot, cycles)) = found {
                array.hits[usize::from(slot.size)] += 1;
                counts.hits += 1;
                let (value, order) = if PLAIN { array.read_pages(slot) } else { array.read(slot, q.vpn) };
                self.absent = [NO_PAGE; 2];
                if !PLAIN && self.guesses {
                    self.learn(0, q.side, order);
                }
                let first = if !PLAIN && self.coalesces {
                    self.refill_l1(index, q, slot, (value, order), obs)
                } else {
                    self.put::<PLAIN, O>(0, q, value, order, true, obs)
                };
                self.reloaded(q.side, SECOND_LEVEL, first, 1);
                let cycles = cycles + self.waits(q.side);
                return self.answer::<PLAIN>(q, 2, cycles, value, order, first);
            }
        }
        counts.misses += 1;
        self.absent[q.side] = page_of(q.asid, q.va);
        self.missed[q.side] = q.vpn.0;
        Outcome::Miss { cycles: level.miss_cycles }
    }

    /// Cycles that a reference waits which the second level answers: a fetch, for an entry that is held.
    #[inline(always)]
    fn waits(&self, side: usize) -> u32 {
        match &self.in_flight {
            Some(in_flight) if side == Side::Instruction as usize => in_flight.wait(),
            _ => 0,
        }
    }

    /// Outcome for a found entry. If the first level holds it now, it is the side's most recent page.
    #[inline(always)]
    fn answer<const PLAIN: bool>(
        &mut self,
        q: Query,
        level: u8,
        cycles: u32,
        value: Value,
        order: PageOrder,
        first: Option<(u8, Slot)>,
    ) -> Outcome {
        if !value.ready(q.access) {
            return if value.allows(q.access) {
                Outcome::NeedDirty { level, cycles }
            } else {
                Outcome::Denied { level, cycles }
            };
        }
        // A predictor sees each lookup: nothing may answer before it.
        if let Some((array, slot)) = first
            && !self.guesses
        {
            let recent = &mut self.recent[q.side];
            recent.page = page_of(q.asid, q.va);
            (recent.value, recent.order) = match level {
                1 => (value, order),
                // The first level may hold only a part of what the second does.
                _ if PLAIN => self.arrays[usize::from(array)].read_pages(slot),
                _ => self.arrays[usize::from(array)].read(slot, q.vpn),
            };
            (recent.array, recent.size) = (array, slot.size);
        }
        let entry = value.entry(q.vpn, order);
        if level == 1 { Outcome::L1 { entry } } else { Outcome::L2 { entry, cycles } }
    }
}
