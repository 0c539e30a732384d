//! The hugetlb policy: the decision whether a fault takes a huge page from the pool that the kernel reserved at boot.
//! Each refusal here has one counted reason: the kind of mapping, a page that reaches outside the mapping, or small
//! pages already mapped.

use super::{Ask, Choice};
use crate::counts::Refusal;
use crate::{AppliesTo, HugetlbDesc};

/// Huge pages from a pool: MAP_HUGETLB mappings, and the aligned part of every mapping of the kinds `applies_to` names,
/// as if the program had been linked with libhugetlbfs.
#[derive(Clone, Debug)]
pub struct Hugetlb {
    desc: HugetlbDesc,
}

impl Hugetlb {
    pub fn new(desc: HugetlbDesc) -> Self {
        Self { desc }
    }

    /// The first reason that holds is counted, in the order of this function.
    #[inline]
    pub fn choose(&self, ask: &Ask) -> Choice {
        let order = self.desc.size;
        let vma = ask.vma;
        let applies = vma.hugetlb == Some(order)
            || match self.desc.applies_to {
                AppliesTo::Explicit => false,
                AppliesTo::Anon => vma.is_anon() && !vma.grows_down,
                AppliesTo::AllPrivate => !vma.shared && !vma.global,
            };
        let refused = if !applies {
            Refusal::HugetlbNotApplied
        } else if (ask.va & !(order.bytes() - 1)) < ask.start {
            Refusal::HugetlbHead
        } else if !ask.fits(order) {
            Refusal::HugetlbTail
        } else if ask.room < order {
            Refusal::HugetlbPopulated
        } else {
            return Choice::Pooled(order);
        };
        Choice::Base(Some(refused))
    }

    /// morecore of libhugetlbfs grows the heap by whole huge pages.
    pub fn heap_end(&self, end: u64) -> u64 {
        let size = self.desc.size.bytes();
        if self.desc.round_heap { end.div_ceil(size).saturating_mul(size) } else { end }
    }
}
