//! Fault size *listed*: a fault in private anonymous memory maps the largest of the sizes that `[fault]` lists which
//! lies inside the mapping, is empty and has a free block.

use crate::linux::desc::ThpEnabled;
use crate::parts::traits::{Candidate, FaultSize, Hole, MapSize, Supply};
use crate::report::counts::Refusal;
use mmulab_addr::{Access, PageOrder};

/// The sizes of a list, all used by the same rule.
#[derive(Clone, Debug)]
pub(crate) struct Listed {
    /// The largest first.
    sizes: Vec<MapSize>,
    /// Which mappings the sizes are used in.
    enabled: ThpEnabled,
    /// Whether a load of an untouched page maps the zero page: then no size is considered for loads.
    zero_page: bool,
}

impl Listed {
    /// Of these sizes, in any order.
    pub fn new(mut sizes: Vec<MapSize>, enabled: ThpEnabled, zero_page: bool) -> Self {
        sizes.sort_by_key(|size| std::cmp::Reverse(size.order()));
        Self { sizes, enabled, zero_page }
    }
}

impl FaultSize for Listed {
    fn sizes(&self) -> usize {
        self.sizes.len()
    }

    /// The reasons have the names that Linux's sizes have: `thp_` from 2 MiB on, `mthp_` below.
    #[inline]
    fn candidate(&self, index: usize, hole: &Hole, is_empty: impl Fn(u64, u64) -> bool) -> Candidate {
        let (size, vma) = (self.sizes[index], &hole.span.value);
        let maps_zero_page = hole.access != Access::Write && self.zero_page;
        if !vma.is_anon() || vma.hugetlb.is_some() || maps_zero_page || !self.enabled.allows(vma.advice) {
            return Candidate::NotConsidered;
        }
        let (order, start) = (size.order(), hole.start(size.order()));
        let is_huge = order >= PageOrder::P2M;
        let named = |huge: Refusal, mthp: Refusal| if is_huge { huge } else { mthp };
        if !hole.fits(order) {
            Candidate::Refused(named(Refusal::ThpOutsideVma, Refusal::MthpOutsideVma))
        } else if !is_empty(start, start + order.bytes()) {
            Candidate::Refused(named(Refusal::ThpPopulated, Refusal::MthpPopulated))
        } else {
            let if_none = named(Refusal::ThpNoBlock, Refusal::MthpNoBlock);
            Candidate::Fits { size, supply: Supply::Frames, if_none }
        }
    }

    fn ends_family(&self, index: usize) -> bool {
        let is_huge = |size: &MapSize| size.order() >= PageOrder::P2M;
        self.sizes.get(index + 1).is_none_or(|next| is_huge(next) != is_huge(&self.sizes[index]))
    }
}
