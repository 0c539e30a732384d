//! The shape of a tree of tables, by its granule. This is the size of a base page, and of a table as well. Entries take
//! 8 bytes, so the granule decides how many bits of the address each level translates. Intel SDM vol. 3A, section 4.5,
//! and Sv39 to Sv57 have 4 KiB; Arm ARM, section D8.2, has 4, 16 or 64 KiB. Levels count from the leaves.
//!
//! ```text
//! granule    entries    level     4          3          2          1
//!  4 KiB         512    covers    512G       1G         2M         4K      (5 levels: 256T)
//! 16 KiB        2048    covers    128T       64G        32M        16K     level 4 has two entries
//! 64 KiB        8192    covers               4T         512M       64K     level 3 has 64 entries
//! ```

use crate::{
    Next, Rights, Step,
    entry::{Entries, Entry},
};
use mmulab_addr::{PageOrder, PhysAddr, VirtAddr};

/// log2 of the bytes of an entry.
const ENTRY_SHIFT: u32 = 3;
/// Bytes of an entry.
pub const ENTRY_BYTES: u64 = 1 << ENTRY_SHIFT;
/// Bits of an address that trees of larger granules translate at most (without FEAT_LPA2 and FEAT_LVA).
const ADDRESS_BITS: u32 = 48;

/// The granule of a tree.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Granule(PageOrder);

impl Granule {
    /// 4 KiB: x86-64's, RISC-V's, and one of Arm's.
    pub const K4: Self = Self(PageOrder::P4K);
    /// 16 KiB.
    pub const K16: Self = Self(PageOrder::P16K);
    /// 64 KiB.
    pub const K64: Self = Self(PageOrder::P64K);

    /// The size of a base page, and of a table.
    pub const fn base(self) -> PageOrder {
        self.0
    }

    /// Bits of index of a level.
    const fn index_bits(self) -> u32 {
        self.0.shift() - ENTRY_SHIFT
    }

    /// Entries of a table.
    pub const fn entries(self) -> u64 {
        1 << self.index_bits()
    }

    /// Bits of a virtual address that a tree of `levels` translates.
    pub const fn address_bits(self, levels: u8) -> u8 {
        let bits = self.0.shift() + self.index_bits() * levels as u32;
        let is_cut = self.0.get() > PageOrder::P4K.get() && bits > ADDRESS_BITS;
        if is_cut { ADDRESS_BITS as u8 } else { bits as u8 }
    }

    /// The memory one entry of `level` spans.
    #[inline(always)]
    pub const fn covers(self, level: u8) -> PageOrder {
        PageOrder::new(self.0.get() + (level - 1) * self.index_bits() as u8)
    }

    /// Entries of the table at the top of a tree of `levels`: fewer, where its addresses end before its indices do.
    pub const fn top_entries(self, levels: u8) -> u64 {
        1 << (self.address_bits(levels) as u32 - self.covers(levels).shift())
    }

    /// The entry for `va` in the table of `level` at `table`.
    #[inline(always)]
    pub fn entry(self, table: PhysAddr, level: u8, va: VirtAddr) -> PhysAddr {
        let index = (va.raw() >> self.covers(level).shift()) & (self.entries() - 1);
        PhysAddr(table.0 + index * ENTRY_BYTES)
    }

    /// The table that the entry at `at` lies in.
    #[inline(always)]
    pub const fn table_of(self, at: PhysAddr) -> PhysAddr {
        PhysAddr(at.0 & !(self.0.bytes() - 1))
    }

    /// The first entry of a walk in a tree of `levels`.
    #[inline(always)]
    pub fn start(self, levels: u8, root: PhysAddr, va: VirtAddr) -> Step {
        let covers = self.covers(levels);
        let index = (va.raw() >> covers.shift()) & (self.top_entries(levels) - 1);
        Step { level: levels, covers, entry: PhysAddr(root.0 + index * ENTRY_BYTES), rights: Rights::ALL }
    }

    /// Meaning of the bits of the entry at `step` for `va`. It is a page with the rights that all levels grant, or the
    /// entry to read in the table that the bits point to.
    #[inline(always)]
    pub fn next<E: Entries>(self, bits: u64, step: Step, va: VirtAddr) -> Next {
        match E::decode(bits, step.level) {
            Entry::Nothing => Next::NotPresent,
            Entry::Leaf(leaf) => Next::Leaf(leaf.within(step.rights)),
            Entry::Table(table, rights) => {
                let level = step.level - 1;
                let rights = step.rights.and(rights);
                Next::Table(Step { level, covers: self.covers(level), entry: self.entry(table, level, va), rights })
            }
        }
    }
}

/// Whether every bit above the lowest `bits` of an address is a copy of the highest of these.
pub const fn is_sign_extended(bits: u8, va: u64) -> bool {
    let shift = 64 - bits as u32;
    ((va << shift) as i64 >> shift) as u64 == va
}

/// The memory that one entry of `level` spans with a granule of 4 KiB.
#[inline(always)]
pub const fn covers(level: u8) -> PageOrder {
    Granule::K4.covers(level)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indices_are_nine_bits_a_level() {
        let va = VirtAddr::new((5 << 48) | (1 << 39) | (2 << 30) | (3 << 21) | (4 << 12));
        let at = |level| Granule::K4.entry(PhysAddr(0), level, va).0 / 8;
        assert_eq!([at(5), at(4), at(3), at(2), at(1)], [5, 1, 2, 3, 4]);
    }

    /// Arm ARM, section D8.2.6: 11 and 13 bits a level, and what is left of 48 bits at the top.
    #[test]
    fn larger_granules_have_more_entries_and_a_smaller_top() {
        let sizes = |granule: Granule| [1, 2, 3].map(|level| granule.covers(level).to_string());
        assert_eq!(sizes(Granule::K16), ["16K", "32M", "64G"]);
        assert_eq!(sizes(Granule::K64), ["64K", "512M", "4T"]);
        let of = |granule: Granule, levels| (granule.address_bits(levels), granule.top_entries(levels));
        assert_eq!([of(Granule::K16, 3), of(Granule::K16, 4), of(Granule::K64, 3)], [(47, 2048), (48, 2), (48, 64)]);
        // The upper half of addresses begins at the first entry of its own tree.
        let upper = VirtAddr::new(u64::MAX << 48);
        assert_eq!(Granule::K64.start(3, PhysAddr(0x10000), upper).entry, PhysAddr(0x10000));
        assert_eq!(Granule::K16.start(4, PhysAddr(0x4000), VirtAddr::new(1 << 47)).entry, PhysAddr(0x4008));
    }
}
