//! Demotion *when needed*: a larger page lasts until an operation concerns a part of it alone, as in Linux.

use crate::parts::traits::Demotion;
use mmulab_pagetable::Leaf;

/// Larger pages are kept.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Needed;

impl Demotion for Needed {
    fn at_store(&self, _: &Leaf) -> bool {
        false
    }
}
