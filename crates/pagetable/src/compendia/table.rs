//! Compendia page tables as the kernel edits them: map, unmap, change and split pages in a tree with merged nodes. An
//! edit that adds or removes a table checks whether tables should merge or unmerge. If tables move, the edit returns
//! a flush of all memory that they translate. The base register contains the marks of the root node (bits H and T):
//!
//! ```text
//! address of a 4 KiB frame            no merging: one level
//! address of a 2 MiB block | H        two levels in one node
//! address of a 1 GiB block | H | T    three levels in one node
//! ```

use super::CompendiaDesc;
use super::entry::{H, T};
use super::requests::Requests;
use super::tree::{Child, ENTRIES, GIANT, Id, NODE, Tree};
use super::write::{clear_leaf, frames_of, middle, part, read_leaf, refresh, refresh_above, write_leaf};
use crate::tables::{Moved, Tables};
use crate::{
    Census, Leaf, MapError, Probe, Root, TableFrames,
    geometry::{self, Granule},
    x86,
};
use mmulab_addr::{PageOrder, Pfn, PhysAddr, VirtAddr, VirtRange, Vpn};
use mmulab_frames::PhysMem;

/// A tree of tables whose dense parts are merged.
pub struct MergedTree {
    levels: u8,
    pub(super) desc: CompendiaDesc,
    pub(super) tree: Tree,
    /// Frames of 4 KiB in use.
    pub(super) frames: u64,
    /// Blocks of 2 MiB in use.
    pub(super) blocks: u64,
    /// Blocks of 1 GiB in use.
    pub(super) giants: u64,
    /// Large mappings that were asked for at once.
    requests: Requests,
}

impl std::fmt::Debug for MergedTree {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MergedTree").field("levels", &self.levels).field("census", &self.census()).finish()
    }
}

/// Where a page's leaf is.
struct Found {
    table: Id,
    slot: usize,
    leaf: Leaf,
}

impl MergedTree {
    pub fn new(
        levels: u8,
        desc: CompendiaDesc,
        mem: &mut PhysMem,
        frames: &mut impl TableFrames,
    ) -> Result<Self, MapError> {
        let root = frames.take().ok_or(MapError::OutOfFrames)?;
        mem.clear(root);
        let tree = Tree::new(levels, root, &desc);
        Ok(Self { levels, desc, tree, frames: 1, blocks: 0, giants: 0, requests: Requests::default() })
    }

    /// A page of an address space as the tree has it: of the bits that it translates.
    fn within(&self, range: VirtRange) -> VirtRange {
        let bits = Granule::K4.address_bits(self.levels);
        VirtRange::sized(VirtAddr::new(range.start.raw() & ((1 << bits) - 1)), range.bytes())
    }

    /// How many entries of table `id` lie in large mappings that were asked for at once.
    pub(super) fn asked_for(&self, id: Id) -> u16 {
        self.requests.entries(self.tree.first_page(id).0, geometry::covers(self.tree.get(id).level))
    }

    /// Gives a frame of its own back.
    pub(super) fn give(&mut self, frames: &mut impl TableFrames, frame: Pfn) {
        frames.give_back(frame);
        self.frames -= 1;
    }

    /// The page that holds `vpn`, or how much around it is empty.
    fn locate(&self, mem: &PhysMem, vpn: Vpn) -> Result<Found, PageOrder> {
        let mut table = Tree::ROOT;
        loop {
            let slot = self.tree.slot(table, vpn);
            let node = self.tree.get(table);
            match self.tree.child(table, slot) {
                Child::Table(below) => table = below,
                Child::Nothing if node.level > 1 => return Err(geometry::covers(node.level)),
                // The last level's entries are leaves if anything.
                Child::Leaf | Child::Nothing => {
                    let leaf = x86::decode_leaf(read_leaf(&self.tree, mem, table, slot), node.level);
                    return leaf.map(|leaf| Found { table, slot, leaf }).ok_or(geometry::covers(node.level));
                }
            }
        }
    }

    /// The memory whose tables moved, if those of `level` around a page did: all that they translate. Of a root that is
    /// everything.
    fn moved(level: Option<u8>) -> Moved {
        level.map(|level| geometry::covers(level + 1))
    }

    /// Adds an empty table below entry `slot`. Its entries get a frame, or the part of a node that the entry stands
    /// for.
    fn add_below(
        &mut self,
        mem: &mut PhysMem,
        frames: &mut impl TableFrames,
        table: Id,
        slot: usize,
    ) -> Result<Id, MapError> {
        let node = self.tree.get(table);
        if let Some(giant) = node.giant {
            let below = self.tree.add_below(table, slot, None);
            self.tree.set_block(below, Some(middle(giant, slot)));
            return Ok(below);
        }
        let frame = match node.block {
            Some(block) => part(block, slot),
            None => {
                let frame = frames.take().ok_or(MapError::OutOfFrames)?;
                self.frames += 1;
                frame
            }
        };
        mem.clear(frame);
        Ok(self.tree.add_below(table, slot, Some(frame)))
    }

    /// Removes `table` and those above while they are empty; the first that is not, and the level of the highest table
    /// that lost an entry.
    fn remove_empty(&mut self, mem: &mut PhysMem, frames: &mut impl TableFrames, mut table: Id) -> (Id, Option<u8>) {
        let mut changed = None;
        while let Some((parent, slot)) = self.tree.get(table).parent
            && self.tree.get(table).used == 0
        {
            self.drop_table(mem, frames, table);
            refresh(&self.tree, mem, parent, usize::from(slot));
            changed = Some(self.tree.get(parent).level);
            table = parent;
        }
        (table, changed)
    }

    /// Removes an empty table from the tree and its memory.
    fn drop_table(&mut self, mem: &mut PhysMem, frames: &mut impl TableFrames, table: Id) {
        if let Some(block) = self.tree.get(table).block {
            self.tree.set_block(table, None);
            if self.tree.in_giant(table) {
                frames_of(block, NODE).for_each(|frame| mem.clear(frame));
            } else {
                self.drop_block(mem, frames, block, NODE);
            }
        }
        if let Some(giant) = self.tree.get(table).giant {
            self.tree.set_giant(table, None);
            self.drop_block(mem, frames, giant, GIANT);
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
}

impl Tables for MergedTree {
    /// The table, and the number of the entry.
    type Place = (Id, usize);

    #[inline(always)]
    fn root(&self) -> Root {
        let root = self.tree.get(Tree::ROOT);
        Root::from(match (root.giant, root.block, root.frame) {
            (Some(giant), _, _) => PhysAddr(giant.addr().0 | H | T),
            (None, Some(block), _) => PhysAddr(block.addr().0 | H),
            (None, None, frame) => frame.expect("a root that is not merged has its frame").addr(),
        })
    }

    fn table_frames(&self) -> u64 {
        self.frames + self.blocks * NODE.base_pages() + self.giants * GIANT.base_pages()
    }

    fn census(&self) -> Census {
        let nodes = self.blocks * NODE.base_pages() + self.giants * GIANT.base_pages();
        Census { tables: self.frames, nodes, unmerged: self.tree.tables() }
    }

    fn requested(&mut self, range: VirtRange) {
        if self.desc.is_request(range) {
            self.requests.add(self.within(range));
        }
    }

    fn forgotten(&mut self, range: VirtRange) {
        self.requests.forget(self.within(range));
    }

    fn requests(&self) -> Requests {
        self.requests.clone()
    }

    fn inherit(&mut self, requests: Requests) {
        self.requests = requests;
    }

    fn probe(&self, mem: &PhysMem, vpn: Vpn) -> Probe {
        match self.locate(mem, vpn) {
            Ok(found) => Probe::Leaf(found.leaf),
            Err(hole) => Probe::Hole(hole),
        }
    }

    fn find(&self, mem: &PhysMem, vpn: Vpn) -> Option<((Id, usize), Leaf)> {
        self.locate(mem, vpn).ok().map(|found| ((found.table, found.slot), found.leaf))
    }

    fn add(
        &mut self,
        mem: &mut PhysMem,
        frames: &mut impl TableFrames,
        vpn: Vpn,
        leaf: &Leaf,
    ) -> Result<Moved, MapError> {
        let level = (1..=x86::HIGHEST_LEAF).find(|&level| geometry::covers(level) == leaf.order);
        let level = level.ok_or(MapError::NoSuchSize(leaf.order))?;
        let mut table = Tree::ROOT;
        // The highest table that gets an entry which points to a table.
        let mut changed = None;
        let slot = loop {
            let slot = self.tree.slot(table, vpn);
            let at = self.tree.get(table).level;
            match self.tree.child(table, slot) {
                Child::Table(_) if at == level => return Err(MapError::TableThere),
                Child::Leaf => return Err(MapError::AlreadyMapped(geometry::covers(at))),
                Child::Nothing if at == level => break slot,
                Child::Table(below) => table = below,
                Child::Nothing => {
                    let Ok(below) = self.add_below(mem, frames, table, slot) else {
                        self.remove_empty(mem, frames, table);
                        return Err(MapError::OutOfFrames);
                    };
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
        write_leaf(&self.tree, mem, table, slot, x86::encode_leaf(leaf));
        let moved = changed.and_then(|upto| self.decide(mem, frames, table, upto));
        Ok(Self::moved(moved))
    }

    fn remove(
        &mut self,
        mem: &mut PhysMem,
        frames: &mut impl TableFrames,
        _: Vpn,
        (table, slot): (Id, usize),
        _: &Leaf,
    ) -> Moved {
        self.tree.set_child(table, slot, Child::Nothing);
        clear_leaf(&self.tree, mem, table, slot);
        self.tree.get_mut(table).used -= 1;
        let (left, changed) = self.remove_empty(mem, frames, table);
        Self::moved(changed.and_then(|upto| self.decide(mem, frames, left, upto)))
    }

    fn rewrite(&mut self, mem: &mut PhysMem, _: Vpn, (table, slot): (Id, usize), leaf: &Leaf) {
        write_leaf(&self.tree, mem, table, slot, x86::encode_leaf(leaf));
    }

    fn divide(
        &mut self,
        mem: &mut PhysMem,
        frames: &mut impl TableFrames,
        _: Vpn,
        (table, slot): (Id, usize),
        leaf: &Leaf,
    ) -> Result<Moved, MapError> {
        let level = self.tree.get(table).level;
        let below = self.add_below(mem, frames, table, slot)?;
        let order = geometry::covers(level - 1);
        for i in 0..ENTRIES {
            let part = Leaf { pfn: Pfn(leaf.pfn.0 + i as u64 * order.base_pages()), order, ..*leaf };
            self.tree.set_child(below, i, Child::Leaf);
            write_leaf(&self.tree, mem, below, i, x86::encode_leaf(&part));
        }
        self.tree.get_mut(below).used = ENTRIES as u16;
        refresh_above(&self.tree, mem, below);
        Ok(Self::moved(self.decide(mem, frames, below, level)))
    }

    fn free(self, mem: &mut PhysMem, frames: &mut impl TableFrames) {
        let mut all = self.tree.memory();
        // In a fixed order, so that later allocations do not depend on how the tree grew.
        all.sort_unstable_by(|a, b| b.cmp(a));
        for (pfn, order) in all {
            frames_of(pfn, order).for_each(|frame| mem.clear(frame));
            match order {
                PageOrder::P4K => frames.give_back(pfn),
                _ => frames.give_back_block(pfn, order),
            }
        }
    }
}
