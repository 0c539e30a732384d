//! x86-64 entries (Intel SDM vol. 3A, tables 4-14 to 4-20; the same in the AMD64 APM vol. 2, section 5.3).

use crate::{Leaf, Next, Rights, Step};
use mmulab_addr::{PageOrder, Pfn, PhysAddr, Prot, VirtAddr};

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
/// The frame number's place: bits 51..12.
pub const FRAME: u64 = 0x000f_ffff_ffff_f000;

/// 1 GiB leaves at level 3 are the largest.
pub const HIGHEST_LEAF: u8 = 3;
/// Bytes of a table.
pub const TABLE_BYTES: u64 = 4096;
/// Bits of index per level.
const INDEX_BITS: u32 = 9;

/// The memory one entry of `level` spans.
#[inline(always)]
pub const fn covers(level: u8) -> PageOrder {
    PageOrder::new((level - 1) * INDEX_BITS as u8)
}

/// The level of the leaf of a page of `order`.
#[inline]
pub fn leaf_level(order: PageOrder) -> Option<u8> {
    (1..=HIGHEST_LEAF).find(|&level| covers(level) == order)
}

/// The entry for `va` in the table of `level` at `table`.
#[inline(always)]
pub fn entry(table: PhysAddr, level: u8, va: VirtAddr) -> PhysAddr {
    let index = (va.raw() >> covers(level).shift()) & ((1 << INDEX_BITS) - 1);
    PhysAddr(table.0 + index * 8)
}

#[inline(always)]
pub fn start(levels: u8, root: PhysAddr, va: VirtAddr) -> Step {
    Step { level: levels, covers: covers(levels), entry: entry(root, levels, va), rights: Rights::ALL }
}

/// What an entry grants.
#[inline(always)]
pub fn rights(bits: u64) -> Rights {
    let write = if bits & RW != 0 { Prot::W.bits() } else { 0 };
    let execute = if bits & XD == 0 { Prot::X.bits() } else { 0 };
    Rights { prot: Prot::from_bits(Prot::R.bits() | write | execute), user: bits & US != 0 }
}

#[inline(always)]
pub fn next(bits: u64, step: Step, va: VirtAddr) -> Next {
    if bits & P == 0 {
        return Next::NotPresent;
    }
    if step.level == 1 || bits & PS != 0 {
        return match decode_leaf(bits, step.level) {
            Some(leaf) => {
                let rights = step.rights.and(Rights { prot: leaf.prot, user: leaf.user });
                Next::Leaf(Leaf { prot: rights.prot, user: rights.user, ..leaf })
            }
            // PS above level 3 is reserved: a page fault on hardware too.
            None => Next::NotPresent,
        };
    }
    let level = step.level - 1;
    Next::Table(Step {
        level,
        covers: covers(level),
        entry: entry(PhysAddr(bits & FRAME), level, va),
        rights: step.rights.and(rights(bits)),
    })
}

#[inline(always)]
pub fn decode_leaf(bits: u64, level: u8) -> Option<Leaf> {
    if bits & P == 0 || (level > 1 && bits & PS == 0) || level > HIGHEST_LEAF {
        return None;
    }
    let order = covers(level);
    let Rights { prot, user } = rights(bits);
    Some(Leaf {
        // Bit 12 of a large leaf is its PAT bit, and those above it up to the page's size are reserved.
        pfn: Pfn((bits & FRAME) >> 12).align_down(order),
        order,
        prot,
        user,
        accessed: bits & A != 0,
        dirty: bits & D != 0,
        global: bits & G != 0,
    })
}

/// The frame of an entry that is like `leaf`, one of a page of `order`, in all but the frame.
#[inline(always)]
pub fn frame_of_alike(bits: u64, leaf: u64, order: PageOrder) -> Option<Pfn> {
    ((bits ^ leaf) & !FRAME == 0).then(|| Pfn((bits & FRAME) >> 12).align_down(order))
}

/// The bits of a leaf at its level.
pub fn encode_leaf(leaf: &Leaf) -> u64 {
    let bit = |on: bool, bit: u64| if on { bit } else { 0 };
    P | leaf.pfn.addr().0
        | bit(leaf.prot.has(Prot::W), RW)
        | bit(!leaf.prot.has(Prot::X), XD)
        | bit(leaf.user, US)
        | bit(leaf.accessed, A)
        | bit(leaf.dirty, D)
        | bit(leaf.global, G)
        | bit(leaf.order != PageOrder::P4K, PS)
}

/// The bits of an entry that points to a table: every right, so that the leaves alone decide (as Linux's
/// `_PAGE_TABLE`, arch/x86/include/asm/pgtable_types.h, which also sets A and D beforehand; hardware ignores D there).
pub fn encode_table(table: Pfn) -> u64 {
    P | RW | US | A | D | table.addr().0
}

#[cfg(test)]
mod tests {
    use super::*;

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
        assert_eq!(encode_leaf(&leaf), 0x8000_0000_1234_5067);
        assert_eq!(decode_leaf(0x8000_0000_1234_5067, 1), Some(leaf));
        let huge = Leaf { pfn: Pfn(0x200), order: PageOrder::P2M, prot: Prot::RX, dirty: false, global: true, ..leaf };
        assert_eq!(encode_leaf(&huge), 0x20_01a5);
        assert_eq!(decode_leaf(0x20_01a5, 2), Some(huge));
        assert_eq!(decode_leaf(0x20_01a5, 4), None);
    }

    #[test]
    fn indices_are_nine_bits_a_level() {
        let va = VirtAddr::new((5 << 48) | (1 << 39) | (2 << 30) | (3 << 21) | (4 << 12));
        let at = |level| entry(PhysAddr(0), level, va).0 / 8;
        assert_eq!([at(5), at(4), at(3), at(2), at(1)], [5, 1, 2, 3, 4]);
    }

    #[test]
    fn rights_are_the_least_of_all_levels() {
        let va = VirtAddr::new(0);
        let read_only_table = (encode_table(Pfn(7)) & !RW) | XD;
        let step = Step { level: 2, covers: covers(2), entry: PhysAddr(0), rights: Rights::ALL };
        let Next::Table(below) = next(read_only_table, step, va) else { panic!("a table") };
        let bits = P | RW | US | (9 << 12);
        let Next::Leaf(leaf) = next(bits, below, va) else { panic!("a leaf") };
        assert_eq!(leaf.prot, Prot::R);
        assert_eq!(leaf.pfn, Pfn(9));
    }
}
