//! Entries as hardware reads them: x86-64 entries with two more bits (paper 5, section 4.2 and figure 7).
//!
//! The paper puts H and O into "the currently ignored region" and names no bits. Here they are the lowest two of bits
//! 62..52, which x86-64 ignores in entries that point to tables (Intel SDM vol. 3A, table 4-14 to 4-19). T, of nodes of
//! three levels, is the next bit. The base register carries them in the same place. This file knows entries with the
//! marks there; [`Marks`] turns those that have them elsewhere into such.
//!
//! ```text
//! bit      63   62..55   54  53  52   51..12    11..8   7   6   5   4..0
//!        [ NX | ignored | T | O | H | frame   |       | PS | D | A | .. P ]    Marks::IgnoredBits, as known here
//!
//! bit      63   62..52   51..17     16   15  14  13  12   7   6   5   4..0
//!        [ NX | ignored | frame   | copy | T | O | H |  | PS | D | A | .. P ]  Marks::FrameIndex: PS is set, too
//!
//! marks of a pointer    the next table                                   its entry is chosen by
//! none                  a node of 4 KiB                                  the following  9 bits of the address
//! H                     a node of 2 MiB, which merges two levels         the following 18 bits
//! O                     a node of 2 MiB that overlaps with this table   the previous 9 and the following 9 bits
//! H or O, and T         a node of 1 GiB, which merges three levels       9 bits more
//!
//! marks of a leaf       O: one of 512 copies of a leaf of the level above; O and T: of 262,144, two levels above
//! ```

use super::desc::Marks;
use crate::{
    Leaf, Next, Rights, Step,
    geometry::{self, Granule},
    x86,
    x86::X86Entries,
};
use mmulab_addr::{PhysAddr, VirtAddr};

/// The next table is a merged node of 2 MiB: the following 18 bits of the address choose the entry.
pub const H: u64 = 1 << 52;
/// The next table is a merged node that overlaps with this one: the previous 9 and the following 9 bits choose the
/// entry. In a leaf: one of 512 copies of the leaf of the level above.
pub const O: u64 = 1 << 53;

/// With H or O: the node is of 1 GiB and merges three levels. So 9 bits more of the address choose the entry, and the
/// walk skips one level more. With O in a leaf: one of 262,144 copies of the leaf two levels above.
pub const T: u64 = 1 << 54;
/// All of them.
const MARKS: u64 = H | O | T;

/// Where [`Marks::FrameIndex`] has H, O, T and, next to them, the mark of copies of leaves. Bit 12, the lowest of the
/// frame index, is the PAT bit of large leaves.
const LOW: u32 = 13;
/// How far that is from where this file knows them.
const LOWERED: u32 = 52 - LOW;
/// A copy of a leaf, in [`Marks::FrameIndex`]: bit 7 is set in pointers to nodes, too, so it does not distinguish
/// leaves from them.
const COPY: u64 = 1 << (LOW + 3);

impl Marks {
    /// An entry as it is in memory, with its marks where this file knows them.
    #[inline(always)]
    pub fn read(self, bits: u64) -> u64 {
        let low = bits & (MARKS >> LOWERED | COPY);
        if self == Self::IgnoredBits || bits & x86::PS == 0 || low == 0 {
            return bits;
        }
        let leaf = if low & COPY != 0 { x86::PS } else { 0 };
        (bits & !(low | x86::PS)) | ((low & !COPY) << LOWERED) | leaf
    }

    /// The written form of an entry that points to a table.
    #[inline(always)]
    pub fn pointer(self, bits: u64) -> u64 {
        let marks = bits & MARKS;
        if self == Self::IgnoredBits || marks == 0 { bits } else { (bits & !marks) | marks >> LOWERED | x86::PS }
    }

    /// The written form of a copy of a leaf.
    pub fn leaf(self, bits: u64) -> u64 {
        if self == Self::IgnoredBits { bits } else { self.pointer(bits) | COPY }
    }
}

/// How many levels a node merges, beyond the first.
#[inline(always)]
fn passed(bits: u64) -> u8 {
    if bits & T == 0 { 1 } else { 2 }
}

/// The entry of `level` for `va` in the node at `node`, which merges `passed` more.
#[inline(always)]
fn entry(node: PhysAddr, level: u8, passed: u8, va: VirtAddr) -> PhysAddr {
    let index_bits = 9 * (u32::from(passed) + 1);
    let index = (va.raw() >> geometry::covers(level).shift()) & ((1 << index_bits) - 1);
    PhysAddr(node.0 + index * 8)
}

#[inline(always)]
pub fn start(levels: u8, root: PhysAddr, va: VirtAddr) -> Step {
    if root.0 & H == 0 {
        return Granule::K4.start(levels, root, va);
    }
    let passed = passed(root.0);
    let level = levels - passed;
    let entry = entry(PhysAddr(root.0 & !MARKS), level, passed, va);
    Step { level, covers: geometry::covers(level), entry, rights: Rights::ALL }
}

#[inline(always)]
pub fn next(marks: Marks, bits: u64, step: Step, va: VirtAddr) -> Next {
    let bits = marks.read(bits);
    if bits & (H | O) == 0 || bits & x86::P == 0 {
        return Granule::K4.next::<X86Entries>(bits, step, va);
    }
    if step.level == 1 || bits & x86::PS != 0 {
        return match leaf_of(bits, step.level) {
            Some(leaf) => Next::Leaf(leaf.within(step.rights)),
            None => Next::NotPresent,
        };
    }
    // H passes over a level; O comes to the next one with the index of the one it was read from. With T, both pass over
    // one more.
    let passed = passed(bits);
    let level = step.level.saturating_sub(passed + u8::from(bits & O == 0));
    if level == 0 {
        // H above leaves is reserved: nothing is there.
        return Next::NotPresent;
    }
    Next::Table(Step {
        level,
        covers: geometry::covers(level),
        entry: entry(PhysAddr(bits & x86::FRAME), level, passed, va),
        rights: step.rights.and(x86::FIELDS.rights(bits)),
    })
}

/// The form in which a walk cache keeps an entry of `level`, and the level under which it does. A pointer with O is the
/// same for all of the node it points to. It is kept like the entry with H of the level above. So the next walk into
/// any part of the node needs one access (paper 5, section 4.4.2, figure 10).
#[inline(always)]
pub fn kept(marks: Marks, bits: u64, level: u8) -> (u64, u8) {
    let known = marks.read(bits);
    if known & O == 0 { (bits, level) } else { (marks.pointer(known & !O | H), level + 1) }
}

#[inline(always)]
pub fn decode_leaf(marks: Marks, bits: u64, level: u8) -> Option<Leaf> {
    leaf_of(marks.read(bits), level)
}

#[inline(always)]
fn leaf_of(bits: u64, level: u8) -> Option<Leaf> {
    if bits & O == 0 {
        return x86::decode_leaf(bits, level);
    }
    // Bit 7 of a PTE is its PAT bit, elsewhere it distinguishes leaves from tables.
    if level > 1 && bits & x86::PS == 0 { None } else { x86::decode_leaf(bits | x86::PS, level + passed(bits)) }
}

/// A leaf's bits among the entries of `level`, that number of levels down.
pub fn overlapping_leaf(bits: u64, level: u8, down: u8) -> u64 {
    O | if down == 2 { T } else { 0 } | if level == 1 { bits & !x86::PS } else { bits }
}

/// The bits of the leaf above that `bits` is a copy of, found at `level`.
pub fn whole_leaf(bits: u64, level: u8) -> u64 {
    (bits & !(O | T)) | if level == 1 { x86::PS } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mmulab_addr::{PageOrder, Pfn, Prot};

    const VA: VirtAddr = VirtAddr::new((1 << 39) | (2 << 30) | (3 << 21) | (4 << 12));

    fn at(level: u8) -> Step {
        Step { level, covers: geometry::covers(level), entry: PhysAddr(0), rights: Rights::ALL }
    }

    const NODE: u64 = 0x4000_0000;
    const BOTH: [Marks; 2] = [Marks::IgnoredBits, Marks::FrameIndex];

    fn below(bits: u64, level: u8) -> (u8, u64) {
        let found = BOTH.map(|marks| match next(marks, marks.pointer(bits), at(level), VA) {
            Next::Table(step) => (step.level, (step.entry.0 - NODE) / 8),
            other => panic!("{other:?}"),
        });
        assert_eq!(found[0], found[1], "{bits:#x}");
        found[0]
    }

    #[test]
    fn h_and_o_choose_eighteen_bits() {
        let table = x86::encode_table(PhysAddr(NODE).pfn());
        assert_eq!(
            [table | H, table | O, table | T],
            [0x10 << 48, 0x20 << 48, 0x40 << 48].map(|mark| mark | 0x4000_0067)
        );
        // H in the base register, in a PGD entry and in a PUD entry (paper 5, section 4.2).
        let step = start(4, PhysAddr(NODE | H), VA);
        assert_eq!((step.level, (step.entry.0 - NODE) / 8), (3, (1 << 9) | 2));
        assert_eq!(below(table | H, 4), (2, (2 << 9) | 3));
        assert_eq!(below(table | H, 3), (1, (3 << 9) | 4));
        // O goes one level down, with the index it was read with before the next one.
        assert_eq!(below(table | O, 2), (1, (3 << 9) | 4));
        assert_eq!(below(table | O, 3), (2, (2 << 9) | 3));
        assert_eq!(below(table, 2), (1, 4));
        let above_leaves = next(Marks::IgnoredBits, table | H, at(2), VA);
        assert_eq!(above_leaves, Next::NotPresent, "there is no level below the leaves");
    }

    #[test]
    fn t_chooses_twenty_seven() {
        let table = x86::encode_table(PhysAddr(NODE).pfn());
        let all = (2 << 18) | (3 << 9) | 4;
        // PUD, PMD and PTE, from a PGD entry, and from a PUD entry of a node of PGD and PUD.
        assert_eq!((below(table | H | T, 4), below(table | O | T, 3)), ((1, all), (1, all)));
        // PGD, PUD and PMD, from the base register.
        let step = start(4, PhysAddr(NODE | H | T), VA);
        assert_eq!((step.level, (step.entry.0 - NODE) / 8), (2, (1 << 18) | (2 << 9) | 3));
        for bits in [table | H | T, table | O | T] {
            assert_eq!(next(Marks::IgnoredBits, bits, at(2), VA), Next::NotPresent);
        }
        assert_eq!(next(Marks::IgnoredBits, table | H | T, at(3), VA), Next::NotPresent);
    }

    #[test]
    fn marks_in_the_frame_index_come_with_bit_7() {
        let (low, table) = (Marks::FrameIndex, x86::encode_table(PhysAddr(NODE).pfn()));
        assert_eq!([H, O, H | T].map(|mark| low.pointer(table | mark)), [0x4000_20e7, 0x4000_40e7, 0x4000_a0e7]);
        assert_eq!(low.pointer(table), table, "ordinary tables are as ever");
        for bits in [table | H, table | O | T] {
            assert_eq!(low.read(low.pointer(bits)), bits);
        }
    }

    #[test]
    fn what_is_kept_of_an_overlap_leads_to_the_same_entry() {
        let table = x86::encode_table(PhysAddr(NODE).pfn());
        for marks in BOTH {
            assert_eq!(kept(marks, marks.pointer(table | O), 2), (marks.pointer(table | H), 3));
            assert_eq!(kept(marks, marks.pointer(table | O | T), 3), (marks.pointer(table | H | T), 4));
            assert_eq!(kept(marks, table, 2), (table, 2));
        }
        assert_eq!(below(table | H, 3), below(table | O, 2));
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
        for (order, level, down) in [(PageOrder::P2M, 2, 1), (PageOrder::P1G, 3, 1), (PageOrder::P1G, 3, 2)] {
            let (bits, at_level) = (x86::encode_leaf(&leaf(order)), level - down);
            for marks in BOTH {
                let copy = marks.leaf(overlapping_leaf(bits, at_level, down));
                assert_eq!(decode_leaf(marks, copy, at_level), Some(leaf(order)));
                assert_eq!(next(marks, copy, at(at_level), VA), Next::Leaf(leaf(order)));
                assert_eq!(whole_leaf(marks.read(copy), at_level), bits);
            }
        }
        assert_eq!(overlapping_leaf(x86::encode_leaf(&leaf(PageOrder::P2M)), 1, 1), 0x8020_0000_c000_0027);
    }
}
