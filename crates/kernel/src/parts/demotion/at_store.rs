//! Demotion *at a store*: a store to a larger page that is mapped read-only takes it apart. Then each base page has a
//! dirty bit of its own. Sources: FreeBSD, `pmap_enter` in sys/amd64/amd64/pmap.c; Navarro and others, OSDI 2002,
//! section 5.3.

use crate::parts::part::{Part, Wrong};
use crate::parts::traits::Demotion;
use mmulab_addr::PageOrder;
use mmulab_pagetable::Leaf;

/// The first store takes a clean larger page apart.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AtStore;

impl Part for AtStore {
    const NAME: &'static str = "store";
    const ABOUT: &'static str =
        "Also at the first store to a page that is mapped read-only, such as one promoted while it was clean.";

    fn new(_: &()) -> Result<Self, Wrong> {
        Ok(Self)
    }
}

impl Demotion for AtStore {
    fn at_store(&self, leaf: &Leaf, base: PageOrder) -> bool {
        leaf.order > base
    }
}
