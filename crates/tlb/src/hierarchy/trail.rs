//! The trail of a first level: one number for everything that was written to it, dropped from it or changed in it, and
//! when. Two hierarchies whose first levels are alike, and that are given the same references, answer alike as long as
//! their trails are equal. So one of them can be searched for both.
//!
//! What counts is what a reference leaves behind. A second-level hit may bring an entry that the reference may not use,
//! and the walk that follows replaces it. A hierarchy whose second level misses brings the final entry at once. Both
//! leave the same first level, and the same trail.
//!
//! Where all arrays are alike, one search serves for both levels. Then the trail has what walks found.

use crate::key::{Value, page_of};
use mmulab_addr::{Access, Asid, GOLDEN, PageOrder, VirtAddr, mix};
use mmulab_pagetable::{Invalidate, Leaf, Walked};

/// What was done, where two things would look alike.
const FILLED: u64 = 1;
const DIRTIED: u64 = 2;
const DROPPED: u64 = 3;
const CLOSED: u64 = 4;
const LOST: u64 = 5;
const WALKED: u64 = 6;

/// The levels of which one search serves several hierarchies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Levels {
    /// The first: second levels differ.
    First,
    /// Both: all arrays are alike.
    Both,
}

/// An entry of the first level, by its place.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Place {
    array: u8,
    size: u8,
    /// Base page and ASID of the reference, which brings one page only.
    page: u64,
}

/// A fill of the reference that runs.
#[derive(Clone, Copy)]
struct Fill {
    place: Place,
    value: Value,
    /// The size of the page, if no smaller entry of its array can lie in it, and the entry is of all of it.
    alone: Option<PageOrder>,
}

impl Fill {
    fn is_of(&self, asid: Asid, va: VirtAddr, order: PageOrder) -> bool {
        let page = |page: u64| page >> (u32::from(order.get()) + u16::BITS);
        self.alone == Some(order)
            && page(self.place.page) == page(page_of(asid, va))
            && self.place.page as u16 == asid.0
    }
}

/// The trail of one hierarchy.
pub(super) struct Trail {
    hash: u64,
    levels: Levels,
    /// Another hierarchy is searched for this one: nothing is written to its first level.
    is_elsewhere: bool,
    /// The last fill of the reference that runs: it counts once the reference is over.
    last: Option<Fill>,
    /// An entry that was brought and dropped again while the reference ran. A later fill of the reference takes its
    /// place.
    lost: Option<Place>,
    /// By array: entries brought and dropped again while a reference ran.
    undone: Vec<u64>,
}

impl Trail {
    pub fn new(arrays: usize, levels: Levels, is_elsewhere: bool) -> Self {
        Self { hash: 0, levels, is_elsewhere, last: None, lost: None, undone: vec![0; arrays] }
    }

    /// Another hierarchy is searched for this one.
    pub fn is_elsewhere(&self) -> bool {
        self.is_elsewhere
    }

    /// All so far, as one number.
    pub fn hash(&self) -> u64 {
        self.hash
    }

    /// Entries of array `array` that were brought and dropped again while a reference ran.
    pub fn undone(&self, array: usize) -> u64 {
        self.undone[array]
    }

    /// It is about the first level alone.
    pub fn is_of_first(&self) -> bool {
        self.levels == Levels::First
    }

    /// A walk found this, and all arrays take from it what they want.
    pub fn walked(&mut self, (asid, va, access): (Asid, VirtAddr, Access), leaf: &Leaf, walked: Option<&Walked>) {
        self.mix(WALKED | (access as u64) << 8 | u64::from(leaf.order.get()) << 16);
        self.mix(page_of(asid, va));
        self.mix(Value::of(leaf).bits());
        if let Some(walked) = walked {
            self.mix(u64::from(walked.slot) | u64::from(walked.level) << 8);
            walked.line.into_iter().for_each(|word| self.mix(word));
        }
    }

    /// A word at a time.
    fn mix(&mut self, word: u64) {
        self.hash = mix(self.hash.wrapping_add(word).wrapping_add(GOLDEN));
    }

    fn mix_place(&mut self, what: u64, place: Place) {
        self.mix(what | u64::from(place.array) << 8 | u64::from(place.size) << 16);
        self.mix(place.page);
    }

    /// What the reference has filled so far counts now.
    fn settle(&mut self) {
        if let Some(fill) = self.last.take() {
            self.mix_place(FILLED, fill.place);
            self.mix(fill.value.bits());
        }
        if let Some(place) = self.lost.take() {
            self.mix_place(LOST, place);
        }
    }

    /// The first level takes a page of the reference that runs. `alone`: as in [`Fill`].
    pub fn filled(
        &mut self,
        (array, size): (u8, u8),
        (asid, va): (Asid, VirtAddr),
        (value, alone): (Value, Option<PageOrder>),
    ) {
        let place = Place { array, size, page: page_of(asid, va) };
        if self.last.is_some_and(|last| last.place != place) || self.lost.is_some_and(|lost| lost != place) {
            self.settle();
        }
        self.lost = None;
        self.last = Some(Fill { place, value, alone });
    }

    /// The entries of a page say that it is dirty.
    pub fn dirtied(&mut self, asid: Asid, va: VirtAddr) {
        self.mix(DIRTIED);
        self.mix(page_of(asid, va));
    }

    /// Entries go.
    pub fn dropped(&mut self, what: &Invalidate) {
        // Where no smaller entry can lie in the page, nothing else goes with it: a larger one would have been found.
        match (*what, self.last) {
            (Invalidate::Page { asid, va, order }, Some(last)) if last.is_of(asid, va, order) => {
                self.undone[usize::from(last.place.array)] += 1;
                self.lost = Some(last.place);
                self.last = None;
            }
            _ => self.settle(),
        }
        self.mix(DROPPED);
        let words = match *what {
            Invalidate::Page { asid, va, order } => [page_of(asid, va), u64::from(order.get())],
            Invalidate::Range { asid, range, .. } => [page_of(asid, range.start), range.bytes()],
            Invalidate::Asid(asid) => [u64::from(asid.0), 1 << 32],
            Invalidate::All => [0, 1 << 33],
        };
        words.into_iter().for_each(|word| self.mix(word));
    }

    /// Word `at` of a batch is over, or references begin there.
    pub fn close(&mut self, asid: Asid, at: u64) {
        self.settle();
        self.mix(CLOSED | u64::from(asid.0) << 8);
        self.mix(at);
    }
}
