//! One entry on a walk's way, as reports of a walk show it: which cache or memory supplied it, how long that took, and
//! with which others it was read. Walks record their steps, and so does what stands below them.

use mmulab_addr::PhysAddr;

/// The cache, or memory, that supplied an entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Server {
    /// A walk cache, by its place in the description.
    WalkCache(u8),
    /// A cache level, counted from the core; the number of levels stands for memory.
    Cache(u8),
    /// The nested TLB, which holds the whole translation from guest-physical to host-physical.
    NestedTlb,
}

/// When an entry on a walk's way was read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pace {
    /// After those before it.
    Next,
    /// At once with the one before it of the same table: the walk waits for the slowest of them.
    Together,
    /// Likewise, but the walk does not wait for it.
    Behind,
}

/// One entry on a walk's way; of tables found by hashing, one line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StepRecord {
    /// Its level.
    pub level: u8,
    /// Where it lies; for a walk-cache hit, where the walk goes on.
    pub pa: PhysAddr,
    /// The cache or memory that supplied it.
    pub server: Server,
    /// How long that took.
    pub cycles: u32,
    /// When that was.
    pub pace: Pace,
}
