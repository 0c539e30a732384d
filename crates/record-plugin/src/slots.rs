//! The program's threads, by the numbers that QEMU gives its virtual CPUs, and the arena's slot of each. What could not
//! be recorded is said here too: by whichever thread there is.

use crate::session::{self, say};
use mmulab_record::{Message, arena::Slot};
use mmulab_trace::Event;
use std::{
    ptr::null_mut,
    sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering},
};

/// QEMU numbers its virtual CPUs from 0 and reuses the numbers of those that ended; more threads than this at once are
/// not recorded.
const MOST_VCPUS: usize = 16 * 1024;

static SLOTS: [AtomicPtr<Slot>; MOST_VCPUS] = [const { AtomicPtr::new(null_mut()) }; MOST_VCPUS];
/// The slots' numbers in the arena.
static NUMBERS: [AtomicU32; MOST_VCPUS] = [const { AtomicU32::new(0) }; MOST_VCPUS];
/// One more than the largest number seen.
static HIGHEST: AtomicU32 = AtomicU32::new(0);
/// There is no room for another thread.
static FULL: AtomicBool = AtomicBool::new(false);

/// The slot of the thread that QEMU's CPU `index` runs; made if it is new.
#[inline(always)]
pub fn at(index: u32) -> Option<&'static Slot> {
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
        lose("threads: there were more than a recording can have");
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

/// The thread at `index` ended; what it did was given away.
pub fn retire(index: u32) {
    if let (Some(arena), Some(number)) = (session::arena(), number(index)) {
        arena.retire_slot(number);
        SLOTS[index as usize].store(null_mut(), Ordering::Release);
    }
}

/// Tells that something could not be recorded.
pub fn lose(what: &str) {
    let lost = Message::Events(vec![Event::Lost { what: what.into() }]);
    // Any thread may say so; the first is always there.
    if let Some(number) = live().next().and_then(number) {
        say(number, &lost);
    }
}
