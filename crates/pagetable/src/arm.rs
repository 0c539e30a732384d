//! The parts that Armv8's three page-table formats have in common: VMSAv8-64 stage 1 (Arm Architecture Reference Manual
//! for A-profile, section D8.3, "VMSAv8-64 descriptors"). They differ in the granule, which [`ArmGranule`] states. All
//! have the Contiguous bit (D8.7.1) and hardware updates of access flag and dirty state (FEAT_HAFDBS, D8.5). Levels are
//! counted from the leaves, so level 1 here is Arm's level 3.
//!
//! ```text
//! bit      55        54   52          51    47..12          11   10   9..8   7      6      1       0
//! page     SW dirty  UXN  Contiguous  DBM   frame number    nG   AF   SH     AP[2]  AP[1]  1       valid
//! block    SW dirty  UXN  Contiguous  DBM   frame number    nG   AF   SH     AP[2]  AP[1]  0       valid
//! table                                     frame number                                   1       valid
//! ```
//!
//! With a granule of 16 or 64 KiB, bits 13..12 or 15..12 are zero. A page may take several contiguous entries, each of
//! which names its own part. With a granule of 4 KiB, one of 64 KiB takes 16 page entries. One of 32 MiB takes 16
//! blocks of 2 MiB.

use crate::{
    Leaf, Rights, Root, Step,
    entry::{Entries, Entry, Fields, Mark},
    geometry::{self, Granule},
    radix::Radix,
    table_format::{Group, NoParams, TableFormat},
};
use mmulab_addr::{PageOrder, Pfn, Prot, VirtAddr};
use std::marker::PhantomData;
use std::ops::RangeInclusive;

/// The constants of a granule.
pub trait ArmGranule: Copy {
    /// Name of its format in machine files.
    const NAME: &'static str;
    /// Description of its format.
    const DOC: &'static str;
    /// The granule.
    const GRANULE: Granule;
    /// The numbers of levels that translate 39 to 48 bits.
    const LEVELS: RangeInclusive<u8>;
    /// The highest level that has blocks.
    const HIGHEST_LEAF: u8;
    /// Entries that can be contiguous, as far as systems use them.
    const GROUPS: &'static [Group];
}

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

/// Armv8's radix tree with a granule.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ArmTree<G> {
    levels: u8,
    granule: PhantomData<G>,
}

/// Entries of Armv8.
pub struct ArmEntries<G>(PhantomData<G>);

/// The group whose page is of `order`, if it takes several entries.
#[inline(always)]
fn group_of<G: ArmGranule>(order: PageOrder) -> Option<Group> {
    G::GROUPS.iter().copied().find(|group| G::GRANULE.covers(group.level).get() + group.log == order.get())
}

impl<G: ArmGranule> TableFormat for ArmTree<G> {
    const NAME: &'static str = G::NAME;
    const DOC: &'static str = G::DOC;
    const LEVELS: RangeInclusive<u8> = G::LEVELS;
    const GRANULE: Granule = G::GRANULE;
    const HIGHEST_LEAF: u8 = G::HIGHEST_LEAF;
    const GROUPS: &'static [Group] = G::GROUPS;
    const HAS_UPPER_TREE: bool = true;

    type Params = NoParams;
    type Entries = ArmEntries<G>;
    type Tables = Radix<Self>;

    fn new(levels: u8, _: Option<&NoParams>) -> Self {
        Self { levels, granule: PhantomData }
    }

    #[inline(always)]
    fn depth(self) -> u8 {
        self.levels
    }

    /// Programs also have the addresses without any bit above those translated: the kernel's have a table of their own
    /// (Arm ARM, D8.1, TTBR0_EL1 and TTBR1_EL1).
    fn is_canonical(self, va: u64) -> bool {
        let bits = self.address_bits();
        va >> bits == 0 || geometry::is_sign_extended(bits, va)
    }

    #[inline(always)]
    fn start(self, root: Root, va: VirtAddr) -> Step {
        G::GRANULE.start(self.levels, root.of(va), va)
    }

    fn part(self, leaf: &Leaf, part: u64) -> u64 {
        let pages = leaf.order.base_pages() >> group_of::<G>(leaf.order).map_or(0, |group| group.log);
        ArmEntries::<G>::leaf(&Leaf { pfn: Pfn(leaf.pfn.0 + part * pages), ..*leaf })
    }
}

impl<G: ArmGranule> Entries for ArmEntries<G> {
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
        // Pages have the bit that blocks have not.
        if (bits & TABLE != 0) != (level == 1) || level > G::HIGHEST_LEAF {
            return Entry::Nothing;
        }
        let group = G::GROUPS.iter().find(|group| bits & CONTIGUOUS != 0 && group.level == level);
        let order = PageOrder::new(G::GRANULE.covers(level).get() + group.map_or(0, |group| group.log));
        let leaf = FIELDS.leaf(bits, order);
        let prot = if bits & RDONLY == 0 { leaf.prot.with(Prot::W) } else { leaf.prot };
        Entry::Leaf(Leaf { prot, dirty: leaf.dirty || bits & SW_DIRTY != 0, ..leaf })
    }

    /// A page that can be written and is clean is read-only with DBM set; a store clears AP[2].
    fn leaf(leaf: &Leaf) -> u64 {
        let bit = |on: bool, bit: u64| if on { bit } else { 0 };
        let (write, group) = (leaf.prot.has(Prot::W), group_of::<G>(leaf.order));
        let is_page = leaf.order == G::GRANULE.base() || group.is_some_and(|group| group.level == 1);
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
    use crate::formats::{arm::Arm, arm16k::Arm16k, arm64k::Arm64k};
    use mmulab_addr::PhysAddr;

    const ARM: Arm = Arm { levels: 4, granule: PhantomData };
    const ARM_16K: Arm16k = Arm16k { levels: 4, granule: PhantomData };
    const ARM_64K: Arm64k = Arm64k { levels: 3, granule: PhantomData };
    type ArmEntries = super::ArmEntries<crate::formats::arm::K4>;

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

    /// Arm ARM, D8.7.1: 128 pages or 32 blocks of a granule of 16 KiB are contiguous, 32 of either with 64 KiB.
    #[test]
    fn larger_granules_have_larger_groups() {
        fn check<G: ArmGranule>(arm: ArmTree<G>, order: PageOrder, level: u8, entries: u64) {
            assert_eq!(arm.leaf_at(order), Some((level, entries as u32)));
            let large = leaf(order, 3 << order.get());
            for part in [0, entries / 2, entries - 1] {
                let bits = arm.part(&large, part);
                let pages = order.base_pages() / entries;
                assert_eq!(bits & FRAME, Pfn((3 << order.get()) + part * pages).addr().0);
                assert_eq!((bits & CONTIGUOUS != 0, bits & TABLE != 0), (entries > 1, level == 1));
                assert_eq!(arm.decode_leaf(bits, level), Some(large));
            }
        }
        for (order, level, entries) in [(2, 1, 1), (9, 1, 128), (13, 2, 1), (18, 2, 32)] {
            check(ARM_16K, PageOrder::new(order), level, entries);
        }
        for (order, level, entries) in [(4, 1, 1), (9, 1, 32), (17, 2, 1), (22, 2, 32)] {
            check(ARM_64K, PageOrder::new(order), level, entries);
        }
        assert_eq!((ARM_16K.leaf_at(PageOrder::P4K), ARM_64K.leaf_at(PageOrder::P1G)), (None, None));
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
