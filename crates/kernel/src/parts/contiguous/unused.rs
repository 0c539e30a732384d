//! Contiguous bit *none*: every entry is a translation of its own. Only pages that faults take whole, such as those of
//! a pool, have the bit.

use crate::memory::Memory;
use crate::parts::bit::{ContiguousBit, Sixteen};
use crate::parts::part::{Part, Wrong};
use crate::report::counts::Refusal;
use mmulab_addr::PageOrder;
use mmulab_pagetable::Leaf;

/// The bit is left alone.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Unused;

impl Part for Unused {
    const NAME: &'static str = "none";
    const ABOUT: &'static str = "Nowhere: each entry is a translation of its own.";

    fn new(_: &()) -> Result<Self, Wrong> {
        Ok(Self)
    }
}

impl ContiguousBit for Unused {
    fn looks_at(&self, _: PageOrder) -> bool {
        false
    }

    fn joined(&self, _: &Sixteen, _: &Memory) -> Result<Option<Leaf>, Refusal> {
        Ok(None)
    }
}
