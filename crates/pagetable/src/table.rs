//! Page tables as the kernel edits them. Every edit begins alike, whatever the format: is there a page of this size, is
//! it aligned, what is mapped there? [`Tables`] has these beginnings once, and the flush that an edit owes; a layout of
//! tables ([`crate::radix`], [`crate::compendia`], [`crate::hashed`]) adds what it writes.
//!
//! ```text
//! map    size? aligned? --> add      --> nothing to flush ---.
//! unmap  find, same size? --> remove --> flush the page -----+--> or all memory below tables that moved
//! set    find, same size? --> rewrite -> flush the page      |
//! split  find, large?   --> divide   --> flush the page -----'
//! ```

use crate::{Flush, Format, Leaf, Root, TableDesc, TableFrames, TableKind, compendia::Requests, format::TableFormat};
use mmulab_addr::{BASE_BYTES, PageOrder, VirtRange, Vpn};
use mmulab_frames::PhysMem;
use thiserror::Error;

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

/// The memory whose tables lie elsewhere after an edit, around the page that was edited; `None` if no table moved.
pub type Moved = Option<PageOrder>;

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

/// Tables laid out in one way, as the kernel edits them.
pub trait Tables: Sized {
    /// Where an entry is that maps a page.
    type Place;

    /// How hardware reads them.
    fn format(&self) -> Format;

    /// What the base registers contain.
    fn root(&self) -> Root;

    /// Frames the tables occupy, the root's included.
    fn table_frames(&self) -> u64;

    /// What they consist of.
    fn census(&self) -> Census {
        Census { tables: self.table_frames(), nodes: 0, unmerged: self.table_frames() }
    }

    /// What is mapped at `vpn`.
    fn probe(&self, mem: &PhysMem, vpn: Vpn) -> Probe;

    /// The page that holds `vpn`. Its accessed and dirty bits are those of any of its entries.
    fn find(&self, mem: &PhysMem, vpn: Vpn) -> Option<(Self::Place, Leaf)>;

    /// Adds a page of a size that the format has, at its alignment.
    ///
    /// # Errors
    /// Something is mapped there, or no frame is left for a table; the tables are as they were.
    fn add(
        &mut self,
        mem: &mut PhysMem,
        frames: &mut impl TableFrames,
        vpn: Vpn,
        leaf: &Leaf,
    ) -> Result<Moved, MapError>;

    /// Removes the page whose first base page is `vpn`, and the tables that are empty then.
    fn remove(
        &mut self,
        mem: &mut PhysMem,
        frames: &mut impl TableFrames,
        vpn: Vpn,
        place: Self::Place,
        leaf: &Leaf,
    ) -> Moved;

    /// Writes another leaf of the same size.
    fn rewrite(&mut self, mem: &mut PhysMem, vpn: Vpn, place: Self::Place, leaf: &Leaf);

    /// Replaces the large page whose first base page is `vpn` by pages of the next smaller size that takes one entry.
    ///
    /// # Errors
    /// No frame is left for a table; the tables are as they were.
    fn divide(
        &mut self,
        mem: &mut PhysMem,
        frames: &mut impl TableFrames,
        vpn: Vpn,
        place: Self::Place,
        leaf: &Leaf,
    ) -> Result<Moved, MapError>;

    /// A mapping of `range` was requested at once, of which nothing is mapped so far.
    fn requested(&mut self, _range: VirtRange) {}

    /// The program unmapped `range`.
    fn forgotten(&mut self, _range: VirtRange) {}

    /// The mappings that were requested at once, as far as they matter.
    fn requests(&self) -> Requests {
        Requests::default()
    }

    /// The tables begin as those of a copied address space, with its requests.
    fn inherit(&mut self, _requests: Requests) {}

    /// Gives all frames back.
    fn free(self, mem: &mut PhysMem, frames: &mut impl TableFrames);

    /// See [`Table::map`].
    fn map(
        &mut self,
        mem: &mut PhysMem,
        frames: &mut impl TableFrames,
        vpn: Vpn,
        leaf: &Leaf,
    ) -> Result<Flush, MapError> {
        if self.format().leaf_at(leaf.order).is_none() {
            return Err(MapError::NoSuchSize(leaf.order));
        }
        if vpn.align_down(leaf.order) != vpn || leaf.pfn.align_down(leaf.order) != leaf.pfn {
            return Err(MapError::Unaligned);
        }
        let moved = self.add(mem, frames, vpn, leaf)?;
        Ok(owed(vpn, moved, Flush::nothing()))
    }

    /// See [`Table::unmap`].
    fn unmap(
        &mut self,
        mem: &mut PhysMem,
        frames: &mut impl TableFrames,
        vpn: Vpn,
        order: PageOrder,
    ) -> (Option<Leaf>, Flush) {
        let Some((place, leaf)) = self.find(mem, vpn).filter(|(_, leaf)| leaf.order == order) else {
            return (None, Flush::nothing());
        };
        let first = vpn.align_down(order);
        let moved = self.remove(mem, frames, first, place, &leaf);
        (Some(leaf), owed(first, moved, Flush::page(first.addr(), order)))
    }

    /// See [`Table::set`].
    fn set(&mut self, mem: &mut PhysMem, vpn: Vpn, leaf: &Leaf) -> Flush {
        let Some((place, _)) = self.find(mem, vpn).filter(|(_, there)| there.order == leaf.order) else {
            return Flush::nothing();
        };
        let first = vpn.align_down(leaf.order);
        self.rewrite(mem, first, place, leaf);
        Flush::page(first.addr(), leaf.order)
    }

    /// See [`Table::split`].
    fn split(&mut self, mem: &mut PhysMem, frames: &mut impl TableFrames, vpn: Vpn) -> Result<Flush, MapError> {
        let (place, leaf) = self.find(mem, vpn).ok_or(MapError::NotMapped)?;
        if leaf.order == PageOrder::P4K {
            return Err(MapError::NoSuchSize(leaf.order));
        }
        let first = vpn.align_down(leaf.order);
        let moved = self.divide(mem, frames, first, place, &leaf)?;
        Ok(owed(first, moved, Flush::page(first.addr(), leaf.order)))
    }
}

/// What TLBs and walk caches must forget after an edit at `vpn`: all memory whose tables moved, or else `otherwise`.
fn owed(vpn: Vpn, moved: Moved, otherwise: Flush) -> Flush {
    match moved {
        Some(order) => Flush::tables(vpn.addr(), order),
        None => otherwise,
    }
}

macro_rules! table_enum {
    (() $($module:ident :: $variant:ident $({ $(#[$doc:meta])* $key:ident : $params:ty })?;)*) => {
        /// A page table as the kernel edits it: one variant per format.
        #[derive(Debug)]
        pub enum Table {
            $(
                #[doc = concat!("A table of kind `", stringify!($variant), "`.")]
                $variant(<crate::formats::$module::$variant as TableFormat>::Tables),
            )*
        }

        impl Table {
            /// An empty table.
            ///
            /// # Errors
            /// No frame for its root.
            pub fn new(
                desc: &TableDesc,
                mem: &mut PhysMem,
                frames: &mut impl TableFrames,
            ) -> Result<Self, MapError> {
                match desc.kind {
                    $(TableKind::$variant => {
                        type Of = crate::formats::$module::$variant;
                        let params = given!(desc $(, $key)?);
                        BuiltFor::build(Of::new(desc.levels.into(), params), params, mem, frames).map(Self::$variant)
                    })*
                }
            }
        }
    };
}

formats!(table_enum());

impl Table {
    /// How hardware reads it.
    #[inline(always)]
    pub fn format(&self) -> Format {
        each_format!(self, Table, t => t.format())
    }

    /// What the base registers contain.
    #[inline(always)]
    pub fn root(&self) -> Root {
        each_format!(self, Table, t => t.root())
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
        each_format!(self, Table, t => t.map(mem, frames, vpn, &leaf))
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
        each_format!(self, Table, t => t.unmap(mem, frames, vpn, order))
    }

    /// Rewrites the leaf at `vpn` with one of the same size; nothing happens where no such leaf is.
    pub fn set(&mut self, mem: &mut PhysMem, vpn: Vpn, leaf: Leaf) -> Flush {
        each_format!(self, Table, t => t.set(mem, vpn, &leaf))
    }

    /// Replaces the large page at `vpn` by pages of the next smaller size that takes one entry, of the same frames,
    /// rights and bits.
    ///
    /// # Errors
    /// No frame for the table, or no large page there.
    pub fn split(&mut self, mem: &mut PhysMem, frames: &mut impl TableFrames, vpn: Vpn) -> Result<Flush, MapError> {
        each_format!(self, Table, t => t.split(mem, frames, vpn))
    }

    /// What is mapped at `vpn`.
    #[inline]
    pub fn probe(&self, mem: &PhysMem, vpn: Vpn) -> Probe {
        each_format!(self, Table, t => t.probe(mem, vpn))
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

    /// A mapping of `range` was requested at once, of which nothing is mapped so far. Some tables prepare for that.
    pub fn requested(&mut self, range: VirtRange) {
        each_format!(self, Table, t => t.requested(range));
    }

    /// The program unmapped `range`.
    pub fn forgotten(&mut self, range: VirtRange) {
        each_format!(self, Table, t => t.forgotten(range));
    }

    /// An empty table begins as a copy of the address space that `from` translates, with its requests.
    pub fn inherit(&mut self, from: &Self) {
        let requests = each_format!(from, Table, t => t.requests());
        each_format!(self, Table, t => t.inherit(requests));
    }

    /// Frames the table occupies, its root included.
    pub fn table_frames(&self) -> u64 {
        each_format!(self, Table, t => t.table_frames())
    }

    /// What it consists of.
    pub fn census(&self) -> Census {
        each_format!(self, Table, t => t.census())
    }

    /// Gives all frames of the table back. The pages it maps are the caller's to release.
    pub fn free(self, mem: &mut PhysMem, frames: &mut impl TableFrames) {
        each_format!(self, Table, t => t.free(mem, frames));
    }
}
