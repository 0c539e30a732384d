//! What hardware reads: x86-64 entries with two bits more (paper 5, section 4.2 and figure 7).
//!
//! The paper puts H and O into "the currently ignored region" and names no bits; here they are the lowest two of bits
//! 62..52, which x86-64 ignores in entries that point to tables (Intel SDM vol. 3A, table 4-14 to 4-19). The base
//! register carries H in the same place.

use crate::{Leaf, Next, Rights, Step, x86};
use mmulab_addr::{PhysAddr, VirtAddr};

/// The next table is a merged node of 2 MiB: the following 18 bits of the address choose the entry.
pub const H: u64 = 1 << 52;
/// The next table is a merged node that overlaps with this one: the previous 9 and the following 9 bits choose the entry.
/// In a leaf: one of 512 copies of the leaf of the level above.
pub const O: u64 = 1 << 53;

/// Bits of index into a merged node.
const INDEX_BITS: u32 = 18;

/// The entry of `level` for `va` in the merged node at `node`.
#[inline(always)]
fn entry(node: PhysAddr, level: u8, va: VirtAddr) -> PhysAddr {
    let index = (va.raw() >> x86::covers(level).shift()) & ((1 << INDEX_BITS) - 1);
    PhysAddr(node.0 + index * 8)
}

#[inline(always)]
pub fn start(levels: u8, root: PhysAddr, va: VirtAddr) -> Step {
    if root.0 & H == 0 {
        return x86::start(levels, root, va);
    }
    let level = levels - 1;
    let entry = entry(PhysAddr(root.0 & !H), level, va);
    Step { level, covers: x86::covers(level), entry, rights: Rights::ALL }
}

#[inline(always)]
pub fn next(bits: u64, step: Step, va: VirtAddr) -> Next {
    if bits & (H | O) == 0 || bits & x86::P == 0 {
        return x86::next(bits, step, va);
    }
    if step.level == 1 || bits & x86::PS != 0 {
        return match decode_leaf(bits, step.level) {
            Some(leaf) => {
                let rights = step.rights.and(Rights { prot: leaf.prot, user: leaf.user });
                Next::Leaf(Leaf { prot: rights.prot, user: rights.user, ..leaf })
            }
            None => Next::NotPresent,
        };
    }
    // H passes over a level; O comes to the next one with the index of the one it was read from.
    let level = if bits & O != 0 { step.level - 1 } else { step.level - 2 };
    if level == 0 {
        // H above leaves is reserved: nothing is there.
        return Next::NotPresent;
    }
    Next::Table(Step {
        level,
        covers: x86::covers(level),
        entry: entry(PhysAddr(bits & x86::FRAME), level, va),
        rights: step.rights.and(x86::rights(bits)),
    })
}

/// What a walk cache keeps of an entry of `level`, and as which level's. A pointer with O is the same for all of the node
/// it points to: it is kept as the entry with H of the level above would be, so that the next walk into the node needs one
/// access wherever it goes (paper 5, section 4.4.2, figure 10).
#[inline(always)]
pub const fn kept(bits: u64, level: u8) -> (u64, u8) {
    if bits & O == 0 { (bits, level) } else { (bits & !O | H, level + 1) }
}

#[inline(always)]
pub fn decode_leaf(bits: u64, level: u8) -> Option<Leaf> {
    if bits & O == 0 {
        return x86::decode_leaf(bits, level);
    }
    // Bit 7 of a PTE is its PAT bit, elsewhere it tells leaves from tables.
    if level > 1 && bits & x86::PS == 0 { None } else { x86::decode_leaf(bits | x86::PS, level + 1) }
}

/// A leaf's bits among the entries of the level below.
pub fn overlapping_leaf(bits: u64, below: u8) -> u64 {
    O | if below == 1 { bits & !x86::PS } else { bits }
}

/// The bits of the leaf above that `bits` is a copy of, found at level `below`.
pub fn whole_leaf(bits: u64, below: u8) -> u64 {
    (bits & !O) | if below == 1 { x86::PS } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mmulab_addr::{PageOrder, Pfn, Prot};

    const VA: VirtAddr = VirtAddr::new((1 << 39) | (2 << 30) | (3 << 21) | (4 << 12));

    fn at(level: u8) -> Step {
        Step { level, covers: x86::covers(level), entry: PhysAddr(0), rights: Rights::ALL }
    }

    fn below(bits: u64, level: u8) -> (u8, u64) {
        match next(bits, at(level), VA) {
            Next::Table(step) => (step.level, (step.entry.0 - 0x20_0000) / 8),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn h_and_o_choose_eighteen_bits() {
        let table = x86::encode_table(Pfn(0x200));
        assert_eq!(table | H, 0x0010_0000_0020_0067);
        assert_eq!(table | O, 0x0020_0000_0020_0067);
        // H in the base register, in a PGD entry and in a PUD entry (paper 5, section 4.2).
        let step = start(4, PhysAddr(0x20_0000 | H), VA);
        assert_eq!((step.level, (step.entry.0 - 0x20_0000) / 8), (3, (1 << 9) | 2));
        assert_eq!(below(table | H, 4), (2, (2 << 9) | 3));
        assert_eq!(below(table | H, 3), (1, (3 << 9) | 4));
        // O goes one level down, with the index it was read with before the next one.
        assert_eq!(below(table | O, 2), (1, (3 << 9) | 4));
        assert_eq!(below(table | O, 3), (2, (2 << 9) | 3));
        assert_eq!(below(table, 2), (1, 4));
        assert_eq!(next(table | H, at(2), VA), Next::NotPresent, "there is no level below the leaves");
    }

    #[test]
    fn what_is_kept_of_an_overlap_leads_to_the_same_entry() {
        let table = x86::encode_table(Pfn(0x200)) | O;
        let (bits, level) = kept(table, 2);
        assert_eq!((bits, level), (x86::encode_table(Pfn(0x200)) | H, 3));
        assert_eq!(below(bits, level), below(table, 2));
        assert_eq!(kept(x86::encode_table(Pfn(7)), 2), (x86::encode_table(Pfn(7)), 2));
    }

    #[test]
    fn copies_of_a_leaf_map_what_the_leaf_does() {
        let leaf = |order| Leaf {
            pfn: Pfn(3 << 18),
            order,
            prot: Prot::RW,
            user: true,
            accessed: true,
            dirty: false,
            global: false,
        };
        for (order, level) in [(PageOrder::P2M, 2), (PageOrder::P1G, 3)] {
            let bits = x86::encode_leaf(&leaf(order));
            let copy = overlapping_leaf(bits, level - 1);
            assert_eq!(decode_leaf(copy, level - 1), Some(leaf(order)));
            assert_eq!(next(copy, at(level - 1), VA), Next::Leaf(leaf(order)));
            assert_eq!(whole_leaf(copy, level - 1), bits);
        }
        assert_eq!(overlapping_leaf(x86::encode_leaf(&leaf(PageOrder::P2M)), 1), 0x8020_0000_c000_0027);
    }
}
