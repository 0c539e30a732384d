//! What the program's threads do, as words, and where these go. Nothing here locks, allocates or calls the system per
//! access.

use crate::{
    blocks,
    initial::begin,
    session,
    slots::{at, live, lose, number},
};
use mmulab_record::{
    arena::{BUFFER_WORDS, FULL_WORDS, Slot},
    words,
};
use std::{
    ptr::null_mut,
    sync::atomic::{AtomicBool, AtomicPtr, Ordering},
};

/// The end of a buffer: an access finds room for two words before it.
const END: u64 = BUFFER_WORDS - 2;

/// Where the first buffer is.
static WORDS: AtomicPtr<u64> = AtomicPtr::new(null_mut());
/// Whether words are left out now: the program has the gate mapped ([`Settings::gate`](mmulab_record::Settings)).
static HELD: AtomicBool = AtomicBool::new(false);

/// From here on words are left out, or no longer. Between two blocks, and by the only thread that there is.
pub fn hold(held: bool) {
    HELD.store(held, Ordering::Relaxed);
}

/// Tells where the first buffer is.
pub fn start(words: *mut u64) {
    WORDS.store(words, Ordering::Release);
}

/// A block of the thread at `index` is about to run.
#[inline(always)]
pub fn on_block(index: u32, word: u64) {
    if HELD.load(Ordering::Relaxed) {
        return;
    }
    let Some(slot) = at(index) else { return };
    let mut next = slot.next.load(Ordering::Relaxed);
    if next % BUFFER_WORDS >= FULL_WORDS {
        next = turn(index, slot);
    }
    put(slot, next, word);
}

/// The thread at `index` accessed memory with instruction `instruction` of its block.
#[inline(always)]
pub fn on_access(index: u32, address: u64, size_shift: u32, store: bool, instruction: u64) {
    if HELD.load(Ordering::Relaxed) {
        return;
    }
    let Some(slot) = at(index) else { return };
    let mut next = slot.next.load(Ordering::Relaxed);
    if next % BUFFER_WORDS >= END {
        next = turn(index, slot);
    }
    if instruction < words::NEAR_INSTRUCTIONS
        && let Some(word) = words::access(address, size_shift, store, instruction)
    {
        put(slot, next, word);
        return;
    }
    far(slot, next, words::noted(address, size_shift, store, instruction));
}

/// Two words of the thread at `index` that stay together.
pub fn put_pair(index: u32, pair: [u64; 2]) {
    let Some(slot) = at(index) else { return };
    let mut next = slot.next.load(Ordering::Relaxed);
    if next % BUFFER_WORDS >= END {
        next = turn(index, slot);
    }
    far(slot, next, pair);
}

fn far(slot: &Slot, next: u64, [note, word]: [u64; 2]) {
    // SAFETY: the buffer has room for two words, and only the thread itself writes here.
    unsafe {
        *WORDS.load(Ordering::Relaxed).add(next as usize) = note;
        *WORDS.load(Ordering::Relaxed).add(next as usize + 1) = word;
    }
    slot.next.store(next + 2, Ordering::Release);
}

#[inline(always)]
fn put(slot: &Slot, next: u64, word: u64) {
    // SAFETY: `next` is inside the slot's buffer, and only the thread itself writes here.
    unsafe { *WORDS.load(Ordering::Relaxed).add(next as usize) = word };
    // Release: whoever reads up to here reads the word, too.
    slot.next.store(next + 1, Ordering::Release);
}

/// Gives the full buffer away and takes an empty one; where the next word goes.
#[cold]
fn turn(index: u32, slot: &Slot) -> u64 {
    begin(index);
    if let (Some(arena), Some(number)) = (session::arena(), number(index))
        && !arena.give_words(number, true, blocks::publish)
    {
        lose("what a thread did: there was no buffer left");
        arena.rewind(number);
    }
    slot.next.load(Ordering::Relaxed)
}

/// Gives away what all threads did so far, that of `index` last.
pub fn publish_all(index: u32) {
    let Some(arena) = session::arena() else { return };
    let others = live().filter(|&other| other != index);
    for thread in others.chain([index]) {
        if let Some(number) = number(thread) {
            arena.give_words(number, false, blocks::publish);
        }
    }
}
