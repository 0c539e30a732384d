//! Values that a page walk passes on: access rights, the next entry to read, and the leaf PTE. All page-table formats
//! share these types.
//!
//! ```text
//! Step (address of an entry) --read--> bits --decode--> Table(Step)   read the next entry
//!                                                       Leaf          the page is mapped
//!                                                       NotPresent    no page is mapped
//! ```

use mmulab_addr::{Access, PageOrder, Pfn, PhysAddr, Prot, VirtAddr};

/// Rights that the entries above have granted so far. A walk ends with the rights that all levels grant (Intel SDM vol.
/// 3A, section 4.6).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rights {
    /// Rights every level grants.
    pub prot: Prot,
    /// User mode may pass at every level.
    pub user: bool,
}

impl Rights {
    /// Rights of a root pointer: all.
    pub const ALL: Self = Self { prot: Prot::RW.with(Prot::X), user: true };

    /// Rights that both grant.
    #[inline(always)]
    pub const fn and(self, other: Self) -> Self {
        Self { prot: Prot::from_bits(self.prot.bits() & other.prot.bits()), user: self.user && other.user }
    }
}

/// The entry a walk reads next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Step {
    /// Its level, counted from the leaves: 1 is the PTE level, 4 the root of a four-level table.
    pub level: u8,
    /// The virtual memory one entry of this level spans.
    pub covers: PageOrder,
    /// Where the entry lies.
    pub entry: PhysAddr,
    /// Rights that the levels above granted.
    pub rights: Rights,
}

/// Meaning of the bits of an entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Next {
    /// Read this entry next.
    Table(Step),
    /// The walk ends: the page is mapped.
    Leaf(Leaf),
    /// The walk ends: nothing is mapped.
    NotPresent,
}

/// A translation as found in one page-table entry, its rights limited by the entries above.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Leaf {
    /// First frame of the page.
    pub pfn: Pfn,
    /// The size of the page.
    pub order: PageOrder,
    /// Access rights.
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
    /// The leaf with its rights limited by those that the entries above granted.
    #[inline(always)]
    pub(crate) const fn within(self, above: Rights) -> Self {
        let Rights { prot, user } = above.and(Rights { prot: self.prot, user: self.user });
        Self { prot, user, ..self }
    }

    /// The physical address of `va`, which lies in this page.
    #[inline(always)]
    pub const fn translate(&self, va: VirtAddr) -> PhysAddr {
        PhysAddr(self.pfn.addr().0 + va.offset_in(self.order))
    }

    /// Whether `access` is granted to the program.
    ///
    /// Modelled programs run in user mode, but text traces may name kernel mappings: the user bit is carried, and not
    /// checked.
    #[inline(always)]
    pub const fn allows(&self, access: Access) -> bool {
        self.prot.allows(access)
    }
}
