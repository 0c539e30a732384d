//! The memory that the launcher and all recorded processes share: what the programs did, on its way into the trace.
//!
//! It is a memory file of the launcher's, so the words of a process are still there when a signal ends it. No part of
//! the recorder needs to run on in a process that forks or dies. Its parts:
//!
//! - a header of counters, with the settings as JSON;
//! - a ring of descriptors, which the launcher takes in the order they were given: that order is the trace's;
//! - a slot per thread: where its next word goes and what of it was given already;
//! - buffers of words. Each thread has one of its own and gives it away when full, so that no number of threads can
//!   leave one without.
//!
//! The file is sparse: only what was touched takes memory.

mod buffers;
mod futex;
mod layout;
mod memory;
mod ring;
mod slots;

pub use futex::{wait, wake};
pub use layout::{BUFFER_WORDS, FULL_WORDS, Header, MESSAGE_BYTES, MOST_SLOTS, Slot};
pub use memory::Arena;
pub use ring::{Handover, What};

#[cfg(test)]
mod tests {
    use super::{layout::BUFFERS, *};
    use std::{sync::atomic::Ordering, time::Duration};

    fn arena() -> Arena {
        Arena::create(b"{}").unwrap()
    }

    fn write(arena: &Arena, slot: u32, word: u64) {
        let s = arena.slot(slot);
        let next = s.next.load(Ordering::Relaxed);
        // SAFETY: the slot's own buffer.
        unsafe { *arena.words().add(next as usize) = word };
        s.next.store(next + 1, Ordering::Release);
    }

    #[test]
    fn words_arrive_once_in_order_and_buffers_come_back() {
        let arena = arena();
        let slot = arena.new_slot(0, 1).unwrap();
        write(&arena, slot, 1);
        write(&arena, slot, 2);
        assert!(arena.give_words(slot, false, || {}));
        assert!(arena.give_message(slot, b"hello"));
        write(&arena, slot, 3);
        assert!(arena.give_words(slot, true, || {}));
        let mut seen = Vec::new();
        while let Some(h) = arena.take(Duration::ZERO) {
            match h.what {
                What::Message => assert_eq!(arena.message(h.from, h.count), Some(&b"hello"[..])),
                _ => seen.extend_from_slice(arena.range(h.from, h.count)),
            }
            arena.done(h);
        }
        assert_eq!(seen, [1, 2, 3]);
        // The message's buffer and the full one are free again; the slot holds a third.
        assert!(arena.new_slot(0, 2).is_some() && arena.new_slot(0, 3).is_some());
        assert_eq!(arena.header().next_buffer.load(Ordering::Relaxed), 3);
    }

    #[test]
    fn what_a_dead_thread_left_can_be_drained() {
        let arena = arena();
        let slot = arena.new_slot(4, 9).unwrap();
        write(&arena, slot, 7);
        assert!(arena.give_words(slot, false, || {}));
        write(&arena, slot, 8);
        let left = arena.drain(slot);
        assert_eq!(arena.range(left.from, left.count), [8]);
        assert_eq!(arena.drain(slot).count, 0);
    }

    /// CHANGELOG number 20: the length of a message is not trusted.
    #[test]
    fn a_message_longer_than_its_buffer_is_refused() {
        let arena = arena();
        let last = BUFFERS * BUFFER_WORDS - 2;
        assert_eq!(arena.message(last, 16).map(<[u8]>::len), Some(16));
        for (from, bytes) in [(0, u32::MAX), (0, MESSAGE_BYTES as u32 + 1), (last, 17), (u64::MAX, 1)] {
            assert_eq!(arena.message(from, bytes), None, "{from} {bytes}");
        }
        let slot = arena.new_slot(0, 1).unwrap();
        assert!(!arena.give_message(slot, &vec![b' '; MESSAGE_BYTES + 1]));
        assert_eq!(arena.gaps(), (0, 1), "what could not be given is counted");
    }

    #[test]
    fn many_threads_lose_nothing() {
        let arena = arena();
        let each = 200_000u64;
        std::thread::scope(|scope| {
            for t in 1..=4u64 {
                let arena = &arena;
                scope.spawn(move || {
                    let slot = arena.new_slot(0, t as u32).unwrap();
                    for i in 0..each {
                        if arena.slot(slot).next.load(Ordering::Relaxed) % BUFFER_WORDS >= FULL_WORDS {
                            assert!(arena.give_words(slot, true, || {}));
                        }
                        write(arena, slot, t << 32 | i);
                    }
                    assert!(arena.give_words(slot, true, || {}));
                });
            }
            let mut next = [0u64; 5];
            while next[1..].iter().any(|&n| n < each) {
                let Some(h) = arena.take(Duration::from_millis(10)) else { continue };
                for &word in arena.range(h.from, h.count) {
                    let t = (word >> 32) as usize;
                    assert_eq!(word & 0xffff_ffff, next[t]);
                    next[t] += 1;
                }
                arena.done(h);
            }
        });
    }
}
