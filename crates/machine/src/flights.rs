//! Walks under way on a core that runs warps: what each will bring, and when.

mod aloft;
mod table;

pub(crate) use aloft::Aloft;
pub(crate) use table::{Flights, prefetch};

use crate::{Machine, engine::Core, story::Watch};
use mmulab_addr::{Access, Asid, Side, VirtAddr};
use mmulab_pagetable::{Leaf, Walked};
use mmulab_tlb::page_of;
use rustc_hash::FxHashMap;

/// A walk under way: what the TLBs take when it ends.
#[derive(Clone, Copy)]
pub(crate) struct Flight {
    pub va: VirtAddr,
    /// The code that wanted it, for page-size predictors.
    pub code: VirtAddr,
    /// Second-level misses that it serves: its own, if it had one, and those that joined it.
    pub misses: u64,
    pub leaf: Leaf,
    pub asid: Asid,
    pub access: Access,
}

fn serves(leaf: &Leaf, access: Access) -> bool {
    leaf.allows(access) && (leaf.dirty || access != Access::Write)
}

/// Walks under way by base page, where cores have the second level in common: a core may join another one's.
#[derive(Default)]
pub(crate) struct Common(FxHashMap<u64, (u64, Walked)>);

/// How a lookup found the walk that it joins.
pub(crate) struct Joined {
    /// When that one ends.
    pub end: u64,
    pub leaf: Leaf,
}

impl Machine {
    /// A walk for `flight` ends at `end` on the acting core: until then its translation is not there.
    #[inline(always)]
    pub(crate) fn depart(&mut self, end: u64, flight: Flight, walked: &Walked) {
        if let Some(common) = &mut self.common {
            common.0.insert(page_of(flight.asid, flight.va), (end, *walked));
        }
        let cpu = usize::from(self.who.cpu);
        self.aloft.add(cpu);
        self.cores[cpu].depart(end, flight, walked);
    }

    /// The walk under way that brings what a lookup on the acting core did not find, if there is one. `misses`:
    /// second-level misses of that lookup.
    #[inline(always)]
    pub(crate) fn join(&mut self, asid: Asid, va: VirtAddr, access: Access, misses: u64) -> Option<Joined> {
        let waiting = self.core().waiting.as_mut()?;
        if let Some((end, flight)) = waiting.flights.find(asid, va, access) {
            flight.misses += misses;
            return Some(Joined { end, leaf: flight.leaf });
        }
        if self.common.is_some() { self.join_other(asid, va, access, misses) } else { None }
    }

    /// That of another core.
    #[inline(never)]
    fn join_other(&mut self, asid: Asid, va: VirtAddr, access: Access, misses: u64) -> Option<Joined> {
        let cpu = usize::from(self.who.cpu);
        let core = &mut self.cores[cpu];
        let common = self.common.as_mut()?;
        let page = page_of(asid, va);
        let (end, walked) = *common.0.get(&page).filter(|(_, walked)| serves(&walked.leaf, access))?;
        let now = core.clock.now(core.instructions);
        if end <= now {
            // It has ended, and the core that began it has not acted since: this one takes what it brought.
            common.0.remove(&page);
        }
        self.aloft.add(cpu);
        let leaf = walked.leaf;
        core.depart(end, Flight { va, code: core.tlbs.code, misses, leaf, asid, access }, &walked);
        Some(Joined { end, leaf })
    }

    /// What has ended on the acting core at `now` is there.
    #[cold]
    pub(crate) fn land<W: Watch>(&mut self, now: u64, watch: &mut W) {
        let cpu = usize::from(self.who.cpu);
        let core = &mut self.cores[cpu];
        let Some(waiting) = &mut core.waiting else { return };
        let now_runs = core.tlbs.code;
        while let Some((end, flight, place)) = waiting.flights.take_ended(now) {
            let Flight { asid, va, access, leaf, code, misses } = flight;
            if let Some(common) = &mut self.common {
                let page = page_of(asid, va);
                if common.0.get(&page).is_some_and(|&(theirs, _)| theirs == end) {
                    common.0.remove(&page);
                }
            }
            core.tlbs.code = code;
            let whole = waiting.flights.whole(place);
            core.tlbs.fill_late(asid, va, access, (&leaf, whole), misses, watch);
        }
        core.tlbs.code = now_runs;
        if waiting.flights.is_empty() {
            self.aloft.remove(cpu);
        }
    }

    /// The trace is over: what is under way on any core ends.
    pub fn land_all<W: Watch>(&mut self, watch: &mut W) {
        let acting = self.who.cpu;
        let mut next = 0;
        while let Some(cpu) = self.aloft.next(next) {
            next = cpu + 1;
            self.hand_over(cpu as u16);
            self.who.cpu = cpu as u16;
            self.land(u64::MAX, watch);
        }
        self.hand_over(acting);
        self.who.cpu = acting;
    }

    /// An invalidation, or another process: what is under way on these cores brings nothing.
    #[cold]
    pub(crate) fn divert(&mut self, cpus: std::ops::RangeInclusive<usize>) {
        if let Some(common) = &mut self.common {
            common.0.clear();
        }
        let mut next = *cpus.start();
        while let Some(cpu) = self.aloft.next(next).filter(|cpu| cpus.contains(cpu)) {
            self.aloft.remove(cpu);
            self.cores[cpu].divert();
            next = cpu + 1;
        }
    }
}

impl Core {
    #[inline(always)]
    fn depart(&mut self, end: u64, flight: Flight, walked: &Walked) {
        let whole = self.tlbs.looks_at_neighbours().then_some(walked);
        if let Some(waiting) = &mut self.waiting {
            waiting.flights.begin(end, flight, whole);
        }
    }

    fn divert(&mut self) {
        let Some(waiting) = &mut self.waiting else { return };
        let misses = waiting.flights.forget();
        self.tlbs.brought_nothing(Side::Data, misses);
    }
}
