//! Translation lookaside buffers: arrays of entries, and their composition in two levels.
//!
//! The hierarchy learns of mappings only through [`Hierarchy::fill`], which is handed what a page walk read; it forgets
//! them only by replacement and through [`Hierarchy::invalidate`]. It never sees the kernel.
//!
//! The rules (what counts as an access, what is filled when, which entry goes) are in `docs/concepts/tlbs.md`.

mod array;
mod classes;
mod counts;
mod desc;
mod design;
mod entry;
mod error;
mod hierarchy;
mod key;
mod levels;
mod observer;
mod pages;
mod predictor;

pub use classes::COALESCED;
pub use counts::{
    ArrayCounts, CoalescingCounts, HierarchyCounts, MirrorCounts, NO_L1_ARRAY, PredictorCounts, Reloads, SideCounts,
};
pub use desc::{
    ArrayDesc, Bundle, Coalescing, Frames, HierarchyDesc, HoldDesc, Inclusion, Mirrors, MixDesc, Placement,
    PredictorDesc, Probe, Span,
};
pub use design::{About, Cost, Design, Reads, Widths};
pub use entry::{Entry, Outcome};
pub use error::GeometryError;
pub use hierarchy::{Hierarchy, RecentPages, SharedLevels, Unfinished, page_of};
pub use observer::{NoObserver, Observer};
