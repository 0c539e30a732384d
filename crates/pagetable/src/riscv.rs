//! RISC-V entries: Sv39, Sv48 and Sv57 (The RISC-V Instruction Set Manual, Volume II, sections "Sv39", "Sv48" and
//! "Sv57"), with 64 KiB leaves (extension Svnapot) and accessed and dirty bits that hardware sets (extension Svadu).

use crate::{Leaf, Next, Step, x86};
use mmulab_addr::{PageOrder, Pfn, PhysAddr, Prot, VirtAddr};

/// Valid.
const V: u64 = 1;
/// Readable; with W and X, what makes a leaf of an entry.
const R: u64 = 1 << 1;
/// Writable; reserved without R.
const W: u64 = 1 << 2;
/// Executable.
const X: u64 = 1 << 3;
/// User mode.
const U: u64 = 1 << 4;
/// Global.
const G: u64 = 1 << 5;
/// Accessed (leaves only: elsewhere reserved).
const A: u64 = 1 << 6;
/// Dirty (leaves only).
const D: u64 = 1 << 7;
/// The frame's place: bits 53..10.
const PPN_SHIFT: u32 = 10;
const PPN: u64 = ((1 << 44) - 1) << PPN_SHIFT;
/// Naturally aligned power-of-two contiguity (Svnapot).
const N: u64 = 1 << 63;
/// What the low four bits of the frame say of such a page: the only encoding defined is 64 KiB.
const NAPOT_64K: u64 = 0b1000;
const NAPOT_BITS: u64 = 0b1111;

#[inline(always)]
pub fn next(bits: u64, step: Step, va: VirtAddr) -> Next {
    if bits & V == 0 {
        return Next::NotPresent;
    }
    if bits & (R | W | X) != 0 {
        return decode_leaf(bits, step.level).map_or(Next::NotPresent, Next::Leaf);
    }
    // A pointer at the last level, or with A, D, U or N, is reserved: a page fault.
    if step.level == 1 || bits & (A | D | U | N) != 0 {
        return Next::NotPresent;
    }
    let level = step.level - 1;
    let table = PhysAddr((bits & PPN) >> PPN_SHIFT << 12);
    // A pointer grants everything: the leaf alone decides.
    Next::Table(Step { level, covers: x86::covers(level), entry: x86::entry(table, level, va), rights: step.rights })
}

#[inline(always)]
pub fn decode_leaf(bits: u64, level: u8) -> Option<Leaf> {
    if bits & V == 0 || bits & (R | W | X) == 0 || bits & (R | W) == W {
        return None;
    }
    let ppn = (bits & PPN) >> PPN_SHIFT;
    let (order, pfn) = match (bits & N != 0, level) {
        (false, _) => (x86::covers(level), Pfn(ppn)),
        (true, 1) if ppn & NAPOT_BITS == NAPOT_64K => (PageOrder::P64K, Pfn(ppn & !NAPOT_BITS)),
        // Reserved.
        (true, _) => return None,
    };
    // A misaligned superpage is a page fault.
    if pfn.align_down(order) != pfn {
        return None;
    }
    let right = |bit, prot: Prot| if bits & bit != 0 { prot.bits() } else { 0 };
    Some(Leaf {
        pfn,
        order,
        prot: Prot::from_bits(right(R, Prot::R) | right(W, Prot::W) | right(X, Prot::X)),
        user: bits & U != 0,
        accessed: bits & A != 0,
        dirty: bits & D != 0,
        global: bits & G != 0,
    })
}

/// The bits with the accessed bit set.
#[inline(always)]
pub const fn accessed(bits: u64, leaf: bool) -> u64 {
    if leaf { bits | A } else { bits }
}

/// The bits with the accessed and dirty bits set.
#[inline(always)]
pub const fn dirtied(bits: u64) -> u64 {
    bits | A | D
}

/// log2 of the entries that one page can take at `level`.
pub const fn group_at(level: u8) -> u8 {
    if level == 1 { 4 } else { 0 }
}

/// Where a page of `order` has its leaf, and how many entries that takes.
pub fn leaf_at(levels: u8, order: PageOrder) -> Option<(u8, u32)> {
    match order {
        PageOrder::P64K => Some((1, 1 << group_at(1))),
        order => (1..=levels).find(|&level| x86::covers(level) == order).map(|level| (level, 1)),
    }
}

/// The bits of a leaf: of each of its entries, if it has several.
pub fn encode_leaf(leaf: &Leaf) -> u64 {
    let bit = |on: bool, bit: u64| if on { bit } else { 0 };
    let napot = bit(leaf.order == PageOrder::P64K, N | NAPOT_64K << PPN_SHIFT);
    V | napot
        | leaf.pfn.0 << PPN_SHIFT
        // What can be written is readable: the other combination is reserved. And what has no right at all would be a
        // pointer.
        | bit(leaf.prot.has(Prot::R) || leaf.prot.has(Prot::W) || !leaf.prot.has(Prot::X), R)
        | bit(leaf.prot.has(Prot::W), W)
        | bit(leaf.prot.has(Prot::X), X)
        | bit(leaf.user, U)
        | bit(leaf.accessed, A)
        | bit(leaf.dirty, D)
        | bit(leaf.global, G)
}

/// The bits of an entry that points to a table.
pub fn encode_table(table: Pfn) -> u64 {
    V | table.0 << PPN_SHIFT
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
        // V R W U A D: 1 + 2 + 4 + 16 + 64 + 128.
        assert_eq!(encode_leaf(&leaf(PageOrder::P4K, 0x12345)), 0x12345 << 10 | 0xd7);
        assert_eq!(decode_leaf(0x12345 << 10 | 0xd7, 1), Some(leaf(PageOrder::P4K, 0x12345)));
        assert_eq!(encode_table(Pfn(0x777)), 0x777 << 10 | 1);
        assert_eq!(decode_leaf(encode_leaf(&leaf(PageOrder::P2M, 0x200)), 2), Some(leaf(PageOrder::P2M, 0x200)));
        let code = Leaf { prot: Prot::X, global: true, dirty: false, ..leaf(PageOrder::P4K, 1) };
        assert_eq!(encode_leaf(&code), 1 << 10 | 0b0111_1001, "execute-only, global");
        let nothing = Leaf { prot: Prot::NONE, ..leaf(PageOrder::P4K, 1) };
        assert_eq!(decode_leaf(encode_leaf(&nothing), 1).map(|l| l.prot), Some(Prot::R), "no pointer");
    }

    #[test]
    fn napot_pages_are_64_kib() {
        let large = leaf(PageOrder::P64K, 0x12340);
        assert_eq!(encode_leaf(&large), 1 << 63 | 0x12348 << 10 | 0xd7);
        assert_eq!(decode_leaf(encode_leaf(&large), 1), Some(large));
        for reserved in [0x12340u64, 0x12344, 0x1234c, 0x12349] {
            assert_eq!(decode_leaf(1 << 63 | reserved << 10 | 0xd7, 1), None);
        }
        assert_eq!(decode_leaf(1 << 63 | 0x12348 << 10 | 0xd7, 2), None, "leaves of the last level only");
    }

    #[test]
    fn what_is_reserved_faults() {
        let step = |level| Step { level, covers: x86::covers(level), entry: PhysAddr(0), rights: Rights::ALL };
        let at = |bits, level| next(bits, step(level), VirtAddr::new(0));
        assert_eq!(at(5 << 10 | V | W, 1), Next::NotPresent, "writable and not readable");
        assert_eq!(at(5 << 10 | V, 1), Next::NotPresent, "a pointer at the last level");
        assert_eq!(at(5 << 10 | V | A, 2), Next::NotPresent, "a pointer marked accessed");
        assert_eq!(at(0x201 << 10 | V | R, 2), Next::NotPresent, "a misaligned superpage");
        assert!(matches!(at(5 << 10 | V, 2), Next::Table(Step { level: 1, entry: PhysAddr(0x5000), .. })));
        assert_eq!((accessed(V, false), accessed(V | R, true), dirtied(V | R)), (V, V | R | A, V | R | A | D));
    }
}
