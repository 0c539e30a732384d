//! Set-associative storage: what TLBs, walk caches and caches have in common.
//!
//! [`Sets`] keeps one key of 64 bits per way and the replacement state; whoever uses it keeps what the keys stand for.

mod desc;
mod recency;
mod store;

pub use desc::{Replacement, Ways, geometry};
pub use store::{EMPTY, Put, Sets, prefetch};
