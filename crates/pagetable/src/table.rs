//! Page tables as the kernel edits them. Every edit begins alike, whatever the format: is there a page of this size, is
//! it aligned, what is mapped there? [`Edited`] has these beginnings once, and the flush that an edit owes; a layout of
//! tables ([`Tables`]) adds what it writes.
//!
//! ```text
//! map    size? aligned? --> add      --> nothing to flush ---.
//! unmap  find, same size? --> remove --> flush the page -----+--> or all memory below tables that moved
//! set    find, same size? --> rewrite -> flush the page      |
//! split  find, large?   --> divide   --> flush the page -----|
//! join   find, all there? -> rewrite -> flush the page ------'
//! ```

use crate::{
    Census, Flush, Format, Leaf, MapError, Probe, Root, TableDesc, TableFrames, TableKind,
    table_format::{BuiltFor, TableFormat},
    tables::{Moved, Tables},
};
use mmulab_addr::{BASE_BYTES, PageOrder, Pfn, VirtRange, Vpn};
use mmulab_frames::PhysMem;

/// The tables of a format, as the kernel edits them.
#[derive(Debug)]
pub struct Edited<F: TableFormat> {
    format: F,
    tables: F::Tables,
}

impl<F: TableFormat> Edited<F> {
    fn new(
        format: F,
        params: Option<&F::Params>,
        mem: &mut PhysMem,
        frames: &mut impl TableFrames,
    ) -> Result<Self, MapError> {
        Ok(Self { format, tables: F::Tables::build(format, params, mem, frames)? })
    }

    /// See [`Table::map`].
    fn map(
        &mut self,
        mem: &mut PhysMem,
        frames: &mut impl TableFrames,
        vpn: Vpn,
        leaf: &Leaf,
    ) -> Result<Flush, MapError> {
        if self.format.leaf_at(leaf.order).is_none() {
            return Err(MapError::NoSuchSize(leaf.order));
        }
        if vpn.align_down(leaf.order) != vpn || leaf.pfn.align_down(leaf.order) != leaf.pfn {
            return Err(MapError::Unaligned);
        }
        let moved = self.tables.add(mem, frames, vpn, leaf)?;
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
        let Some((place, leaf)) = self.tables.find(mem, vpn).filter(|(_, leaf)| leaf.order == order) else {
            return (None, Flush::nothing());
        };
        let first = vpn.align_down(order);
        let moved = self.tables.remove(mem, frames, first, place, &leaf);
        (Some(leaf), owed(first, moved, Flush::page(first.addr(), order)))
    }

    /// See [`Table::set`].
    fn set(&mut self, mem: &mut PhysMem, vpn: Vpn, leaf: &Leaf) -> Flush {
        let Some((place, _)) = self.tables.find(mem, vpn).filter(|(_, there)| there.order == leaf.order) else {
            return Flush::nothing();
        };
        let first = vpn.align_down(leaf.order);
        self.tables.rewrite(mem, first, place, leaf);
        Flush::page(first.addr(), leaf.order)
    }

    /// See [`Table::split`].
    fn split(&mut self, mem: &mut PhysMem, frames: &mut impl TableFrames, vpn: Vpn) -> Result<Flush, MapError> {
        let (place, leaf) = self.tables.find(mem, vpn).ok_or(MapError::NotMapped)?;
        if leaf.order == F::GRANULE.base() {
            return Err(MapError::NoSuchSize(leaf.order));
        }
        let first = vpn.align_down(leaf.order);
        let moved = self.tables.divide(mem, frames, first, place, &leaf)?;
        Ok(owed(first, moved, Flush::page(first.addr(), leaf.order)))
    }

    /// See [`Table::join`].
    fn join(&mut self, mem: &mut PhysMem, vpn: Vpn, leaf: &Leaf) -> Result<Flush, MapError> {
        let group = self.format.leaf_at(leaf.order).filter(|&(_, entries)| entries > 1);
        let (_, entries) = group.ok_or(MapError::NoSuchSize(leaf.order))?;
        if vpn.align_down(leaf.order) != vpn || leaf.pfn.align_down(leaf.order) != leaf.pfn {
            return Err(MapError::Unaligned);
        }
        let pages = leaf.order.base_pages() / u64::from(entries);
        for part in 0..u64::from(entries) {
            match self.tables.probe(mem, Vpn(vpn.0 + part * pages)) {
                Probe::Leaf(there) if there.order.base_pages() != pages => {
                    return Err(MapError::AlreadyMapped(there.order));
                }
                Probe::Leaf(there) if there.pfn.0 == leaf.pfn.0 + part * pages => {}
                Probe::Leaf(_) => return Err(MapError::Unaligned),
                Probe::Hole(_) => return Err(MapError::NotMapped),
            }
        }
        let (place, _) = self.tables.find(mem, vpn).ok_or(MapError::NotMapped)?;
        self.tables.rewrite(mem, vpn, place, leaf);
        Ok(Flush::page(vpn.addr(), leaf.order))
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

/// The flush that TLBs and walk caches need after an edit at `vpn`: all memory whose tables moved, or else `otherwise`.
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
                $variant(Edited<crate::formats::$module::$variant>),
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
                        Edited::new(Of::new(desc.levels.into(), params), params, mem, frames).map(Self::$variant)
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
        each_format!(self, Table, t => t.format.into())
    }

    /// Contents of the base registers.
    #[inline(always)]
    pub fn root(&self) -> Root {
        each_format!(self, Table, t => t.tables.root())
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

    /// Makes one page of the neighbouring entries from `vpn` on, each of which maps its part of `leaf` so far: what
    /// Svnapot and Arm's Contiguous bit are for. No table comes or goes.
    ///
    /// # Errors
    /// The format has no page of that size that takes several entries, or an entry maps no such part; the table is as
    /// it was.
    pub fn join(&mut self, mem: &mut PhysMem, vpn: Vpn, leaf: Leaf) -> Result<Flush, MapError> {
        each_format!(self, Table, t => t.join(mem, vpn, &leaf))
    }

    /// The mapping at `vpn`.
    #[inline]
    pub fn probe(&self, mem: &PhysMem, vpn: Vpn) -> Probe {
        each_format!(self, Table, t => t.tables.probe(mem, vpn))
    }

    /// The pages of `order` from `vpn` on, as many as `found` has room for. It ends at the first that is not there or
    /// has another size. The size takes one entry, and `vpn` is aligned to the memory of them all. Returns how many
    /// places were looked at, the last one included.
    pub fn row(&self, mem: &PhysMem, vpn: Vpn, order: PageOrder, found: &mut [Option<Leaf>]) -> usize {
        each_format!(self, Table, t => t.tables.row(mem, vpn, order, found))
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
        each_format!(self, Table, t => t.tables.requested(range));
    }

    /// The program unmapped `range`.
    pub fn forgotten(&mut self, range: VirtRange) {
        each_format!(self, Table, t => t.tables.forgotten(range));
    }

    /// An empty table begins as a copy of the address space that `from` translates, with its requests.
    pub fn inherit(&mut self, from: &Self) {
        let requests = each_format!(from, Table, t => t.tables.requests());
        each_format!(self, Table, t => t.tables.inherit(requests));
    }

    /// Frames the table occupies, its root included.
    pub fn table_frames(&self) -> u64 {
        each_format!(self, Table, t => t.tables.table_frames())
    }

    /// Its frames and nodes.
    pub fn census(&self) -> Census {
        each_format!(self, Table, t => t.tables.census())
    }

    /// Lends the table that maps the aligned `covers` around `vpn` to other address spaces, with all tables below it:
    /// their frames are not given back here any more. `None` if there is no table for just that, or the format has none
    /// that can be lent.
    pub fn lend(&mut self, mem: &PhysMem, vpn: Vpn, covers: PageOrder) -> Option<Pfn> {
        each_format!(self, Table, t => t.tables.lend(mem, vpn, covers))
    }

    /// The lent table that maps `covers` around `vpn` belongs to this address space alone again, with all below it.
    pub fn take_back(&mut self, mem: &PhysMem, vpn: Vpn, covers: PageOrder) {
        each_format!(self, Table, t => t.tables.take_back(mem, vpn, covers));
    }

    /// Points to a lent table as the one that maps `covers` around `vpn`. No flush is owed: nothing was mapped there.
    ///
    /// # Errors
    /// Something is mapped there, no frame is left for the tables above, or the format has no such tables.
    pub fn graft(
        &mut self,
        mem: &mut PhysMem,
        frames: &mut impl TableFrames,
        vpn: Vpn,
        covers: PageOrder,
        table: Pfn,
    ) -> Result<(), MapError> {
        each_format!(self, Table, t => t.tables.graft(mem, frames, vpn, covers, table))
    }

    /// Points to the lent table that maps `covers` around `vpn` no longer. All that it mapped is to be flushed.
    pub fn ungraft(&mut self, mem: &mut PhysMem, frames: &mut impl TableFrames, vpn: Vpn, covers: PageOrder) -> Flush {
        each_format!(self, Table, t => t.tables.ungraft(mem, frames, vpn, covers));
        Flush::page(vpn.align_down(covers).addr(), covers)
    }

    /// Puts a copy of its own in the place of the lent table that maps `covers` around `vpn`, with copies of all tables
    /// below it. Returns the number of tables copied. They translate alike; walk caches that point to the lent ones are
    /// to be flushed.
    ///
    /// # Errors
    /// No frame is left for a copy; the table is as it was.
    pub fn copy_lent(
        &mut self,
        mem: &mut PhysMem,
        frames: &mut impl TableFrames,
        vpn: Vpn,
        covers: PageOrder,
    ) -> Result<(u64, Flush), MapError> {
        let tables = each_format!(self, Table, t => t.tables.copy_lent(mem, frames, vpn, covers))?;
        Ok((tables, Flush::page(vpn.align_down(covers).addr(), covers)))
    }

    /// Gives all frames of the table back. The pages it maps are the caller's to release.
    pub fn free(self, mem: &mut PhysMem, frames: &mut impl TableFrames) {
        each_format!(self, Table, t => t.tables.free(mem, frames));
    }
}
