//! How fast a daemon clears memory.

/// The daemon's turns.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    /// Milliseconds between two of them.
    pub sleep_ms: u64,
    /// Pages cleared in each.
    pub pages_per_wake: u32,
}

impl Default for Pace {
    /// 10,000 pages a second, or 40 MB.
    fn default() -> Self {
        Self { sleep_ms: 100, pages_per_wake: 1000 }
    }
}
