//! Result of a finished walk: the leaf PTE, and the line of entries around it for the TLBs.

use crate::{Format, Leaf};

/// Result of a finished walk for the TLBs. It has the leaf and, for designs that look at neighbours, the line of
/// entries that it was read from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Walked {
    /// The translation.
    pub leaf: Leaf,
    /// The 64-byte line that held its entry, as it is in memory after the walk.
    pub line: [u64; 8],
    /// Which of the eight entries it was.
    pub slot: u8,
    /// Its level.
    pub level: u8,
    /// The format, to decode the neighbours with.
    pub format: Format,
}
