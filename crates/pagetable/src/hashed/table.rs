//! The kernel's edits of a hashed page table: the same for all ways of finding a line its place.

use super::HashedDesc;
use super::cuckoo::Cuckoo;
use super::layout::{LINE_BITS, SIZE_BITS, SIZES, WALK_TABLE_BITS, order_of};
use super::line::{Kind, WORDS};
use super::open::{self, Open};
use super::sections::{Sections, encode, section_of};
use super::store::{Plan, Store};
use crate::tables::{Moved, Tables};
use crate::{Leaf, MapError, Probe, Root, TableEvent, TableFrames, x86};
use mmulab_addr::{PageOrder, Pfn, PhysAddr, Vpn};
use mmulab_frames::PhysMem;
use rand_core::SeedableRng;
use rand_pcg::Pcg64Mcg;

/// Ways of a cuckoo walk table (Skarlatos and others, ASPLOS 2020, table 2).
const WALK_TABLE_WAYS: usize = 2;
/// Parts of a large page that is split: pages of the next smaller size.
const PARTS: u64 = 1 << SIZE_BITS;

/// A page table found by hashing.
#[derive(Debug)]
pub struct Hashed {
    desc: HashedDesc,
    /// The frame of the registers.
    root: Pfn,
    /// By page size; absent until there is such a page.
    pages: [Option<Store>; SIZES],
    /// By page size; absent where the description has none, or until there is a page.
    walk_tables: [Option<Store>; SIZES],
    sections: Sections,
    /// Chooses ways.
    rng: Pcg64Mcg,
}

/// The number of the line of `size` that maps `vpn`.
fn key_of(vpn: Vpn, size: usize) -> u64 {
    vpn.0 >> (SIZE_BITS * size as u8 + LINE_BITS)
}

/// Which entry of its line maps `vpn`.
fn slot_of(vpn: Vpn, size: usize) -> usize {
    (vpn.0 >> (SIZE_BITS * size as u8)) as usize % WORDS
}

fn size_of(order: PageOrder) -> Option<usize> {
    (0..SIZES).find(|&size| order_of(size) == order)
}

fn word(line: PhysAddr, slot: usize) -> PhysAddr {
    PhysAddr(line.0 + slot as u64 * 8)
}

impl Hashed {
    pub fn new(desc: HashedDesc, mem: &mut PhysMem, frames: &mut impl TableFrames) -> Result<Self, MapError> {
        let root = frames.take().ok_or(MapError::OutOfFrames)?;
        mem.clear(root);
        let mut table = Self {
            desc,
            root,
            pages: Default::default(),
            walk_tables: Default::default(),
            sections: Sections::default(),
            rng: Pcg64Mcg::seed_from_u64(0),
        };
        if table.store(mem, frames, Kind::Pages, 0).is_none() {
            frames.give_back(root);
            return Err(MapError::OutOfFrames);
        }
        Ok(table)
    }

    /// Where line `key` of `size` is.
    #[inline]
    fn line_at(&self, mem: &PhysMem, size: usize, key: u64) -> Option<PhysAddr> {
        let store = self.pages[size].as_ref()?;
        match &self.desc {
            HashedDesc::Cuckoo(_) => store.find(mem, key).map(|(_, at)| at),
            HashedDesc::Open(_) => open::find(store, mem, key),
        }
    }

    /// The entry of `size` for `vpn`, if its line is there.
    #[inline]
    fn entry(&self, mem: &PhysMem, size: usize, vpn: Vpn) -> Option<(PhysAddr, Option<Leaf>)> {
        let at = word(self.line_at(mem, size, key_of(vpn, size))?, slot_of(vpn, size));
        Some((at, x86::decode_leaf(mem.read(at), size as u8 + 1)))
    }

    /// The page that holds `vpn`, and where its entry is.
    #[inline]
    fn holder(&self, mem: &PhysMem, vpn: Vpn) -> Option<(usize, PhysAddr, Leaf)> {
        (0..SIZES).find_map(|size| match self.entry(mem, size, vpn) {
            Some((at, Some(leaf))) => Some((size, at, leaf)),
            _ => None,
        })
    }

    /// Lines of a way of a table at first, and its ways and their pieces at most.
    fn plan(&self, kind: Kind) -> (u32, usize, u16) {
        match (&self.desc, kind) {
            (HashedDesc::Cuckoo(desc), Kind::Pages) => (desc.lines, usize::from(desc.ways), desc.pieces),
            (HashedDesc::Cuckoo(desc), Kind::Sections) => (desc.walk_table_lines, WALK_TABLE_WAYS, desc.pieces),
            (HashedDesc::Open(desc), _) => (desc.lines, 1, desc.pieces),
        }
    }

    /// The store of a table, which is made if it is not there; none if there is no memory for it.
    fn store(
        &mut self,
        mem: &mut PhysMem,
        frames: &mut impl TableFrames,
        kind: Kind,
        size: usize,
    ) -> Option<&mut Store> {
        let (lines, ways, pieces) = self.plan(kind);
        let root = self.root.addr();
        let (store, table) = match kind {
            Kind::Pages => (&mut self.pages[size], size),
            Kind::Sections => (&mut self.walk_tables[size], SIZES + size),
        };
        if store.is_none() {
            let plan = Plan { table, kind, ways, root, pieces: pieces.into() };
            let made = Store::new(mem, frames, plan, lines.trailing_zeros() as u8)?;
            let (level, to, pieces) = (made.level(), lines.into(), made.pieces());
            frames.happened(TableEvent::Resized { level, ways: ways as u8, from: 0, to, pieces });
            *store = Some(made);
        }
        store.as_mut()
    }

    /// Puts line `key` into its store; where it is.
    fn insert(
        &mut self,
        mem: &mut PhysMem,
        frames: &mut impl TableFrames,
        (kind, size): (Kind, usize),
        key: u64,
        moved: &mut Vec<u64>,
    ) -> Option<PhysAddr> {
        self.store(mem, frames, kind, size)?;
        let least = self.plan(kind).0.trailing_zeros() as u8;
        let store = match kind {
            Kind::Pages => self.pages[size].as_mut(),
            Kind::Sections => self.walk_tables[size].as_mut(),
        }?;
        let at = match &self.desc {
            HashedDesc::Cuckoo(desc) => {
                Cuckoo { desc, least, rng: &mut self.rng, moved }.insert(store, mem, frames, key)
            }
            HashedDesc::Open(desc) => Open { desc, least }.insert(store, mem, frames, key),
        }?;
        store.lines += 1;
        (0..WORDS).for_each(|n| mem.write(word(at, n), kind.stamp(key, n)));
        Some(at)
    }

    /// Takes the empty line `key` at `at` out of its store.
    fn take_out(
        &mut self,
        mem: &mut PhysMem,
        frames: &mut impl TableFrames,
        (kind, size): (Kind, usize),
        (key, at): (u64, PhysAddr),
    ) {
        let store = match kind {
            Kind::Pages => &mut self.pages[size],
            Kind::Sections => &mut self.walk_tables[size],
        };
        let Some(store) = store else { return };
        store.lines -= 1;
        match &self.desc {
            HashedDesc::Cuckoo(desc) => {
                let lines = if kind == Kind::Pages { desc.lines } else { desc.walk_table_lines };
                let least = lines.trailing_zeros() as u8;
                Cuckoo { desc, least, rng: &mut self.rng, moved: &mut Vec::new() }.remove(store, mem, frames, at);
            }
            HashedDesc::Open(desc) => {
                Open { desc, least: desc.lines.trailing_zeros() as u8 }.remove(store, mem, frames, key, at);
            }
        }
    }

    fn has_walk_table(&self, size: usize) -> bool {
        matches!(&self.desc, HashedDesc::Cuckoo(desc) if desc.walk_tables.contains(&order_of(size)))
    }

    /// The byte for a section in the cuckoo walk table of `size`.
    fn byte(&self, mem: &PhysMem, size: usize, section: u64) -> u8 {
        let own = self.pages[size].as_ref().and_then(|store| store.find(mem, section));
        let mut lines = self.sections.of(size.max(1), section_of(section, size, size.max(1)));
        if size == 0 {
            lines = [u32::from(own.is_some()), 0, 0];
        }
        encode(lines, own.map(|(way, _)| way))
    }

    /// Has the cuckoo walk table of `size` say what is so of a section. A cuckoo walk table that cannot be made larger
    /// says nothing: hardware reads more lines then.
    fn update_walk_table(&mut self, mem: &mut PhysMem, frames: &mut impl TableFrames, size: usize, section: u64) {
        if !self.has_walk_table(size) {
            return;
        }
        let byte = self.byte(mem, size, section);
        let key = section >> WALK_TABLE_BITS;
        let there = self.walk_tables[size].as_ref().and_then(|store| store.find(mem, key)).map(|(_, at)| at);
        let at = match there {
            Some(at) => at,
            None if byte == 0 => return,
            None => match self.insert(mem, frames, (Kind::Sections, size), key, &mut Vec::new()) {
                Some(at) => at,
                None => return,
            },
        };
        let n = (section & ((1 << WALK_TABLE_BITS) - 1)) as usize;
        let (at_word, shift) = (word(at, n / WORDS), 8 * (n % WORDS));
        let was = mem.read(at_word);
        let bits = was & !(u64::from(super::line::SECTION) << shift) | u64::from(byte) << shift;
        if bits == was {
            return;
        }
        mem.write(at_word, bits);
        frames.happened(TableEvent::WalkTabled);
        if !Kind::Sections.is_used(mem.line(at)) {
            self.take_out(mem, frames, (Kind::Sections, size), (key, at));
        }
    }

    /// Updates the cuckoo walk tables after a line of pages was added, removed or moved.
    fn update_walk_tables(&mut self, mem: &mut PhysMem, frames: &mut impl TableFrames, size: usize, key: u64) {
        for of in size..SIZES {
            self.update_walk_table(mem, frames, of, section_of(key, size, of));
        }
    }

    /// Writes an entry, in a new line if need be.
    fn write(
        &mut self,
        mem: &mut PhysMem,
        frames: &mut impl TableFrames,
        size: usize,
        vpn: Vpn,
        bits: u64,
    ) -> Result<(), MapError> {
        let key = key_of(vpn, size);
        let line = match self.line_at(mem, size, key) {
            Some(line) => line,
            None => {
                let mut moved = Vec::new();
                let line = self.insert(mem, frames, (Kind::Pages, size), key, &mut moved);
                if let Some(line) = line {
                    self.sections.count(size, key, true);
                    // The line is something from now on: cuckoo walk tables find it.
                    let at = word(line, slot_of(vpn, size));
                    mem.write(at, bits | Kind::Pages.stamp(key, slot_of(vpn, size)));
                }
                moved.sort_unstable();
                moved.dedup();
                moved.into_iter().for_each(|key| self.update_walk_table(mem, frames, size, key));
                self.update_walk_tables(mem, frames, size, key);
                line.ok_or(MapError::OutOfFrames)?
            }
        };
        let slot = slot_of(vpn, size);
        mem.write(word(line, slot), bits | Kind::Pages.stamp(key, slot));
        Ok(())
    }

    /// Clears the entry at `at`, and its line if that is empty then.
    fn clear(&mut self, mem: &mut PhysMem, frames: &mut impl TableFrames, size: usize, vpn: Vpn, at: PhysAddr) {
        let key = key_of(vpn, size);
        mem.write(at, Kind::Pages.stamp(key, slot_of(vpn, size)));
        let line = PhysAddr(at.0 & !(mmulab_addr::LINE_BYTES - 1));
        if !Kind::Pages.is_used(mem.line(line)) {
            self.take_out(mem, frames, (Kind::Pages, size), (key, line));
            self.sections.count(size, key, false);
            self.update_walk_tables(mem, frames, size, key);
        }
    }

    /// Takes the entry of `size` for `vpn` out.
    fn erase(&mut self, mem: &mut PhysMem, frames: &mut impl TableFrames, size: usize, vpn: Vpn) {
        if let Some((at, Some(_))) = self.entry(mem, size, vpn) {
            self.clear(mem, frames, size, vpn, at);
        }
    }
}

impl Tables for Box<Hashed> {
    /// The page size by number, and where the entry is.
    type Place = (usize, PhysAddr);

    #[inline(always)]
    fn root(&self) -> Root {
        self.root.addr().into()
    }

    fn table_frames(&self) -> u64 {
        let stores = self.pages.iter().chain(&self.walk_tables).flatten();
        1 + stores.map(Store::frames).sum::<u64>()
    }

    fn probe(&self, mem: &PhysMem, vpn: Vpn) -> Probe {
        if let Some((_, _, leaf)) = self.holder(mem, vpn) {
            return Probe::Leaf(leaf);
        }
        let line = || if self.line_at(mem, 0, key_of(vpn, 0)).is_some() { 0 } else { LINE_BITS };
        Probe::Hole(self.sections.hole(vpn).unwrap_or_else(|| PageOrder::new(line())))
    }

    fn find(&self, mem: &PhysMem, vpn: Vpn) -> Option<((usize, PhysAddr), Leaf)> {
        self.holder(mem, vpn).map(|(size, at, leaf)| ((size, at), leaf))
    }

    fn add(
        &mut self,
        mem: &mut PhysMem,
        frames: &mut impl TableFrames,
        vpn: Vpn,
        leaf: &Leaf,
    ) -> Result<Moved, MapError> {
        let size = size_of(leaf.order).ok_or(MapError::NoSuchSize(leaf.order))?;
        if let Some((_, _, there)) = self.holder(mem, vpn) {
            return Err(if there.order < leaf.order {
                MapError::TableThere
            } else {
                MapError::AlreadyMapped(there.order)
            });
        }
        if self.sections.has_smaller(vpn, size) {
            return Err(MapError::TableThere);
        }
        self.write(mem, frames, size, vpn, x86::encode_leaf(leaf))?;
        Ok(None)
    }

    fn remove(
        &mut self,
        mem: &mut PhysMem,
        frames: &mut impl TableFrames,
        vpn: Vpn,
        (size, at): (usize, PhysAddr),
        _: &Leaf,
    ) -> Moved {
        self.clear(mem, frames, size, vpn, at);
        None
    }

    fn rewrite(&mut self, mem: &mut PhysMem, vpn: Vpn, (size, at): (usize, PhysAddr), leaf: &Leaf) {
        let stamp = Kind::Pages.stamp(key_of(vpn, size), slot_of(vpn, size));
        mem.write(at, x86::encode_leaf(leaf) | stamp);
    }

    fn divide(
        &mut self,
        mem: &mut PhysMem,
        frames: &mut impl TableFrames,
        vpn: Vpn,
        (size, _): (usize, PhysAddr),
        leaf: &Leaf,
    ) -> Result<Moved, MapError> {
        let below = size.checked_sub(1).ok_or(MapError::NoSuchSize(leaf.order))?;
        let order = order_of(below);
        for n in 0..PARTS {
            let at = n * order.base_pages();
            let part = Leaf { pfn: Pfn(leaf.pfn.0 + at), order, ..*leaf };
            if let Err(error) = self.write(mem, frames, below, Vpn(vpn.0 + at), x86::encode_leaf(&part)) {
                (0..n).for_each(|n| self.erase(mem, frames, below, Vpn(vpn.0 + n * order.base_pages())));
                return Err(error);
            }
        }
        self.erase(mem, frames, size, vpn);
        Ok(None)
    }

    fn free(self, mem: &mut PhysMem, frames: &mut impl TableFrames) {
        let Hashed { walk_tables, pages, root, .. } = *self;
        for store in walk_tables.into_iter().chain(pages).rev().flatten() {
            store.free(mem, frames);
        }
        mem.clear(root);
        frames.give_back(root);
    }
}
