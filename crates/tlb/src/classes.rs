//! Kinds of entries that the hits of an array are told apart by.

/// Kinds of entries that an array's hits are told apart by: page sizes, or what a design calls them.
pub const MAX_CLASSES: usize = 24;

/// What entries that translate several pages of the table are called.
pub const COALESCED: &str = "coalesced";
