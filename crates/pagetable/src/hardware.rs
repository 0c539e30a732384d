use mmulab_addr::{PageOrder, Pfn, PhysAddr, Prot, VirtAddr};

/// The entry a walk reads next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Step {
    /// Its level, counted from the leaves: 1 is the PTE level, 4 the root of a four-level table.
    pub level: u8,
    /// The virtual memory one entry of this level spans.
    pub covers: PageOrder,
    /// Where the entry lies.
    pub entry: PhysAddr,
}

/// What the bits of an entry say.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Next {
    /// Read this entry next.
    Table(Step),
    /// The walk ends: the page is mapped.
    Leaf(Leaf),
    /// The walk ends: nothing is mapped.
    NotPresent,
}

/// A translation as found in one page-table entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Leaf {
    /// First frame of the page.
    pub pfn: Pfn,
    /// The size of the page.
    pub order: PageOrder,
    /// What may be done to it.
    pub prot: Prot,
    /// User mode may use it.
    pub user: bool,
    /// The accessed bit.
    pub accessed: bool,
    /// The dirty bit.
    pub dirty: bool,
    /// Valid in every address space.
    pub global: bool,
}

impl Leaf {
    /// The physical address of `va`, which lies in this page.
    #[inline(always)]
    pub const fn translate(&self, va: VirtAddr) -> PhysAddr {
        PhysAddr(self.pfn.addr().0 + va.offset_in(self.order))
    }
}
