//! Tables as a layout writes them: trees ([`crate::radix`]), trees with merged nodes ([`crate::compendia`]) and tables
//! found by hashing ([`crate::hashed`]). How every edit begins, whatever the layout, is in [`crate::table`].

use crate::{Leaf, Root, TableFrames, compendia::Requests};
use mmulab_addr::{PageOrder, Pfn, VirtRange, Vpn};
use mmulab_frames::PhysMem;
use thiserror::Error;

/// Result of a software walk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Probe {
    /// A page. Its accessed and dirty bits are those of any of its entries, if it has several.
    Leaf(Leaf),
    /// Nothing, in all of the aligned page of this order.
    Hole(PageOrder),
}

/// Frames and nodes of a table.
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

/// Tables laid out in one way, as the kernel edits them.
pub trait Tables: Sized {
    /// Where an entry is that maps a page.
    type Place;

    /// Contents of the base registers.
    fn root(&self) -> Root;

    /// Frames the tables occupy, the root's included.
    fn table_frames(&self) -> u64;

    /// Their frames and nodes.
    fn census(&self) -> Census {
        Census { tables: self.table_frames(), nodes: 0, unmerged: self.table_frames() }
    }

    /// The mapping at `vpn`.
    fn probe(&self, mem: &PhysMem, vpn: Vpn) -> Probe;

    /// The pages of a size from `vpn` on: see [`crate::Table::row`].
    fn row(&self, mem: &PhysMem, vpn: Vpn, order: PageOrder, found: &mut [Option<Leaf>]) -> usize {
        for (i, place) in found.iter_mut().enumerate() {
            match self.probe(mem, Vpn(vpn.0 + i as u64 * order.base_pages())) {
                Probe::Leaf(leaf) if leaf.order == order => *place = Some(leaf),
                Probe::Leaf(_) | Probe::Hole(_) => return i + 1,
            }
        }
        found.len()
    }

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

    /// Lends the table that maps the aligned `covers` around `vpn`, if there is one that other address spaces' tables
    /// could point to as well. It belongs to all that share it from now on, with all tables below it: none of them is
    /// pruned or given back here.
    fn lend(&mut self, _mem: &PhysMem, _vpn: Vpn, _covers: PageOrder) -> Option<Pfn> {
        None
    }

    /// The lent table that maps `covers` around `vpn`, whose other users are gone, belongs here again, with all below.
    fn take_back(&mut self, _mem: &PhysMem, _vpn: Vpn, _covers: PageOrder) {}

    /// Points to a lent table, as the one that maps `covers` around `vpn`.
    ///
    /// # Errors
    /// Something is mapped there, no frame is left for the tables above, or the layout has no such tables.
    fn graft(
        &mut self,
        _mem: &mut PhysMem,
        _frames: &mut impl TableFrames,
        _vpn: Vpn,
        covers: PageOrder,
        _table: Pfn,
    ) -> Result<(), MapError> {
        Err(MapError::NoSuchSize(covers))
    }

    /// Points to it no longer.
    fn ungraft(&mut self, _mem: &mut PhysMem, _frames: &mut impl TableFrames, _vpn: Vpn, _covers: PageOrder) {}

    /// Puts a copy of its own in the place of the lent table that maps `covers` around `vpn`, with copies of all tables
    /// below it. The number of tables copied.
    ///
    /// # Errors
    /// No frame is left for one; the tables are as they were.
    fn copy_lent(
        &mut self,
        _mem: &mut PhysMem,
        _frames: &mut impl TableFrames,
        _vpn: Vpn,
        _covers: PageOrder,
    ) -> Result<u64, MapError> {
        Err(MapError::NotMapped)
    }

    /// Gives all frames back.
    fn free(self, mem: &mut PhysMem, frames: &mut impl TableFrames);
}
