//! Elastic cuckoo hashing (Skarlatos and others, ASPLOS 2020, section 4).
//!
//! A line has one place in each way. A new line goes to its place in a way chosen at random. The line there is pushed
//! to its place in another way, and so on until one finds its place empty. A table that fills is resized a step at a
//! time: each new line moves some old lines to the ways of the new size. A pointer for each way marks the progress. So
//! a line has one place in each way at all times, and the number of reads of a lookup does not change.

use super::line::WORDS;
use super::store::{Store, put, shift};
use crate::{CuckooDesc, TableEvent, TableFrames};
use mmulab_addr::PhysAddr;
use mmulab_frames::PhysMem;
use rand_core::Rng;
use rand_pcg::Pcg64Mcg;

/// Ways tried in vain before a table is resized, or the memory for it found wanting.
const TRIES: u32 = 16;
/// The same where a table could not be resized: it may fill much further.
const LAST_TRIES: u32 = 1024;

/// Rules of this kind of table.
pub struct Cuckoo<'a> {
    pub desc: &'a CuckooDesc,
    /// Lines of a way that it never has less of, as a power of two.
    pub least: u8,
    pub rng: &'a mut Pcg64Mcg,
    /// The numbers of lines that are in another way than before.
    pub moved: &'a mut Vec<u64>,
}

impl Cuckoo<'_> {
    fn other(&mut self, ways: usize, than: usize) -> usize {
        let step = 1 + self.rng.next_u64() % (ways as u64 - 1);
        (than + step as usize) % ways
    }

    /// Makes room for line `key`, in `way` if one is named: the lines on a chain of places each go to the next. Nothing
    /// is moved if the chain does not end.
    fn room(
        &mut self,
        store: &Store,
        mem: &mut PhysMem,
        frames: &mut impl TableFrames,
        key: u64,
        way: Option<usize>,
    ) -> Option<PhysAddr> {
        let mut way = way.unwrap_or_else(|| (self.rng.next_u64() % store.ways as u64) as usize);
        let (mut at, mut chain) = (store.registers.home(mem, key, way), Vec::new());
        while store.kind.is_used(mem.line(at)) {
            if chain.len() == usize::from(self.desc.kicks) || chain.contains(&at) {
                return None;
            }
            chain.push(at);
            let aside = store.kind.key(mem.line(at));
            way = self.other(store.ways, way);
            at = store.registers.home(mem, aside, way);
        }
        for &from in chain.iter().rev() {
            self.moved.push(store.kind.key(mem.line(from)));
            shift(mem, from, at);
            at = from;
        }
        if !chain.is_empty() {
            frames.happened(TableEvent::Kicked { level: store.level(), lines: chain.len() as u64 });
        }
        Some(at)
    }

    fn try_room(
        &mut self,
        store: &Store,
        mem: &mut PhysMem,
        frames: &mut impl TableFrames,
        key: u64,
        tries: u32,
    ) -> Option<PhysAddr> {
        (0..tries).find_map(|_| self.room(store, mem, frames, key, None))
    }

    /// Begins to resize, if there is memory.
    fn begin(&mut self, store: &mut Store, mem: &mut PhysMem, frames: &mut impl TableFrames, slots: u8) -> bool {
        let level = store.level();
        let from = 1 << store.sizes().0;
        if store.begin(mem, frames, slots) {
            let pieces = store.next_pieces();
            frames.happened(TableEvent::Resized { level, ways: store.ways as u8, from, to: 1 << slots, pieces });
            true
        } else {
            frames.happened(TableEvent::NoResize { level });
            false
        }
    }

    /// Moves one line to the new ways. Whether there was one that could be.
    fn step(&mut self, store: &mut Store, mem: &mut PhysMem, frames: &mut impl TableFrames) -> bool {
        let end = 1 << store.sizes().0;
        let way = (0..store.ways).min_by_key(|&way| store.registers.moved[way]).unwrap_or(0);
        let mut slot = store.registers.moved[way];
        let mut stuck = false;
        while slot < end {
            let at = store.registers.slot(mem, false, way, slot);
            let line = *mem.line(at);
            slot += 1;
            if !store.kind.is_used(&line) {
                continue;
            }
            put(mem, at, &[0; WORDS]);
            store.set_moved(mem, way, slot);
            let key = store.kind.key(&line);
            // Into the same way if that can be, else into any.
            let room = self.room(store, mem, frames, key, Some(way));
            let room = room.or_else(|| self.try_room(store, mem, frames, key, TRIES));
            match room {
                Some(to) => {
                    put(mem, to, &line);
                    self.moved.push(key);
                    frames.happened(TableEvent::Rehashed { level: store.level(), lines: 1 });
                }
                None => {
                    slot -= 1;
                    put(mem, at, &line);
                    stuck = true;
                }
            }
            break;
        }
        store.set_moved(mem, way, slot);
        if store.is_moved() {
            store.finish(mem, frames);
        }
        !stuck
    }

    /// Moves what a new line moves.
    fn steps(&mut self, store: &mut Store, mem: &mut PhysMem, frames: &mut impl TableFrames) {
        for _ in 0..self.desc.moves {
            if store.sizes().1.is_none() || !self.step(store, mem, frames) {
                break;
            }
        }
    }

    /// Moves all that is left.
    fn run_through(&mut self, store: &mut Store, mem: &mut PhysMem, frames: &mut impl TableFrames) -> bool {
        while store.sizes().1.is_some() {
            if !self.step(store, mem, frames) {
                return false;
            }
        }
        true
    }

    /// An empty place for the new line `key`; none if there is no memory for a table in which it has one.
    pub fn insert(
        &mut self,
        store: &mut Store,
        mem: &mut PhysMem,
        frames: &mut impl TableFrames,
        key: u64,
    ) -> Option<PhysAddr> {
        let full = |store: &Store| self.desc.grow.is_below(store.lines + 1, store.slots());
        let is_full = full(store);
        if store.sizes().1.is_some() {
            if is_full {
                // It is needed larger still, before it is as large as was wanted.
                self.run_through(store, mem, frames);
            } else {
                self.steps(store, mem, frames);
            }
        }
        if store.sizes().1.is_none() && is_full {
            let slots = store.sizes().0 + 1;
            if self.begin(store, mem, frames, slots) {
                self.steps(store, mem, frames);
            }
        }
        if let Some(at) = self.try_room(store, mem, frames, key, TRIES) {
            return Some(at);
        }
        // Unlucky: a table in the middle of a resize is resized to its end, another is begun to be.
        self.run_through(store, mem, frames);
        let slots = store.sizes().0 + 1;
        if store.sizes().1.is_none() && self.begin(store, mem, frames, slots) {
            self.run_through(store, mem, frames);
        }
        self.try_room(store, mem, frames, key, LAST_TRIES)
    }

    /// The line at `at` is empty from now on.
    pub fn remove(&mut self, store: &mut Store, mem: &mut PhysMem, frames: &mut impl TableFrames, at: PhysAddr) {
        put(mem, at, &[0; WORDS]);
        let (slots, next) = store.sizes();
        if next.is_none() && slots > self.least && self.desc.shrink.is_above(store.lines, store.slots()) {
            self.begin(store, mem, frames, slots - 1);
        }
    }
}
