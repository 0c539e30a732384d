//! The tree of tables as it would be without merging, and which of its tables are merged.
//!
//! It is what a kernel keeps in the `struct page` of a table; hardware never sees it.

use super::desc::{CompendiaDesc, Marks};
use crate::geometry;
use mmulab_addr::{PageOrder, Pfn, Vpn};

/// The size of a node of two levels.
pub const NODE: PageOrder = PageOrder::P2M;
/// The size of a node of three levels.
pub const GIANT: PageOrder = PageOrder::P1G;

/// Entries of a table.
pub const ENTRIES: usize = 512;

/// A table's number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Id(u32);

/// Kind of an entry of a table above the leaves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Child {
    Nothing,
    Leaf,
    Table(Id),
}

/// Packed as a number: two that no table has, or a table's.
#[derive(Clone, Copy)]
struct Packed(u32);

const NOTHING: u32 = u32::MAX;
const LEAF: u32 = u32::MAX - 1;

/// One table.
pub struct Node {
    pub level: u8,
    /// The table above, and the entry there. The root has none.
    pub parent: Option<(Id, u16)>,
    /// The 4 KiB that hold its 512 entries: a frame of its own, or a part of the node its parent is merged into. Of a
    /// merged table only the latter is left, for walks that come through the parent.
    pub frame: Option<Pfn>,
    /// If it is merged with its children: the 2 MiB that hold their entries. They are a part of its parent's 1 GiB,
    /// where that is merged with them all.
    pub block: Option<Pfn>,
    /// If it is merged with its children and theirs: the 1 GiB that holds the latters' entries.
    pub giant: Option<Pfn>,
    /// Entries that are something.
    pub used: u16,
    /// Of those, tables.
    pub tables: u16,
    /// Of those, merged.
    pub merged: u16,
    /// Tables below that gain nothing if this one is merged with its children.
    pub idle: u16,
    children: Option<Box<[Packed; ENTRIES]>>,
}

impl Node {
    /// Whether it is merged with its children, or with theirs too.
    pub fn is_merged(&self) -> bool {
        self.block.is_some() || self.giant.is_some()
    }

    /// Tables below that gain by this one being merged with its children.
    pub fn gain(&self) -> u16 {
        self.tables - self.idle
    }

    /// Whether its parent gains nothing by being merged with it. A walk through a merged table has skipped a level
    /// there. It skips a second one only on the way to a merged table further down (paper 5, section 4.4.3). All of a
    /// giant is reached at once.
    pub fn is_idle(&self) -> bool {
        self.giant.is_some() || (self.block.is_some() && self.merged == 0)
    }
}

/// All tables of an address space.
pub struct Tree {
    /// Whether merged tables are pointed to from two levels above.
    pub direct: bool,
    /// Where entries have their marks.
    pub marks: Marks,
    nodes: Vec<Node>,
    spare: Vec<Id>,
}

impl Tree {
    pub const ROOT: Id = Id(0);

    /// A tree of its root, whose entries are in `frame`.
    pub fn new(levels: u8, frame: Pfn, desc: &CompendiaDesc) -> Self {
        let mut tree = Self { direct: desc.direct, marks: desc.marks, nodes: Vec::new(), spare: Vec::new() };
        tree.add(levels, None, Some(frame));
        tree
    }

    pub fn get(&self, id: Id) -> &Node {
        &self.nodes[id.0 as usize]
    }

    pub fn get_mut(&mut self, id: Id) -> &mut Node {
        &mut self.nodes[id.0 as usize]
    }

    /// Tables in it.
    pub fn tables(&self) -> u64 {
        (self.nodes.len() - self.spare.len()) as u64
    }

    /// Which entry of table `id` leads to `vpn`.
    pub fn slot(&self, id: Id, vpn: Vpn) -> usize {
        (vpn.0 >> (9 * u32::from(self.get(id).level - 1))) as usize % ENTRIES
    }

    pub fn child(&self, id: Id, slot: usize) -> Child {
        match &self.get(id).children {
            Some(children) => match children[slot].0 {
                NOTHING => Child::Nothing,
                LEAF => Child::Leaf,
                table => Child::Table(Id(table)),
            },
            None => Child::Nothing,
        }
    }

    /// Notes what an entry is from now on; of the last level that is not kept, for its entries can only be leaves.
    pub fn set_child(&mut self, id: Id, slot: usize, child: Child) {
        if let Some(children) = &mut self.get_mut(id).children {
            children[slot] = Packed(match child {
                Child::Nothing => NOTHING,
                Child::Leaf => LEAF,
                Child::Table(Id(table)) => table,
            });
        }
    }

    fn add(&mut self, level: u8, parent: Option<(Id, u16)>, frame: Option<Pfn>) -> Id {
        let children = (level > 1).then(|| Box::new([Packed(NOTHING); ENTRIES]));
        let (block, giant, used, tables, merged, idle) = (None, None, 0, 0, 0, 0);
        let node = Node { level, parent, frame, block, giant, used, tables, merged, idle, children };
        match self.spare.pop() {
            Some(id) => {
                *self.get_mut(id) = node;
                id
            }
            None => {
                self.nodes.push(node);
                Id(self.nodes.len() as u32 - 1)
            }
        }
    }

    /// Adds a table below entry `slot`, which counts as used from now on.
    pub fn add_below(&mut self, parent: Id, slot: usize, frame: Option<Pfn>) -> Id {
        let id = self.add(self.get(parent).level - 1, Some((parent, slot as u16)), frame);
        if self.child(parent, slot) == Child::Nothing {
            self.get_mut(parent).used += 1;
        }
        self.set_child(parent, slot, Child::Table(id));
        self.get_mut(parent).tables += 1;
        id
    }

    /// Removes a table that is neither the root nor merged.
    pub fn remove(&mut self, id: Id) {
        let Some((parent, slot)) = self.get(id).parent else { return };
        self.set_child(parent, usize::from(slot), Child::Nothing);
        let above = self.get_mut(parent);
        above.used -= 1;
        above.tables -= 1;
        self.get_mut(id).children = None;
        self.spare.push(id);
    }

    /// Notes that a table is merged with its children, or is not any more.
    pub fn set_block(&mut self, id: Id, block: Option<Pfn>) {
        self.set_merged(id, |node| node.block = block);
    }

    /// Notes that a table is merged with its children and theirs, or is not any more.
    pub fn set_giant(&mut self, id: Id, giant: Option<Pfn>) {
        self.set_merged(id, |node| node.giant = giant);
    }

    fn set_merged(&mut self, id: Id, change: impl FnOnce(&mut Node)) {
        let before = self.get(id).is_merged();
        self.counted(id, |tree| change(tree.get_mut(id)));
        let after = self.get(id).is_merged();
        if let Some((parent, _)) = self.get(id).parent {
            self.counted(parent, |tree| {
                let merged = &mut tree.get_mut(parent).merged;
                *merged = *merged + u16::from(after) - u16::from(before);
            });
        }
    }

    /// Does something to table `id` that may change whether it is idle, which its parent counts.
    fn counted(&mut self, id: Id, change: impl FnOnce(&mut Self)) {
        let before = self.get(id).is_idle();
        change(self);
        let after = self.get(id).is_idle();
        if let Some((parent, _)) = self.get(id).parent {
            let idle = &mut self.get_mut(parent).idle;
            *idle = *idle + u16::from(after) - u16::from(before);
        }
    }

    /// Whether the entries of table `id` lie in the node that its parent is merged into.
    pub fn in_parent(&self, id: Id) -> bool {
        self.get(id).parent.is_some_and(|(parent, _)| self.get(parent).block.is_some())
    }

    /// Whether table `id` is the middle of three that are merged: its node is a part of its parent's.
    pub fn in_giant(&self, id: Id) -> bool {
        self.get(id).parent.is_some_and(|(parent, _)| self.get(parent).giant.is_some())
    }

    /// The first page that table `id` translates.
    pub fn first_page(&self, mut id: Id) -> Vpn {
        let mut first = 0;
        while let Some((parent, slot)) = self.get(id).parent {
            first |= u64::from(slot) << geometry::covers(self.get(parent).level).get();
            id = parent;
        }
        Vpn(first)
    }

    /// The memory that the tables are in, by blocks of their sizes.
    pub fn memory(&self) -> Vec<(Pfn, PageOrder)> {
        let mut all = Vec::new();
        let mut stack = vec![Self::ROOT];
        while let Some(id) = stack.pop() {
            let node = self.get(id);
            all.extend(node.frame.filter(|_| !self.in_parent(id)).map(|frame| (frame, PageOrder::P4K)));
            all.extend(node.block.filter(|_| !self.in_giant(id)).map(|block| (block, NODE)));
            all.extend(node.giant.map(|giant| (giant, GIANT)));
            stack.extend((0..ENTRIES).filter_map(|slot| match self.child(id, slot) {
                Child::Table(below) => Some(below),
                _ => None,
            }));
        }
        all
    }
}
