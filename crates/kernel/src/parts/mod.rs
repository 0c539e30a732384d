//! The parts that memory managers are put together of: fault sizes, placement, zeroing, promotion, daemons, demotion,
//! reclaim, contiguous bit, hints.
//!
//! [`traits`] says what each part is asked and may answer. A part has a file of its own in the folder of its kind, and
//! a line in the list there. `docs/contributing/policy.md` shows how to add one.

pub(crate) mod check;
pub(crate) mod contiguous;
pub(crate) mod daemon;
pub(crate) mod declared;
pub(crate) mod demotion;
pub(crate) mod desc;
pub(crate) mod fault_size;
pub(crate) mod hints;
pub(crate) mod placement;
pub(crate) mod promotion;
pub(crate) mod reclaim;
pub(crate) mod traits;
pub(crate) mod zeroing;
