//! The shape that all trees of tables share: 512 entries of 8 bytes in a frame of 4 KiB. So each level of the tree
//! translates 9 bits of the address (Intel SDM vol. 3A, section 4.5; the same in Sv39 to Sv57 and with Arm's 4 KiB
//! granule). Levels count from the leaves.
//!
//! ```text
//! level     5        4        3        2        1
//! va bits   56..48   47..39   38..30   29..21   20..12   11..0
//! covers    256T     512G     1G       2M       4K       offset in a page of 4 KiB
//! ```

use crate::{
    Next, Rights, Step,
    entry::{Entries, Entry},
};
use mmulab_addr::{PageOrder, PhysAddr, VirtAddr};

/// Bits of index per level.
const INDEX_BITS: u32 = 9;
/// Bytes of an entry.
pub const ENTRY_BYTES: u64 = 8;
/// Entries of a table.
pub const ENTRIES: u64 = 1 << INDEX_BITS;

/// Bits of a virtual address that a tree of `levels` translates.
pub const fn address_bits(levels: u8) -> u8 {
    12 + INDEX_BITS as u8 * levels
}

/// Whether every bit above those that a tree of `levels` translates is a copy of the highest one.
pub const fn is_sign_extended(levels: u8, va: u64) -> bool {
    let shift = 64 - address_bits(levels) as u32;
    ((va << shift) as i64 >> shift) as u64 == va
}

/// The memory one entry of `level` spans.
#[inline(always)]
pub const fn covers(level: u8) -> PageOrder {
    PageOrder::new((level - 1) * INDEX_BITS as u8)
}

/// The entry for `va` in the table of `level` at `table`.
#[inline(always)]
pub fn entry(table: PhysAddr, level: u8, va: VirtAddr) -> PhysAddr {
    let index = (va.raw() >> covers(level).shift()) & (ENTRIES - 1);
    PhysAddr(table.0 + index * ENTRY_BYTES)
}

/// The first entry of a walk in a tree of `levels`.
#[inline(always)]
pub fn start(levels: u8, root: PhysAddr, va: VirtAddr) -> Step {
    Step { level: levels, covers: covers(levels), entry: entry(root, levels, va), rights: Rights::ALL }
}

/// Meaning of the bits of the entry at `step` for `va`. It is a page with the rights that all levels grant, or the
/// entry to read in the table that the bits point to.
#[inline(always)]
pub fn next<E: Entries>(bits: u64, step: Step, va: VirtAddr) -> Next {
    match E::decode(bits, step.level) {
        Entry::Nothing => Next::NotPresent,
        Entry::Leaf(leaf) => Next::Leaf(leaf.within(step.rights)),
        Entry::Table(table, rights) => {
            let level = step.level - 1;
            let rights = step.rights.and(rights);
            Next::Table(Step { level, covers: covers(level), entry: entry(table, level, va), rights })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indices_are_nine_bits_a_level() {
        let va = VirtAddr::new((5 << 48) | (1 << 39) | (2 << 30) | (3 << 21) | (4 << 12));
        let at = |level| entry(PhysAddr(0), level, va).0 / 8;
        assert_eq!([at(5), at(4), at(3), at(2), at(1)], [5, 1, 2, 3, 4]);
    }
}
