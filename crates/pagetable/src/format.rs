use crate::{Leaf, Next, Step, arm, compendia::entry as compendia, riscv, x86};
use mmulab_addr::{PageOrder, Pfn, PhysAddr, VirtAddr};

/// How hardware reads a table: one variant per kind and geometry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Format {
    /// x86-64 with so many levels (4 or 5).
    X86 {
        /// Levels.
        levels: u8,
    },
    /// The same with merged nodes of 2 MiB, as paper 5 proposes.
    Compendia {
        /// Levels.
        levels: u8,
    },
    /// RISC-V's Sv39, Sv48 and Sv57, with Svnapot.
    Riscv {
        /// Levels (3 to 5).
        levels: u8,
    },
    /// Armv8's with 4 KiB granule, with the Contiguous bit.
    Arm {
        /// Levels (3 or 4).
        levels: u8,
    },
}

impl Format {
    /// Levels of a full walk to a base page.
    #[inline(always)]
    pub const fn levels(self) -> u8 {
        match self {
            Self::X86 { levels } | Self::Compendia { levels } | Self::Riscv { levels } | Self::Arm { levels } => levels,
        }
    }

    /// The first entry of a walk from the root.
    #[inline(always)]
    pub fn start(self, root: PhysAddr, va: VirtAddr) -> Step {
        match self {
            Self::X86 { levels } => x86::start(levels, root, va),
            Self::Compendia { levels } => compendia::start(levels, root, va),
            // Their tables have the same shape.
            Self::Riscv { levels } | Self::Arm { levels } => x86::start(levels, root, va),
        }
    }

    /// What the bits of the entry at `step` mean for `va`.
    #[inline(always)]
    pub fn next(self, bits: u64, step: Step, va: VirtAddr) -> Next {
        match self {
            Self::X86 { .. } => x86::next(bits, step, va),
            Self::Compendia { .. } => compendia::next(bits, step, va),
            Self::Riscv { .. } => riscv::next(bits, step, va),
            Self::Arm { .. } => arm::next(bits, step, va),
        }
    }

    /// The bits with the accessed bit set; `leaf` tells whether they map a page.
    #[inline(always)]
    pub const fn accessed(self, bits: u64, leaf: bool) -> u64 {
        match self {
            // All levels have the bit, in the same place.
            Self::X86 { .. } | Self::Compendia { .. } => {
                let _ = leaf;
                bits | x86::A
            }
            Self::Riscv { .. } => riscv::accessed(bits, leaf),
            Self::Arm { .. } => arm::accessed(bits, leaf),
        }
    }

    /// A leaf's bits with the accessed and dirty bits set.
    #[inline(always)]
    pub const fn dirtied(self, bits: u64) -> u64 {
        match self {
            Self::X86 { .. } | Self::Compendia { .. } => bits | x86::A | x86::D,
            Self::Riscv { .. } => riscv::dirtied(bits),
            Self::Arm { .. } => arm::dirtied(bits),
        }
    }

    /// What the bits map at `level`, if anything, going by this entry alone.
    #[inline(always)]
    pub fn decode_leaf(self, bits: u64, level: u8) -> Option<Leaf> {
        match self {
            Self::X86 { .. } => x86::decode_leaf(bits, level),
            Self::Compendia { .. } => compendia::decode_leaf(bits, level),
            Self::Riscv { .. } => riscv::decode_leaf(bits, level),
            Self::Arm { .. } => arm::decode_leaf(bits, level),
        }
    }

    /// Whether an entry can lead further than to the next level.
    #[inline(always)]
    pub const fn skips_levels(self) -> bool {
        matches!(self, Self::Compendia { .. })
    }

    /// What a walk cache keeps of an entry that points to a table, and as an entry of which level.
    #[inline(always)]
    pub const fn kept(self, bits: u64, level: u8) -> (u64, u8) {
        match self {
            Self::X86 { .. } | Self::Riscv { .. } | Self::Arm { .. } => (bits, level),
            Self::Compendia { .. } => compendia::kept(bits, level),
        }
    }

    /// The bits of an entry that maps `leaf` by itself, of one of the format's sizes.
    pub fn encode_leaf(self, leaf: &Leaf) -> u64 {
        match self {
            Self::X86 { .. } | Self::Compendia { .. } => x86::encode_leaf(leaf),
            Self::Riscv { .. } => riscv::encode_leaf(leaf),
            Self::Arm { .. } => arm::encode_leaf(leaf, 0),
        }
    }

    /// The memory an entry of `level` spans.
    #[inline(always)]
    pub const fn covers(self, level: u8) -> PageOrder {
        match self {
            Self::X86 { .. } | Self::Compendia { .. } | Self::Riscv { .. } | Self::Arm { .. } => x86::covers(level),
        }
    }

    /// The level of the leaf of a page of `order`, and how many neighbouring entries it takes there.
    #[inline]
    pub fn leaf_at(self, order: PageOrder) -> Option<(u8, u32)> {
        match self {
            Self::X86 { .. } | Self::Compendia { .. } => x86::leaf_level(order).map(|level| (level, 1)),
            Self::Riscv { levels } => riscv::leaf_at(levels, order),
            Self::Arm { .. } => arm::leaf_at(order),
        }
    }

    /// The largest page whose entries lie side by side at `level`.
    #[inline(always)]
    pub(crate) fn widest_at(self, level: u8) -> PageOrder {
        let wider = match self {
            Self::X86 { .. } | Self::Compendia { .. } => 0,
            Self::Riscv { .. } => riscv::group_at(level),
            Self::Arm { .. } => arm::group_at(level),
        };
        PageOrder::new(self.covers(level).get() + wider)
    }

    /// The bits of entry number `part` of those that map `leaf`.
    pub(crate) fn encode_part(self, leaf: &Leaf, part: u64) -> u64 {
        match self {
            Self::Arm { .. } => arm::encode_leaf(leaf, part),
            _ => self.encode_leaf(leaf),
        }
    }

    /// The bits of an entry that points to a table.
    pub(crate) fn encode_table(self, table: Pfn) -> u64 {
        match self {
            Self::X86 { .. } | Self::Compendia { .. } => x86::encode_table(table),
            Self::Riscv { .. } => riscv::encode_table(table),
            Self::Arm { .. } => arm::encode_table(table),
        }
    }
}
