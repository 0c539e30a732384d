//! x86-64's radix tree (Intel SDM vol. 3A, section 4.5). Its entries, which other formats have too, are in
//! [`crate::x86`].

use crate::{
    radix::Radix,
    table_format::{NoParams, TableFormat},
    x86::X86Entries,
};
use std::ops::RangeInclusive;

/// The radix tree of x86-64.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct X86 {
    /// Levels.
    pub levels: u8,
}

impl TableFormat for X86 {
    const NAME: &'static str = "x86-64-radix";
    const DOC: &'static str = "The radix tree of x86-64: 512 entries of 8 bytes a table, leaves of 4 KiB, 2 MiB and \
                               1 GiB; 4 or 5 levels.";
    const LEVELS: RangeInclusive<u8> = 4..=5;

    type Params = NoParams;
    type Entries = X86Entries;
    type Tables = Radix<Self>;

    fn new(levels: u8, _: Option<&NoParams>) -> Self {
        Self { levels }
    }

    #[inline(always)]
    fn depth(self) -> u8 {
        self.levels
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Leaf, Next, Rights, Step,
        entry::Entries,
        geometry,
        x86::{P, RW, US, XD},
    };
    use mmulab_addr::{PageOrder, Pfn, PhysAddr, Prot, VirtAddr};

    const X86: X86 = X86 { levels: 4 };

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
        assert_eq!(X86Entries::leaf(&leaf), 0x8000_0000_1234_5067);
        assert_eq!(X86.decode_leaf(0x8000_0000_1234_5067, 1), Some(leaf));
        let huge = Leaf { pfn: Pfn(0x200), order: PageOrder::P2M, prot: Prot::RX, dirty: false, global: true, ..leaf };
        assert_eq!(X86Entries::leaf(&huge), 0x20_01a5);
        assert_eq!(X86.decode_leaf(0x20_01a5, 2), Some(huge));
        assert_eq!(X86.decode_leaf(0x20_01a5, 4), None);
    }

    #[test]
    fn rights_are_the_least_of_all_levels() {
        let va = VirtAddr::new(0);
        let read_only_table = (X86Entries::table(Pfn(7)) & !RW) | XD;
        let step = Step { level: 2, covers: geometry::covers(2), entry: PhysAddr(0), rights: Rights::ALL };
        let Next::Table(below) = X86.next(read_only_table, step, va) else { panic!("a table") };
        let bits = P | RW | US | (9 << 12);
        let Next::Leaf(leaf) = X86.next(bits, below, va) else { panic!("a leaf") };
        assert_eq!(leaf.prot, Prot::R);
        assert_eq!(leaf.pfn, Pfn(9));
    }
}
