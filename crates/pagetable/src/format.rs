//! The page-table format of a run, as hardware reads it: an enum over all formats, which is copied freely and
//! dispatches statically. The walker, the walk caches and the kernel ask it for levels, page sizes and the meaning of
//! entry bits.

use crate::{
    Found, Leaf, Next, Root, Search, Step,
    entry::Entries,
    formats::x86::X86,
    geometry::ENTRY_BYTES,
    hashed::{self, Hashing},
    table_format::TableFormat,
};
use mmulab_addr::{LINE_BYTES, PageOrder, Pfn, PhysAddr, VirtAddr};
use mmulab_frames::PhysMem;

macro_rules! format_enum {
    (() $($module:ident :: $variant:ident $({ $($params:tt)* })?;)*) => {
        /// How hardware reads a table: one variant per format.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub enum Format {
            $(
                #[doc = concat!("The format of kind `", stringify!($variant), "`.")]
                $variant(crate::formats::$module::$variant),
            )*
        }

        $(
            impl From<crate::formats::$module::$variant> for Format {
                #[inline(always)]
                fn from(format: crate::formats::$module::$variant) -> Self {
                    Self::$variant(format)
                }
            }
        )*
    };
}

formats!(format_enum());

/// Constants of a format's type, read from its value.
trait OfType: TableFormat {
    #[inline(always)]
    fn accessed(self, bits: u64, leaf: bool) -> u64 {
        Self::Entries::accessed(bits, leaf)
    }

    #[inline(always)]
    fn dirtied(self, bits: u64) -> u64 {
        Self::Entries::dirtied(bits)
    }

    #[inline(always)]
    fn skipped(self) -> u8 {
        Self::SKIPPED_LEVELS
    }

    fn base(self) -> PageOrder {
        Self::GRANULE.base()
    }

    fn huge(self) -> PageOrder {
        Self::GRANULE.covers(2)
    }

    #[inline(always)]
    fn has_upper_tree(self) -> bool {
        Self::HAS_UPPER_TREE
    }

    fn maps_block(self, order: PageOrder) -> bool {
        Self::MAPS_BLOCKS && self.leaf_at(order).is_some()
    }
}

impl<F: TableFormat> OfType for F {}

impl Format {
    /// x86-64 with 4 or 5 levels.
    pub const fn x86(levels: u8) -> Self {
        Self::X86(X86 { levels })
    }

    /// Levels of a full walk to a base page. Those of hashed tables are the tables: 1 to 3 of pages of 4 KiB, 2 MiB and
    /// 1 GiB, 4 to 6 their cuckoo walk tables.
    #[inline(always)]
    pub fn levels(self) -> u8 {
        each_format!(self, Format, f => f.levels())
    }

    /// Bits of a virtual address.
    pub fn address_bits(self) -> u8 {
        each_format!(self, Format, f => f.address_bits())
    }

    /// The size of a base page, which is that of a table as well.
    #[inline]
    pub fn base(self) -> PageOrder {
        each_format!(self, Format, f => f.base())
    }

    /// The size of a page that takes an entry of level 2: of Linux's transparent huge pages.
    pub fn huge(self) -> PageOrder {
        each_format!(self, Format, f => f.huge())
    }

    /// Entries of a table of `level`.
    pub fn entries(self, level: u8) -> u64 {
        each_format!(self, Format, f => f.entries(level))
    }

    /// Whether programs can have the address.
    pub fn is_canonical(self, va: u64) -> bool {
        each_format!(self, Format, f => f.is_canonical(va))
    }

    /// How it is searched by groups of reads, if it is not descended entry by entry.
    #[inline(always)]
    pub fn hashing(self) -> Option<Hashing> {
        each_format!(self, Format, f => f.hashing())
    }

    /// Whether it is searched by groups of reads, instead of descended entry by entry.
    #[inline(always)]
    pub fn is_searched(self) -> bool {
        self.hashing().is_some()
    }

    /// The entry that maps `va`, as a walk without caches finds it.
    #[inline]
    pub fn find(self, mem: &PhysMem, root: Root, va: VirtAddr) -> Option<Found> {
        self.path(mem, root, va, |_, _| {})
    }

    /// The same; `seen` receives the level and address of every entry, or line, that is read for it.
    pub fn path(self, mem: &PhysMem, root: Root, va: VirtAddr, mut seen: impl FnMut(u8, PhysAddr)) -> Option<Found> {
        if let Some(hashing) = self.hashing() {
            return Search::new(hashing, root, va).run(mem, |read| seen(read.level, read.line));
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
        let mut last = None;
        for index in 0..self.entries(step.level).pow(levels.into()) {
            let entry = PhysAddr(step.entry.0 + index * ENTRY_BYTES);
            if entry.0.is_multiple_of(LINE_BYTES) {
                each(step.level, entry);
            }
            let va = VirtAddr::new(va.raw() + (index << step.covers.shift()));
            let bits = mem.read(entry);
            let Next::Table(_) = self.next(bits, Step { entry, ..step }, va) else { continue };
            // As a walk cache keeps it: a pointer that is the same for many entries begins where the first does.
            let Some((bits, level)) = self.kept(bits, step.level) else { continue };
            let from = va.align_down(self.covers(level));
            let Next::Table(next) = self.next(bits, Step { entry, level, ..step }, from) else { continue };
            if last.replace(next.entry) != Some(next.entry) {
                self.lines_below(mem, (next, level - next.level), from, each);
            }
        }
    }

    /// The first address of each tree that a table consists of.
    pub(crate) fn trees(self) -> impl Iterator<Item = VirtAddr> {
        let has_upper = each_format!(self, Format, f => f.has_upper_tree());
        let upper = has_upper.then(|| VirtAddr::new(u64::MAX << self.address_bits()));
        std::iter::once(VirtAddr::default()).chain(upper)
    }

    /// The first entry of a walk from the root of a tree. Tables found by hashing have none: a walk of one would end at
    /// its first entry.
    #[inline(always)]
    pub fn start(self, root: Root, va: VirtAddr) -> Step {
        each_format!(self, Format, f => f.start(root, va))
    }

    /// Meaning of the bits of the entry at `step` of a tree for `va`.
    #[inline(always)]
    pub fn next(self, bits: u64, step: Step, va: VirtAddr) -> Next {
        each_format!(self, Format, f => f.next(bits, step, va))
    }

    /// The bits with the accessed bit set; `leaf` states whether they map a page.
    #[inline(always)]
    pub fn accessed(self, bits: u64, leaf: bool) -> u64 {
        each_format!(self, Format, f => f.accessed(bits, leaf))
    }

    /// A leaf's bits with the accessed and dirty bits set.
    #[inline(always)]
    pub fn dirtied(self, bits: u64) -> u64 {
        each_format!(self, Format, f => f.dirtied(bits))
    }

    /// The page that the bits map at `level`, if any, by this entry alone.
    #[inline(always)]
    pub fn decode_leaf(self, bits: u64, level: u8) -> Option<Leaf> {
        each_format!(self, Format, f => f.decode_leaf(bits, level))
    }

    /// The frame that `bits` names, if they are those of `leaf`, an entry of the same level for a page of `order`, in
    /// all but the frame. `None` if not, and for formats where that takes more than a glance.
    #[inline(always)]
    pub fn frame_of_alike(self, bits: u64, leaf: u64, order: PageOrder) -> Option<Pfn> {
        each_format!(self, Format, f => f.frame_of_alike(bits, leaf, order))
    }

    /// How many levels an entry can pass over.
    #[inline(always)]
    pub fn skips_levels(self) -> u8 {
        each_format!(self, Format, f => f.skipped())
    }

    /// The form in which a walk cache keeps an entry that points to a table, and the level under which it does. `None`
    /// if the entry leads to another one of its own table.
    #[inline(always)]
    pub fn kept(self, bits: u64, level: u8) -> Option<(u64, u8)> {
        each_format!(self, Format, f => f.kept(bits, level))
    }

    /// The bits of an entry that maps `leaf` by itself, of one of the format's sizes.
    pub fn encode_leaf(self, leaf: &Leaf) -> u64 {
        each_format!(self, Format, f => f.part(leaf, 0))
    }

    /// The memory an entry of `level` spans.
    #[inline(always)]
    pub fn covers(self, level: u8) -> PageOrder {
        each_format!(self, Format, f => f.covers(level))
    }

    /// The level of the leaf of a page of `order`, and how many neighbouring entries it takes there.
    #[inline]
    pub fn leaf_at(self, order: PageOrder) -> Option<(u8, u32)> {
        each_format!(self, Format, f => f.leaf_at(order))
    }

    /// Whether the kernel maps a block of `order`, as mTHP has them, as one page; else it maps base pages.
    pub fn maps_block(self, order: PageOrder) -> bool {
        each_format!(self, Format, f => f.maps_block(order))
    }
}
