//! Open addressing with linear probing (Knuth, *The Art of Computer Programming* vol. 3, section 6.4, algorithms L and
//! R).
//!
//! A line is at the slot its hash chooses, or at the next free one after it. A line that goes has those behind it move
//! up, so that no search ends too early. The table is resized at once.

use super::line::{WORDS, hash};
use super::store::{Store, put, shift};
use crate::{OpenDesc, TableEvent, TableFrames};
use mmulab_addr::PhysAddr;
use mmulab_frames::PhysMem;

/// Rules of this kind of table.
pub struct Open<'a> {
    pub desc: &'a OpenDesc,
    /// Lines that it never has less of, as a power of two.
    pub least: u8,
}

fn mask(store: &Store) -> u64 {
    (1 << store.sizes().0) - 1
}

/// Where line `key` is, or would go: the first slot from its own on that has it or has nothing.
fn place(store: &Store, mem: &PhysMem, key: u64, next: bool) -> (u64, PhysAddr) {
    let slots = if next { store.sizes().1.unwrap_or(store.sizes().0) } else { store.sizes().0 };
    let mask = (1u64 << slots) - 1;
    let mut slot = hash(key, 0) & mask;
    loop {
        let at = store.registers.slot(mem, next, 0, slot);
        let line = mem.line(at);
        if !store.kind.is_used(line) || store.kind.key(line) == key {
            return (slot, at);
        }
        slot = (slot + 1) & mask;
    }
}

/// Where line `key` is.
pub fn find(store: &Store, mem: &PhysMem, key: u64) -> Option<PhysAddr> {
    let (_, at) = place(store, mem, key, false);
    store.kind.is_used(mem.line(at)).then_some(at)
}

impl Open<'_> {
    /// Moves all lines into a table of another size. Whether there was memory for it.
    fn resize(&self, store: &mut Store, mem: &mut PhysMem, frames: &mut impl TableFrames, slots: u8) -> bool {
        let level = store.level();
        let from = 1u64 << store.sizes().0;
        if !store.begin(mem, frames, slots) {
            frames.happened(TableEvent::NoResize { level });
            return false;
        }
        let mut lines = 0;
        for slot in 0..from {
            let at = store.registers.slot(mem, false, 0, slot);
            let line = *mem.line(at);
            if store.kind.is_used(&line) {
                let (_, to) = place(store, mem, store.kind.key(&line), true);
                put(mem, to, &line);
                lines += 1;
            }
        }
        let pieces = store.next_pieces();
        frames.happened(TableEvent::Resized { level, ways: 1, from, to: 1 << slots, pieces });
        frames.happened(TableEvent::Rehashed { level, lines });
        store.finish(mem, frames);
        true
    }

    /// An empty place for the new line `key`; none if there is no memory for a table that has one.
    pub fn insert(
        &self,
        store: &mut Store,
        mem: &mut PhysMem,
        frames: &mut impl TableFrames,
        key: u64,
    ) -> Option<PhysAddr> {
        if self.desc.grow.is_below(store.lines + 1, store.slots()) {
            let slots = store.sizes().0 + 1;
            // One slot stays empty, or searches for what is not there would not end.
            if !self.resize(store, mem, frames, slots) && store.lines + 1 >= store.slots() {
                return None;
            }
        }
        Some(place(store, mem, key, false).1)
    }

    /// Line `key`, which is empty by now, goes from `at`.
    pub fn remove(
        &self,
        store: &mut Store,
        mem: &mut PhysMem,
        frames: &mut impl TableFrames,
        key: u64,
        mut at: PhysAddr,
    ) {
        let mask = mask(store);
        let mut hole = hash(key, 0) & mask;
        while store.registers.slot(mem, false, 0, hole) != at {
            hole = (hole + 1) & mask;
        }
        put(mem, at, &[0; WORDS]);
        let (mut slot, mut moved) = (hole, 0);
        loop {
            slot = (slot + 1) & mask;
            let from = store.registers.slot(mem, false, 0, slot);
            let line = mem.line(from);
            if !store.kind.is_used(line) {
                break;
            }
            let own = hash(store.kind.key(line), 0) & mask;
            // It may move up if its own slot is not behind the hole.
            if slot.wrapping_sub(own) & mask >= slot.wrapping_sub(hole) & mask {
                shift(mem, from, at);
                (hole, at) = (slot, from);
                moved += 1;
            }
        }
        if moved > 0 {
            frames.happened(TableEvent::Kicked { level: store.level(), lines: moved });
        }
        let slots = store.sizes().0;
        if slots > self.least && self.desc.shrink.is_above(store.lines, store.slots()) {
            self.resize(store, mem, frames, slots - 1);
        }
    }
}
