//! The computer that mmulab runs on, described by timing: chases of pointers, and what their curves show.
//!
//! Nothing here simulates, and nothing needs root or performance counters. [`measure`] times one curve; [`figures`]
//! finds the sizes and latencies in curves, each with the interval that its repeats give it.

mod analyse;
mod chase;
mod clock;
mod curve;
mod frames;
mod jumps;
mod latency;
mod pages;
mod processor;
mod random;
mod region;
mod wide;
mod window;

pub use analyse::{Confidence, Figure, figures, noise};
pub use clock::pin_to;
pub use curve::{Curve, CurveSpec, Pattern, Point, measure};
pub use frames::Frames;
pub use jumps::possible as jumps_are_possible;
pub use pages::Backing;
pub use processor::{Processor, processor};
pub use wide::Kind;

/// Why this computer could not be measured.
#[derive(Debug, thiserror::Error)]
pub enum HostError {
    /// A mistake in what was asked for.
    #[error("{0}")]
    Asked(String),
    /// The system refused something.
    #[error("{what}: {error}")]
    System {
        /// The call, and on what.
        what: String,
        /// The system's reason.
        error: std::io::Error,
    },
    /// The caller asked to stop.
    #[error("interrupted")]
    Stopped,
}

impl HostError {
    /// The last error of the C library, of the call `what`.
    pub(crate) fn last(what: impl Into<String>) -> Self {
        Self::System { what: what.into(), error: std::io::Error::last_os_error() }
    }
}
