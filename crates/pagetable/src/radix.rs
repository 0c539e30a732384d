//! Radix page tables as the kernel edits them: trees of 4 KiB tables for x86-64, RISC-V and Armv8. `Format` defines
//! the entry bits. The code here allocates tables, frees empty ones, and writes all entries of a page that takes
//! several.
//!
//! ```text
//! four levels    4         3         2         1
//! va bits        47..39    38..30    29..21    20..12    11..0
//!                table --> table --> table --> leaf PTE  offset in a page of 4 KiB
//! ```

use crate::table::aligned;
use crate::{Flush, Format, Leaf, MapError, Next, Probe, Root, Step, TableFrames};
use mmulab_addr::{BASE_BYTES, PageOrder, Pfn, PhysAddr, Vpn};
use mmulab_frames::PhysMem;
use rustc_hash::FxHashMap;

/// Bytes of an entry.
const ENTRY: u64 = 8;

/// A tree of fixed levels, 512 entries a table.
#[derive(Debug)]
pub struct Radix {
    format: Format,
    root: Pfn,
    /// The root of upper addresses, where they have one of their own.
    upper: Option<Pfn>,
    /// Entries in use per table, so that an empty one is known without reading it. The kernel's own bookkeeping, as
    /// Linux keeps in the `struct page` of a table: hardware never sees it.
    used: FxHashMap<Pfn, u32>,
}

/// The entries from the root to where a walk ended.
struct Path {
    steps: [Option<Step>; 8],
    depth: usize,
}

impl Path {
    fn last(&self) -> Step {
        self.steps[self.depth - 1].expect("a path has its first step")
    }
}

/// Where entry number `part` lies of those that begin at a step.
fn entry(step: Step, part: u64) -> PhysAddr {
    PhysAddr(step.entry.0 + part * ENTRY)
}

/// The first of the entries that map `leaf`, and how many they are. One of them is at `step`.
#[inline(always)]
fn group(step: Step, leaf: &Leaf) -> (Step, u64) {
    let entries = leaf.order.base_pages() / step.covers.base_pages();
    (Step { entry: PhysAddr(step.entry.0 & !(entries * ENTRY - 1)), ..step }, entries)
}

impl Radix {
    pub fn new(format: Format, mem: &mut PhysMem, frames: &mut impl TableFrames) -> Result<Self, MapError> {
        let root = frames.take().ok_or(MapError::OutOfFrames)?;
        let upper = match format.trees().nth(1).map(|_| frames.take()) {
            None => None,
            Some(Some(upper)) => Some(upper),
            Some(None) => {
                frames.give_back(root);
                return Err(MapError::OutOfFrames);
            }
        };
        let roots = [Some(root), upper].into_iter().flatten();
        roots.clone().for_each(|root| mem.clear(root));
        Ok(Self { format, root, upper, used: roots.map(|root| (root, 0)).collect() })
    }

    #[inline(always)]
    pub fn format(&self) -> Format {
        self.format
    }

    #[inline(always)]
    pub fn root(&self) -> Root {
        Root { lower: self.root.addr(), upper: self.upper.unwrap_or(self.root).addr() }
    }

    pub fn table_frames(&self) -> u64 {
        self.used.len() as u64
    }

    /// Walks towards `vpn` as far as there are tables.
    fn descend(&self, mem: &PhysMem, vpn: Vpn) -> (Path, Next) {
        let va = vpn.addr();
        let mut step = self.format.start(self.root(), va);
        let mut path = Path { steps: [None; 8], depth: 0 };
        loop {
            path.steps[path.depth] = Some(step);
            path.depth += 1;
            match self.format.next(mem.read(step.entry), step, va) {
                Next::Table(below) => step = below,
                end => return (path, end),
            }
        }
    }

    fn put(&mut self, mem: &mut PhysMem, at: PhysAddr, bits: u64) {
        mem.write(at, bits);
        *self.used.get_mut(&at.pfn()).expect("an entry lies in a table") += 1;
    }

    fn clear(&mut self, mem: &mut PhysMem, at: PhysAddr) {
        mem.write(at, 0);
        *self.used.get_mut(&at.pfn()).expect("an entry lies in a table") -= 1;
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
                mem.clear(table);
                frames.give_back(table);
                self.clear(mem, step.entry);
            }
            let table = step.entry.pfn();
            if self.used[&table] != 0 || table == self.root || Some(table) == self.upper {
                return;
            }
            below = Some(table);
        }
    }

    pub fn map(
        &mut self,
        mem: &mut PhysMem,
        frames: &mut impl TableFrames,
        vpn: Vpn,
        leaf: Leaf,
    ) -> Result<Flush, MapError> {
        let order = leaf.order;
        let (level, entries) = self.format.leaf_at(order).ok_or(MapError::NoSuchSize(order))?;
        aligned(vpn, &leaf)?;
        let va = vpn.addr();
        let mut step = self.format.start(self.root(), va);
        while step.level > level {
            let next = self.format.next(mem.read(step.entry), step, va);
            step = match next {
                Next::Table(below) => below,
                Next::Leaf(there) => return Err(MapError::AlreadyMapped(there.order)),
                Next::NotPresent => {
                    let Some(table) = frames.take() else {
                        let (path, _) = self.descend(mem, vpn);
                        self.prune(mem, frames, &path);
                        return Err(MapError::OutOfFrames);
                    };
                    mem.clear(table);
                    self.used.insert(table, 0);
                    let bits = self.format.encode_table(table);
                    self.put(mem, step.entry, bits);
                    match self.format.next(bits, step, va) {
                        Next::Table(below) => below,
                        _ => unreachable!("it was just written as a table"),
                    }
                }
            };
        }
        for part in 0..u64::from(entries) {
            match self.format.next(mem.read(entry(step, part)), step, va) {
                Next::NotPresent => {}
                Next::Leaf(there) => return Err(MapError::AlreadyMapped(there.order)),
                Next::Table(_) => return Err(MapError::TableThere),
            }
        }
        for part in 0..u64::from(entries) {
            self.put(mem, entry(step, part), self.format.encode_part(&leaf, part));
        }
        Ok(Flush::nothing())
    }

    pub fn unmap(
        &mut self,
        mem: &mut PhysMem,
        frames: &mut impl TableFrames,
        vpn: Vpn,
        order: PageOrder,
    ) -> (Option<Leaf>, Flush) {
        match self.descend(mem, vpn) {
            (path, Next::Leaf(leaf)) if leaf.order == order => {
                let leaf = self.marked(mem, path.last(), leaf);
                let (first, entries) = group(path.last(), &leaf);
                (0..entries).for_each(|part| self.clear(mem, entry(first, part)));
                self.prune(mem, frames, &path);
                (Some(leaf), Flush::page(vpn.align_down(order).addr(), order))
            }
            _ => (None, Flush::nothing()),
        }
    }

    pub fn set(&mut self, mem: &mut PhysMem, vpn: Vpn, leaf: Leaf) -> Flush {
        match self.descend(mem, vpn) {
            (path, Next::Leaf(there)) if there.order == leaf.order => {
                let (first, entries) = group(path.last(), &leaf);
                for part in 0..entries {
                    mem.write(entry(first, part), self.format.encode_part(&leaf, part));
                }
                Flush::page(vpn.align_down(leaf.order).addr(), leaf.order)
            }
            _ => Flush::nothing(),
        }
    }

    pub fn split(&mut self, mem: &mut PhysMem, frames: &mut impl TableFrames, vpn: Vpn) -> Result<Flush, MapError> {
        let (path, Next::Leaf(leaf)) = self.descend(mem, vpn) else { return Err(MapError::NotMapped) };
        let step = path.last();
        let leaf = self.marked(mem, step, leaf);
        let flush = Flush::page(vpn.align_down(leaf.order).addr(), leaf.order);
        let part = |order: PageOrder, i: u64| Leaf { pfn: Pfn(leaf.pfn.0 + i * order.base_pages()), order, ..leaf };
        let (first, entries) = group(step, &leaf);
        if entries > 1 {
            // Its entries become pages of their own.
            for i in 0..entries {
                mem.write(entry(first, i), self.format.encode_leaf(&part(step.covers, i)));
            }
            return Ok(flush);
        }
        if step.level == 1 {
            return Err(MapError::NoSuchSize(leaf.order));
        }
        let table = frames.take().ok_or(MapError::OutOfFrames)?;
        mem.clear(table);
        let below = self.format.covers(step.level - 1);
        for i in 0..BASE_BYTES / ENTRY {
            mem.write(PhysAddr(table.addr().0 + i * ENTRY), self.format.encode_leaf(&part(below, i)));
        }
        self.used.insert(table, (BASE_BYTES / ENTRY) as u32);
        mem.write(step.entry, self.format.encode_table(table));
        Ok(flush)
    }

    #[inline]
    pub fn probe(&self, mem: &PhysMem, vpn: Vpn) -> Probe {
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

    /// How much is empty around the empty entry at `step`: a page of several entries is, if all of them are.
    #[inline(always)]
    fn hole(&self, mem: &PhysMem, step: Step) -> PageOrder {
        let widest = self.format.widest_at(step.level);
        if widest == step.covers {
            return widest;
        }
        let entries = widest.base_pages() / step.covers.base_pages();
        let first = PhysAddr(step.entry.0 & !(entries * ENTRY - 1));
        let empty = |part| mem.read(PhysAddr(first.0 + part * ENTRY)) == 0;
        if (0..entries).all(empty) { widest } else { step.covers }
    }

    pub fn free(self, mem: &mut PhysMem, frames: &mut impl TableFrames) {
        let mut tables: Vec<Pfn> = self.used.into_keys().collect();
        // In a fixed order, so that later allocations do not depend on the hash.
        tables.sort_unstable_by(|a, b| b.cmp(a));
        for table in tables {
            mem.clear(table);
            frames.give_back(table);
        }
    }
}
