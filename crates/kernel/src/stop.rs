//! A request to stop, from whoever hears the user while a machine works.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

/// Shared by one who asks and those who work. An event that takes long, such as a populated mapping of a terabyte,
/// looks for it at every page, and is left unfinished.
#[derive(Clone, Debug, Default)]
pub struct Stop(Arc<AtomicBool>);

impl Stop {
    /// Asks for an end.
    pub fn ask(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether an end was asked for.
    #[inline]
    pub fn is_asked(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
