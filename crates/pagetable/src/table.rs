use crate::{Flush, Format, Leaf, TableDesc, radix::Radix};
use mmulab_addr::{PageOrder, Pfn, PhysAddr, VirtRange, Vpn};
use mmulab_frames::PhysMem;
use thiserror::Error;

/// Where tables get their frames.
pub trait TableFrames {
    /// A base frame for a table; `None` when there is none.
    fn take(&mut self) -> Option<Pfn>;
    /// A frame a table no longer needs.
    fn give_back(&mut self, pfn: Pfn);
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
}

impl Table {
    /// An empty table.
    ///
    /// # Errors
    /// No frame for its root.
    pub fn new(desc: &TableDesc, mem: &mut PhysMem, frames: &mut impl TableFrames) -> Result<Self, MapError> {
        Radix::new(desc.format(), mem, frames).map(Self::Radix)
    }

    /// How hardware reads it.
    #[inline(always)]
    pub fn format(&self) -> Format {
        match self {
            Self::Radix(t) => t.format(),
        }
    }

    /// What the base register points to.
    #[inline(always)]
    pub fn root(&self) -> PhysAddr {
        match self {
            Self::Radix(t) => t.root(),
        }
    }

    /// Maps a page where nothing is: no flush is owed, for no TLB holds what is not present.
    ///
    /// # Errors
    /// See [`MapError`]; the table is as it was, but for empty tables that a later edit will use.
    pub fn map(
        &mut self,
        mem: &mut PhysMem,
        frames: &mut impl TableFrames,
        vpn: Vpn,
        leaf: Leaf,
    ) -> Result<(), MapError> {
        match self {
            Self::Radix(t) => t.map(mem, frames, vpn, leaf),
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
        }
    }

    /// Rewrites the leaf at `vpn` with one of the same size; nothing happens where no such leaf is.
    pub fn set(&mut self, mem: &mut PhysMem, vpn: Vpn, leaf: Leaf) -> Flush {
        match self {
            Self::Radix(t) => t.set(mem, vpn, leaf),
        }
    }

    /// Replaces the large page at `vpn` by the pages one level below, of the same frames, rights and bits.
    ///
    /// # Errors
    /// No frame for the table, or no large page there.
    pub fn split(&mut self, mem: &mut PhysMem, frames: &mut impl TableFrames, vpn: Vpn) -> Result<Flush, MapError> {
        match self {
            Self::Radix(t) => t.split(mem, frames, vpn),
        }
    }

    /// The page that holds `vpn`: its first base page and its leaf.
    pub fn lookup(&self, mem: &PhysMem, vpn: Vpn) -> Option<(Vpn, Leaf)> {
        match self {
            Self::Radix(t) => t.lookup(mem, vpn),
        }
    }

    /// Calls `each` for every page that meets `range`, in order.
    pub fn for_each_leaf(&self, mem: &PhysMem, range: VirtRange, mut each: impl FnMut(Vpn, Leaf)) {
        match self {
            Self::Radix(t) => t.for_each_leaf(mem, range, &mut each),
        }
    }

    /// Frames the table occupies, its root included.
    pub fn table_frames(&self) -> u64 {
        match self {
            Self::Radix(t) => t.table_frames(),
        }
    }

    /// Gives all frames of the table back. The pages it maps are the caller's to release.
    pub fn free(self, mem: &mut PhysMem, frames: &mut impl TableFrames) {
        match self {
            Self::Radix(t) => t.free(mem, frames),
        }
    }
}
