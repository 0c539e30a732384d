//! One search of the first-level TLBs for several machines, or of both levels where all arrays are alike. One machine,
//! the leader, runs as it does alone and logs which references its first level did not finish. The others, the
//! followers, run these references only.
//!
//! ```text
//! batch --> leader (engine::Windowed<Leading>) --log--> followers (engine of Following)
//!              |                                            |
//!              '-------- trails of the shared levels -------'   equal after each batch, or the follower has parted
//! ```
//!
//! A follower has a kernel, page tables, walkers and caches of its own; its second level is its own, too, where arrays
//! there differ. It is right as long as its kernel and its walks do to the shared levels what the leader's do.
//! [`mmulab_tlb::Hierarchy`] keeps a trail of that. A follower that parts from its leader is run again, alone.

mod common;
mod follow;
mod log;

pub(crate) use {
    common::in_common,
    follow::Following,
    log::{Leading, Log},
};
