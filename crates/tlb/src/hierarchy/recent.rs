//! The most recently used page of each side: using it again changes nothing but counts, which are added up in batches.

use crate::key::Value;
use mmulab_addr::{Access, PageOrder, VirtAddr};

/// No page of any address space.
pub(super) const NO_PAGE: u64 = u64::MAX;

/// The last page a side used, which is the most recently used entry of its array: using it again changes nothing but
/// the counts. Where the sides have a first-level array in common, one of them at most has such a page.
#[derive(Clone, Copy)]
pub(super) struct Recent {
    /// Base page and tag; [`NO_PAGE`] when something has changed since.
    pub page: u64,
    pub value: Value,
    pub order: PageOrder,
    pub array: u8,
    /// The size number.
    pub size: u8,
    /// Hits not yet added to the counts.
    pub run: u64,
}

impl Recent {
    /// No page.
    pub const NONE: Self = Self { page: NO_PAGE, value: Value::ZERO, order: PageOrder::P4K, array: 0, size: 0, run: 0 };
}

/// The most recent pages of both sides by kind of access, to compare many references with them. They hold until the
/// next lookup that they do not answer.
#[derive(Clone, Copy)]
pub struct RecentPages {
    /// By [`Access`]: the base page whose use is a hit; [`NO_PAGE`] if there is none, or its rights do not suffice.
    pub(super) pages: [u64; 3],
}

impl RecentPages {
    /// Whether they answer a reference, which is then a hit of the first level.
    #[inline(always)]
    pub fn answer(&self, va: VirtAddr, access: Access) -> bool {
        self.pages[access as usize] == va.vpn().0
    }
}
