//! Declarations of a format's file: how hardware reads its tables, and which tables the kernel makes for it. Code that
//! works for any format is written over [`TableFormat`]; [`crate::Format`] is one of them all, above the list of
//! formats.

use crate::{
    Leaf, MapError, Next, Root, Step, TableFrames,
    entry::{Entries, Entry},
    geometry::{self, Granule},
    hashed::{self, Hashing},
    tables::Tables,
};
use mmulab_addr::{PageOrder, Pfn, VirtAddr};
use mmulab_frames::PhysMem;
use std::ops::{Range, RangeInclusive};

/// Neighbouring entries of one table that map one page together, as Svnapot and Arm's Contiguous bit have them.
#[derive(Clone, Copy, Debug)]
pub struct Group {
    /// The level of the entries.
    pub level: u8,
    /// How many there are, as a power of two.
    pub log: u8,
}

/// Parameters of formats that have none.
#[derive(Clone, Default, Debug)]
pub struct NoParams;

/// A page-table format: everything that distinguishes it from others. Values of the type are one format of a machine:
/// its number of levels and whatever else hardware must know to read an entry.
pub trait TableFormat: Copy {
    /// Its name in machine files.
    const NAME: &'static str;
    /// Its description, for the schema and the reference.
    const DOC: &'static str;
    /// The numbers of levels that it may have.
    const LEVELS: RangeInclusive<u8>;
    /// The size of its base pages and of its tables, and so how many bits of the address a level translates.
    const GRANULE: Granule = Granule::K4;
    /// The highest level that has leaves; in tables with fewer levels, all have.
    const HIGHEST_LEAF: u8 = 3;
    /// The groups of entries that can map one page, smaller ones first.
    const GROUPS: &'static [Group] = &[];
    /// Addresses whose highest bit is set have a tree of their own.
    const HAS_UPPER_TREE: bool = false;
    /// How many levels an entry can pass over.
    const SKIPPED_LEVELS: u8 = 0;
    /// The kernel maps a block of mTHP as one page, if the format has its size. Linux 6.6 does so in no processor's
    /// format: it maps such blocks by base pages (Arm's Contiguous bit serves them from 6.9 on,
    /// arch/arm64/mm/contpte.c).
    const MAPS_BLOCKS: bool = false;
    /// The levels whose lines walk caches can hold, if the table is found by hashing.
    const WALK_TABLE_LEVELS: Option<Range<u8>> = None;

    /// Its table of parameters in machine files.
    type Params: Clone + Default;
    /// Meaning of its entries.
    type Entries: Entries;
    /// Its tables as the kernel edits them.
    type Tables: BuiltFor<Self>;

    /// The format with this number of levels.
    fn new(levels: u8, params: Option<&Self::Params>) -> Self;

    /// The parameters given, or else the default ones.
    fn given(params: Option<&Self::Params>) -> Self::Params {
        params.cloned().unwrap_or_default()
    }

    /// Whether a table with this number of levels can follow the parameters.
    ///
    /// # Errors
    /// Parameters that contradict each other or the levels.
    fn check(_levels: u8, _params: &Self::Params) -> Result<(), String> {
        Ok(())
    }

    /// Levels of a tree for as many bits of address.
    fn depth(self) -> u8;

    /// Levels that walks count.
    #[inline(always)]
    fn levels(self) -> u8 {
        self.depth()
    }

    /// How its tables are searched, if they are not descended.
    #[inline(always)]
    fn hashing(self) -> Option<Hashing> {
        None
    }

    /// The memory an entry of `level` spans.
    #[inline(always)]
    fn covers(self, level: u8) -> PageOrder {
        if self.hashing().is_some() { hashed::covers(level) } else { Self::GRANULE.covers(level) }
    }

    /// Bits of a virtual address that it translates.
    fn address_bits(self) -> u8 {
        Self::GRANULE.address_bits(self.depth())
    }

    /// Whether the address is canonical, so that a program can have it.
    fn is_canonical(self, va: u64) -> bool {
        geometry::is_sign_extended(self.address_bits(), va)
    }

    /// Entries of a table of `level`.
    fn entries(self, level: u8) -> u64 {
        let is_top = level == self.depth();
        if is_top { Self::GRANULE.top_entries(level) } else { Self::GRANULE.entries() }
    }

    /// The first entry of a walk from the root of a tree. Tables that are searched have no tree: a walk of one would
    /// end at its first entry.
    #[inline(always)]
    fn start(self, root: Root, va: VirtAddr) -> Step {
        let depth = if self.hashing().is_some() { 1 } else { self.depth() };
        Self::GRANULE.start(depth, root.lower, va)
    }

    /// Meaning of the bits of the entry at `step` of a tree for `va`. An entry may lead to another one of its own
    /// table, which has the same level.
    #[inline(always)]
    fn next(self, bits: u64, step: Step, va: VirtAddr) -> Next {
        Self::GRANULE.next::<Self::Entries>(bits, step, va)
    }

    /// The page that the bits map at `level`, if any, by this entry alone.
    #[inline(always)]
    fn decode_leaf(self, bits: u64, level: u8) -> Option<Leaf> {
        match Self::Entries::decode(bits, level) {
            Entry::Leaf(leaf) => Some(leaf),
            Entry::Nothing | Entry::Table(..) => None,
        }
    }

    /// The frame that `bits` names, if they are those of `leaf`, an entry of the same level for a page of `order`, in
    /// all but the frame. `None` if not, and for formats where that takes more than a glance.
    #[inline(always)]
    fn frame_of_alike(self, bits: u64, leaf: u64, order: PageOrder) -> Option<Pfn> {
        Self::Entries::frame_of_alike(bits, leaf, order)
    }

    /// The form in which a walk cache keeps an entry that points to a table, and the level under which it does. `None`
    /// if the entry leads to another one of its own table.
    #[inline(always)]
    fn kept(self, bits: u64, level: u8) -> Option<(u64, u8)> {
        Some((bits, level))
    }

    /// The bits of entry number `part` of those that map `leaf`.
    fn part(self, leaf: &Leaf, _part: u64) -> u64 {
        Self::Entries::leaf(leaf)
    }

    /// The level of the leaf of a page of `order`, and how many neighbouring entries it takes there.
    fn leaf_at(self, order: PageOrder) -> Option<(u8, u32)> {
        let single = |level: &u8| Self::GRANULE.covers(*level) == order;
        let grouped = |group: &&Group| Self::GRANULE.covers(group.level).get() + group.log == order.get();
        let highest = Self::HIGHEST_LEAF.min(self.depth());
        (1..=highest).find(single).map(|level| (level, 1)).or_else(|| {
            let group = Self::GROUPS.iter().find(grouped)?;
            Some((group.level, 1 << group.log))
        })
    }
}

/// Tables that can be made for a format.
pub trait BuiltFor<F: TableFormat>: Tables {
    /// An empty table.
    ///
    /// # Errors
    /// No frame for its root.
    fn build(
        format: F,
        params: Option<&F::Params>,
        mem: &mut PhysMem,
        frames: &mut impl TableFrames,
    ) -> Result<Self, MapError>;
}
