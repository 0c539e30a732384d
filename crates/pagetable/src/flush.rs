use mmulab_addr::{Asid, PageOrder, VirtAddr, VirtRange};
use serde::Serialize;

/// What TLBs and walk caches must forget.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(tag = "flush", rename_all = "lowercase")]
pub enum Invalidate {
    /// One page of an address space, and the walk-cache entries on its path (INVLPG and INVPCID type 0: Intel SDM
    /// vol. 3A, section 4.10.4.1).
    Page {
        /// The address space.
        asid: Asid,
        /// The page's first address.
        va: VirtAddr,
        /// Its size.
        order: PageOrder,
    },
    /// Every page that meets a range.
    Range {
        /// The address space.
        asid: Asid,
        /// The range.
        range: VirtRange,
    },
    /// A whole address space, but for its global pages.
    Asid(Asid),
    /// Everything, global pages too.
    All,
}

/// An edit's debt to the TLBs. It cannot be dropped unseen: it is delivered, or kept lazy for a stated reason.
#[must_use = "a page-table change must reach the TLBs: deliver it, or keep it lazy with a reason"]
#[derive(Debug)]
pub struct Flush {
    va: VirtAddr,
    order: PageOrder,
    owed: bool,
}

impl Flush {
    /// A page whose translation changed.
    pub(crate) fn page(va: VirtAddr, order: PageOrder) -> Self {
        Self { va, order, owed: true }
    }

    /// Nothing that a TLB could hold has changed.
    pub(crate) fn nothing() -> Self {
        Self { va: VirtAddr::default(), order: PageOrder::P4K, owed: false }
    }

    /// Adds what must be forgotten to `into`.
    pub fn deliver(self, asid: Asid, into: &mut Vec<Invalidate>) {
        if self.owed {
            into.push(Invalidate::Page { asid, va: self.va, order: self.order });
        }
    }

    /// Leaves stale translations in place, because of `why`: they can do no harm, or are covered by a flush that the
    /// caller sends for several edits together.
    pub fn lazy(self, why: &'static str) {
        debug_assert!(!why.is_empty());
    }
}
