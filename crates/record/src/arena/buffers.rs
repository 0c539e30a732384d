//! Buffers of words, and the list of free ones.

use super::{
    Arena,
    futex::Guard,
    layout::{BUFFER_WORDS, BUFFERS, BUFFERS_AT, MESSAGE_BYTES},
};
use std::sync::atomic::Ordering;

impl Arena {
    /// Where the first word of the first buffer is.
    pub fn words(&self) -> *mut u64 {
        // SAFETY: inside the mapping.
        unsafe { self.base.add(BUFFERS_AT).cast::<u64>() }
    }

    /// The words of a range that was handed over, or drained.
    pub fn range(&self, from: u64, count: u32) -> &[u64] {
        let from = from.min(BUFFERS * BUFFER_WORDS);
        let count = u64::from(count).min(BUFFERS * BUFFER_WORDS - from);
        // SAFETY: inside the mapping; words that were handed over are not written again before the buffer is given
        // back.
        unsafe { std::slice::from_raw_parts(self.words().add(from as usize), count as usize) }
    }

    /// The bytes of a message that was handed over. A descriptor is written by recorded processes, whose program may
    /// have written over it: nothing if it reaches beyond its buffer.
    pub fn message(&self, from: u64, bytes: u32) -> Option<&[u8]> {
        let words = self.range(from, bytes.div_ceil(8));
        let bytes = bytes as usize;
        if bytes > MESSAGE_BYTES || bytes > size_of_val(words) {
            return None;
        }
        // SAFETY: the same memory, as bytes, and no more than was checked to be there.
        Some(unsafe { std::slice::from_raw_parts(words.as_ptr().cast::<u8>(), bytes) })
    }

    /// An empty buffer's first word; `None` when there is none left.
    pub(super) fn take_buffer(&self) -> Option<u64> {
        let header = self.header();
        let freed = {
            let _guard = Guard::new(&header.free_lock);
            let first = header.free.load(Ordering::Relaxed).checked_sub(1);
            // A program that writes over the list must not lead beyond the buffers.
            first.filter(|&first| u64::from(first) < BUFFERS).inspect(|&first| {
                // SAFETY: a free buffer belongs to whoever holds the lock.
                let next = unsafe { *self.words().add((u64::from(first) * BUFFER_WORDS) as usize) };
                header.free.store(next as u32, Ordering::Relaxed);
            })
        };
        let number = freed.or_else(|| {
            let new = header.next_buffer.fetch_add(1, Ordering::Relaxed);
            if u64::from(new) >= BUFFERS {
                header.next_buffer.fetch_sub(1, Ordering::Relaxed);
                return None;
            }
            Some(new)
        })?;
        Some(u64::from(number) * BUFFER_WORDS)
    }

    /// Gives back the buffer that word `at` is in.
    pub fn free_buffer(&self, at: u64) {
        let header = self.header();
        let number = at / BUFFER_WORDS;
        if number >= BUFFERS {
            return;
        }
        let _guard = Guard::new(&header.free_lock);
        // SAFETY: the buffer belongs to the caller, and is free from here on.
        unsafe { *self.words().add((number * BUFFER_WORDS) as usize) = u64::from(header.free.load(Ordering::Relaxed)) };
        header.free.store(number as u32 + 1, Ordering::Relaxed);
    }
}
