//! The hardware page walker: walk caches, the caches that page-table lines hit in, parallel walks.
//!
//! It reads entries out of [`mmulab_frames::PhysMem`] a line at a time, and writes accessed and dirty bits there. It
//! never sees the kernel. The rules are in `docs/concepts/walks.md`.

mod caches;
mod counts;
mod desc;
mod error;
mod slots;
mod walk_cache;
mod walker;

pub use caches::{Caches, Served};
pub use counts::{LevelCounts, SideWalks, WalkCounts};
pub use desc::{CacheDesc, CacheRules, WalkCacheDesc, WalkerDesc};
pub use error::WalkerError;
pub use slots::WalkSlots;
pub use walker::{Server, StepRecord, Walk, WalkContext, Walker};
