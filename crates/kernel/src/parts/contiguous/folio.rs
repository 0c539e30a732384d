//! Contiguous bit *folio*: Linux from 6.9 on sets it for base pages that were allocated together, in a folio of 64 KiB
//! or more. `__contpte_try_fold` in arch/arm64/mm/contpte.c asks that the sixteen pages lie within one folio. These are
//! the blocks of mTHP, and the base pages of a huge page whose mapping was split. Blocks are aligned to their size, so
//! that sixteen neighbouring frames of blocks of that size or more are of one block.

use super::transparent::Transparent;
use crate::memory::Memory;
use crate::parts::bit::{ContiguousBit, GROUP, Sixteen};
use crate::parts::part::{Part, Wrong};
use crate::report::counts::Refusal;
use mmulab_addr::PageOrder;
use mmulab_pagetable::Leaf;

/// The bit is set within folios.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Folio;

impl Part for Folio {
    const NAME: &'static str = "folio";
    const ABOUT: &'static str = "As `transparent`, for base pages alone, and only if they were allocated together, in \
         a block of 64K or more: what Linux does since 6.9, for the blocks of mTHP.";

    fn new(_: &()) -> Result<Self, Wrong> {
        Ok(Self)
    }
}

impl ContiguousBit for Folio {
    /// Pages of 2 MiB have it in the hugetlb pool only.
    fn looks_at(&self, page: PageOrder) -> bool {
        page == PageOrder::P4K
    }

    fn joined(&self, entries: &Sixteen, memory: &Memory) -> Result<Option<Leaf>, Refusal> {
        let whole = Transparent.joined(entries, memory)?;
        let is_of_folio = |leaf: &Leaf| memory.pages.get(leaf.pfn).folio >= GROUP;
        match entries.leaves.iter().all(is_of_folio) {
            true => Ok(whole),
            false => Err(Refusal::ContiguousNoFolio),
        }
    }
}
