//! Fills: what a walk or the second level brings, to the arrays that take it, and what follows from evictions.

use super::{Hierarchy, Query, WALK, page_of, recent::NO_PAGE};
use crate::{
    Entry, Observer,
    design::{Change, FillInput, Line},
    key::{Value, part},
    pages::{Gone, Slot},
};
use mmulab_addr::{Access, Asid, PageOrder, Side, VirtAddr};
use mmulab_pagetable::{Leaf, Walked};

impl Hierarchy {
    /// Takes in what a walk for `va` found: second level first, then the first.
    #[inline(never)]
    pub fn fill<O: Observer>(&mut self, asid: Asid, va: VirtAddr, access: Access, walked: &Walked, obs: &mut O) {
        let q = Query::new(asid, va, access);
        let missed = self.missed[q.side] == q.vpn.0;
        self.fill_for(q, (&walked.leaf, Some(walked)), u64::from(missed), obs);
    }

    /// As [`Self::fill`], for a walk that ends only now: other lookups came between. `misses` lookups waited for it.
    /// The line around the leaf is used by arrays that [look at neighbours](Self::looks_at_neighbours).
    pub fn fill_late<O: Observer>(
        &mut self,
        asid: Asid,
        va: VirtAddr,
        access: Access,
        found: (&Leaf, Option<&Walked>),
        misses: u64,
        obs: &mut O,
    ) {
        self.fill_for(Query::new(asid, va, access), found, misses, obs);
    }

    /// A walk that `misses` lookups waited for ended in a translation that no array takes any more.
    pub fn brought_nothing(&mut self, side: Side, misses: u64) {
        self.no_l1_array[side as usize][WALK] += misses;
    }

    /// Takes in what a walk found that `misses` second-level lookups waited for.
    #[inline(always)]
    fn fill_for<O: Observer>(&mut self, q: Query, found: (&Leaf, Option<&Walked>), misses: u64, obs: &mut O) {
        if self.is_plain {
            self.fill_in::<true, O>(q, found, misses, obs);
        } else {
            self.fill_in::<false, O>(q, found, misses, obs);
        }
    }

    /// The same. `PLAIN`: [`Self::is_plain`].
    #[inline(always)]
    fn fill_in<const PLAIN: bool, O: Observer>(
        &mut self,
        q: Query,
        (leaf, walked): (&Leaf, Option<&Walked>),
        misses: u64,
        obs: &mut O,
    ) {
        if !PLAIN
            && let Some(trail) = &mut self.trail
            && !trail.is_of_first()
        {
            trail.walked((q.asid, q.va, q.access), leaf, walked.filter(|_| self.coalesces));
            if trail.is_elsewhere() {
                return;
            }
        }
        let value = Value::of(leaf);
        let order = leaf.order;
        let absent = self.absent[q.side] == page_of(q.asid, q.va);
        self.flush_recent_for(q.side);
        self.absent = [NO_PAGE; 2];
        self.missed[q.side] = NO_PAGE;
        if !PLAIN
            && self.coalesces
            && let Some(walked) = walked
        {
            if self.guesses {
                self.learn(1, q.side, order);
                self.learn(0, q.side, order);
            }
            let (line, large);
            let input = if self.looks.large && order != PageOrder::P4K {
                large = Line::read_sized(q.vpn, value, walked);
                large.as_ref().map_or(FillInput::Page(value, order), FillInput::Large)
            } else if self.looks.base {
                line = Line::read(q.vpn, value, walked);
                line.as_ref().map_or(FillInput::Page(value, order), FillInput::Line)
            } else {
                FillInput::Page(value, order)
            };
            self.take(1, q, input, absent, obs);
            let first = self.take(0, q, input, absent, obs);
            self.reloaded(q.side, WALK, first, misses);
            return;
        }
        if !PLAIN && self.guesses {
            self.learn(1, q.side, order);
            self.learn(0, q.side, order);
        }
        self.put::<PLAIN, O>(1, q, value, order, absent, obs);
        let first = self.put::<PLAIN, O>(0, q, value, order, absent, obs);
        self.reloaded(q.side, WALK, first, misses);
    }

    /// So many misses of the first level have ended in an entry there.
    #[inline(always)]
    pub(super) fn reloaded(&mut self, side: usize, origin: usize, first: Option<(u8, Slot)>, misses: u64) {
        match first {
            Some((array, slot)) => {
                self.arrays[usize::from(array)].reloads[side][origin][usize::from(slot.size)] += misses;
            }
            None => self.no_l1_array[side][origin] += misses,
        }
    }

    /// Fills the first level with what the second held.
    #[inline(never)]
    pub(super) fn refill_l1<O: Observer>(
        &mut self,
        index: usize,
        q: Query,
        slot: Slot,
        (value, order): (Value, PageOrder),
        obs: &mut O,
    ) -> Option<(u8, Slot)> {
        let is_of_use = self.looks.base || (self.looks.large && order != PageOrder::P4K);
        let line = if is_of_use { self.arrays[index].line(slot, q.vpn) } else { None };
        let input = match &line {
            // The pages of a line may be smaller than the entry that they came from.
            Some(line) if line.order == PageOrder::P4K => FillInput::Line(line),
            Some(line) => FillInput::Large(line),
            None => FillInput::Page(value, order),
        };
        self.take(0, q, input, true, obs)
    }

    /// As [`Self::put`], where arrays of the level may look at the neighbours.
    #[inline(never)]
    fn take<O: Observer>(
        &mut self,
        level: usize,
        q: Query,
        input: FillInput,
        absent: bool,
        obs: &mut O,
    ) -> Option<(u8, Slot)> {
        let (_, order) = input.page();
        let target = self.levels.of[level][q.side].takes(order)?;
        let index = usize::from(target.array);
        let tell = |change, _, entry: &Entry| match change {
            Change::Filled => obs.filled(index, entry),
            Change::Evicted => obs.evicted(index, entry),
            Change::EvictedFrom(set) => obs.evicted_from(index, set, entry),
            Change::Dropped => obs.invalidated(index, entry),
        };
        let (slot, gone) = self.arrays[index].take(q.asid, q.vpn, target.size, input, (absent, O::ACTIVE), tell);
        if let Some(gone) = gone
            && (O::ACTIVE || self.evictions_matter[index])
        {
            self.evicted(index, &gone, obs);
        }
        Some((target.array, slot))
    }

    /// Writes the entry for the page of `order` into the array of level `level + 1` that takes it, and returns its
    /// place. `absent` states that no array of that level translates the page yet. `PLAIN`: [`Self::is_plain`].
    #[inline(always)]
    pub(super) fn put<const PLAIN: bool, O: Observer>(
        &mut self,
        level: usize,
        q: Query,
        value: Value,
        order: PageOrder,
        absent: bool,
        obs: &mut O,
    ) -> Option<(u8, Slot)> {
        let target = self.levels.of[level][q.side].takes(order)?;
        if !PLAIN
            && level == 0
            && let Some(trail) = &mut self.trail
            && trail.is_of_first()
        {
            let sizes = &self.arrays[usize::from(target.array)].sizes;
            let held = sizes[usize::from(target.size)];
            let is_alone = held == order && sizes.iter().all(|&size| size >= held);
            let said = (part(value, q.vpn, order, held), is_alone.then_some(order));
            trail.filled((target.array, target.size), (q.asid, q.va), said);
            if trail.is_elsewhere() {
                return Some(self.filled_elsewhere(target.array, target.size));
            }
        }
        let array = &mut self.arrays[usize::from(target.array)];
        let (slot, gone) = array.put(q.asid, q.vpn, target.size, (value, order), absent);
        if O::ACTIVE {
            let (value, order) = array.read(slot, q.vpn);
            obs.filled(usize::from(target.array), &value.entry(q.vpn, order));
        }
        if let Some(gone) = gone
            && (O::ACTIVE || self.evictions_matter[usize::from(target.array)])
        {
            self.evicted(usize::from(target.array), &gone, obs);
        }
        Some((target.array, slot))
    }

    /// Consequences of an eviction.
    #[cold]
    fn evicted<O: Observer>(&mut self, index: usize, gone: &Gone, obs: &mut O) {
        obs.evicted(index, &gone.entry());
        if let Some(in_flight) = &mut self.in_flight {
            in_flight.evicted(index, gone);
        }
        for at in 0..self.levels.victims[index].len() {
            let below = self.levels.victims[index][at];
            let array = &mut self.arrays[below];
            let Some(size) = array.sizes.iter().position(|&o| o == gone.order) else { continue };
            let (_, next) = array.put(gone.asid(), gone.vpn(), size as u8, (gone.value, gone.order), false);
            obs.filled(below, &gone.entry());
            if let Some(next) = next {
                self.evicted(below, &next, obs);
            }
        }
        if self.inclusive && self.arrays[index].level == 2 {
            for (above, array) in self.arrays.iter_mut().enumerate().filter(|(_, a)| a.level == 1) {
                array.drop_range(gone.asid(), gone.vpn(), gone.order.base_pages(), |e| obs.invalidated(above, e));
            }
            self.flush_all_recent();
        }
    }
}
