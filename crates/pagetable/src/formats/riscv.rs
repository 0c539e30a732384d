//! RISC-V: Sv39, Sv48 and Sv57 (The RISC-V Instruction Set Manual, Volume II, sections "Sv39", "Sv48" and "Sv57"). It
//! has 64 KiB leaves (extension Svnapot), and accessed and dirty bits that hardware sets (extension Svadu).
//!
//! ```text
//! bit    63   62..54     53..10          9..8      7   6   5   4   3   2   1   0
//! PTE    N    reserved   frame number    software  D   A   G   U   X   W   R   V
//! ```
//!
//! A page of 64 KiB takes 16 equal entries with N set, whose frame number ends in binary 1000.

use crate::{
    Leaf, Rights,
    entry::{Entries, Entry, Fields, Mark},
    geometry,
    radix::Radix,
    table_format::{Group, NoParams, TableFormat},
};
use mmulab_addr::{PageOrder, Pfn, Prot};
use std::ops::RangeInclusive;

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
/// The frame number's place: bits 53..10.
const PPN: u64 = ((1 << 44) - 1) << 10;
/// Naturally aligned power-of-two contiguity (Svnapot).
const N: u64 = 1 << 63;
/// The low four bits of the frame of a page of several entries: the only encoding defined is 64 KiB.
const NAPOT_64K: u64 = 0b1000;
const NAPOT_BITS: u64 = 0b1111;

/// Where entries have their fields.
const FIELDS: Fields = Fields {
    valid: V,
    frame: PPN,
    readable: Mark::Set(R),
    writable: Mark::Set(W),
    executable: Mark::Set(X),
    user: Mark::Set(U),
    accessed: Mark::Set(A),
    dirty: Mark::Set(D),
    global: Mark::Set(G),
};

/// RISC-V's radix tree.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Riscv {
    levels: u8,
}

/// Entries of RISC-V.
pub struct RiscvEntries;

impl TableFormat for Riscv {
    const NAME: &'static str = "riscv-sv";
    const DOC: &'static str = "RISC-V's radix tree: Sv39, Sv48 or Sv57 by its 3 to 5 levels; leaves at every level, \
                               and of 64 KiB (Svnapot).";
    const LEVELS: RangeInclusive<u8> = 3..=5;
    const HIGHEST_LEAF: u8 = 5;
    const GROUPS: &'static [Group] = &[Group { level: 1, log: 4 }];

    type Params = NoParams;
    type Entries = RiscvEntries;
    type Tables = Radix<Self>;

    fn new(levels: u8, _: Option<&NoParams>) -> Self {
        Self { levels }
    }

    #[inline(always)]
    fn depth(self) -> u8 {
        self.levels
    }
}

impl Entries for RiscvEntries {
    #[inline(always)]
    fn decode(bits: u64, level: u8) -> Entry {
        if bits & V == 0 {
            return Entry::Nothing;
        }
        if bits & (R | W | X) == 0 {
            // A pointer at the last level, or with A, D, U or N, is reserved: a page fault.
            if level == 1 || bits & (A | D | U | N) != 0 {
                return Entry::Nothing;
            }
            // A pointer grants everything: the leaf alone decides.
            return Entry::Table(FIELDS.frame_of(bits).addr(), Rights::ALL);
        }
        let ppn = FIELDS.frame_of(bits);
        let (order, pfn) = match (bits & N != 0, level) {
            (false, _) => (geometry::covers(level), ppn),
            (true, 1) if ppn.0 & NAPOT_BITS == NAPOT_64K => (PageOrder::P64K, Pfn(ppn.0 & !NAPOT_BITS)),
            // Reserved.
            (true, _) => return Entry::Nothing,
        };
        // Writable and not readable is reserved; a misaligned superpage is a page fault.
        if bits & (R | W) == W || pfn.align_down(order) != pfn {
            return Entry::Nothing;
        }
        Entry::Leaf(FIELDS.leaf(bits, order))
    }

    /// The same bits in each entry, if it has several. A writable page is readable, because the other combination is
    /// reserved. An entry without any right would be a pointer.
    fn leaf(leaf: &Leaf) -> u64 {
        let readable = leaf.prot.has(Prot::R) || leaf.prot.has(Prot::W) || !leaf.prot.has(Prot::X);
        let prot = if readable { leaf.prot.with(Prot::R) } else { leaf.prot };
        let napot = if leaf.order == PageOrder::P64K { N | FIELDS.naming(Pfn(NAPOT_64K)) } else { 0 };
        FIELDS.bits(&Leaf { prot, ..*leaf }) | napot
    }

    fn table(table: Pfn) -> u64 {
        V | FIELDS.naming(table)
    }

    #[inline(always)]
    fn accessed(bits: u64, leaf: bool) -> u64 {
        if leaf { bits | A } else { bits }
    }

    #[inline(always)]
    fn dirtied(bits: u64) -> u64 {
        bits | A | D
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Next, Step};
    use mmulab_addr::{PhysAddr, VirtAddr};

    const SV48: Riscv = Riscv { levels: 4 };

    fn leaf(order: PageOrder, pfn: u64) -> Leaf {
        Leaf { pfn: Pfn(pfn), order, prot: Prot::RW, user: true, accessed: true, dirty: true, global: false }
    }

    #[test]
    fn entries_have_the_manuals_bits() {
        // V R W U A D: 1 + 2 + 4 + 16 + 64 + 128.
        assert_eq!(RiscvEntries::leaf(&leaf(PageOrder::P4K, 0x12345)), 0x12345 << 10 | 0xd7);
        assert_eq!(SV48.decode_leaf(0x12345 << 10 | 0xd7, 1), Some(leaf(PageOrder::P4K, 0x12345)));
        assert_eq!(RiscvEntries::table(Pfn(0x777)), 0x777 << 10 | 1);
        assert_eq!(
            SV48.decode_leaf(RiscvEntries::leaf(&leaf(PageOrder::P2M, 0x200)), 2),
            Some(leaf(PageOrder::P2M, 0x200))
        );
        let code = Leaf { prot: Prot::X, global: true, dirty: false, ..leaf(PageOrder::P4K, 1) };
        assert_eq!(RiscvEntries::leaf(&code), 1 << 10 | 0b0111_1001, "execute-only, global");
        let nothing = Leaf { prot: Prot::NONE, ..leaf(PageOrder::P4K, 1) };
        assert_eq!(SV48.decode_leaf(RiscvEntries::leaf(&nothing), 1).map(|l| l.prot), Some(Prot::R), "no pointer");
    }

    #[test]
    fn napot_pages_are_64_kib() {
        let large = leaf(PageOrder::P64K, 0x12340);
        assert_eq!(RiscvEntries::leaf(&large), 1 << 63 | 0x12348 << 10 | 0xd7);
        assert_eq!(SV48.decode_leaf(RiscvEntries::leaf(&large), 1), Some(large));
        for reserved in [0x12340u64, 0x12344, 0x1234c, 0x12349] {
            assert_eq!(SV48.decode_leaf(1 << 63 | reserved << 10 | 0xd7, 1), None);
        }
        assert_eq!(SV48.decode_leaf(1 << 63 | 0x12348 << 10 | 0xd7, 2), None, "leaves of the last level only");
    }

    #[test]
    fn what_is_reserved_faults() {
        let step = |level| Step { level, covers: geometry::covers(level), entry: PhysAddr(0), rights: Rights::ALL };
        let at = |bits, level| SV48.next(bits, step(level), VirtAddr::new(0));
        assert_eq!(at(5 << 10 | V | W, 1), Next::NotPresent, "writable and not readable");
        assert_eq!(at(5 << 10 | V, 1), Next::NotPresent, "a pointer at the last level");
        assert_eq!(at(5 << 10 | V | A, 2), Next::NotPresent, "a pointer marked accessed");
        assert_eq!(at(0x201 << 10 | V | R, 2), Next::NotPresent, "a misaligned superpage");
        assert!(matches!(at(5 << 10 | V, 2), Next::Table(Step { level: 1, entry: PhysAddr(0x5000), .. })));
        assert_eq!(
            (RiscvEntries::accessed(V, false), RiscvEntries::accessed(V | R, true), RiscvEntries::dirtied(V | R)),
            (V, V | R | A, V | R | A | D)
        );
    }
}
