//! Fault size *pool*: a fault takes a huge page from the hugetlb pool that the kernel reserved at boot.
//!
//! Each refusal has one counted reason: the kind of mapping, a page that reaches outside the mapping, or small pages
//! already mapped.

use crate::linux::desc::AppliesTo;
use crate::parts::part::{Part, Wrong};
use crate::parts::settings::FaultSettings;
use crate::parts::traits::{Candidate, FaultSize, Hole, MapSize, Supply};
use crate::report::counts::Refusal;
use mmulab_addr::show_bytes;

/// Huge pages from a pool. They serve MAP_HUGETLB mappings, and the aligned part of every mapping of the kinds
/// `applies_to` names, as if the program had been linked with libhugetlbfs.
#[derive(Clone, Debug)]
pub(crate) struct Pool {
    size: MapSize,
    applies_to: AppliesTo,
    round_heap: bool,
}

impl Part<FaultSettings<'_>> for Pool {
    const NAME: &'static str = "pool";
    const ABOUT: &'static str =
        "Pages of the pool reserved at boot: what policies of kind `hugetlb` have, by their section `[hugetlb]`.";

    /// # Errors
    /// A size that the page table has no leaves for, or a pool smaller than a page.
    fn new(settings: &FaultSettings) -> Result<Self, Wrong> {
        let Some(desc) = settings.pool else {
            let message = "pool reads the section [hugetlb], of policies of kind \"hugetlb\": set kind to that";
            return Err(("by", message.into()));
        };
        let Some(size) = MapSize::leaf(settings.table, desc.size) else {
            return Err(("size", format!("the machine's page table has no huge page of {}", desc.size)));
        };
        if desc.pool.0 < desc.size.bytes() {
            let bytes = show_bytes(desc.pool.0);
            return Err(("pool", format!("{bytes} holds not one page of {}: give more", desc.size)));
        }
        Ok(Self { size, applies_to: desc.applies_to, round_heap: desc.round_heap })
    }
}

impl FaultSize for Pool {
    fn sizes(&self) -> usize {
        1
    }

    /// The first reason that holds is counted, in the order of this function.
    #[inline]
    fn candidate(&self, _: usize, hole: &Hole, _: impl Fn(u64, u64) -> bool) -> Candidate {
        let order = self.size.order();
        let vma = &hole.span.value;
        let applies = vma.hugetlb == Some(order)
            || match self.applies_to {
                AppliesTo::Explicit => false,
                AppliesTo::Anon => vma.is_anon() && !vma.grows_down,
                AppliesTo::AllPrivate => !vma.shared && !vma.global,
            };
        let refused = if !applies {
            Refusal::HugetlbNotApplied
        } else if hole.start(order) < hole.span.start {
            Refusal::HugetlbHead
        } else if !hole.fits(order) {
            Refusal::HugetlbTail
        } else if hole.room < order {
            Refusal::HugetlbPopulated
        } else {
            return Candidate::Fits { size: self.size, supply: Supply::Pool, if_none: Refusal::HugetlbPoolEmpty };
        };
        Candidate::Refused(refused)
    }

    fn ends_family(&self, _: usize) -> bool {
        true
    }

    /// morecore of libhugetlbfs grows the heap by whole huge pages.
    fn heap_end(&self, end: u64) -> u64 {
        let size = self.size.order().bytes();
        if self.round_heap { end.div_ceil(size).saturating_mul(size) } else { end }
    }
}
