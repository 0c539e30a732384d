//! Trees of tables as the kernel edits them, for every format that is one. The format states what the bits of entries
//! mean, and the granule, which is the size of a table. The code here allocates tables, frees empty ones, and writes
//! all entries of a page that takes several.
//!
//! ```text
//! four levels    4         3         2         1
//! va bits        47..39    38..30    29..21    20..12    11..0
//!                table --> table --> table --> leaf PTE  offset in a page of 4 KiB
//! ```

use crate::entry::Entries;
use crate::geometry::ENTRY_BYTES;
use crate::table_format::{BuiltFor, Group, TableFormat};
use crate::tables::{Moved, Tables};
use crate::{Leaf, MapError, Next, Probe, Rights, Root, Step, TableFrames};
use mmulab_addr::{PageOrder, Pfn, PhysAddr, Vpn};
use mmulab_frames::PhysMem;
use rustc_hash::FxHashMap;

/// A tree of fixed levels.
#[derive(Debug)]
pub struct Radix<F> {
    format: F,
    root: Pfn,
    /// The root of upper addresses, where they have one of their own.
    upper: Option<Pfn>,
    /// Entries in use per table, by its first frame, so that an empty one is known without reading it. The kernel's own
    /// bookkeeping, as Linux keeps in the `struct page` of a table: hardware never sees it.
    used: FxHashMap<Pfn, u32>,
    /// Tables that other address spaces point to as well, and whose frames another owner keeps, with all tables below
    /// them. FreeBSD with shared tables marks the entry that points to one by a bit that hardware ignores (paper 2,
    /// section VI-B). Each with the entries of this tree that point to it. Those below are not listed.
    lent: FxHashMap<Pfn, u32>,
}

/// The entries from the root to where a walk ended, one of each level.
pub struct Path {
    steps: [Option<Step>; 8],
    depth: usize,
}

impl Path {
    /// Adds the next entry; it replaces one of its own table, which led to it.
    fn push(&mut self, step: Step) {
        let leads_here = self.depth > 0 && self.last().level == step.level;
        self.depth += usize::from(!leads_here);
        self.steps[self.depth - 1] = Some(step);
    }

    fn last(&self) -> Step {
        self.steps[self.depth - 1].expect("a path has its first step")
    }
}

/// Where entry number `part` lies of those that begin at a step.
fn entry(step: Step, part: u64) -> PhysAddr {
    PhysAddr(step.entry.0 + part * ENTRY_BYTES)
}

/// The first of the `entries` neighbours among which the one at `step` is.
#[inline(always)]
fn first_of(step: Step, entries: u64) -> Step {
    Step { entry: PhysAddr(step.entry.0 & !(entries * ENTRY_BYTES - 1)), ..step }
}

/// The first of the entries that map `leaf`, and how many they are. One of them is at `step`.
#[inline(always)]
fn group(step: Step, leaf: &Leaf) -> (Step, u64) {
    let entries = leaf.order.base_pages() / step.covers.base_pages();
    (first_of(step, entries), entries)
}

impl<F: TableFormat> Radix<F> {
    /// Walks towards `vpn` as far as there are tables.
    fn descend(&self, mem: &PhysMem, vpn: Vpn) -> (Path, Next) {
        let va = vpn.addr();
        let mut step = self.format.start(self.root(), va);
        let mut path = Path { steps: [None; 8], depth: 0 };
        loop {
            path.push(step);
            match self.format.next(mem.read(step.entry), step, va) {
                Next::Table(below) => step = below,
                end => return (path, end),
            }
        }
    }

    /// The table that an entry lies in.
    #[inline(always)]
    fn holder(at: PhysAddr) -> Pfn {
        F::GRANULE.table_of(at).pfn()
    }

    /// Where entry number `index` of a table lies.
    fn at(table: Pfn, index: u64) -> PhysAddr {
        PhysAddr(table.addr().0 + index * ENTRY_BYTES)
    }

    /// Empties a table, all of its frames.
    fn wipe(mem: &mut PhysMem, table: Pfn) {
        (0..F::GRANULE.base().base_pages()).for_each(|frame| mem.clear(Pfn(table.0 + frame)));
    }

    fn put(&mut self, mem: &mut PhysMem, at: PhysAddr, bits: u64) {
        mem.write(at, bits);
        match self.used.get_mut(&Self::holder(at)) {
            Some(used) => *used += 1,
            None => debug_assert!(!self.lent.is_empty(), "an entry lies in a table, of this tree or lent"),
        }
    }

    fn clear(&mut self, mem: &mut PhysMem, at: PhysAddr) {
        mem.write(at, 0);
        *self.used.get_mut(&Self::holder(at)).expect("an entry lies in a table") -= 1;
    }

    /// A leaf as the kernel sees it: marked if one of its entries is.
    #[inline(always)]
    fn marked(&self, mem: &PhysMem, step: Step, leaf: Leaf) -> Leaf {
        if leaf.order == step.covers {
            return leaf;
        }
        let (first, entries) = group(step, &leaf);
        let parts = (0..entries).filter_map(|part| self.format.decode_leaf(mem.read(entry(first, part)), step.level));
        parts.fold(leaf, |all, one| Leaf { accessed: all.accessed | one.accessed, dirty: all.dirty | one.dirty, ..all })
    }

    /// Gives the empty tables at the end of `path` back.
    fn prune(&mut self, mem: &mut PhysMem, frames: &mut impl TableFrames, path: &Path) {
        let mut below: Option<Pfn> = None;
        for &step in path.steps[..path.depth].iter().rev().flatten() {
            if let Some(table) = below {
                self.used.remove(&table);
                Self::wipe(mem, table);
                frames.give_back(table);
                self.clear(mem, step.entry);
            }
            let table = Self::holder(step.entry);
            if self.used.get(&table).is_none_or(|&used| used != 0) || table == self.root || Some(table) == self.upper {
                return;
            }
            below = Some(table);
        }
    }

    /// The entries down to the one that spans `covers` around `vpn`, as far as there are tables.
    fn above(&self, mem: &PhysMem, vpn: Vpn, covers: PageOrder) -> (Path, Step, bool) {
        let mut step = self.format.start(self.root(), vpn.addr());
        let mut path = Path { steps: [None; 8], depth: 0 };
        loop {
            path.push(step);
            if step.covers == covers {
                return (path, step, true);
            }
            match self.format.next(mem.read(step.entry), step, vpn.addr()) {
                Next::Table(below) => step = below,
                Next::Leaf(_) | Next::NotPresent => return (path, step, false),
            }
        }
    }

    /// The table that maps the `covers` around `vpn`, and its level.
    fn table_of(&self, mem: &PhysMem, vpn: Vpn, covers: PageOrder) -> Option<(Pfn, u8)> {
        let (_, step, is_there) = self.above(mem, vpn, covers);
        match self.format.next(mem.read(step.entry), step, vpn.addr()) {
            Next::Table(below) if is_there && below.level < step.level => {
                Some((Self::holder(below.entry), below.level))
            }
            Next::Table(_) | Next::Leaf(_) | Next::NotPresent => None,
        }
    }

    /// The table that entry number `index` of a table of `level` points to.
    fn child(&self, mem: &PhysMem, table: Pfn, level: u8, index: u64) -> Option<Pfn> {
        let at = Self::at(table, index);
        let step = Step { level, covers: self.format.covers(level), entry: at, rights: Rights::ALL };
        // A child is a whole table, whichever of its entries the address would choose.
        match self.format.next(mem.read(at), step, Vpn(0).addr()) {
            Next::Table(below) if below.level < level => Some(Self::holder(below.entry)),
            Next::Table(_) | Next::Leaf(_) | Next::NotPresent => None,
        }
    }

    /// A table of `level`, and all tables below it.
    fn tree(&self, mem: &PhysMem, table: Pfn, level: u8) -> Vec<Pfn> {
        let mut tables = vec![table];
        let mut from = 0;
        for level in (2..=level).rev() {
            let parents = from..tables.len();
            from = parents.end;
            for parent in parents {
                let table = tables[parent];
                tables.extend((0..F::GRANULE.entries()).filter_map(|i| self.child(mem, table, level, i)));
            }
        }
        tables
    }

    /// Copies a table of `level` and all tables below it, each into the next frame of `own`. The copy belongs to this
    /// tree.
    fn copy_tree(&mut self, mem: &mut PhysMem, from: Pfn, level: u8, own: &mut impl Iterator<Item = Pfn>) -> Pfn {
        let to = own.next().expect("there is a frame for each table");
        Self::wipe(mem, to);
        for i in 0..F::GRANULE.entries() {
            let bits = match self.child(mem, from, level, i) {
                Some(child) => F::Entries::table(self.copy_tree(mem, child, level - 1, own)),
                None => mem.read(Self::at(from, i)),
            };
            mem.write(Self::at(to, i), bits);
        }
        self.used.insert(to, Self::count(mem, to));
        to
    }

    /// One entry less points to a lent table.
    fn point_less(&mut self, table: Pfn) {
        if let Some(entries) = self.lent.get_mut(&table) {
            *entries -= 1;
            if *entries == 0 {
                self.lent.remove(&table);
            }
        }
    }

    /// Entries in use of a table, by reading them.
    fn count(mem: &PhysMem, table: Pfn) -> u32 {
        (0..F::GRANULE.entries()).filter(|&i| mem.read(Self::at(table, i)) != 0).count() as u32
    }

    /// Makes an empty table for the empty entry at `step`; the first entry to read in it for `vpn`.
    fn add_below(
        &mut self,
        mem: &mut PhysMem,
        frames: &mut impl TableFrames,
        vpn: Vpn,
        step: Step,
    ) -> Result<Step, MapError> {
        let Some(table) = frames.take() else {
            let (path, _) = self.descend(mem, vpn);
            self.prune(mem, frames, &path);
            return Err(MapError::OutOfFrames);
        };
        Self::wipe(mem, table);
        // Below a lent table, the new one belongs to all that share it.
        if self.used.contains_key(&Self::holder(step.entry)) {
            self.used.insert(table, 0);
        }
        let bits = F::Entries::table(table);
        self.put(mem, step.entry, bits);
        match self.format.next(bits, step, vpn.addr()) {
            Next::Table(below) => Ok(below),
            Next::Leaf(_) | Next::NotPresent => unreachable!("it was just written as a table"),
        }
    }

    /// Whether the entry at `step` is free for a page.
    fn check_free(&self, mem: &PhysMem, mut step: Step, vpn: Vpn) -> Result<(), MapError> {
        let level = step.level;
        loop {
            match self.format.next(mem.read(step.entry), step, vpn.addr()) {
                Next::NotPresent => return Ok(()),
                Next::Leaf(there) => return Err(MapError::AlreadyMapped(there.order)),
                // It leads to another entry of its table.
                Next::Table(next) if next.level == level => step = next,
                Next::Table(_) => return Err(MapError::TableThere),
            }
        }
    }

    /// How much is empty around the empty entry at `step`: a page of several entries is, if all of them are.
    #[inline(always)]
    fn hole(&self, mem: &PhysMem, step: Step) -> PageOrder {
        let is_empty = |entries: u64| {
            let first = first_of(step, entries);
            (0..entries).all(|part| mem.read(entry(first, part)) == 0)
        };
        let groups = F::GROUPS.iter().filter(|group| group.level == step.level);
        let empty = groups.take_while(|group| is_empty(1 << group.log)).last();
        PageOrder::new(step.covers.get() + empty.map_or(0, |group: &Group| group.log))
    }
}

impl<F: TableFormat> BuiltFor<F> for Radix<F> {
    fn build(
        format: F,
        _: Option<&F::Params>,
        mem: &mut PhysMem,
        frames: &mut impl TableFrames,
    ) -> Result<Self, MapError> {
        let root = frames.take().ok_or(MapError::OutOfFrames)?;
        let upper = match F::HAS_UPPER_TREE.then(|| frames.take()) {
            None => None,
            Some(Some(upper)) => Some(upper),
            Some(None) => {
                frames.give_back(root);
                return Err(MapError::OutOfFrames);
            }
        };
        let roots = [Some(root), upper].into_iter().flatten();
        roots.clone().for_each(|root| Self::wipe(mem, root));
        let used = roots.map(|root| (root, 0)).collect();
        Ok(Self { format, root, upper, used, lent: FxHashMap::default() })
    }
}

impl<F: TableFormat> Tables for Radix<F> {
    type Place = Path;

    #[inline(always)]
    fn root(&self) -> Root {
        Root { lower: self.root.addr(), upper: self.upper.unwrap_or(self.root).addr() }
    }

    fn table_frames(&self) -> u64 {
        self.used.len() as u64 * F::GRANULE.base().base_pages()
    }

    #[inline]
    fn probe(&self, mem: &PhysMem, vpn: Vpn) -> Probe {
        let va = vpn.addr();
        let mut step = self.format.start(self.root(), va);
        loop {
            match self.format.next(mem.read(step.entry), step, va) {
                Next::Table(below) => step = below,
                Next::Leaf(leaf) => return Probe::Leaf(self.marked(mem, step, leaf)),
                Next::NotPresent => return Probe::Hole(self.hole(mem, step)),
            }
        }
    }

    /// One walk to the first entry: the others lie behind it.
    fn row(&self, mem: &PhysMem, vpn: Vpn, order: PageOrder, found: &mut [Option<Leaf>]) -> usize {
        let mut step = self.format.start(self.root(), vpn.addr());
        while step.covers > order {
            match self.format.next(mem.read(step.entry), step, vpn.addr()) {
                Next::Table(below) => step = below,
                Next::Leaf(_) | Next::NotPresent => return 1,
            }
        }
        for (i, place) in (0..).zip(found.iter_mut()) {
            let at = Step { entry: entry(step, i), ..step };
            let va = Vpn(vpn.0 + i * order.base_pages()).addr();
            match self.format.next(mem.read(at.entry), at, va) {
                Next::Leaf(leaf) if leaf.order == order => *place = Some(self.marked(mem, at, leaf)),
                Next::Leaf(_) | Next::Table(_) | Next::NotPresent => return i as usize + 1,
            }
        }
        found.len()
    }

    fn find(&self, mem: &PhysMem, vpn: Vpn) -> Option<(Path, Leaf)> {
        match self.descend(mem, vpn) {
            (path, Next::Leaf(leaf)) => {
                let leaf = self.marked(mem, path.last(), leaf);
                Some((path, leaf))
            }
            (_, Next::Table(_) | Next::NotPresent) => None,
        }
    }

    fn add(
        &mut self,
        mem: &mut PhysMem,
        frames: &mut impl TableFrames,
        vpn: Vpn,
        leaf: &Leaf,
    ) -> Result<Moved, MapError> {
        let (level, entries) = self.format.leaf_at(leaf.order).ok_or(MapError::NoSuchSize(leaf.order))?;
        let mut step = self.format.start(self.root(), vpn.addr());
        while step.level > level {
            step = match self.format.next(mem.read(step.entry), step, vpn.addr()) {
                Next::Table(below) => below,
                Next::Leaf(there) => return Err(MapError::AlreadyMapped(there.order)),
                Next::NotPresent => self.add_below(mem, frames, vpn, step)?,
            };
        }
        for part in 0..u64::from(entries) {
            self.check_free(mem, Step { entry: entry(step, part), ..step }, vpn)?;
        }
        for part in 0..u64::from(entries) {
            self.put(mem, entry(step, part), self.format.part(leaf, part));
        }
        Ok(None)
    }

    fn remove(&mut self, mem: &mut PhysMem, frames: &mut impl TableFrames, _: Vpn, path: Path, leaf: &Leaf) -> Moved {
        let (first, entries) = group(path.last(), leaf);
        (0..entries).for_each(|part| self.clear(mem, entry(first, part)));
        self.prune(mem, frames, &path);
        None
    }

    fn rewrite(&mut self, mem: &mut PhysMem, _: Vpn, path: Path, leaf: &Leaf) {
        let (first, entries) = group(path.last(), leaf);
        (0..entries).for_each(|part| mem.write(entry(first, part), self.format.part(leaf, part)));
    }

    fn divide(
        &mut self,
        mem: &mut PhysMem,
        frames: &mut impl TableFrames,
        _: Vpn,
        path: Path,
        leaf: &Leaf,
    ) -> Result<Moved, MapError> {
        let step = path.last();
        let part = |order: PageOrder, i: u64| Leaf { pfn: Pfn(leaf.pfn.0 + i * order.base_pages()), order, ..*leaf };
        let (first, entries) = group(step, leaf);
        if entries > 1 {
            // Its entries become pages of their own.
            for i in 0..entries {
                mem.write(entry(first, i), F::Entries::leaf(&part(step.covers, i)));
            }
            return Ok(None);
        }
        let table = frames.take().ok_or(MapError::OutOfFrames)?;
        Self::wipe(mem, table);
        let below = self.format.covers(step.level - 1);
        for i in 0..F::GRANULE.entries() {
            mem.write(Self::at(table, i), F::Entries::leaf(&part(below, i)));
        }
        self.used.insert(table, F::GRANULE.entries() as u32);
        mem.write(step.entry, F::Entries::table(table));
        Ok(None)
    }

    fn lend(&mut self, mem: &PhysMem, vpn: Vpn, covers: PageOrder) -> Option<Pfn> {
        let (table, level) = self.table_of(mem, vpn, covers)?;
        for below in self.tree(mem, table, level) {
            self.used.remove(&below);
        }
        self.lent.insert(table, 1);
        Some(table)
    }

    fn take_back(&mut self, mem: &PhysMem, vpn: Vpn, covers: PageOrder) {
        let Some((table, level)) = self.table_of(mem, vpn, covers) else { return };
        self.lent.remove(&table);
        for below in self.tree(mem, table, level) {
            self.used.insert(below, Self::count(mem, below));
        }
    }

    fn graft(
        &mut self,
        mem: &mut PhysMem,
        frames: &mut impl TableFrames,
        vpn: Vpn,
        covers: PageOrder,
        table: Pfn,
    ) -> Result<(), MapError> {
        let mut step = self.format.start(self.root(), vpn.addr());
        while step.covers > covers {
            step = match self.format.next(mem.read(step.entry), step, vpn.addr()) {
                Next::Table(below) => below,
                Next::Leaf(there) => return Err(MapError::AlreadyMapped(there.order)),
                Next::NotPresent => self.add_below(mem, frames, vpn, step)?,
            };
        }
        self.check_free(mem, step, vpn)?;
        self.put(mem, step.entry, F::Entries::table(table));
        *self.lent.entry(table).or_default() += 1;
        Ok(())
    }

    fn ungraft(&mut self, mem: &mut PhysMem, frames: &mut impl TableFrames, vpn: Vpn, covers: PageOrder) {
        let Some((table, _)) = self.table_of(mem, vpn, covers) else { return };
        let (path, step, _) = self.above(mem, vpn, covers);
        self.point_less(table);
        self.clear(mem, step.entry);
        self.prune(mem, frames, &path);
    }

    fn copy_lent(
        &mut self,
        mem: &mut PhysMem,
        frames: &mut impl TableFrames,
        vpn: Vpn,
        covers: PageOrder,
    ) -> Result<u64, MapError> {
        let found = self.table_of(mem, vpn, covers).filter(|(table, _)| self.lent.contains_key(table));
        let (lent, level) = found.ok_or(MapError::NotMapped)?;
        let tables = self.tree(mem, lent, level).len() as u64;
        let own: Vec<Pfn> = std::iter::from_fn(|| frames.take()).take(tables as usize).collect();
        if (own.len() as u64) < tables {
            own.into_iter().for_each(|frame| frames.give_back(frame));
            return Err(MapError::OutOfFrames);
        }
        let own = self.copy_tree(mem, lent, level, &mut own.into_iter());
        let (_, step, _) = self.above(mem, vpn, covers);
        mem.write(step.entry, F::Entries::table(own));
        self.point_less(lent);
        Ok(tables)
    }

    fn free(self, mem: &mut PhysMem, frames: &mut impl TableFrames) {
        let mut tables: Vec<Pfn> = self.used.into_keys().collect();
        // In a fixed order, so that later allocations do not depend on the hash.
        tables.sort_unstable_by(|a, b| b.cmp(a));
        for table in tables {
            Self::wipe(mem, table);
            frames.give_back(table);
        }
    }
}
