//! Keeps system calls that change the address space in the order in which they took effect.

use mmulab_record::arena::{wait, wake};
use std::{
    sync::atomic::{AtomicU32, Ordering},
    time::{Duration, Instant},
};

/// Held from such a call's entry to its return: otherwise a mapping made where another thread just removed one could be
/// told before the removal. None of these calls waits for another thread of the program.
pub static ORDER: Order = Order(AtomicU32::new(0));

/// A call that did not return within this time never will (its thread was ended in it): the next goes ahead.
const PATIENCE: Duration = Duration::from_secs(5);

/// A lock that one callback takes and another releases, and that a copy of the process can simply open.
pub struct Order(AtomicU32);

impl Order {
    /// Takes it.
    pub fn lock(&self) {
        let since = Instant::now();
        while self.0.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed).is_err() {
            if since.elapsed() > PATIENCE {
                return;
            }
            wait(&self.0, 1, Duration::from_millis(100));
        }
    }

    /// Releases it.
    pub fn unlock(&self) {
        self.0.store(0, Ordering::Release);
        wake(&self.0);
    }
}
