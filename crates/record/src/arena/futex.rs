//! Waiting and locking between processes: in shared memory, so it cannot be std's.

use std::{
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};

/// A lock that is held for a few instructions.
pub struct Guard<'a>(&'a AtomicU32);

impl<'a> Guard<'a> {
    pub fn new(lock: &'a AtomicU32) -> Self {
        let mut tries = 0u32;
        while lock.compare_exchange_weak(0, 1, Ordering::Acquire, Ordering::Relaxed).is_err() {
            tries += 1;
            if tries.is_multiple_of(64) {
                std::thread::yield_now();
            }
            // A process that a signal ended here holds it for ever; nobody else holds it for a second.
            if tries > 10_000_000 {
                lock.store(1, Ordering::Relaxed);
                break;
            }
        }
        Self(lock)
    }
}

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        self.0.store(0, Ordering::Release);
    }
}

/// Waits until `word` is no longer `seen`, is woken, or `patience` is over.
pub fn wait(word: &AtomicU32, seen: u32, patience: Duration) {
    let time = libc::timespec { tv_sec: patience.as_secs() as _, tv_nsec: patience.subsec_nanos().into() };
    // SAFETY: the word and the time outlive the call. The futex is shared between processes: no private flag.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAIT, seen, &raw const time, 0, 0) };
}

/// Wakes whoever waits on `word`.
pub fn wake(word: &AtomicU32) {
    // SAFETY: the word outlives the call.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE, i32::MAX, 0, 0, 0) };
}
