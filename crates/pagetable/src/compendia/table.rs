use super::CompendiaDesc;
use super::entry::H;
use super::merge::NODE;
use super::tree::{Child, ENTRIES, Id, Tree};
use super::write::{clear_leaf, part, read_leaf, refresh, refresh_above, word, write_leaf};
use crate::{Census, Flush, Format, Leaf, MapError, Probe, TableFrames, x86};
use mmulab_addr::{PageOrder, Pfn, PhysAddr, VirtRange, Vpn};
use mmulab_frames::PhysMem;

/// A tree of tables whose dense parts are merged.
pub struct Compendia {
    levels: u8,
    pub(super) desc: CompendiaDesc,
    pub(super) tree: Tree,
    /// Frames of 4 KiB in use.
    pub(super) frames: u64,
    /// Blocks of 2 MiB in use.
    pub(super) blocks: u64,
}

impl std::fmt::Debug for Compendia {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Compendia").field("levels", &self.levels).field("census", &self.census()).finish()
    }
}

/// Where a page's leaf is.
struct Found {
    table: Id,
    slot: usize,
    leaf: Leaf,
}

impl Compendia {
    pub fn new(
        levels: u8,
        desc: CompendiaDesc,
        mem: &mut PhysMem,
        frames: &mut impl TableFrames,
    ) -> Result<Self, MapError> {
        let root = frames.take().ok_or(MapError::OutOfFrames)?;
        mem.clear(root);
        let tree = Tree::new(levels, root, desc.direct);
        Ok(Self { levels, desc, tree, frames: 1, blocks: 0 })
    }

    #[inline(always)]
    pub fn format(&self) -> Format {
        Format::Compendia { levels: self.levels }
    }

    #[inline(always)]
    pub fn root(&self) -> PhysAddr {
        let root = self.tree.get(Tree::ROOT);
        match (root.block, root.frame) {
            (Some(block), _) => PhysAddr(block.addr().0 | H),
            (None, frame) => frame.expect("a root that is not merged has its frame").addr(),
        }
    }

    pub fn table_frames(&self) -> u64 {
        self.frames + self.blocks * NODE.base_pages()
    }

    pub fn census(&self) -> Census {
        Census { tables: self.frames, nodes: self.blocks, unmerged: self.tree.tables() }
    }

    /// Gives a frame of its own back.
    pub(super) fn give(&mut self, frames: &mut impl TableFrames, frame: Pfn) {
        frames.give_back(frame);
        self.frames -= 1;
    }

    /// The page that holds `vpn`, or how much around it is empty.
    fn find(&self, mem: &PhysMem, vpn: Vpn) -> Result<Found, PageOrder> {
        let mut table = Tree::ROOT;
        loop {
            let slot = self.tree.slot(table, vpn);
            let node = self.tree.get(table);
            match self.tree.child(table, slot) {
                Child::Table(below) => table = below,
                Child::Nothing if node.level > 1 => return Err(x86::covers(node.level)),
                // The last level's entries are leaves if anything.
                Child::Leaf | Child::Nothing => {
                    let leaf = x86::decode_leaf(read_leaf(&self.tree, mem, table, slot), node.level);
                    return leaf.map(|leaf| Found { table, slot, leaf }).ok_or(x86::covers(node.level));
                }
            }
        }
    }

    pub fn probe(&self, mem: &PhysMem, vpn: Vpn) -> Probe {
        match self.find(mem, vpn) {
            Ok(found) => Probe::Leaf(found.leaf),
            Err(hole) => Probe::Hole(hole),
        }
    }

    /// What the walk caches and TLBs must be told after an edit at `vpn`, which moved tables at `level` or did not.
    fn owed(vpn: Vpn, moved: Option<u8>, otherwise: Flush) -> Flush {
        match moved {
            // The whole of what the moved table translates. Of a root that is everything.
            Some(level) => Flush::tables(vpn.addr(), x86::covers(level + 1)),
            None => otherwise,
        }
    }

    pub fn map(
        &mut self,
        mem: &mut PhysMem,
        frames: &mut impl TableFrames,
        vpn: Vpn,
        leaf: Leaf,
    ) -> Result<Flush, MapError> {
        let level = x86::leaf_level(leaf.order).ok_or(MapError::NoSuchSize(leaf.order))?;
        if vpn.align_down(leaf.order) != vpn || leaf.pfn.align_down(leaf.order) != leaf.pfn {
            return Err(MapError::Unaligned);
        }
        let mut table = Tree::ROOT;
        // The highest table that gets an entry which points to a table.
        let mut changed = None;
        let slot = loop {
            let slot = self.tree.slot(table, vpn);
            let at = self.tree.get(table).level;
            match self.tree.child(table, slot) {
                Child::Table(_) if at == level => return Err(MapError::TableThere),
                Child::Leaf => return Err(MapError::AlreadyMapped(x86::covers(at))),
                Child::Nothing if at == level => break slot,
                Child::Table(below) => table = below,
                Child::Nothing => {
                    let Ok(frame) = self.take_below(mem, frames, table, slot) else {
                        self.remove_empty(mem, frames, table);
                        return Err(MapError::OutOfFrames);
                    };
                    let below = self.tree.add_below(table, slot, frame);
                    refresh(&self.tree, mem, table, slot);
                    changed = changed.or(Some(at));
                    table = below;
                }
            }
        };
        if level == 1 && read_leaf(&self.tree, mem, table, slot) & x86::P != 0 {
            return Err(MapError::AlreadyMapped(PageOrder::P4K));
        }
        self.tree.set_child(table, slot, Child::Leaf);
        self.tree.get_mut(table).used += 1;
        write_leaf(&self.tree, mem, table, slot, x86::encode_leaf(&leaf));
        let moved = changed.and_then(|upto| self.decide(mem, frames, table, upto));
        Ok(Self::owed(vpn, moved, Flush::nothing()))
    }

    /// The 4 KiB for the entries of a table below entry `slot`, all zeros: a frame, or the entry's part of a node.
    fn take_below(
        &mut self,
        mem: &mut PhysMem,
        frames: &mut impl TableFrames,
        table: Id,
        slot: usize,
    ) -> Result<Pfn, MapError> {
        let frame = match self.tree.get(table).block {
            Some(block) => part(block, slot),
            None => {
                self.frames += 1;
                frames.take().ok_or(MapError::OutOfFrames).inspect_err(|_| self.frames -= 1)?
            }
        };
        mem.clear(frame);
        Ok(frame)
    }

    pub fn unmap(
        &mut self,
        mem: &mut PhysMem,
        frames: &mut impl TableFrames,
        vpn: Vpn,
        order: PageOrder,
    ) -> (Option<Leaf>, Flush) {
        let Some(Found { table, slot, leaf }) = self.find(mem, vpn).ok().filter(|f| f.leaf.order == order) else {
            return (None, Flush::nothing());
        };
        self.tree.set_child(table, slot, Child::Nothing);
        clear_leaf(&self.tree, mem, table, slot);
        self.tree.get_mut(table).used -= 1;
        let (left, changed) = self.remove_empty(mem, frames, table);
        let moved = changed.and_then(|upto| self.decide(mem, frames, left, upto));
        let vpn = vpn.align_down(order);
        (Some(leaf), Self::owed(vpn, moved, Flush::page(vpn.addr(), order)))
    }

    /// Removes `table` and those above while they are empty; the first that is not, and the level of the highest table that
    /// lost an entry.
    fn remove_empty(&mut self, mem: &mut PhysMem, frames: &mut impl TableFrames, mut table: Id) -> (Id, Option<u8>) {
        let mut changed = None;
        while let Some((parent, slot)) = self.tree.get(table).parent
            && self.tree.get(table).used == 0
        {
            self.remove(mem, frames, table);
            refresh(&self.tree, mem, parent, usize::from(slot));
            changed = Some(self.tree.get(parent).level);
            table = parent;
        }
        (table, changed)
    }

    /// Removes an empty table from the tree and its memory.
    fn remove(&mut self, mem: &mut PhysMem, frames: &mut impl TableFrames, table: Id) {
        if let Some(block) = self.tree.get(table).block {
            self.tree.set_block(table, None);
            self.drop_block(mem, frames, block);
        }
        let own = !self.tree.in_parent(table);
        if let Some(frame) = self.tree.get(table).frame {
            mem.clear(frame);
            if own {
                self.give(frames, frame);
            }
        }
        self.tree.remove(table);
    }

    pub fn set(&mut self, mem: &mut PhysMem, vpn: Vpn, leaf: Leaf) -> Flush {
        match self.find(mem, vpn) {
            Ok(found) if found.leaf.order == leaf.order => {
                write_leaf(&self.tree, mem, found.table, found.slot, x86::encode_leaf(&leaf));
                Flush::page(vpn.align_down(leaf.order).addr(), leaf.order)
            }
            _ => Flush::nothing(),
        }
    }

    pub fn split(&mut self, mem: &mut PhysMem, frames: &mut impl TableFrames, vpn: Vpn) -> Result<Flush, MapError> {
        let Ok(Found { table, slot, leaf }) = self.find(mem, vpn) else { return Err(MapError::NotMapped) };
        let level = self.tree.get(table).level;
        if level == 1 {
            return Err(MapError::NoSuchSize(leaf.order));
        }
        let frame = self.take_below(mem, frames, table, slot)?;
        let below = self.tree.add_below(table, slot, frame);
        let order = x86::covers(level - 1);
        for i in 0..ENTRIES {
            let part = Leaf { pfn: Pfn(leaf.pfn.0 + i as u64 * order.base_pages()), order, ..leaf };
            self.tree.set_child(below, i, Child::Leaf);
            mem.write(word(frame, i), x86::encode_leaf(&part));
        }
        self.tree.get_mut(below).used = ENTRIES as u16;
        refresh_above(&self.tree, mem, below);
        let moved = self.decide(mem, frames, below, level);
        let vpn = vpn.align_down(leaf.order);
        Ok(Self::owed(vpn, moved, Flush::page(vpn.addr(), leaf.order)))
    }

    pub fn lookup(&self, mem: &PhysMem, vpn: Vpn) -> Option<(Vpn, Leaf)> {
        self.find(mem, vpn).ok().map(|found| (vpn.align_down(found.leaf.order), found.leaf))
    }

    pub fn for_each_leaf(&self, mem: &PhysMem, range: VirtRange, each: &mut impl FnMut(Vpn, Leaf)) {
        crate::table::for_each_leaf(range, |vpn| self.probe(mem, vpn), each);
    }

    pub fn free(self, mem: &mut PhysMem, frames: &mut impl TableFrames) {
        let mut all = self.tree.memory();
        // In a fixed order, so that later allocations do not depend on how the tree grew.
        all.sort_unstable_by(|a, b| b.cmp(a));
        for (pfn, is_node) in all {
            if is_node {
                (0..ENTRIES).for_each(|slot| mem.clear(part(pfn, slot)));
                frames.give_back_block(pfn, NODE);
            } else {
                mem.clear(pfn);
                frames.give_back(pfn);
            }
        }
    }
}
