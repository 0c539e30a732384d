use super::{Ask, Choice};
use crate::counts::Refusal;
use crate::vma::HugeAdvice;
use crate::{ThpDesc, ThpEnabled};
use mmulab_addr::PageOrder;

/// Transparent huge pages: 2 MiB at the first fault in an aligned region of private anonymous memory, where
/// `do_huge_pmd_anonymous_page` in mm/huge_memory.c and `thp_vma_allowable_order` allow it.
#[derive(Clone, Debug)]
pub struct Thp {
    desc: ThpDesc,
}

impl Thp {
    pub fn new(desc: ThpDesc) -> Self {
        Self { desc }
    }

    pub fn desc(&self) -> &ThpDesc {
        &self.desc
    }

    /// The reasons are asked for in the order of this function, and the first that holds is counted.
    #[inline]
    pub fn choose(&self, ask: &Ask) -> Choice {
        let order = PageOrder::P2M;
        let refused = if !ask.vma.is_anon() {
            Refusal::ThpNotAnonymous
        } else if self.desc.enabled == ThpEnabled::Never {
            Refusal::ThpNever
        } else if ask.vma.advice == HugeAdvice::NoHuge {
            Refusal::ThpNohugepage
        } else if self.desc.enabled == ThpEnabled::Madvise && ask.vma.advice != HugeAdvice::Huge {
            Refusal::ThpNotAdvised
        } else if !ask.fits(order) {
            Refusal::ThpOutsideVma
        } else if ask.room < order {
            Refusal::ThpPopulated
        } else {
            return Choice::Large(order);
        };
        Choice::Base(Some(refused))
    }
}
