//! Reclaim *at the end*: nothing is dropped before an allocation finds no frame. Then the allocator itself drops pages
//! (direct reclaim), the same under every policy.

use crate::parts::part::{Part, Wrong};
use crate::parts::settings::ReclaimSettings;
use crate::parts::traits::Reclaim;

/// No daemon.
#[derive(Clone, Debug)]
pub(crate) struct AtEnd;

impl Part<ReclaimSettings> for AtEnd {
    const NAME: &'static str = "end";
    const ABOUT: &'static str = "When no frame is left, 32 at a time, by the fault that wants one.";

    fn new(_: &ReclaimSettings) -> Result<Self, Wrong> {
        Ok(Self)
    }
}

impl Reclaim for AtEnd {
    fn wanted(&mut self, _: u64) -> u64 {
        0
    }

    fn reclaimed(&mut self, _: u64) {}
}
