//! Translated blocks. A block that is translated again with the same bytes keeps its number. With other bytes (code
//! made at run time) it gets a new one.

use crate::{session, slots};
use mmulab_record::{
    arena::{BUFFER_WORDS, FULL_WORDS},
    words,
};
use rustc_hash::FxHashMap;
use std::sync::{
    Mutex, MutexGuard, PoisonError,
    atomic::{AtomicU32, Ordering},
};

/// Blocks of this process, by where they begin, their instructions and their bytes.
type Numbers = FxHashMap<(u64, u32, Box<[u8]>), u32>;

static NUMBERS: Mutex<Option<Numbers>> = Mutex::new(None);
/// The slot their definitions are written to, and 1.
static SLOT: AtomicU32 = AtomicU32::new(0);

fn numbers() -> MutexGuard<'static, Option<Numbers>> {
    NUMBERS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Where definitions go from here on: after the start, and after a fork in the copy, which keeps its blocks' numbers.
pub fn write_to(slot: u32) {
    SLOT.store(slot + 1, Ordering::Release);
}

/// The number of the block at `start` with these bytes.
pub fn number(start: u64, instructions: u32, bytes: &[u8]) -> u32 {
    let mut guard = numbers();
    let numbers = guard.get_or_insert_default();
    let key = (start, instructions, bytes.into());
    if let Some(&number) = numbers.get(&key) {
        return number;
    }
    let number = numbers.len() as u32;
    numbers.insert(key, number);
    let slot = SLOT.load(Ordering::Acquire);
    if let (Some(arena), Some(slot)) = (session::arena(), slot.checked_sub(1)) {
        let next = arena.slot(slot).next.load(Ordering::Relaxed);
        let mut after = next;
        for word in words::definition(start, instructions, bytes) {
            // SAFETY: the slot's buffer is written under the lock held here only. It has room: a definition takes fewer
            // words than are left in a buffer that is not full.
            unsafe { *arena.words().add(after as usize) = word };
            after += 1;
        }
        arena.slot(slot).next.store(after, Ordering::Release);
        if after % BUFFER_WORDS >= FULL_WORDS && !arena.give_words(slot, true, || {}) {
            slots::lose("definitions of code: there was no buffer left");
            arena.rewind(slot);
        }
    }
    number
}

/// Gives away the definitions so far: those of all blocks that words written by now need are among them.
pub fn publish() {
    if let (Some(arena), Some(slot)) = (session::arena(), SLOT.load(Ordering::Acquire).checked_sub(1)) {
        arena.give_words(slot, false, || {});
    }
}
