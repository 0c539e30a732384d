//! Page tables as the kernel sees them: one interface over radix, Compendia and hashed tables. Edits of a mapping
//! return a `Flush` for the TLBs. The kernel lends frames through `TableFrames`, and receives merges and resizes as
//! events.

use crate::{
    Flush, Format, Leaf, Root, TableDesc, TableKind,
    compendia::Compendia,
    hashed::{Hashed, HashedDesc},
    radix::Radix,
};
use mmulab_addr::{BASE_BYTES, PageOrder, Pfn, VirtRange, Vpn};
use mmulab_frames::PhysMem;
use thiserror::Error;

/// Where tables get their frames.
pub trait TableFrames {
    /// A base frame for a table; `None` when there is none.
    fn take(&mut self) -> Option<Pfn>;
    /// A frame a table no longer needs.
    fn give_back(&mut self, pfn: Pfn);
    /// An aligned block of `order`, for tables that are larger than a frame; `None` when there is none. Who hands out
    /// no blocks need not say so: tables do without.
    fn take_block(&mut self, _order: PageOrder) -> Option<Pfn> {
        None
    }
    /// The same of a block that may be larger than the allocator's own, as what is in nobody's use lies: 1 GiB.
    fn take_contiguous(&mut self, order: PageOrder) -> Option<Pfn> {
        self.take_block(order)
    }
    /// A block a table no longer needs.
    fn give_back_block(&mut self, pfn: Pfn, order: PageOrder) {
        (0..order.base_pages()).for_each(|i| self.give_back(Pfn(pfn.0 + i)));
    }
    /// What the table did beside the edit that was asked for.
    fn happened(&mut self, _what: TableEvent) {}
}

/// What a table does of its own accord.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TableEvent {
    /// It was decided anew whether a table should be merged with its children.
    Checked,
    /// Tables of `level` and those below became one node.
    Merged {
        /// Of the uppermost ones.
        level: u8,
        /// Levels of them: two, or three.
        levels: u8,
        /// Entries copied into it.
        written: u64,
    },
    /// A node became tables again.
    Unmerged {
        /// Of the uppermost ones.
        level: u8,
        /// Levels of them: two, or three.
        levels: u8,
        /// Entries copied out of it.
        written: u64,
    },
    /// Tables stayed as they are, because there was no block for a node.
    NoBlock {
        /// Of the upper ones.
        level: u8,
    },
    /// Lines of the table of `level` were pushed aside to make room for another, or moved up to fill its place.
    Kicked {
        /// Its level.
        level: u8,
        /// How many.
        lines: u64,
    },
    /// Lines of the table of `level` were moved to ways of another size.
    Rehashed {
        /// Its level.
        level: u8,
        /// How many.
        lines: u64,
    },
    /// The table of `level` got memory for ways of another size, which are zeroed; at first, for any.
    Resized {
        /// Its level.
        level: u8,
        /// Its ways.
        ways: u8,
        /// Lines of a way before; 0 if there were none.
        from: u64,
        /// Lines of a way from now on.
        to: u64,
        /// Pieces of memory of a way.
        pieces: u64,
    },
    /// The table of `level` stayed as large as it is, because there was no memory for another.
    NoResize {
        /// Its level.
        level: u8,
    },
    /// A guide to a hashed table was written.
    Guided,
    /// A node stayed as it is, because there were not enough frames for tables.
    NoFrames {
        /// Of the upper tables.
        level: u8,
    },
}

/// What a software walk found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Probe {
    /// A page. Its accessed and dirty bits are those of any of its entries, if it has several.
    Leaf(Leaf),
    /// Nothing, in all of the aligned page of this order.
    Hole(PageOrder),
}

/// What a table consists of.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Census {
    /// Frames of 4 KiB.
    pub tables: u64,
    /// Frames in nodes.
    pub nodes: u64,
    /// Frames of 4 KiB it would consist of without nodes.
    pub unmerged: u64,
}

impl Census {
    /// Adds another table's.
    pub fn add(&mut self, other: &Self) {
        self.tables += other.tables;
        self.nodes += other.nodes;
        self.unmerged += other.unmerged;
    }
}

/// Whether a page may lie there by its size.
pub(crate) fn aligned(vpn: Vpn, leaf: &Leaf) -> Result<(), MapError> {
    let is_aligned = vpn.align_down(leaf.order) == vpn && leaf.pfn.align_down(leaf.order) == leaf.pfn;
    if is_aligned { Ok(()) } else { Err(MapError::Unaligned) }
}

/// Calls `each` for every page that meets `range`, in order, as `probe` finds them.
fn for_each_leaf(range: VirtRange, probe: impl Fn(Vpn) -> Probe, each: &mut impl FnMut(Vpn, Leaf)) {
    if range.is_empty() {
        return;
    }
    // The page number after the last one, so that a range to the end of the address space works.
    let end = Vpn(range.start.vpn().0 + range.bytes().div_ceil(BASE_BYTES));
    let mut vpn = range.start.vpn();
    while vpn < end {
        let covers = match probe(vpn) {
            Probe::Leaf(leaf) => {
                each(vpn.align_down(leaf.order), leaf);
                leaf.order
            }
            Probe::Hole(order) => order,
        };
        vpn = Vpn(vpn.align_down(covers).0 + covers.base_pages());
    }
}

/// Why a page was not mapped.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum MapError {
    /// There was no frame for a table.
    #[error("no frame left for a page table")]
    OutOfFrames,
    /// Something is mapped there, of this size.
    #[error("a page of {0} is mapped there already")]
    AlreadyMapped(PageOrder),
    /// Smaller pages, or a table for them, are there.
    #[error("smaller pages are mapped there")]
    TableThere,
    /// Virtual or physical address is not aligned to the page's size.
    #[error("the page is not aligned to its size")]
    Unaligned,
    /// No level has leaves of this size.
    #[error("this format has no pages of {0}")]
    NoSuchSize(PageOrder),
    /// Nothing is mapped there.
    #[error("nothing is mapped there")]
    NotMapped,
}

/// A page table as the kernel edits it: one variant per way of laying it out.
#[derive(Debug)]
pub enum Table {
    /// A tree of fixed levels.
    Radix(Radix),
    /// A tree whose dense parts are merged.
    Compendia(Compendia),
    /// Tables found by hashing.
    Hashed(Box<Hashed>),
}

impl Table {
    /// An empty table.
    ///
    /// # Errors
    /// No frame for its root.
    pub fn new(desc: &TableDesc, mem: &mut PhysMem, frames: &mut impl TableFrames) -> Result<Self, MapError> {
        match desc.kind {
            TableKind::X86Radix | TableKind::Riscv | TableKind::Arm => {
                Radix::new(desc.format(), mem, frames).map(Self::Radix)
            }
            TableKind::Compendia => {
                let compendia = desc.compendia.clone().unwrap_or_default();
                Compendia::new(desc.levels.into(), compendia, mem, frames).map(Self::Compendia)
            }
            TableKind::Cuckoo | TableKind::Hashed => {
                let of = match desc.kind {
                    TableKind::Cuckoo => HashedDesc::Cuckoo(desc.cuckoo.clone().unwrap_or_default()),
                    _ => HashedDesc::Open(desc.hashed.clone().unwrap_or_default()),
                };
                Hashed::new(desc.levels.into(), of, mem, frames).map(|table| Self::Hashed(Box::new(table)))
            }
        }
    }

    /// How hardware reads it.
    #[inline(always)]
    pub fn format(&self) -> Format {
        match self {
            Self::Radix(t) => t.format(),
            Self::Compendia(t) => t.format(),
            Self::Hashed(t) => t.format(),
        }
    }

    /// What the base registers say.
    #[inline(always)]
    pub fn root(&self) -> Root {
        match self {
            Self::Radix(t) => t.root(),
            Self::Compendia(t) => t.root().into(),
            Self::Hashed(t) => t.root().into(),
        }
    }

    /// Maps a page where nothing is. No flush is owed for that, for no TLB holds what is not present; but the table may
    /// move parts of itself.
    ///
    /// # Errors
    /// See [`MapError`]; the table is as it was.
    pub fn map(
        &mut self,
        mem: &mut PhysMem,
        frames: &mut impl TableFrames,
        vpn: Vpn,
        leaf: Leaf,
    ) -> Result<Flush, MapError> {
        match self {
            Self::Radix(t) => t.map(mem, frames, vpn, leaf),
            Self::Compendia(t) => t.map(mem, frames, vpn, leaf),
            Self::Hashed(t) => t.map(mem, frames, vpn, leaf),
        }
    }

    /// Removes the page of `order` at `vpn` and the tables that are empty then; what was there, if it was of that
    /// size.
    pub fn unmap(
        &mut self,
        mem: &mut PhysMem,
        frames: &mut impl TableFrames,
        vpn: Vpn,
        order: PageOrder,
    ) -> (Option<Leaf>, Flush) {
        match self {
            Self::Radix(t) => t.unmap(mem, frames, vpn, order),
            Self::Compendia(t) => t.unmap(mem, frames, vpn, order),
            Self::Hashed(t) => t.unmap(mem, frames, vpn, order),
        }
    }

    /// Rewrites the leaf at `vpn` with one of the same size; nothing happens where no such leaf is.
    pub fn set(&mut self, mem: &mut PhysMem, vpn: Vpn, leaf: Leaf) -> Flush {
        match self {
            Self::Radix(t) => t.set(mem, vpn, leaf),
            Self::Compendia(t) => t.set(mem, vpn, leaf),
            Self::Hashed(t) => t.set(mem, vpn, leaf),
        }
    }

    /// Replaces the large page at `vpn` by pages of the next smaller size that takes one entry, of the same frames,
    /// rights and bits.
    ///
    /// # Errors
    /// No frame for the table, or no large page there.
    pub fn split(&mut self, mem: &mut PhysMem, frames: &mut impl TableFrames, vpn: Vpn) -> Result<Flush, MapError> {
        match self {
            Self::Radix(t) => t.split(mem, frames, vpn),
            Self::Compendia(t) => t.split(mem, frames, vpn),
            Self::Hashed(t) => t.split(mem, frames, vpn),
        }
    }

    /// What is mapped at `vpn`.
    #[inline]
    pub fn probe(&self, mem: &PhysMem, vpn: Vpn) -> Probe {
        match self {
            Self::Radix(t) => t.probe(mem, vpn),
            Self::Compendia(t) => t.probe(mem, vpn),
            Self::Hashed(t) => t.probe(mem, vpn),
        }
    }

    /// The page that holds `vpn`: its first base page and its leaf.
    pub fn lookup(&self, mem: &PhysMem, vpn: Vpn) -> Option<(Vpn, Leaf)> {
        match self.probe(mem, vpn) {
            Probe::Leaf(leaf) => Some((vpn.align_down(leaf.order), leaf)),
            Probe::Hole(_) => None,
        }
    }

    /// Calls `each` for every page that meets `range`, in order.
    pub fn for_each_leaf(&self, mem: &PhysMem, range: VirtRange, mut each: impl FnMut(Vpn, Leaf)) {
        for_each_leaf(range, |vpn| self.probe(mem, vpn), &mut each);
    }

    /// A mapping of `range` was asked for at once, of which nothing is mapped so far. Some tables prepare for that.
    pub fn requested(&mut self, range: VirtRange) {
        if let Self::Compendia(t) = self {
            t.requested(range);
        }
    }

    /// What was asked for in `range` is not any more.
    pub fn forgotten(&mut self, range: VirtRange) {
        if let Self::Compendia(t) = self {
            t.forgotten(range);
        }
    }

    /// An empty table begins as a copy of the address space that `from` translates: what was asked for there, was here.
    pub fn inherit(&mut self, from: &Self) {
        if let (Self::Compendia(t), Self::Compendia(from)) = (self, from) {
            t.inherit(from);
        }
    }

    /// Frames the table occupies, its root included.
    pub fn table_frames(&self) -> u64 {
        match self {
            Self::Radix(t) => t.table_frames(),
            Self::Compendia(t) => t.table_frames(),
            Self::Hashed(t) => t.table_frames(),
        }
    }

    /// What it consists of.
    pub fn census(&self) -> Census {
        match self {
            Self::Radix(t) => Census { tables: t.table_frames(), nodes: 0, unmerged: t.table_frames() },
            Self::Compendia(t) => t.census(),
            Self::Hashed(t) => Census { tables: t.table_frames(), nodes: 0, unmerged: t.table_frames() },
        }
    }

    /// Gives all frames of the table back. The pages it maps are the caller's to release.
    pub fn free(self, mem: &mut PhysMem, frames: &mut impl TableFrames) {
        match self {
            Self::Radix(t) => t.free(mem, frames),
            Self::Compendia(t) => t.free(mem, frames),
            Self::Hashed(t) => t.free(mem, frames),
        }
    }
}
