//! Classes of entries by which an array counts its hits.

/// Classes of entries by which an array counts its hits: page sizes, or a design's own names.
pub const MAX_CLASSES: usize = 24;

/// Name of the class of entries that translate several pages of the table.
pub const COALESCED: &str = "coalesced";
