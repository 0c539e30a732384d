//! The most recently used page of each side: using it again changes nothing but counts, which are added up in batches.

use super::{Hierarchy, page_of};
use crate::key::Value;
use mmulab_addr::{Access, Asid, PageOrder, Side, VirtAddr};

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
    pages: [u64; 3],
}

impl RecentPages {
    /// Whether they answer a reference, which is then a hit of the first level.
    #[inline(always)]
    pub fn answer(&self, va: VirtAddr, access: Access) -> bool {
        self.pages[access as usize] == va.vpn().0
    }
}

impl Hierarchy {
    /// Whether the most recent page answers a reference.
    #[inline(always)]
    pub fn is_recent(&self, asid: Asid, va: VirtAddr, access: Access) -> bool {
        let recent = &self.recent[access.side() as usize];
        recent.page == page_of(asid, va) && recent.value.ready(access)
    }

    /// The most recent pages of address space `asid`.
    #[inline(always)]
    pub fn recent_pages(&self, asid: Asid) -> RecentPages {
        let page = |access: Access| {
            let recent = &self.recent[access.side() as usize];
            let is_usable = recent.page as u16 == asid.0 && recent.value.ready(access);
            if recent.page != NO_PAGE && is_usable { recent.page >> u16::BITS } else { NO_PAGE }
        };
        RecentPages { pages: [Access::Fetch, Access::Read, Access::Write].map(page) }
    }

    /// The most recent pages have answered so many references of each side.
    #[inline(always)]
    pub fn used_recent(&mut self, fetches: u64, data: u64) {
        self.recent[Side::Instruction as usize].run += fetches;
        self.recent[Side::Data as usize].run += data;
    }
}
