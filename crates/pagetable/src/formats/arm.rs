//! Armv8: VMSAv8-64 stage 1 with 4 KiB granule (Arm Architecture Reference Manual for A-profile, section D8.3,
//! "VMSAv8-64 descriptors"). It has the Contiguous bit (D8.7.1) and hardware updates of access flag and dirty state
//! (FEAT_HAFDBS, D8.5). Levels are counted from the leaves, so level 1 here is Arm's level 3.
//!
//! ```text
//! bit      55        54   52          51    47..12          11   10   9..8   7      6      1       0
//! page     SW dirty  UXN  Contiguous  DBM   frame number    nG   AF   SH     AP[2]  AP[1]  1       valid
//! block    SW dirty  UXN  Contiguous  DBM   frame number    nG   AF   SH     AP[2]  AP[1]  0       valid
//! table                                     frame number                                   1       valid
//! ```
//!
//! A page of 64 KiB takes 16 page entries, one of 32 MiB takes 16 blocks of 2 MiB; each names its own part.

use crate::{
    Leaf, Rights, Root, Step,
    entry::{Entries, Entry, Fields, Mark},
    geometry,
    radix::Radix,
    table_format::{Group, NoParams, TableFormat},
};
use mmulab_addr::{PageOrder, Pfn, Prot, VirtAddr};
use std::ops::RangeInclusive;

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

/// Blocks of 1 GiB at level 3 are the largest.
const HIGHEST_LEAF: u8 = 3;

/// Where entries have their fields; AP[2] and DBM together decide two of them. Every valid page can be read.
const FIELDS: Fields = Fields {
    valid: VALID,
    frame: FRAME,
    readable: Mark::Always,
    writable: Mark::Set(DBM),
    executable: Mark::Clear(UXN),
    user: Mark::Set(USER),
    accessed: Mark::Set(AF),
    dirty: Mark::Clear(RDONLY),
    global: Mark::Clear(NG),
};

/// Armv8's radix tree.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Arm {
    levels: u8,
}

/// Entries of Armv8.
pub struct ArmEntries;

/// The group whose page is of `order`, if it takes several entries.
#[inline(always)]
fn group_of(order: PageOrder) -> Option<Group> {
    Arm::GROUPS.iter().copied().find(|group| geometry::covers(group.level).get() + group.log == order.get())
}

impl TableFormat for Arm {
    const NAME: &'static str = "armv8-4k";
    const DOC: &'static str = "Armv8's radix tree with 4 KiB granule: leaves of 4 KiB, 2 MiB and 1 GiB, and of 64 KiB \
                               and 32 MiB (Contiguous bit); 3 or 4 levels.";
    const LEVELS: RangeInclusive<u8> = 3..=4;
    const HIGHEST_LEAF: u8 = HIGHEST_LEAF;
    /// Blocks of 1 GiB can be contiguous too; no system uses that.
    const GROUPS: &'static [Group] = &[Group { level: 1, log: 4 }, Group { level: 2, log: 4 }];
    const HAS_UPPER_TREE: bool = true;

    type Params = NoParams;
    type Entries = ArmEntries;
    type Tables = Radix<Self>;

    fn new(levels: u8, _: Option<&NoParams>) -> Self {
        Self { levels }
    }

    #[inline(always)]
    fn depth(self) -> u8 {
        self.levels
    }

    /// Programs also have the addresses without any bit above those translated: the kernel's have a table of their own
    /// (Arm ARM, D8.1, TTBR0_EL1 and TTBR1_EL1).
    fn is_canonical(self, va: u64) -> bool {
        va >> geometry::address_bits(self.levels) == 0 || geometry::is_sign_extended(self.levels, va)
    }

    #[inline(always)]
    fn start(self, root: Root, va: VirtAddr) -> Step {
        geometry::start(self.levels, root.of(va), va)
    }

    fn part(self, leaf: &Leaf, part: u64) -> u64 {
        let pages = leaf.order.base_pages() >> group_of(leaf.order).map_or(0, |group| group.log);
        ArmEntries::leaf(&Leaf { pfn: Pfn(leaf.pfn.0 + part * pages), ..*leaf })
    }
}

impl Entries for ArmEntries {
    #[inline(always)]
    fn decode(bits: u64, level: u8) -> Entry {
        if bits & VALID == 0 {
            return Entry::Nothing;
        }
        if level > 1 && bits & TABLE != 0 {
            // The kernel leaves APTable, UXNTable and PXNTable clear, and they may be disabled (TCR_EL1.HPD): leaves
            // decide.
            return Entry::Table(FIELDS.frame_of(bits).addr(), Rights::ALL);
        }
        // Pages have the bit that blocks have not; there are no blocks above 1 GiB.
        if (bits & TABLE != 0) != (level == 1) || level > HIGHEST_LEAF {
            return Entry::Nothing;
        }
        let group = Arm::GROUPS.iter().find(|group| bits & CONTIGUOUS != 0 && group.level == level);
        let order = PageOrder::new(geometry::covers(level).get() + group.map_or(0, |group| group.log));
        let leaf = FIELDS.leaf(bits, order);
        let prot = if bits & RDONLY == 0 { leaf.prot.with(Prot::W) } else { leaf.prot };
        Entry::Leaf(Leaf { prot, dirty: leaf.dirty || bits & SW_DIRTY != 0, ..leaf })
    }

    /// A page that can be written and is clean is read-only with DBM set; a store clears AP[2].
    fn leaf(leaf: &Leaf) -> u64 {
        let bit = |on: bool, bit: u64| if on { bit } else { 0 };
        let (write, group) = (leaf.prot.has(Prot::W), group_of(leaf.order));
        let is_page = leaf.order == PageOrder::P4K || group.is_some_and(|group| group.level == 1);
        FIELDS.bits(&Leaf { dirty: write && leaf.dirty, ..*leaf })
            | SHARED
            | bit(is_page, TABLE)
            | bit(group.is_some(), CONTIGUOUS)
            | bit(leaf.dirty && !write, SW_DIRTY)
    }

    fn table(table: Pfn) -> u64 {
        VALID | TABLE | FIELDS.naming(table)
    }

    /// Tables have no access flag.
    #[inline(always)]
    fn accessed(bits: u64, leaf: bool) -> u64 {
        if leaf { bits | AF } else { bits }
    }

    #[inline(always)]
    fn dirtied(bits: u64) -> u64 {
        (bits | AF) & !RDONLY
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Next;
    use mmulab_addr::PhysAddr;

    const ARM: Arm = Arm { levels: 4 };

    fn leaf(order: PageOrder, pfn: u64) -> Leaf {
        Leaf { pfn: Pfn(pfn), order, prot: Prot::RW, user: true, accessed: true, dirty: true, global: false }
    }

    #[test]
    fn entries_have_the_manuals_bits() {
        // UXN, DBM, nG, AF, SH, AP[1], page, valid.
        assert_eq!(ARM.part(&leaf(PageOrder::P4K, 0x12345), 0), 0x0048_0000_1234_5f43);
        assert_eq!(ARM.decode_leaf(0x0048_0000_1234_5f43, 1), Some(leaf(PageOrder::P4K, 0x12345)));
        // A block has bit 1 clear.
        assert_eq!(ARM.part(&leaf(PageOrder::P2M, 0x200), 0), 0x0048_0000_0020_0f41);
        assert_eq!(ARM.decode_leaf(0x0048_0000_0020_0f41, 2), Some(leaf(PageOrder::P2M, 0x200)));
        assert_eq!(ArmEntries::table(Pfn(0x777)), 0x77_7003);
        for (prot, dirty) in [(Prot::R, false), (Prot::R, true), (Prot::RX, false), (Prot::RW, false)] {
            let leaf = Leaf { prot, dirty, ..leaf(PageOrder::P4K, 7) };
            assert_eq!(ARM.decode_leaf(ARM.part(&leaf, 0), 1), Some(leaf));
        }
    }

    #[test]
    fn a_store_clears_the_read_only_bit_of_what_is_writable_and_clean() {
        let clean = ARM.part(&Leaf { accessed: false, dirty: false, ..leaf(PageOrder::P4K, 7) }, 0);
        assert_eq!((clean & RDONLY != 0, clean & DBM != 0, clean & AF), (true, true, 0));
        assert_eq!(ARM.decode_leaf(ArmEntries::dirtied(clean), 1), Some(leaf(PageOrder::P4K, 7)));
        assert_eq!((ArmEntries::accessed(clean, true), ArmEntries::accessed(3, false)), (clean | AF, 3));
    }

    #[test]
    fn contiguous_entries_map_consecutive_parts_of_one_page() {
        for (order, level, pages) in [(PageOrder::P64K, 1, 1), (PageOrder::P32M, 2, 512)] {
            let large = leaf(order, 3 << 13);
            for part in 0..16 {
                let bits = ARM.part(&large, part);
                assert_eq!(bits & FRAME, Pfn((3 << 13) + part * pages).addr().0);
                assert_eq!(bits & CONTIGUOUS, CONTIGUOUS);
                assert_eq!(ARM.decode_leaf(bits, level), Some(large));
            }
        }
    }

    #[test]
    fn what_is_reserved_faults() {
        let step = |level| Step { level, covers: geometry::covers(level), entry: PhysAddr(0), rights: Rights::ALL };
        let at = |bits, level| ARM.next(bits, step(level), VirtAddr::new(0));
        assert_eq!(at(0x5000 | VALID, 1), Next::NotPresent, "a block at the last level");
        assert_eq!(at(VALID, 4), Next::NotPresent, "a block of 512 GiB");
        assert!(matches!(at(0x5003, 4), Next::Table(Step { level: 3, entry: PhysAddr(0x5000), .. })));
    }
}
