//! The program's threads and where their words go. Nothing here locks, allocates or calls the system per access.

use crate::{blocks, session};
use mmulab_record::{
    arena::{BUFFER_WORDS, FULL_WORDS, Slot},
    words,
};
use std::{
    ptr::null_mut,
    sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering},
};

/// QEMU numbers its virtual CPUs from 0 and reuses the numbers of those that ended; more threads than this at once are
/// not recorded.
const MOST_VCPUS: usize = 16 * 1024;
/// The end of a buffer: an access finds room for two words before it.
const END: u64 = BUFFER_WORDS - 2;

static SLOTS: [AtomicPtr<Slot>; MOST_VCPUS] = [const { AtomicPtr::new(null_mut()) }; MOST_VCPUS];
/// The slots' numbers in the arena.
static NUMBERS: [AtomicU32; MOST_VCPUS] = [const { AtomicU32::new(0) }; MOST_VCPUS];
/// One more than the largest number seen.
static HIGHEST: AtomicU32 = AtomicU32::new(0);
/// Where the first buffer is.
static WORDS: AtomicPtr<u64> = AtomicPtr::new(null_mut());
/// There is no room for another thread.
static FULL: AtomicBool = AtomicBool::new(false);

/// Tells where the first buffer is.
pub fn start(words: *mut u64) {
    WORDS.store(words, Ordering::Release);
}

/// The slot of the thread that QEMU's CPU `index` runs; made if it is new.
#[inline(always)]
fn at(index: u32) -> Option<&'static Slot> {
    let slot = SLOTS.get(index as usize)?.load(Ordering::Relaxed);
    if slot.is_null() {
        return create(index);
    }
    // SAFETY: slots are in memory that is never unmapped.
    Some(unsafe { &*slot })
}

#[cold]
fn create(index: u32) -> Option<&'static Slot> {
    let arena = session::arena()?;
    if FULL.load(Ordering::Relaxed) {
        return None;
    }
    let Some(number) = arena.new_slot(session::image().number, session::next_tid()) else {
        FULL.store(true, Ordering::Relaxed);
        session::lose("threads: there were more than a recording can have");
        return None;
    };
    let slot = arena.slot(number);
    NUMBERS[index as usize].store(number, Ordering::Relaxed);
    SLOTS[index as usize].store(std::ptr::from_ref(slot).cast_mut(), Ordering::Release);
    HIGHEST.fetch_max(index + 1, Ordering::AcqRel);
    Some(slot)
}

/// The number in the arena of the slot of QEMU's CPU `index`.
pub fn number(index: u32) -> Option<u32> {
    at(index).map(|_| NUMBERS[index as usize].load(Ordering::Relaxed))
}

/// Forgets all threads: this process is a fresh copy, in which only the one that made it runs.
pub fn forget_all() {
    for slot in &SLOTS[..HIGHEST.swap(0, Ordering::AcqRel) as usize] {
        slot.store(null_mut(), Ordering::Release);
    }
}

/// Threads that run, by QEMU's number.
pub fn live() -> impl Iterator<Item = u32> {
    let known = SLOTS[..HIGHEST.load(Ordering::Acquire) as usize].iter().zip(0..);
    known.filter(|(slot, _)| !slot.load(Ordering::Acquire).is_null()).map(|(_, index)| index)
}

/// A block of the thread at `index` is about to run.
#[inline(always)]
pub fn on_block(index: u32, word: u64) {
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
    session::begin(index);
    if let Some(arena) = session::arena() {
        let number = NUMBERS[index as usize].load(Ordering::Relaxed);
        if !arena.give_words(number, true, blocks::publish) {
            session::lose("what a thread did: there was no buffer left");
            arena.rewind(number);
        }
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

/// The thread at `index` ended; what it did was given away.
pub fn retire(index: u32) {
    if let (Some(arena), Some(number)) = (session::arena(), number(index)) {
        arena.retire_slot(number);
        SLOTS[index as usize].store(null_mut(), Ordering::Release);
    }
}

/// The first address accessed by the thread at `index` among the words it still holds.
pub fn first_access(index: u32) -> Option<u64> {
    let (arena, number) = (session::arena()?, number(index)?);
    let next = arena.slot(number).next.load(Ordering::Relaxed);
    let words = arena.stretch(next / BUFFER_WORDS * BUFFER_WORDS, (next % BUFFER_WORDS) as u32);
    let is_access = |word: &&u64| !matches!(*word & words::KIND, words::BLOCK | words::NOTE);
    words.iter().find(is_access).map(|&word| words::address(word))
}
