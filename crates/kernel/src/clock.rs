//! Simulated time of the daemons. The kernel has no clock: it returns when they must wake, and its caller wakes them.

const NS_PER_MS: u64 = 1_000_000;

/// Milliseconds in nanoseconds; the end of time, if they are too many.
pub(crate) fn ns_of_ms(ms: u64) -> u64 {
    ms.saturating_mul(NS_PER_MS)
}

/// Which daemons run.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Due {
    /// Those that wanted to wake by this time, in simulated nanoseconds since the start. They sleep from then on.
    By(u64),
    /// All, at once. They sleep as long as ever from when they would have woken.
    All,
}

impl Due {
    /// When a daemon that wants to wake at `wake` goes to sleep again, if it runs now.
    pub fn runs(self, wake: u64) -> Option<u64> {
        match self {
            Self::By(now) => (wake <= now).then_some(now),
            Self::All => Some(wake),
        }
    }
}
