//! Set-associative storage: what TLBs, walk caches and caches have in common.
//!
//! A [`Store`] keeps one key of 64 bits per way and the order of use; whoever uses it keeps what the keys stand for. It
//! is one kind of storage per shape: [`Packed`] and [`Wide`] for true LRU, [`Sets`] for every policy. [`Ranges`] finds
//! entries that are for many keys.

mod desc;
mod keys;
mod packed;
mod ranges;
mod recency;
mod set_index;
mod sets;
mod store;
mod wide;

pub use desc::{Replacement, Ways, geometry};
pub use keys::Keys;
pub use packed::Packed;
pub use ranges::Ranges;
pub use set_index::SetIndex;
pub use sets::{EMPTY, Put, Sets, prefetch};
pub use store::Store;
pub use wide::Wide;
