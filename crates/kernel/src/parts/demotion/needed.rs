//! Demotion *when needed*: a larger page lasts until an operation concerns a part of it alone, as in Linux.

use crate::parts::part::{Part, Wrong};
use crate::parts::traits::Demotion;
use mmulab_addr::PageOrder;
use mmulab_pagetable::Leaf;

/// Larger pages are kept.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Needed;

impl Part for Needed {
    const NAME: &'static str = "needed";
    const ABOUT: &'static str = "When an operation, such as munmap or mprotect, concerns a part of it alone.";

    fn new(_: &()) -> Result<Self, Wrong> {
        Ok(Self)
    }
}

impl Demotion for Needed {
    fn at_store(&self, _: &Leaf, _: PageOrder) -> bool {
        false
    }
}
