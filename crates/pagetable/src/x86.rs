//! Entries of x86-64 (Intel SDM vol. 3A, tables 4-14 to 4-20; the same in the AMD64 APM vol. 2, section 5.3).
//! The radix tree has them, and so have Compendia, hashed tables and tailored page sizes.
//!
//! ```text
//! bit     63   62..52    51..12          11..9     8   7    6   5   4..3     2    1    0
//! PTE     XD   ignored   frame number    ignored   G   PAT  D   A   caching  US   RW   P
//! PDE     XD   ignored   frame number    ignored   G   PS   D   A   caching  US   RW   P     PS: maps 2M or 1G
//! ```

use crate::{
    Leaf,
    entry::{Entries, Entry, Fields, Mark},
    geometry,
};
use mmulab_addr::{PageOrder, Pfn};

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

/// Where entries have their fields. Every present page can be read.
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

/// Entries of x86-64.
pub struct X86Entries;

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

/// The page that an entry maps at `level`, if any.
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
