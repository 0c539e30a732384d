//! A slot per thread: where its next word goes, and what of it was given already.

use super::{
    Arena, Handover, What,
    futex::{Guard, wait},
    layout::{BUFFER_WORDS, MOST_SLOTS, SLOTS_AT, Slot},
};
use std::{sync::atomic::Ordering, time::Duration};

/// Full buffers that may wait for the launcher before threads wait for it.
const MOST_WAITING: u32 = 16;

impl Arena {
    /// The slot of this number.
    ///
    /// # Panics
    /// There is none: numbers come from [`Arena::new_slot`].
    pub fn slot(&self, number: u32) -> &Slot {
        assert!(number < MOST_SLOTS);
        // SAFETY: inside the mapping, made of atomics.
        unsafe { &*self.base.add(SLOTS_AT + number as usize * size_of::<Slot>()).cast::<Slot>() }
    }

    /// Slots that were made so far.
    pub fn slots(&self) -> u32 {
        self.header().next_slot.load(Ordering::Acquire).min(MOST_SLOTS)
    }

    /// A new slot for thread `tid` of `image` (tid 0: for its blocks), with an empty buffer; `None` when there are too
    /// many threads.
    pub fn new_slot(&self, image: u32, tid: u32) -> Option<u32> {
        let number = self.header().next_slot.fetch_add(1, Ordering::AcqRel);
        if number >= MOST_SLOTS {
            self.header().next_slot.fetch_sub(1, Ordering::AcqRel);
            return None;
        }
        let buffer = self.take_buffer()?;
        let slot = self.slot(number);
        slot.next.store(buffer, Ordering::Relaxed);
        slot.taken.store(buffer, Ordering::Relaxed);
        slot.image.store(image, Ordering::Relaxed);
        slot.tid.store(tid, Ordering::Relaxed);
        slot.open.store(1, Ordering::Release);
        Some(number)
    }

    /// Whether the slot is in use.
    pub fn is_open(&self, number: u32) -> bool {
        self.slot(number).open.load(Ordering::Acquire) == 1
    }

    /// Gives away the words of `slot` so far; whoever does it. `full`: the thread itself, to go on in an empty buffer;
    /// waits while too much waits. `before` is called once it is fixed which words go, to give away what they need.
    ///
    /// Returns whether the slot can take more words.
    pub fn give_words(&self, number: u32, full: bool, before: impl FnOnce()) -> bool {
        let (slot, header) = (self.slot(number), self.header());
        let what = if slot.tid.load(Ordering::Relaxed) == 0 { What::Blocks } else { What::Words };
        if full {
            while header.waiting.load(Ordering::Acquire) >= MOST_WAITING {
                let seen = header.taken.load(Ordering::Acquire);
                if header.waiting.load(Ordering::Acquire) >= MOST_WAITING {
                    wait(&header.taken, seen, Duration::from_millis(100));
                    self.give_up_if_closed();
                }
            }
        }
        let guard = Guard::new(&slot.lock);
        let next = slot.next.load(Ordering::Acquire);
        let from = slot.taken.load(Ordering::Relaxed);
        let count = next.saturating_sub(from) as u32;
        before();
        if full {
            let Some(buffer) = self.take_buffer() else { return false };
            header.waiting.fetch_add(1, Ordering::AcqRel);
            slot.taken.store(buffer, Ordering::Relaxed);
            slot.next.store(buffer, Ordering::Release);
        } else if count == 0 {
            return true;
        } else {
            slot.taken.store(next, Ordering::Relaxed);
        }
        // The lock of a slot fixes the order of its ranges. A thread that waits for room does not hold it.
        let place = self.reserve();
        drop(guard);
        self.give(place, Handover { what, slot: number, from, count, last: full });
        true
    }

    /// There is no buffer left: what the slot holds is lost, and its buffer used again.
    pub fn rewind(&self, number: u32) {
        let slot = self.slot(number);
        let _guard = Guard::new(&slot.lock);
        let start = slot.next.load(Ordering::Relaxed) / BUFFER_WORDS * BUFFER_WORDS;
        slot.taken.store(start, Ordering::Relaxed);
        slot.next.store(start, Ordering::Release);
    }

    /// The thread ends, its last words having been given away: gives away its buffer.
    pub fn retire_slot(&self, number: u32) {
        let slot = self.slot(number);
        if slot.open.swap(0, Ordering::AcqRel) == 0 {
            return;
        }
        let guard = Guard::new(&slot.lock);
        let (next, from) = (slot.next.load(Ordering::Acquire), slot.taken.load(Ordering::Relaxed));
        slot.taken.store(next, Ordering::Relaxed);
        self.header().waiting.fetch_add(1, Ordering::AcqRel);
        let place = self.reserve();
        drop(guard);
        let count = next.saturating_sub(from) as u32;
        self.give(place, Handover { what: What::Words, slot: number, from, count, last: true });
    }

    /// The launcher's: what a slot of a process that is gone holds and did not give away.
    pub fn drain(&self, number: u32) -> Handover {
        let slot = self.slot(number);
        let is_blocks = slot.tid.load(Ordering::Relaxed) == 0;
        let (from, next) = (slot.taken.load(Ordering::Relaxed), slot.next.load(Ordering::Acquire));
        slot.taken.store(next, Ordering::Relaxed);
        let what = if is_blocks { What::Blocks } else { What::Words };
        Handover { what, slot: number, from, count: next.saturating_sub(from) as u32, last: false }
    }
}
