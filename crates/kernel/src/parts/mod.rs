//! The parts that memory managers are put together of: fault sizes, placement, zeroing, promotion, daemons, demotion,
//! reclaim, contiguous bit, hints, text.
//!
//! [`traits`] says what each part is asked and may answer. A part is one file in the folder of its kind: `build.rs`
//! lists the files of the folders, and [`list`] makes enums of the lists. `docs/contributing/policy.md` shows how to
//! add one.

pub(crate) mod base_page;
pub(crate) mod bit;
pub(crate) mod check;
pub(crate) mod contiguous;
pub(crate) mod daemon;
pub(crate) mod declared;
pub(crate) mod demotion;
pub(crate) mod desc;
pub(crate) mod fault_size;
pub(crate) mod hints;
pub(crate) mod list;
pub(crate) mod part;
pub(crate) mod placement;
pub(crate) mod promotion;
pub(crate) mod reclaim;
pub(crate) mod recovery;
pub(crate) mod settings;
pub(crate) mod text;
pub(crate) mod traits;
pub(crate) mod zeroing;
