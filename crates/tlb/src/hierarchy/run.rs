//! Runs of references that the most recent pages answer. Such a reference changes nothing but counts, so a caller can
//! compare many with the pages and report them together.

use super::{
    Hierarchy, page_of,
    recent::{NO_PAGE, RecentPages},
};
use mmulab_addr::{Access, Asid, Side, VirtAddr};

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

    /// Counts references that the most recent pages answered: fetches, and loads and stores.
    #[inline(always)]
    pub fn used_recent(&mut self, fetches: u64, data: u64) {
        self.recent[Side::Instruction as usize].run += fetches;
        self.recent[Side::Data as usize].run += data;
    }
}
