//! Walks under way on a core that runs warps: what each will bring, and when.

use crate::{Machine, engine::Core, story::Watch};
use mmulab_addr::{Access, Asid, Side, VirtAddr};
use mmulab_pagetable::Walked;
use rustc_hash::FxHashMap;
use std::collections::VecDeque;

/// A walk under way: what the TLBs take when it ends.
#[derive(Clone, Copy)]
pub(crate) struct Flight {
    pub asid: Asid,
    pub va: VirtAddr,
    pub access: Access,
    pub walked: Walked,
    /// The code that wanted it, for page-size predictors.
    pub code: VirtAddr,
    /// Second-level misses that it serves: its own, if it had one, and those that joined it.
    pub misses: u64,
}

impl Flight {
    /// Whether what it brings lets `access` through.
    fn serves(&self, access: Access) -> bool {
        serves(&self.walked, access)
    }
}

fn serves(walked: &Walked, access: Access) -> bool {
    walked.leaf.allows(access) && (walked.leaf.dirty || access != Access::Write)
}

/// When a walk ends, and where it is kept.
type Arrival = (u64, u32);

/// The walks under way of a core, found by base page: how large a page is, only the end of its walk tells.
#[derive(Default)]
pub(crate) struct Flights {
    by_page: FxHashMap<u64, u32>,
    /// By their ends, of equal ones the first begun first. Few walkers do all walks, so that one that begins later mostly ends
    /// later: a new one's place is found from the back.
    due: VecDeque<Arrival>,
    /// Those that are under way, and places for others: they are too large to be moved about.
    kept: Vec<(u64, Flight)>,
    free: Vec<u32>,
}

fn page_of(asid: Asid, va: VirtAddr) -> u64 {
    (va.vpn().0 << 16) | u64::from(asid.0)
}

impl Flights {
    /// A walk that ends at `end` has begun.
    pub fn begin(&mut self, end: u64, flight: Flight) {
        let page = page_of(flight.asid, flight.va);
        let at = self.free.pop().unwrap_or(self.kept.len() as u32);
        match self.kept.get_mut(at as usize) {
            Some(place) => *place = (end, flight),
            None => self.kept.push((end, flight)),
        }
        self.by_page.insert(page, at);
        let place = self.due.iter().rposition(|&(other, _)| other <= end).map_or(0, |before| before + 1);
        self.due.insert(place, (end, at));
    }

    /// The walk under way for the page of `va` that will let `access` through, and when it ends.
    fn find(&mut self, asid: Asid, va: VirtAddr, access: Access) -> Option<(u64, &mut Flight)> {
        let at = *self.by_page.get(&page_of(asid, va))?;
        let (end, flight) = &mut self.kept[at as usize];
        flight.serves(access).then_some((*end, flight))
    }

    /// When the first of them ends.
    #[inline]
    pub fn next(&self) -> u64 {
        self.due.front().map_or(u64::MAX, |&(end, _)| end)
    }

    /// Takes out the one that ends first, if it has ended at `now`.
    fn take_ended(&mut self, now: u64) -> Option<(u64, Flight)> {
        if self.next() > now {
            return None;
        }
        let (end, at) = self.due.pop_front()?;
        let (_, flight) = self.kept[at as usize];
        self.free.push(at);
        let page = page_of(flight.asid, flight.va);
        // A later walk for the same page, with more rights, is found in its place.
        if self.by_page.get(&page) == Some(&at) {
            self.by_page.remove(&page);
        }
        Some((end, flight))
    }

    /// Forgets all; the misses that waited for them.
    fn forget(&mut self) -> u64 {
        let misses = self.due.drain(..).map(|(_, at)| self.kept[at as usize].1.misses).sum();
        self.by_page.clear();
        self.kept.clear();
        self.free.clear();
        misses
    }
}

/// Walks under way by base page, where cores have the second level in common: a core may join another one's.
#[derive(Default)]
pub(crate) struct Common(FxHashMap<u64, (u64, Walked)>);

/// How a lookup found the walk that it joins.
pub(crate) struct Joined {
    /// When that one ends.
    pub end: u64,
    pub walked: Walked,
}

impl Machine {
    /// A walk for `flight` ends at `end` on the acting core: until then its translation is not there.
    pub(crate) fn depart(&mut self, end: u64, flight: Flight) {
        if let Some(common) = &mut self.common {
            common.0.insert(page_of(flight.asid, flight.va), (end, flight.walked));
        }
        if let Some(waiting) = &mut self.core().waiting {
            waiting.flights.begin(end, flight);
        }
    }

    /// The walk under way that brings what a lookup on the acting core did not find, if there is one. `misses`: second-level
    /// misses of that lookup.
    pub(crate) fn join(&mut self, asid: Asid, va: VirtAddr, access: Access, misses: u64) -> Option<Joined> {
        let cpu = usize::from(self.who.cpu);
        let core = &mut self.cores[cpu];
        let waiting = core.waiting.as_mut()?;
        if let Some((end, flight)) = waiting.flights.find(asid, va, access) {
            flight.misses += misses;
            return Some(Joined { end, walked: flight.walked });
        }
        let common = self.common.as_mut()?;
        let page = page_of(asid, va);
        let (end, walked) = *common.0.get(&page).filter(|(_, walked)| serves(walked, access))?;
        let now = core.clock.now(core.instructions);
        if end <= now {
            // It has ended, and the core that began it has not acted since: this one takes what it brought.
            common.0.remove(&page);
        }
        waiting.flights.begin(end, Flight { asid, va, access, walked, code: core.tlbs.code, misses });
        Some(Joined { end, walked })
    }

    /// What has ended on the acting core at `now` is there.
    #[cold]
    pub(crate) fn land<W: Watch>(&mut self, now: u64, watch: &mut W) {
        let core = &mut self.cores[usize::from(self.who.cpu)];
        let Some(waiting) = &mut core.waiting else { return };
        while let Some((end, flight)) = waiting.flights.take_ended(now) {
            let Flight { asid, va, access, walked, code, misses } = flight;
            let page = page_of(asid, va);
            if let Some(common) = &mut self.common
                && common.0.get(&page).is_some_and(|&(theirs, _)| theirs == end)
            {
                common.0.remove(&page);
            }
            let now_runs = std::mem::replace(&mut core.tlbs.code, code);
            core.tlbs.fill_late(asid, va, access, &walked, misses, watch);
            core.tlbs.code = now_runs;
        }
    }

    /// The trace is over: what is under way on any core ends.
    pub fn land_all<W: Watch>(&mut self, watch: &mut W) {
        let acting = self.who.cpu;
        for cpu in 0..self.cores.len() as u16 {
            if self.cores[usize::from(cpu)].has_flights() {
                self.hand_over(cpu);
                self.who.cpu = cpu;
                self.land(u64::MAX, watch);
            }
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
        self.cores[cpus].iter_mut().for_each(Core::divert);
    }
}

impl Core {
    fn has_flights(&self) -> bool {
        self.waiting.as_ref().is_some_and(|waiting| !waiting.flights.due.is_empty())
    }

    fn divert(&mut self) {
        let Some(waiting) = &mut self.waiting else { return };
        let misses = waiting.flights.forget();
        self.tlbs.brought_nothing(Side::Data, misses);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mmulab_addr::{PageOrder, Pfn, Prot};
    use mmulab_pagetable::{Format, Leaf};

    fn flight(page: u64, dirty: bool, misses: u64) -> Flight {
        let leaf = Leaf {
            pfn: Pfn(page),
            order: PageOrder::P4K,
            prot: Prot::RW,
            user: true,
            accessed: true,
            dirty,
            global: false,
        };
        let walked = Walked { leaf, line: [0; 8], slot: 0, level: 1, format: Format::X86 { levels: 4 } };
        let va = VirtAddr::new(page << 12);
        Flight { asid: Asid(1), va, access: Access::Read, walked, code: VirtAddr::default(), misses }
    }

    #[test]
    fn walks_end_in_their_order_and_are_found_until_then() {
        let mut flights = Flights::default();
        let va = VirtAddr::new(7 << 12);
        assert_eq!(flights.next(), u64::MAX);
        for (end, page, dirty) in [(30, 7, false), (20, 8, true), (30, 9, true), (40, 7, true)] {
            flights.begin(end, flight(page, dirty, 1));
        }
        // A store joins no walk that leaves the page clean; the later walk for the page does not.
        let (end, found) = flights.find(Asid(1), va, Access::Write).expect("the store's own walk");
        assert!(end == 40 && found.walked.leaf.dirty);
        assert!(flights.find(Asid(2), va, Access::Read).is_none());
        let mut ended = Vec::new();
        while let Some((end, flight)) = flights.take_ended(30) {
            ended.push((end, flight.va.vpn().0));
        }
        assert_eq!(ended, [(20, 8), (30, 7), (30, 9)]);
        assert!(flights.find(Asid(1), va, Access::Read).is_some(), "the other one is still under way");
        flights.begin(35, flight(5, false, 2));
        assert_eq!((flights.next(), flights.forget(), flights.next()), (35, 3, u64::MAX));
        assert!(flights.find(Asid(1), va, Access::Read).is_none());
    }
}
