//! Armv8 entries: VMSAv8-64 stage 1 with 4 KiB granule (Arm Architecture Reference Manual for A-profile, section D8.3,
//! "VMSAv8-64 descriptors"), with the Contiguous bit (D8.7.1) and hardware updates of access flag and dirty state
//! (FEAT_HAFDBS, D8.5). Levels are counted from the leaves, so level 1 here is Arm's level 3.

use crate::{Leaf, Next, Step, x86};
use mmulab_addr::{PageOrder, Pfn, PhysAddr, Prot, VirtAddr};

/// Valid.
const VALID: u64 = 1;
/// A table, or at the last level a page; elsewhere without it a block.
const TABLE: u64 = 1 << 1;
/// AP[1]: unprivileged access.
const USER: u64 = 1 << 6;
/// AP[2]: read-only. With DBM, writable and clean.
const RDONLY: u64 = 1 << 7;
/// SH: inner shareable, as Linux maps memory.
const SHARED: u64 = 3 << 8;
/// Access flag.
const AF: u64 = 1 << 10;
/// Not global.
const NG: u64 = 1 << 11;
/// The output address: bits 47..12.
const FRAME: u64 = 0x0000_ffff_ffff_f000;
/// Dirty bit modifier: a store clears AP[2] instead of faulting.
const DBM: u64 = 1 << 51;
/// One of 16 entries that map consecutive memory.
const CONTIGUOUS: u64 = 1 << 52;
/// Execute-never, unprivileged.
const UXN: u64 = 1 << 54;
/// Dirty, as Linux keeps it of pages that may not be written any more: a bit that is software's (PTE_DIRTY,
/// arch/arm64/include/asm/pgtable-prot.h).
const SW_DIRTY: u64 = 1 << 55;

/// log2 of the entries that a contiguous page takes at `level` with this granule. (1 GiB blocks can be contiguous too;
/// no system uses that.)
pub const fn group_at(level: u8) -> u8 {
    if level < x86::HIGHEST_LEAF { 4 } else { 0 }
}

#[inline(always)]
pub fn next(bits: u64, step: Step, va: VirtAddr) -> Next {
    if bits & VALID == 0 {
        return Next::NotPresent;
    }
    if step.level == 1 || bits & TABLE == 0 {
        return decode_leaf(bits, step.level).map_or(Next::NotPresent, Next::Leaf);
    }
    let level = step.level - 1;
    let entry = x86::entry(PhysAddr(bits & FRAME), level, va);
    // The kernel leaves APTable, UXNTable and PXNTable clear, and they may be disabled (TCR_EL1.HPD): leaves decide.
    Next::Table(Step { level, covers: x86::covers(level), entry, rights: step.rights })
}

#[inline(always)]
pub fn decode_leaf(bits: u64, level: u8) -> Option<Leaf> {
    // Pages have the bit that blocks have not; there are no blocks above 1 GiB.
    if bits & VALID == 0 || (bits & TABLE != 0) != (level == 1) || level > x86::HIGHEST_LEAF {
        return None;
    }
    let plain = x86::covers(level);
    let order = if bits & CONTIGUOUS != 0 { PageOrder::new(plain.get() + group_at(level)) } else { plain };
    let writable = bits & RDONLY == 0 || bits & DBM != 0;
    let right = |on: bool, prot: Prot| if on { prot.bits() } else { 0 };
    Some(Leaf {
        pfn: Pfn((bits & FRAME) >> 12).align_down(order),
        order,
        prot: Prot::from_bits(Prot::R.bits() | right(writable, Prot::W) | right(bits & UXN == 0, Prot::X)),
        user: bits & USER != 0,
        accessed: bits & AF != 0,
        dirty: bits & RDONLY == 0 || bits & SW_DIRTY != 0,
        global: bits & NG == 0,
    })
}

/// The bits with the access flag set; tables have none.
#[inline(always)]
pub const fn accessed(bits: u64, leaf: bool) -> u64 {
    if leaf { bits | AF } else { bits }
}

/// The bits with the access flag set, and dirty.
#[inline(always)]
pub const fn dirtied(bits: u64) -> u64 {
    (bits | AF) & !RDONLY
}

/// Where a page of `order` has its leaf, and how many entries that takes.
pub fn leaf_at(order: PageOrder) -> Option<(u8, u32)> {
    match order {
        PageOrder::P64K => Some((1, 1 << group_at(1))),
        PageOrder::P32M => Some((2, 1 << group_at(2))),
        order => (1..=x86::HIGHEST_LEAF).find(|&level| x86::covers(level) == order).map(|level| (level, 1)),
    }
}

/// The bits of entry number `part` of a leaf.
pub fn encode_leaf(leaf: &Leaf, part: u64) -> u64 {
    let bit = |on: bool, bit: u64| if on { bit } else { 0 };
    let (level, entries) = leaf_at(leaf.order).unwrap_or((1, 1));
    let pages = leaf.order.base_pages() / u64::from(entries);
    let write = leaf.prot.has(Prot::W);
    VALID
        | bit(level == 1, TABLE)
        | bit(entries > 1, CONTIGUOUS)
        | Pfn(leaf.pfn.0 + part * pages).addr().0
        | SHARED
        | bit(leaf.user, USER)
        | bit(!(write && leaf.dirty), RDONLY)
        | bit(write, DBM)
        | bit(leaf.dirty && !write, SW_DIRTY)
        | bit(leaf.accessed, AF)
        | bit(!leaf.global, NG)
        | bit(!leaf.prot.has(Prot::X), UXN)
}

/// The bits of an entry that points to a table.
pub fn encode_table(table: Pfn) -> u64 {
    VALID | TABLE | table.addr().0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Rights;

    fn leaf(order: PageOrder, pfn: u64) -> Leaf {
        Leaf { pfn: Pfn(pfn), order, prot: Prot::RW, user: true, accessed: true, dirty: true, global: false }
    }

    #[test]
    fn entries_have_the_manuals_bits() {
        // UXN, DBM, nG, AF, SH, AP[1], page, valid.
        assert_eq!(encode_leaf(&leaf(PageOrder::P4K, 0x12345), 0), 0x0048_0000_1234_5f43);
        assert_eq!(decode_leaf(0x0048_0000_1234_5f43, 1), Some(leaf(PageOrder::P4K, 0x12345)));
        // A block has bit 1 clear.
        assert_eq!(encode_leaf(&leaf(PageOrder::P2M, 0x200), 0), 0x0048_0000_0020_0f41);
        assert_eq!(decode_leaf(0x0048_0000_0020_0f41, 2), Some(leaf(PageOrder::P2M, 0x200)));
        assert_eq!(encode_table(Pfn(0x777)), 0x77_7003);
        for (prot, dirty) in [(Prot::R, false), (Prot::R, true), (Prot::RX, false), (Prot::RW, false)] {
            let leaf = Leaf { prot, dirty, ..leaf(PageOrder::P4K, 7) };
            assert_eq!(decode_leaf(encode_leaf(&leaf, 0), 1), Some(leaf));
        }
    }

    #[test]
    fn a_store_clears_the_read_only_bit_of_what_is_writable_and_clean() {
        let clean = encode_leaf(&Leaf { accessed: false, dirty: false, ..leaf(PageOrder::P4K, 7) }, 0);
        assert_eq!((clean & RDONLY != 0, clean & DBM != 0, clean & AF), (true, true, 0));
        assert_eq!(decode_leaf(dirtied(clean), 1), Some(leaf(PageOrder::P4K, 7)));
        assert_eq!((accessed(clean, true), accessed(3, false)), (clean | AF, 3));
    }

    #[test]
    fn contiguous_entries_map_consecutive_parts_of_one_page() {
        for (order, level, pages) in [(PageOrder::P64K, 1, 1), (PageOrder::P32M, 2, 512)] {
            let large = leaf(order, 3 << 13);
            for part in 0..16 {
                let bits = encode_leaf(&large, part);
                assert_eq!(bits & FRAME, Pfn((3 << 13) + part * pages).addr().0);
                assert_eq!(bits & CONTIGUOUS, CONTIGUOUS);
                assert_eq!(decode_leaf(bits, level), Some(large));
            }
        }
    }

    #[test]
    fn what_is_reserved_faults() {
        let step = |level| Step { level, covers: x86::covers(level), entry: PhysAddr(0), rights: Rights::ALL };
        let at = |bits, level| next(bits, step(level), VirtAddr::new(0));
        assert_eq!(at(0x5000 | VALID, 1), Next::NotPresent, "a block at the last level");
        assert_eq!(at(VALID, 4), Next::NotPresent, "a block of 512 GiB");
        assert!(matches!(at(0x5003, 4), Next::Table(Step { level: 3, entry: PhysAddr(0x5000), .. })));
    }
}
