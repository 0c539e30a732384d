//! The ring of descriptors, through which threads hand ranges of buffers to the launcher.

use super::{
    Arena,
    futex::{wait, wake},
    layout::{Descriptor, MESSAGE_BYTES, RING, RING_AT},
};
use std::{sync::atomic::Ordering, time::Duration};

/// Kind of the item of a descriptor.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum What {
    /// Words of a thread: blocks and accesses, in the form of [`crate::words`].
    Words = 1,
    /// Definitions of blocks: two words each.
    Blocks = 2,
    /// A [`crate::Message`] as JSON; `to` counts bytes.
    Message = 3,
}

impl What {
    fn from_bits(bits: u32) -> Option<Self> {
        [Self::Words, Self::Blocks, Self::Message].into_iter().find(|&w| w as u32 == bits)
    }
}

/// A range of a buffer, handed over.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Handover {
    /// Its kind.
    pub what: What,
    /// Whose.
    pub slot: u32,
    /// First word, counted from the first buffer.
    pub from: u64,
    /// Words (for a message: bytes).
    pub count: u32,
    /// Whether the giver is done with the buffer.
    pub last: bool,
}

impl Arena {
    fn descriptor(&self, number: u64) -> &Descriptor {
        let at = RING_AT + (number % RING) as usize * size_of::<Descriptor>();
        // SAFETY: inside the mapping, made of atomics.
        unsafe { &*self.base.add(at).cast::<Descriptor>() }
    }

    /// The next place in the ring.
    pub(super) fn reserve(&self) -> u64 {
        self.header().head.fetch_add(1, Ordering::AcqRel)
    }

    /// Fills the place `number` of the ring, waiting while the ring is full.
    pub(super) fn give(&self, number: u64, handover: Handover) {
        let header = self.header();
        while number - header.tail.load(Ordering::Acquire) >= RING {
            let seen = header.taken.load(Ordering::Acquire);
            if number - header.tail.load(Ordering::Acquire) >= RING {
                wait(&header.taken, seen, Duration::from_millis(100));
                self.give_up_if_closed();
            }
        }
        let d = self.descriptor(number);
        d.from.store(handover.from, Ordering::Relaxed);
        d.slot.store(handover.slot, Ordering::Relaxed);
        d.count.store(handover.count, Ordering::Relaxed);
        d.kind.store(handover.what as u32 | u32::from(handover.last) << 8, Ordering::Relaxed);
        d.ready.store(number + 1, Ordering::Release);
        header.given.fetch_add(1, Ordering::Release);
        wake(&header.given);
    }

    /// Gives away a message of the thread in `slot`. It is lost, and counted as lost, if no buffer can hold it.
    pub fn give_message(&self, slot: u32, bytes: &[u8]) -> bool {
        let fits = bytes.len() <= MESSAGE_BYTES;
        let Some(buffer) = fits.then(|| self.take_buffer()).flatten() else {
            self.header().unsaid.fetch_add(1, Ordering::Relaxed);
            return false;
        };
        // SAFETY: the buffer is ours, and long enough.
        unsafe {
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.words().add(buffer as usize).cast::<u8>(), bytes.len());
        }
        self.give(
            self.reserve(),
            Handover { what: What::Message, slot, from: buffer, count: bytes.len() as u32, last: true },
        );
        true
    }

    /// The launcher's: the next descriptor, waiting up to `patience` for one.
    pub fn take(&self, patience: Duration) -> Option<Handover> {
        let header = self.header();
        let number = header.tail.load(Ordering::Relaxed);
        let d = self.descriptor(number);
        if d.ready.load(Ordering::Acquire) != number + 1 {
            let seen = header.given.load(Ordering::Acquire);
            if d.ready.load(Ordering::Acquire) != number + 1 {
                wait(&header.given, seen, patience);
            }
            if d.ready.load(Ordering::Acquire) != number + 1 {
                return None;
            }
        }
        let kind = d.kind.load(Ordering::Relaxed);
        let Some(what) = What::from_bits(kind & 0xff) else {
            // A program wrote over it. What it said is counted as lost.
            header.unsaid.fetch_add(1, Ordering::Relaxed);
            self.skip();
            return None;
        };
        let found = Handover {
            what,
            slot: d.slot.load(Ordering::Relaxed),
            from: d.from.load(Ordering::Relaxed),
            count: d.count.load(Ordering::Relaxed),
            last: kind >> 8 != 0,
        };
        header.tail.store(number + 1, Ordering::Release);
        self.announce();
        Some(found)
    }

    /// The launcher's: whether a thread has begun to give something and not finished: if it died so, [`Arena::skip`].
    pub fn is_stuck(&self) -> bool {
        let header = self.header();
        header.head.load(Ordering::Acquire) > header.tail.load(Ordering::Relaxed)
    }

    /// The launcher's: gives up waiting for a descriptor whose giver died.
    pub fn skip(&self) {
        let header = self.header();
        header.tail.fetch_add(1, Ordering::Release);
        self.announce();
    }

    /// The launcher's: done with what was handed over.
    pub fn done(&self, handover: Handover) {
        if !handover.last {
            return;
        }
        self.free_buffer(handover.from);
        if handover.what != What::Message {
            self.header().waiting.fetch_sub(1, Ordering::AcqRel);
            self.announce();
        }
    }
}
