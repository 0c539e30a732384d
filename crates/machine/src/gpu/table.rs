//! The walks in flight of one core (as the miss status holding registers of a cache hold misses): found by page, taken
//! by their ends.

use super::in_flight::{InFlight, serves};
use crate::near::bring;
use mmulab_addr::{Access, Asid, VirtAddr};
use mmulab_pagetable::Walked;
use mmulab_tlb::page_of;
use std::collections::VecDeque;

/// When a walk ends, and where it is kept.
#[derive(Clone, Copy)]
struct Due {
    end: u64,
    place: u32,
}

/// A walk that has ended.
pub(super) struct Ended {
    pub end: u64,
    pub walk: InFlight,
    /// Where it was: [`Table::whole`] is there until another starts.
    pub place: u32,
}

/// A place for a walk: one line of the computer that simulates, for all cores' together are more than its nearest
/// caches hold.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct Kept {
    end: u64,
    walk: InFlight,
}

/// What a walk is found by. Apart, so that a search reads few lines.
#[derive(Clone, Copy)]
struct Link {
    page: u64,
    /// The next one whose page falls in the same bucket; [`NOWHERE`] after the last.
    next: u32,
}

const NOWHERE: u32 = u32::MAX;
/// Buckets there are at first.
const BUCKETS: usize = 16;

/// The walks in flight of a core, found by base page: the size of a page is known when its walk ends.
pub(super) struct Table {
    /// By bucket, the first walk of a list; a power of two, at least as many as there are places.
    buckets: Vec<u32>,
    /// By place.
    links: Vec<Link>,
    /// By their ends, of equal ones the first begun first. Few walkers do all walks, so that one that begins later
    /// mostly ends later: a new one's place is found from the back.
    due: VecDeque<Due>,
    /// Those that are in flight, and places for others.
    kept: Vec<Kept>,
    free: Vec<u32>,
    /// By place, all that the walk found; empty where no TLB looks at neighbours.
    whole: Vec<Walked>,
}

impl Default for Table {
    fn default() -> Self {
        Self {
            buckets: vec![NOWHERE; BUCKETS],
            links: Vec::new(),
            due: VecDeque::new(),
            kept: Vec::new(),
            free: Vec::new(),
            whole: Vec::new(),
        }
    }
}

impl Table {
    #[inline]
    fn bucket(&self, page: u64) -> usize {
        // Fibonacci hashing (Knuth, vol. 3, section 6.4): the product's upper bits depend on all of the page's.
        let hash = page.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (hash >> (u64::BITS - self.buckets.len().ilog2())) as usize
    }

    /// The place of the walk that is found for a page.
    #[inline]
    fn place(&self, page: u64) -> Option<u32> {
        let mut at = self.buckets[self.bucket(page)];
        while let Some(link) = self.links.get(at as usize) {
            if link.page == page {
                return Some(at);
            }
            at = link.next;
        }
        None
    }

    /// The walk at `at` is found by its page no more, if it was.
    #[inline]
    fn unlink(&mut self, at: u32, page: u64) {
        let bucket = self.bucket(page);
        let next = self.links[at as usize].next;
        if self.buckets[bucket] == at {
            self.buckets[bucket] = next;
            return;
        }
        let mut before = self.buckets[bucket];
        while let Some(link) = self.links.get_mut(before as usize) {
            if link.next == at {
                link.next = next;
                return;
            }
            before = link.next;
        }
    }

    #[inline]
    fn link(&mut self, at: u32, page: u64) {
        let bucket = self.bucket(page);
        self.links[at as usize].next = std::mem::replace(&mut self.buckets[bucket], at);
    }

    /// Twice as many buckets.
    #[cold]
    fn spread(&mut self) {
        let before = std::mem::take(&mut self.buckets);
        self.buckets = vec![NOWHERE; 2 * before.len()];
        for mut at in before {
            while at != NOWHERE {
                let Link { page, next } = self.links[at as usize];
                self.link(at, page);
                at = next;
            }
        }
    }

    /// A walk that ends at `end` has begun; `whole` is what it finds, where a TLB looks at neighbours. Inlined, for
    /// what is kept is written once then, not first for the call.
    #[inline(always)]
    pub fn start(&mut self, end: u64, walk: InFlight, whole: Option<&Walked>) {
        let page = page_of(walk.asid, walk.va);
        // A later walk for the same page, with more rights, is found in its place.
        if let Some(earlier) = self.place(page) {
            self.unlink(earlier, page);
        }
        let at = self.free.pop().unwrap_or(self.kept.len() as u32);
        let (new, link) = (Kept { end, walk }, Link { page, next: NOWHERE });
        match (self.kept.get_mut(at as usize), self.links.get_mut(at as usize)) {
            (Some(place), Some(key)) => (*place, *key) = (new, link),
            _ => {
                self.kept.push(new);
                self.links.push(link);
            }
        }
        if let Some(walked) = whole {
            match self.whole.get_mut(at as usize) {
                Some(place) => *place = *walked,
                None => self.whole.push(*walked),
            }
        }
        self.link(at, page);
        if self.kept.len() > self.buckets.len() {
            self.spread();
        }
        let next = self.due.iter().rposition(|other| other.end <= end).map_or(0, |before| before + 1);
        self.due.insert(next, Due { end, place: at });
    }

    /// The walk in flight for the page of `va` that will let `access` through, and when it ends.
    pub fn find(&mut self, asid: Asid, va: VirtAddr, access: Access) -> Option<(u64, &mut InFlight)> {
        let at = self.place(page_of(asid, va))?;
        let Kept { end, walk } = &mut self.kept[at as usize];
        serves(&walk.leaf, access).then_some((*end, walk))
    }

    /// When the first of them ends.
    #[inline]
    pub fn next(&self) -> u64 {
        self.due.front().map_or(u64::MAX, |due| due.end)
    }

    /// Hints to the computer that simulates: the two that end first are needed next.
    #[inline]
    pub fn prefetch(&self) {
        for due in self.due.iter().take(2) {
            bring(self.kept.as_ptr().wrapping_add(due.place as usize));
            bring(self.links.as_ptr().wrapping_add(due.place as usize));
        }
    }

    /// Takes out the one that ends first, if it has ended by `now`.
    pub fn take_ended(&mut self, now: u64) -> Option<Ended> {
        if self.next() > now {
            return None;
        }
        let Due { end, place } = self.due.pop_front()?;
        self.prefetch();
        let walk = self.kept[place as usize].walk;
        self.unlink(place, page_of(walk.asid, walk.va));
        self.free.push(place);
        Some(Ended { end, walk, place })
    }

    /// All that the walk at a place found, where a TLB looks at neighbours.
    #[inline]
    pub fn whole(&self, at: u32) -> Option<&Walked> {
        self.whole.get(at as usize)
    }

    /// Whether none is in flight.
    pub fn is_empty(&self) -> bool {
        self.due.is_empty()
    }

    /// Forgets all; the misses that waited for them.
    pub fn forget(&mut self) -> u64 {
        let misses = self.due.drain(..).map(|due| self.kept[due.place as usize].walk.misses).sum();
        self.buckets.fill(NOWHERE);
        self.links.clear();
        self.kept.clear();
        self.free.clear();
        self.whole.clear();
        misses
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mmulab_addr::{PageOrder, Pfn, Prot};
    use mmulab_pagetable::Leaf;

    fn in_flight(page: u64, dirty: bool, misses: u64) -> InFlight {
        let leaf = Leaf {
            pfn: Pfn(page),
            order: PageOrder::P4K,
            prot: Prot::RW,
            user: true,
            accessed: true,
            dirty,
            global: false,
        };
        let va = VirtAddr::new(page << 12);
        InFlight { va, code: VirtAddr::default(), misses, leaf, asid: Asid(1), access: Access::Read }
    }

    #[test]
    fn walks_end_in_their_order_and_are_found_until_then() {
        let mut table = Table::default();
        let va = VirtAddr::new(7 << 12);
        assert_eq!(table.next(), u64::MAX);
        for (end, page, dirty) in [(30, 7, false), (20, 8, true), (30, 9, true), (40, 7, true)] {
            table.start(end, in_flight(page, dirty, 1), None);
        }
        // A store joins no walk that leaves the page clean; the later walk for the page does not.
        let (end, found) = table.find(Asid(1), va, Access::Write).expect("the store's own walk");
        assert!(end == 40 && found.leaf.dirty);
        assert!(table.find(Asid(2), va, Access::Read).is_none());
        let mut ended = Vec::new();
        while let Some(Ended { end, walk, .. }) = table.take_ended(30) {
            ended.push((end, walk.va.vpn().0));
        }
        assert_eq!(ended, [(20, 8), (30, 7), (30, 9)]);
        assert!(table.find(Asid(1), va, Access::Read).is_some(), "the other one is still in flight");
        table.start(35, in_flight(5, false, 2), None);
        assert_eq!((table.next(), table.forget(), table.next()), (35, 3, u64::MAX));
        assert!(table.find(Asid(1), va, Access::Read).is_none());
    }

    /// As a map from pages to the last walk begun, where that has not ended.
    #[test]
    fn many_walks_are_found_as_in_a_map() {
        let (mut table, mut map) = (Table::default(), std::collections::HashMap::new());
        let mut random = 1u64;
        for now in 0..20_000u64 {
            random = random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
            let (page, dirty, end) = (random >> 40 & 511, random >> 33 & 1 == 1, now + (random >> 50));
            if now % 5_000 == 4_999 {
                let waited: u64 = table.due.iter().map(|due| table.kept[due.place as usize].walk.misses).sum();
                assert_eq!(table.forget(), waited);
                map.clear();
            }
            while let Some(Ended { end, walk, .. }) = table.take_ended(now) {
                let page = walk.va.vpn().0;
                if map.get(&page).is_some_and(|&(_, begun)| begun == walk.misses) {
                    assert_eq!(map.remove(&page), Some((end, walk.misses)));
                }
            }
            table.start(end, in_flight(page, dirty, now), None);
            map.insert(page, (end, now));
            for page in 0..512 {
                let found = table.place(page_of(Asid(1), VirtAddr::new(page << 12))).map(|at| {
                    let Kept { end, walk } = table.kept[at as usize];
                    (end, walk.misses)
                });
                assert_eq!(found, map.get(&page).copied(), "page {page} at {now}");
            }
        }
    }
}
