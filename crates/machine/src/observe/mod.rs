//! What an observer of a run sees, and how the engine runs with one or without.

mod observation;
mod watch;

pub use observation::{Answer, Failure, FaultReason, Observation, Seen, WalkEnd};
pub use watch::Watch;
pub(crate) use watch::{NoObserver, Observe, Watched};
