//! x86-64 (Intel SDM vol. 3A, tables 4-14 to 4-20; the same in the AMD64 APM vol. 2, section 5.3). Compendia, hashed
//! tables and tailored page sizes have its entries too.
//!
//! ```text
//! bit     63   62..52    51..12          11..9     8   7    6   5   4..3     2    1    0
//! PTE     XD   ignored   frame number    ignored   G   PAT  D   A   caching  US   RW   P
//! PDE     XD   ignored   frame number    ignored   G   PS   D   A   caching  US   RW   P     PS: maps 2M or 1G
//! ```

use crate::{
    Format, Leaf,
    entry::{Entries, Entry, Fields, Mark},
    format::{NoParams, TableFormat},
    geometry,
    radix::Radix,
};
use mmulab_addr::{PageOrder, Pfn};
use std::ops::RangeInclusive;

/// Present.
pub const P: u64 = 1;
/// Writable.
pub const RW: u64 = 1 << 1;
/// User mode.
pub const US: u64 = 1 << 2;
/// Accessed.
pub const A: u64 = 1 << 5;
/// Dirty (leaves only).
pub const D: u64 = 1 << 6;
/// A leaf above the PTE level.
pub const PS: u64 = 1 << 7;
/// Global (leaves only).
pub const G: u64 = 1 << 8;
/// Execute disable.
pub const XD: u64 = 1 << 63;
/// The frame number's place: bits 51..12. Bit 12 of a large leaf is its PAT bit, and those above it up to the page's
/// size are reserved.
pub const FRAME: u64 = 0x000f_ffff_ffff_f000;

/// 1 GiB leaves at level 3 are the largest.
pub const HIGHEST_LEAF: u8 = 3;

/// Where entries have their fields. What is present can be read.
pub const FIELDS: Fields = Fields {
    valid: P,
    frame: FRAME,
    readable: Mark::Always,
    writable: Mark::Set(RW),
    executable: Mark::Clear(XD),
    user: Mark::Set(US),
    accessed: Mark::Set(A),
    dirty: Mark::Set(D),
    global: Mark::Set(G),
};

/// The radix tree of x86-64.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct X86 {
    levels: u8,
}

/// Entries of x86-64.
pub struct X86Entries;

impl Format {
    /// x86-64 with 4 or 5 levels.
    pub const fn x86(levels: u8) -> Self {
        Self::X86(X86 { levels })
    }
}

impl TableFormat for X86 {
    const NAME: &'static str = "x86-64-radix";
    const DOC: &'static str = "The radix tree of x86-64: 512 entries of 8 bytes a table, leaves of 4 KiB, 2 MiB and \
                               1 GiB; 4 or 5 levels.";
    const LEVELS: RangeInclusive<u8> = 4..=5;

    type Params = NoParams;
    type Entries = X86Entries;
    type Tables = Radix<Self>;

    fn new(levels: u8, _: Option<&NoParams>) -> Self {
        Self { levels }
    }

    #[inline(always)]
    fn depth(self) -> u8 {
        self.levels
    }
}

impl Entries for X86Entries {
    #[inline(always)]
    fn decode(bits: u64, level: u8) -> Entry {
        if bits & P == 0 {
            Entry::Nothing
        } else if level > 1 && bits & PS == 0 {
            Entry::Table(FIELDS.frame_of(bits).addr(), FIELDS.rights(bits))
        } else if level > HIGHEST_LEAF {
            // PS above level 3 is reserved: a page fault on hardware too.
            Entry::Nothing
        } else {
            Entry::Leaf(FIELDS.leaf(bits, geometry::covers(level)))
        }
    }

    fn leaf(leaf: &Leaf) -> u64 {
        FIELDS.bits(leaf) | if leaf.order == PageOrder::P4K { 0 } else { PS }
    }

    /// Every right, so that the leaves alone decide (as Linux's `_PAGE_TABLE`, arch/x86/include/asm/pgtable_types.h,
    /// which also sets A and D beforehand; hardware ignores D there).
    fn table(table: Pfn) -> u64 {
        P | RW | US | A | D | FIELDS.naming(table)
    }

    /// All levels have the bit, in the same place.
    #[inline(always)]
    fn accessed(bits: u64, _leaf: bool) -> u64 {
        bits | A
    }

    #[inline(always)]
    fn dirtied(bits: u64) -> u64 {
        bits | A | D
    }

    #[inline(always)]
    fn frame_of_alike(bits: u64, leaf: u64, order: PageOrder) -> Option<Pfn> {
        ((bits ^ leaf) & !FRAME == 0).then(|| FIELDS.frame_of(bits).align_down(order))
    }
}

/// What an entry maps at `level`, if anything.
#[inline(always)]
pub fn decode_leaf(bits: u64, level: u8) -> Option<Leaf> {
    match X86Entries::decode(bits, level) {
        Entry::Leaf(leaf) => Some(leaf),
        Entry::Nothing | Entry::Table(..) => None,
    }
}

/// The bits of a leaf at its level.
pub fn encode_leaf(leaf: &Leaf) -> u64 {
    X86Entries::leaf(leaf)
}

/// The bits of an entry that points to a table.
pub fn encode_table(table: Pfn) -> u64 {
    X86Entries::table(table)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Next, Rights, Step};
    use mmulab_addr::{PhysAddr, Prot, VirtAddr};

    const X86: X86 = X86 { levels: 4 };

    #[test]
    fn entries_have_the_manuals_bits() {
        let leaf = Leaf {
            pfn: Pfn(0x12345),
            order: PageOrder::P4K,
            prot: Prot::RW,
            user: true,
            accessed: true,
            dirty: true,
            global: false,
        };
        assert_eq!(X86Entries::leaf(&leaf), 0x8000_0000_1234_5067);
        assert_eq!(X86.decode_leaf(0x8000_0000_1234_5067, 1), Some(leaf));
        let huge = Leaf { pfn: Pfn(0x200), order: PageOrder::P2M, prot: Prot::RX, dirty: false, global: true, ..leaf };
        assert_eq!(X86Entries::leaf(&huge), 0x20_01a5);
        assert_eq!(X86.decode_leaf(0x20_01a5, 2), Some(huge));
        assert_eq!(X86.decode_leaf(0x20_01a5, 4), None);
    }

    #[test]
    fn rights_are_the_least_of_all_levels() {
        let va = VirtAddr::new(0);
        let read_only_table = (X86Entries::table(Pfn(7)) & !RW) | XD;
        let step = Step { level: 2, covers: geometry::covers(2), entry: PhysAddr(0), rights: Rights::ALL };
        let Next::Table(below) = X86.next(read_only_table, step, va) else { panic!("a table") };
        let bits = P | RW | US | (9 << 12);
        let Next::Leaf(leaf) = X86.next(bits, below, va) else { panic!("a leaf") };
        assert_eq!(leaf.prot, Prot::R);
        assert_eq!(leaf.pfn, Pfn(9));
    }
}
