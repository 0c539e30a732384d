//! Kinds of entries by which the hits of an array are counted.

/// Kinds of entries by which an array's hits are counted: page sizes, or a design's own kinds.
pub const MAX_CLASSES: usize = 24;

/// What entries that translate several pages of the table are called.
pub const COALESCED: &str = "coalesced";
