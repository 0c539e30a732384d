//! Configuration errors of the page walker and its caches: the table of the machine description, the problem and the
//! remedy.

use thiserror::Error;

/// A walker or cache that cannot be.
#[derive(Debug, Error, PartialEq, Eq)]
#[error("{place}: {what}")]
pub struct WalkerError {
    /// The table of the description.
    pub place: String,
    /// The mistake, and the remedy.
    pub what: String,
}
