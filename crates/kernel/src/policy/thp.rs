//! The transparent huge page (THP) policy: the decision whether a fault maps a 2 MiB page, the smaller sizes that are
//! enabled (mTHP), and whether a fault compacts memory. The policy never sees free memory: the fault handler tries to
//! allocate the chosen size.

use super::{Ask, Choice};
use crate::counts::Refusal;
use crate::vma::HugeAdvice;
use crate::{Defrag, KernelError, ThpDesc, ThpEnabled, ThpSize};
use mmulab_addr::PageOrder;

/// The smallest huge page: order 2 (`THP_ORDERS_ALL_ANON` in include/linux/huge_mm.h).
const SMALLEST: PageOrder = PageOrder::new(2);

/// Transparent huge pages: 2 MiB at the first fault in an aligned region of private anonymous memory, where
/// `do_huge_pmd_anonymous_page` in mm/huge_memory.c and `thp_vma_allowable_order` allow it.
#[derive(Clone, Debug)]
pub struct Thp {
    desc: ThpDesc,
}

impl Thp {
    /// The policy described.
    ///
    /// # Errors
    /// Sizes that there are none of, or limits beyond a region.
    pub fn new(desc: ThpDesc) -> Result<Self, KernelError> {
        let wrong = |key: &str, message: String| Err(KernelError::Description { key: format!("thp.{key}"), message });
        if let Some(size) = desc.sizes.keys().find(|&&s| s < SMALLEST || s > PageOrder::P2M) {
            return wrong("sizes", format!("{size} is no size of huge page: give sizes from {SMALLEST} to 2M"));
        }
        if let Some(daemon) = &desc.khugepaged {
            let pages = PageOrder::P2M.base_pages() as u32;
            for (key, value) in [("max_ptes_none", daemon.max_ptes_none), ("max_ptes_shared", daemon.max_ptes_shared)] {
                if value >= pages {
                    return wrong(&format!("khugepaged.{key}"), format!("{value} is not between 0 and {}", pages - 1));
                }
            }
            if daemon.pages_to_scan == 0 || daemon.scan_sleep_ms == 0 {
                return wrong("khugepaged", "pages_to_scan and scan_sleep_ms must be at least 1".into());
            }
        }
        Ok(Self { desc })
    }

    /// Whether a fault in a mapping with this advice compacts memory itself when no block is free.
    pub fn compacts(&self, advice: HugeAdvice) -> bool {
        match self.desc.defrag {
            Defrag::Always => true,
            Defrag::Madvise => advice == HugeAdvice::Huge,
            Defrag::Defer | Defrag::Never => false,
        }
    }

    pub fn desc(&self) -> &ThpDesc {
        &self.desc
    }

    /// Whether pages of `order` may be used in a mapping with this advice, by the size's own setting.
    pub fn allows(&self, order: PageOrder, advice: HugeAdvice) -> bool {
        advice != HugeAdvice::NoHuge
            && match self.enabled(order) {
                ThpEnabled::Always => true,
                ThpEnabled::Madvise => advice == HugeAdvice::Huge,
                ThpEnabled::Never => false,
            }
    }

    fn enabled(&self, order: PageOrder) -> ThpEnabled {
        match self.desc.sizes.get(&order) {
            Some(ThpSize::Always) => ThpEnabled::Always,
            Some(ThpSize::Madvise) => ThpEnabled::Madvise,
            Some(ThpSize::Never) => ThpEnabled::Never,
            Some(ThpSize::Inherit) => self.desc.enabled,
            // `huge_anon_orders_inherit` begins as the order of a PMD alone.
            None if order == PageOrder::P2M => self.desc.enabled,
            None => ThpEnabled::Never,
        }
    }

    /// Sizes below 2 MiB that were named, the largest first.
    pub fn medium(&self) -> impl Iterator<Item = PageOrder> + '_ {
        self.desc.sizes.keys().copied().rev().filter(|&order| order < PageOrder::P2M)
    }

    /// The reasons are asked for in the order of this function, and the first that holds is counted.
    #[inline]
    pub fn choose(&self, ask: &Ask) -> Choice {
        let order = PageOrder::P2M;
        let refused = if !ask.vma.is_anon() {
            Refusal::ThpNotAnonymous
        } else if self.enabled(order) == ThpEnabled::Never {
            Refusal::ThpNever
        } else if ask.vma.advice == HugeAdvice::NoHuge {
            Refusal::ThpNohugepage
        } else if self.enabled(order) == ThpEnabled::Madvise && ask.vma.advice != HugeAdvice::Huge {
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
