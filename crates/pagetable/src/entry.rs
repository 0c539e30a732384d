//! Entries as data: which bits of an entry hold the frame, the access rights, and the accessed, dirty and global bits.
//! Each format declares a table of [`Fields`]; the code here reads and writes them. A format adds what no table of bits
//! can express: which entries are leaves, and fields that depend on each other.
//!
//! ```text
//! bits --Entries::decode--> Nothing | Leaf | Table        hardware reads an entry
//! Leaf --Entries::leaf----> bits                          the kernel writes one
//! ```

use crate::{Leaf, Rights};
use mmulab_addr::{PageOrder, Pfn, PhysAddr, Prot};

/// Meaning of an entry by itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Entry {
    /// Nothing is mapped, or the bits are reserved: a page fault.
    Nothing,
    /// It maps a page.
    Leaf(Leaf),
    /// It points to this table, and grants these rights.
    Table(PhysAddr, Rights),
}

/// How an entry states a property.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mark {
    /// The property holds if the bit is set.
    Set(u64),
    /// The property holds if the bit is clear.
    Clear(u64),
    /// The property holds for every entry that is present.
    Always,
}

impl Mark {
    /// Whether the property holds.
    #[inline(always)]
    pub const fn holds(self, bits: u64) -> bool {
        match self {
            Self::Set(bit) => bits & bit != 0,
            Self::Clear(bit) => bits & bit == 0,
            Self::Always => true,
        }
    }

    /// The bits that state whether the property holds.
    pub const fn bits(self, holds: bool) -> u64 {
        match (self, holds) {
            (Self::Set(bit), true) | (Self::Clear(bit), false) => bit,
            (Self::Set(_), false) | (Self::Clear(_), true) | (Self::Always, _) => 0,
        }
    }
}

/// Where a format keeps the fields that all formats have.
#[derive(Clone, Copy, Debug)]
pub struct Fields {
    /// Set in every entry that is present.
    pub valid: u64,
    /// The bits of the frame number.
    pub frame: u64,
    /// Programs may read the page.
    pub readable: Mark,
    /// Programs may write to it.
    pub writable: Mark,
    /// Programs may execute it.
    pub executable: Mark,
    /// User mode may access it.
    pub user: Mark,
    /// It was accessed.
    pub accessed: Mark,
    /// It was written to.
    pub dirty: Mark,
    /// It is mapped alike in every address space.
    pub global: Mark,
}

impl Fields {
    /// The frame that an entry names.
    #[inline(always)]
    pub const fn frame_of(&self, bits: u64) -> Pfn {
        Pfn((bits & self.frame) >> self.frame.trailing_zeros())
    }

    /// The bits that name a frame.
    pub const fn naming(&self, pfn: Pfn) -> u64 {
        pfn.0 << self.frame.trailing_zeros()
    }

    /// Rights that an entry grants.
    #[inline(always)]
    pub fn rights(&self, bits: u64) -> Rights {
        let right = |mark: Mark, prot: Prot| if mark.holds(bits) { prot.bits() } else { 0 };
        let prot = right(self.readable, Prot::R) | right(self.writable, Prot::W) | right(self.executable, Prot::X);
        Rights { prot: Prot::from_bits(prot), user: self.user.holds(bits) }
    }

    /// The leaf that an entry is, of a page of `order`. Bits of the frame number below the page's size have other uses.
    #[inline(always)]
    pub fn leaf(&self, bits: u64, order: PageOrder) -> Leaf {
        let Rights { prot, user } = self.rights(bits);
        Leaf {
            pfn: self.frame_of(bits).align_down(order),
            order,
            prot,
            user,
            accessed: self.accessed.holds(bits),
            dirty: self.dirty.holds(bits),
            global: self.global.holds(bits),
        }
    }

    /// The bits of a leaf.
    pub const fn bits(&self, leaf: &Leaf) -> u64 {
        self.valid
            | self.naming(leaf.pfn)
            | self.readable.bits(leaf.prot.has(Prot::R))
            | self.writable.bits(leaf.prot.has(Prot::W))
            | self.executable.bits(leaf.prot.has(Prot::X))
            | self.user.bits(leaf.user)
            | self.accessed.bits(leaf.accessed)
            | self.dirty.bits(leaf.dirty)
            | self.global.bits(leaf.global)
    }
}

/// The entries of a format: what their bits mean at each level.
pub trait Entries {
    /// Meaning of an entry of `level`.
    fn decode(bits: u64, level: u8) -> Entry;

    /// The bits of a leaf that takes one entry, of one of the format's sizes.
    fn leaf(leaf: &Leaf) -> u64;

    /// The bits of an entry that points to a table.
    fn table(table: Pfn) -> u64;

    /// The bits with the accessed bit set; `leaf` states whether they map a page.
    fn accessed(bits: u64, leaf: bool) -> u64;

    /// A leaf's bits with the accessed and dirty bits set.
    fn dirtied(bits: u64) -> u64;

    /// The frame that `bits` names, if they are those of `leaf`, an entry of the same level for a page of `order`, in
    /// all but the frame. `None` if not, and for entries where that takes more than a glance.
    #[inline(always)]
    fn frame_of_alike(_bits: u64, _leaf: u64, _order: PageOrder) -> Option<Pfn> {
        None
    }
}
