//! Translation tables as bytes in simulated frames.
//!
//! Two faces. The kernel edits a [`Table`]; every edit that could leave a stale translation returns a [`Flush`] that
//! must be delivered. Hardware sees only a [`Format`] and a root address: it asks where the first entry lies, reads
//! that entry's line from [`mmulab_frames::PhysMem`], and asks what the entry's bits mean. The two never share state
//! but the bytes.

mod hardware;

pub use hardware::{Leaf, Next, Step};
