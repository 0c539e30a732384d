//! Reservations: aligned blocks of which an object's pages are taken, each at its own place (sys/vm/vm_reserv.c).
//!
//! A reservation is *partially populated* while some of its pages are in use. These reservations wait in a queue, the
//! one populated or depopulated longest ago first. It is *full* when all are. It is freed when none is, and *broken*
//! when memory is wanted: its unused pages go to the allocator and its used ones become ordinary.

use crate::report::counts::Refusal;
use mmulab_addr::{PageOrder, Pfn};
use mmulab_frames::{Frames, Mobility};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;

/// Reservations may be no larger than a block of the allocator (`VM_NFREEORDER` - 1).
pub const LEVEL_MAX: PageOrder = PageOrder::new(12);

/// Where a page belongs. Page numbers are coloured (see [`super::objects::Anon`]).
#[derive(Clone, Copy, Debug)]
pub struct Place {
    /// The object.
    pub object: u32,
    /// The page.
    pub at: u64,
    /// The object's first page.
    pub start: u64,
    /// The page after the object's last, if it is not expected to grow.
    pub end: Option<u64>,
}

struct Reserv {
    object: u32,
    first: u64,
    order: u8,
    used: u32,
    /// A bit for each page in use (`popmap`).
    map: Box<[u64]>,
    /// Its place in the queue; 0 when full.
    stamp: u64,
}

impl Reserv {
    fn pages(&self) -> u32 {
        1 << self.order
    }

    fn has(&self, index: u32) -> bool {
        self.map[index as usize / 64] >> (index % 64) & 1 != 0
    }
}

/// The outcome of a request for a page at a place of an object.
pub enum ReservationOutcome {
    /// A page of a reservation that is there, or of a new one.
    Page {
        /// The frame.
        pfn: Pfn,
        /// The size of the reservation, if it is new.
        made: Option<PageOrder>,
    },
    /// No reservation can serve it, the reason being the largest size's.
    Refused(Refusal),
    /// There is one, but its page at that place is in use: by a child, or as what was there before.
    Taken,
}

/// A reservation of which some pages are in use and some are not.
#[derive(Clone, Copy, Debug)]
pub struct Partial {
    /// Its first frame.
    pub base: Pfn,
    pub order: PageOrder,
    /// Pages in use.
    pub used: u32,
    /// The object that it is for, and the coloured number of its first page there.
    pub object: u32,
    pub first: u64,
    /// Value of [`Reservations::clock`] when it last changed.
    pub changed: u64,
}

/// All reservations.
#[derive(Default)]
pub struct Reservations {
    /// Sizes, the largest first.
    levels: Vec<u8>,
    /// By object, first page and order: the first frame.
    places: FxHashMap<(u32, u64, u8), u32>,
    /// By first frame and order.
    blocks: FxHashMap<(u32, u8), Reserv>,
    /// Partially populated ones, by when they last changed.
    queue: BTreeMap<u64, (u32, u8)>,
    clock: u64,
    /// Frames in reservations that are not in use.
    idle: u64,
    /// Reservations that went since this was last read: freed because they were empty, and broken.
    pub freed: u64,
    /// Broken for want of memory.
    pub broken: u64,
}

impl Reservations {
    /// None yet, of these sizes.
    pub fn new(levels: &[PageOrder]) -> Self {
        let mut levels: Vec<u8> = levels.iter().map(|l| l.get()).collect();
        levels.sort_unstable_by(|a, b| b.cmp(a));
        Self { levels, ..Self::default() }
    }

    /// Frames set aside and not in use.
    pub fn idle_frames(&self) -> u64 {
        self.idle
    }

    /// Whether any size is reserved.
    pub fn is_on(&self) -> bool {
        !self.levels.is_empty()
    }

    /// A page for `place` (`vm_reserv_alloc_page`). `resident` returns whether the object has a page in memory among
    /// those from one number up to another.
    pub fn take(
        &mut self,
        place: Place,
        frames: &mut Frames,
        cpu: u16,
        mut resident: impl FnMut(u64, u64) -> bool,
    ) -> ReservationOutcome {
        for i in 0..self.levels.len() {
            let order = self.levels[i];
            let first = place.at & !((1 << order) - 1);
            let Some(&base) = self.places.get(&(place.object, first, order)) else { continue };
            let index = (place.at - first) as u32;
            if self.blocks[&(base, order)].has(index) {
                return ReservationOutcome::Taken;
            }
            self.populate((base, order), index);
            return ReservationOutcome::Page { pfn: Pfn(u64::from(base + index)), made: None };
        }
        let mut refused = None;
        for i in 0..self.levels.len() {
            let order = self.levels[i];
            let first = place.at & !((1 << order) - 1);
            let end = first + (1 << order);
            let why = if first < place.start {
                // Is a reservation fundamentally impossible, because it would begin before the object?
                Refusal::ReservBeforeObject
            } else if place.end.is_some_and(|object_end| end > object_end) {
                // Would it extend past the end of an object that is unlikely to grow?
                Refusal::ReservPastEnd
            } else if resident(first, end) {
                // Could it fit between the neighbours that are in memory?
                Refusal::ReservPopulated
            } else {
                match frames.alloc(PageOrder::new(order), Mobility::Movable, cpu) {
                    Some(base) => return self.make(place, first, order, base),
                    None => Refusal::ReservNoBlock,
                }
            };
            refused.get_or_insert(why);
        }
        match refused {
            Some(why) => ReservationOutcome::Refused(why),
            None => ReservationOutcome::Taken,
        }
    }

    fn make(&mut self, place: Place, first: u64, order: u8, base: Pfn) -> ReservationOutcome {
        let index = (place.at - first) as u32;
        let words = (1usize << order).div_ceil(64);
        let base32 = base.0 as u32;
        let made = Reserv { object: place.object, first, order, used: 0, map: vec![0; words].into(), stamp: 0 };
        self.places.insert((place.object, first, order), base32);
        self.blocks.insert((base32, order), made);
        self.idle += 1 << order;
        self.populate((base32, order), index);
        ReservationOutcome::Page { pfn: Pfn(base.0 + u64::from(index)), made: Some(PageOrder::new(order)) }
    }

    /// Puts a reservation to the tail of the queue, unless it is full.
    fn requeue(queue: &mut BTreeMap<u64, (u32, u8)>, clock: &mut u64, key: (u32, u8), reserv: &mut Reserv) {
        if reserv.stamp != 0 {
            queue.remove(&reserv.stamp);
            reserv.stamp = 0;
        }
        if reserv.used < reserv.pages() {
            *clock += 1;
            reserv.stamp = *clock;
            queue.insert(*clock, key);
        }
    }

    /// `vm_reserv_populate`.
    fn populate(&mut self, key: (u32, u8), index: u32) {
        let Some(reserv) = self.blocks.get_mut(&key) else { return };
        debug_assert!(!reserv.has(index));
        reserv.map[index as usize / 64] |= 1 << (index % 64);
        reserv.used += 1;
        self.idle -= 1;
        Self::requeue(&mut self.queue, &mut self.clock, key, reserv);
    }

    /// The reservation a frame lies in.
    fn of(&self, pfn: Pfn) -> Option<(u32, u8)> {
        let frame = pfn.0 as u32;
        self.levels.iter().map(|&o| (frame & !((1 << o) - 1), o)).find(|key| self.blocks.contains_key(key))
    }

    /// Gives a frame back if it belongs to a reservation (`vm_reserv_free_page`, `vm_reserv_depopulate`).
    pub fn give(&mut self, pfn: Pfn, frames: &mut Frames, cpu: u16) -> bool {
        let Some(key) = self.of(pfn) else { return false };
        let Some(reserv) = self.blocks.get_mut(&key) else { return false };
        let index = pfn.0 as u32 - key.0;
        debug_assert!(reserv.has(index));
        reserv.map[index as usize / 64] &= !(1 << (index % 64));
        reserv.used -= 1;
        self.idle += 1;
        if reserv.used > 0 {
            Self::requeue(&mut self.queue, &mut self.clock, key, reserv);
            return true;
        }
        self.remove(key);
        self.idle -= 1 << key.1;
        self.freed += 1;
        frames.free(Pfn(u64::from(key.0)), PageOrder::new(key.1), cpu);
        true
    }

    fn remove(&mut self, key: (u32, u8)) -> Option<Reserv> {
        let reserv = self.blocks.remove(&key)?;
        self.places.remove(&(reserv.object, reserv.first, reserv.order));
        self.queue.remove(&reserv.stamp);
        Some(reserv)
    }

    /// How often reservations changed so far.
    pub fn clock(&self) -> u64 {
        self.clock
    }

    /// The partially populated reservations, the one that changed longest ago first.
    pub fn partial(&self) -> impl DoubleEndedIterator<Item = Partial> + '_ {
        self.queue.iter().map(|(&changed, key)| {
            let Reserv { object, first, used, .. } = self.blocks[key];
            let (base, order) = (Pfn(u64::from(key.0)), PageOrder::new(key.1));
            Partial { base, order, used, object, first, changed }
        })
    }

    /// When the reservation of `order` at `base` last changed, if there is one that is partially populated.
    pub fn changed(&self, base: Pfn, order: PageOrder) -> Option<u64> {
        self.blocks.get(&(base.0 as u32, order.get())).map(|reserv| reserv.stamp).filter(|&stamp| stamp != 0)
    }

    /// The frames in use of the reservation of `order` at `base`; none, if there is no such reservation.
    pub fn used_frames(&self, base: Pfn, order: PageOrder) -> Vec<Pfn> {
        let Some(reserv) = self.blocks.get(&(base.0 as u32, order.get())) else { return Vec::new() };
        (0..reserv.pages()).filter(|&i| reserv.has(i)).map(|i| Pfn(base.0 + u64::from(i))).collect()
    }

    /// Breaks the partially populated reservation that changed longest ago (`vm_reserv_reclaim_inactive`,
    /// `vm_reserv_break`); false if there is none.
    pub fn break_oldest(&mut self, frames: &mut Frames) -> bool {
        let Some((_, &key)) = self.queue.iter().next() else { return false };
        let Some(reserv) = self.remove(key) else { return false };
        let mut at = 0;
        while at < reserv.pages() {
            let used = reserv.has(at);
            let end = (at..reserv.pages()).find(|&i| reserv.has(i) != used).unwrap_or(reserv.pages());
            if !used {
                frames.free_run(Pfn(u64::from(key.0 + at)), u64::from(end - at));
                self.idle -= u64::from(end - at);
            }
            at = end;
        }
        self.broken += 1;
        true
    }

    /// Whether the aligned `order` frames around `pfn` all are in use, out of one reservation
    /// (`vm_reserv_is_populated`).
    pub fn is_full(&self, pfn: Pfn, order: PageOrder) -> bool {
        self.used_in(pfn, order) == order.base_pages() as u32
    }

    /// How many of the aligned `order` frames around `pfn` are in use, if one reservation holds them all; else 0.
    pub fn used_in(&self, pfn: Pfn, order: PageOrder) -> u32 {
        let Some(key) = self.of(pfn).filter(|key| key.1 >= order.get()) else { return 0 };
        let reserv = &self.blocks[&key];
        if reserv.used < reserv.pages() && order.get() == key.1 {
            return reserv.used;
        }
        let first = (pfn.align_down(order).0 as u32 - key.0) as usize;
        let words = (order.base_pages() as usize).div_ceil(64);
        if words == 1 {
            let mask = (u64::MAX >> (64 - order.base_pages())) << (first % 64);
            return (reserv.map[first / 64] & mask).count_ones();
        }
        reserv.map[first / 64..first / 64 + words].iter().map(|w| w.count_ones()).sum()
    }

    /// Of the aligned `order` frames from `head`, in parts of `frames`: the parts of which any frame is in use; 0 if no
    /// one reservation holds them all.
    pub fn parts_used(&self, head: Pfn, order: PageOrder, frames: u64) -> u64 {
        let Some(key) = self.of(head).filter(|key| key.1 >= order.get()) else { return 0 };
        let reserv = &self.blocks[&key];
        let first = head.0 as u32 - key.0;
        let has_any = |part: &u32| (0..frames as u32).any(|i| reserv.has(first + part * frames as u32 + i));
        (0..(order.base_pages() / frames) as u32).filter(has_any).count() as u64
    }

    /// Takes every page not in use of the aligned `order` frames around `pfn`; false if no one reservation holds them.
    pub fn fill(&mut self, pfn: Pfn, order: PageOrder) -> bool {
        let Some(key) = self.of(pfn).filter(|key| key.1 >= order.get()) else { return false };
        let first = pfn.align_down(order).0 as u32 - key.0;
        for index in first..first + order.base_pages() as u32 {
            if !self.blocks[&key].has(index) {
                self.populate(key, index);
            }
        }
        true
    }
}
