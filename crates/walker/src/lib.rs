//! The hardware page walker: walk caches, the caches that page-table lines hit in, parallel walks.
//!
//! In a virtual machine a walk has two dimensions ([`NestedWalker`]): the same walk over the guest's table, with each
//! entry's address translated by the same walk over the host's.
//!
//! Tables found by hashing are searched by groups of reads, each made at once: the walk waits for the slowest.
//!
//! It reads entries out of [`mmulab_frames::PhysMem`] a line at a time, and writes accessed and dirty bits there. It
//! never sees the kernel. The rules are in `docs/concepts/walks.md`.

mod below;
mod caches;
mod combine;
mod counts;
mod desc;
mod error;
mod fresh;
mod kept;
mod latency;
mod nested;
mod nested_tlb;
mod retention;
mod search;
mod slots;
mod step;
mod walk_cache;
mod walker;

pub use caches::{Caches, Served};
pub use counts::{LevelCounts, SideWalks, WalkCounts};
pub use desc::{CacheDesc, CacheRules, FreshDesc, WalkCacheDesc, WalkerDesc};
pub use error::WalkerError;
pub use nested::{Dimension, Memories, Nested, NestedContext, NestedDesc, NestedStep, NestedWalker, Violation};
pub use nested_tlb::{NestedTlbCounts, NestedTlbDesc};
pub use retention::chance;
pub use slots::WalkSlots;
pub use step::{Pace, Server, StepRecord};
pub use walker::{Walk, WalkContext, Walker};
