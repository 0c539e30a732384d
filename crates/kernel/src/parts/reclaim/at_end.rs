//! Reclaim *at the end*: nothing is dropped before an allocation finds no frame. What is dropped then is the
//! allocator's own doing (direct reclaim), the same under every policy.

use crate::parts::traits::Reclaim;

/// No daemon.
#[derive(Clone, Debug)]
pub(crate) struct AtEnd;

impl AtEnd {
    pub fn new(_: Option<u16>, _: u64) -> Self {
        Self
    }
}

impl Reclaim for AtEnd {
    fn wanted(&mut self, _: u64) -> u64 {
        0
    }

    fn reclaimed(&mut self, _: u64) {}
}
