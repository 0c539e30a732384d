//! TLB entries and lookup outcomes. A hit in either level yields the entry. Three outcomes need the page walker: a
//! miss, a store to a page whose dirty bit is clear, and an access that the rights do not allow.

use mmulab_addr::{PageOrder, Pfn, PhysAddr, Prot, VirtAddr, Vpn};

/// A cached translation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Entry {
    /// First base page it translates.
    pub vpn: Vpn,
    /// First frame.
    pub pfn: Pfn,
    /// How much it translates.
    pub order: PageOrder,
    /// Access rights.
    pub prot: Prot,
    /// User mode may use it: carried, not checked.
    pub user: bool,
    /// The page-table entry's dirty bit is known to be set.
    pub dirty: bool,
    /// Valid in every address space.
    pub global: bool,
}

impl Entry {
    /// The physical address of `va`, which the entry translates.
    #[inline(always)]
    pub const fn translate(&self, va: VirtAddr) -> PhysAddr {
        PhysAddr(self.pfn.addr().0 + va.offset_in(self.order))
    }
}

/// Result of a lookup. Latencies are of the level that answered, in cycles.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// The first level held it.
    L1 {
        /// The entry found.
        entry: Entry,
    },
    /// The second level held it, and the first does now.
    L2 {
        /// The entry found.
        entry: Entry,
        /// The second level's latency.
        cycles: u32,
    },
    /// Neither did: the walker must read the tables.
    Miss {
        /// The latency of finding that out.
        cycles: u32,
    },
    /// A store met a writable translation whose dirty bit is clear: the walker must set it in memory.
    NeedDirty {
        /// The level that held it.
        level: u8,
        /// The second level's latency, if it was asked.
        cycles: u32,
    },
    /// The translation's rights do not allow the access: the walker must look again, for they may have grown.
    Denied {
        /// The level that held it.
        level: u8,
        /// The second level's latency, if it was asked.
        cycles: u32,
    },
}

impl Outcome {
    /// The level that held a translation; `None` for a miss.
    #[inline]
    pub const fn level(&self) -> Option<u8> {
        match *self {
            Self::L1 { .. } => Some(1),
            Self::L2 { .. } => Some(2),
            Self::Miss { .. } => None,
            Self::NeedDirty { level, .. } | Self::Denied { level, .. } => Some(level),
        }
    }
}
