//! Error for TLB arrays that cannot be built from their description. The message names the array, the problem and a
//! remedy.

use thiserror::Error;

/// A TLB that cannot be.
#[derive(Debug, Error, PartialEq, Eq)]
#[error("tlb.{array}: {what}")]
pub struct GeometryError {
    /// The array.
    pub array: String,
    /// The fault and the remedy.
    pub what: String,
}
