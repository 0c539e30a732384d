//! Page-table formats as hardware reads them: one enum for x86-64, Compendia, RISC-V, Armv8 and hashed tables. Each
//! method selects the code of the format. The walker, the walk caches and the kernel ask here for levels, page sizes
//! and the meaning of entry bits.

use crate::{Found, Leaf, Marks, Next, Root, Search, Step, arm, compendia::entry as compendia, hashed, riscv, x86};
use mmulab_addr::{LINE_BYTES, PageOrder, Pfn, PhysAddr, VirtAddr};
use mmulab_frames::PhysMem;

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
        /// Where entries tell that they point to such.
        marks: Marks,
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
    /// Elastic cuckoo tables: x86-64's entries, found by hashing.
    Cuckoo {
        /// Levels of a tree for as many bits of address (4 or 5).
        levels: u8,
    },
    /// Open addressing: x86-64's entries, found by hashing.
    Open {
        /// Levels of a tree for as many bits of address (4 or 5).
        levels: u8,
        /// The tables of all page sizes are read at once.
        together: bool,
    },
}

impl Format {
    /// Levels of a full walk to a base page. Those of hashed tables are the tables: 1 to 3 of pages of 4 KiB, 2 MiB and
    /// 1 GiB, 4 to 6 the guides to them.
    #[inline(always)]
    pub const fn levels(self) -> u8 {
        match self {
            Self::X86 { levels } | Self::Compendia { levels, .. } | Self::Riscv { levels } | Self::Arm { levels } => {
                levels
            }
            Self::Cuckoo { .. } => hashed::TABLES as u8,
            Self::Open { .. } => hashed::SIZES as u8,
        }
    }

    /// Bits of a virtual address.
    pub const fn address_bits(self) -> u8 {
        let (Self::X86 { levels }
        | Self::Compendia { levels, .. }
        | Self::Riscv { levels }
        | Self::Arm { levels }
        | Self::Cuckoo { levels }
        | Self::Open { levels, .. }) = self;
        // 12 bits of offset and 9 per level (Intel SDM vol. 3A, section 4.5).
        12 + 9 * levels
    }

    /// Whether it is searched by groups of reads, instead of descended entry by entry.
    #[inline(always)]
    pub const fn is_searched(self) -> bool {
        matches!(self, Self::Cuckoo { .. } | Self::Open { .. })
    }

    /// A search for `va` in a table that is searched.
    #[inline]
    pub fn search(self, root: Root, va: VirtAddr) -> Search {
        Search::new(self, root.lower, va)
    }

    /// The entry that maps `va`, as a walk without caches finds it.
    #[inline]
    pub fn find(self, mem: &PhysMem, root: Root, va: VirtAddr) -> Option<Found> {
        self.path(mem, root, va, |_, _| {})
    }

    /// The same; `seen` is told the level and address of every entry, or line, that is read for it.
    pub fn path(self, mem: &PhysMem, root: Root, va: VirtAddr, mut seen: impl FnMut(u8, PhysAddr)) -> Option<Found> {
        if self.is_searched() {
            return self.search(root, va).run(mem, |read| seen(read.level, read.line));
        }
        let mut step = self.start(root, va);
        loop {
            seen(step.level, step.entry);
            let bits = mem.read(step.entry);
            match self.next(bits, step, va) {
                Next::Table(next) => step = next,
                Next::Leaf(leaf) => return Some(Found { entry: step.entry, level: step.level, bits, leaf }),
                Next::NotPresent => return None,
            }
        }
    }

    /// Calls `each` for every line of memory that the table at `root` consists of, with its level.
    pub fn each_line(self, mem: &PhysMem, root: Root, each: &mut impl FnMut(u8, PhysAddr)) {
        if self.is_searched() {
            return hashed::each_line(mem, root.lower, each);
        }
        for va in self.trees() {
            let first = self.start(root, va);
            self.lines_below(mem, (first, self.levels() + 1 - first.level), va, each);
        }
    }

    /// Those of the table or node whose first entry, for `va`, is at `step`, and of all it points to. A node merges so
    /// many levels.
    fn lines_below(self, mem: &PhysMem, (step, levels): (Step, u8), va: VirtAddr, each: &mut impl FnMut(u8, PhysAddr)) {
        const ENTRIES: u64 = x86::TABLE_BYTES / 8;
        let mut last = None;
        for index in 0..ENTRIES.pow(levels.into()) {
            let entry = PhysAddr(step.entry.0 + index * 8);
            if entry.0.is_multiple_of(LINE_BYTES) {
                each(step.level, entry);
            }
            let va = VirtAddr::new(va.raw() + (index << step.covers.shift()));
            let bits = mem.read(entry);
            let Next::Table(_) = self.next(bits, Step { entry, ..step }, va) else { continue };
            // As a walk cache keeps it: a pointer that is the same for many entries begins where the first does.
            let (bits, level) = self.kept(bits, step.level);
            let from = va.align_down(self.covers(level));
            let Next::Table(next) = self.next(bits, Step { entry, level, ..step }, from) else { continue };
            if last.replace(next.entry) != Some(next.entry) {
                self.lines_below(mem, (next, level - next.level), from, each);
            }
        }
    }

    /// The first address of each tree that a table consists of: on Arm the upper addresses have one of their own.
    pub(crate) fn trees(self) -> impl Iterator<Item = VirtAddr> {
        let upper = matches!(self, Self::Arm { .. }).then(|| VirtAddr::new(u64::MAX << self.address_bits()));
        std::iter::once(VirtAddr::default()).chain(upper)
    }

    /// The first entry of a walk from the root of a tree.
    #[inline(always)]
    pub fn start(self, root: Root, va: VirtAddr) -> Step {
        match self {
            Self::X86 { levels } => x86::start(levels, root.lower, va),
            Self::Compendia { levels, .. } => compendia::start(levels, root.lower, va),
            // Their tables have the same shape.
            Self::Riscv { levels } => x86::start(levels, root.lower, va),
            Self::Arm { levels } => x86::start(levels, root.of(va), va),
            // These have no tree: a walk of one would end at its first entry.
            Self::Cuckoo { .. } | Self::Open { .. } => x86::start(1, root.lower, va),
        }
    }

    /// What the bits of the entry at `step` of a tree mean for `va`.
    #[inline(always)]
    pub fn next(self, bits: u64, step: Step, va: VirtAddr) -> Next {
        match self {
            Self::X86 { .. } | Self::Cuckoo { .. } | Self::Open { .. } => x86::next(bits, step, va),
            Self::Compendia { marks, .. } => compendia::next(marks, bits, step, va),
            Self::Riscv { .. } => riscv::next(bits, step, va),
            Self::Arm { .. } => arm::next(bits, step, va),
        }
    }

    /// The bits with the accessed bit set; `leaf` tells whether they map a page.
    #[inline(always)]
    pub const fn accessed(self, bits: u64, leaf: bool) -> u64 {
        match self {
            // All levels have the bit, in the same place.
            Self::X86 { .. } | Self::Compendia { .. } | Self::Cuckoo { .. } | Self::Open { .. } => {
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
            Self::X86 { .. } | Self::Compendia { .. } | Self::Cuckoo { .. } | Self::Open { .. } => {
                bits | x86::A | x86::D
            }
            Self::Riscv { .. } => riscv::dirtied(bits),
            Self::Arm { .. } => arm::dirtied(bits),
        }
    }

    /// What the bits map at `level`, if anything, going by this entry alone.
    #[inline(always)]
    pub fn decode_leaf(self, bits: u64, level: u8) -> Option<Leaf> {
        match self {
            Self::X86 { .. } | Self::Cuckoo { .. } | Self::Open { .. } => x86::decode_leaf(bits, level),
            Self::Compendia { marks, .. } => compendia::decode_leaf(marks, bits, level),
            Self::Riscv { .. } => riscv::decode_leaf(bits, level),
            Self::Arm { .. } => arm::decode_leaf(bits, level),
        }
    }

    /// The frame that `bits` names, if they are those of `leaf`, an entry of the same level for a page of `order`, in
    /// all but the frame. `None` if not, and for formats where that takes more than a glance.
    #[inline(always)]
    pub fn frame_of_alike(self, bits: u64, leaf: u64, order: PageOrder) -> Option<Pfn> {
        match self {
            Self::X86 { .. } | Self::Cuckoo { .. } | Self::Open { .. } => x86::frame_of_alike(bits, leaf, order),
            Self::Compendia { .. } | Self::Riscv { .. } | Self::Arm { .. } => None,
        }
    }

    /// How many levels an entry can pass over.
    #[inline(always)]
    pub const fn skips_levels(self) -> u8 {
        if matches!(self, Self::Compendia { .. }) { 2 } else { 0 }
    }

    /// What a walk cache keeps of an entry that points to a table, and as an entry of which level.
    #[inline(always)]
    pub fn kept(self, bits: u64, level: u8) -> (u64, u8) {
        match self {
            Self::X86 { .. } | Self::Riscv { .. } | Self::Arm { .. } => (bits, level),
            Self::Cuckoo { .. } | Self::Open { .. } => (bits, level),
            Self::Compendia { marks, .. } => compendia::kept(marks, bits, level),
        }
    }

    /// The bits of an entry that maps `leaf` by itself, of one of the format's sizes.
    pub fn encode_leaf(self, leaf: &Leaf) -> u64 {
        match self {
            Self::X86 { .. } | Self::Compendia { .. } | Self::Cuckoo { .. } | Self::Open { .. } => {
                x86::encode_leaf(leaf)
            }
            Self::Riscv { .. } => riscv::encode_leaf(leaf),
            Self::Arm { .. } => arm::encode_leaf(leaf, 0),
        }
    }

    /// The memory an entry of `level` spans.
    #[inline(always)]
    pub const fn covers(self, level: u8) -> PageOrder {
        match self {
            Self::X86 { .. } | Self::Compendia { .. } | Self::Riscv { .. } | Self::Arm { .. } => x86::covers(level),
            Self::Cuckoo { .. } | Self::Open { .. } => hashed::covers(level),
        }
    }

    /// The level of the leaf of a page of `order`, and how many neighbouring entries it takes there.
    #[inline]
    pub fn leaf_at(self, order: PageOrder) -> Option<(u8, u32)> {
        match self {
            Self::X86 { .. } | Self::Compendia { .. } | Self::Cuckoo { .. } | Self::Open { .. } => {
                x86::leaf_level(order).map(|level| (level, 1))
            }
            Self::Riscv { levels } => riscv::leaf_at(levels, order),
            Self::Arm { .. } => arm::leaf_at(order),
        }
    }

    /// The largest page whose entries lie side by side at `level`.
    #[inline(always)]
    pub(crate) fn widest_at(self, level: u8) -> PageOrder {
        let wider = match self {
            Self::X86 { .. } | Self::Compendia { .. } | Self::Cuckoo { .. } | Self::Open { .. } => 0,
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
            Self::X86 { .. } | Self::Compendia { .. } | Self::Cuckoo { .. } | Self::Open { .. } => {
                x86::encode_table(table)
            }
            Self::Riscv { .. } => riscv::encode_table(table),
            Self::Arm { .. } => arm::encode_table(table),
        }
    }
}
