//! The tree of tables as it would be without merging, and which of its tables are merged.
//!
//! It is what a kernel keeps in the `struct page` of a table; hardware never sees it.

use mmulab_addr::{Pfn, Vpn};

/// Entries of a table.
pub const ENTRIES: usize = 512;

/// A table's number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Id(u32);

/// What an entry of a table above the leaves is.
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
    /// If it is merged with its children: the 2 MiB that hold their entries.
    pub block: Option<Pfn>,
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
    /// Tables below that gain by this one being merged with its children.
    pub fn gain(&self) -> u16 {
        self.tables - self.idle
    }

    /// Whether its parent gains nothing by being merged with it. Who goes through a merged table has skipped a level there,
    /// and skips no second one but on the way to a merged table further down (paper 5, section 4.4.3).
    pub fn is_idle(&self) -> bool {
        self.block.is_some() && self.merged == 0
    }
}

/// All tables of an address space.
pub struct Tree {
    /// Whether merged tables are pointed to from two levels above.
    pub direct: bool,
    nodes: Vec<Node>,
    spare: Vec<Id>,
}

impl Tree {
    pub const ROOT: Id = Id(0);

    /// A tree of its root, whose entries are in `frame`.
    pub fn new(levels: u8, frame: Pfn, direct: bool) -> Self {
        let mut tree = Self { direct, nodes: Vec::new(), spare: Vec::new() };
        tree.add(levels, None, frame);
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

    fn add(&mut self, level: u8, parent: Option<(Id, u16)>, frame: Pfn) -> Id {
        let children = (level > 1).then(|| Box::new([Packed(NOTHING); ENTRIES]));
        let node =
            Node { level, parent, frame: Some(frame), block: None, used: 0, tables: 0, merged: 0, idle: 0, children };
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
    pub fn add_below(&mut self, parent: Id, slot: usize, frame: Pfn) -> Id {
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

    /// Notes that a table is merged, or is not any more.
    pub fn set_block(&mut self, id: Id, block: Option<Pfn>) {
        let parent = self.get(id).parent.map(|(parent, _)| parent);
        self.counted(id, |tree| tree.get_mut(id).block = block);
        if let Some(parent) = parent {
            let change = |above: &mut Node| if block.is_some() { above.merged += 1 } else { above.merged -= 1 };
            self.counted(parent, |tree| change(tree.get_mut(parent)));
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

    /// Frames of its own and blocks of every table, the latter marked.
    pub fn memory(&self) -> Vec<(Pfn, bool)> {
        let mut all = Vec::new();
        let mut stack = vec![Self::ROOT];
        while let Some(id) = stack.pop() {
            let node = self.get(id);
            all.extend(node.frame.filter(|_| !self.in_parent(id)).map(|frame| (frame, false)));
            all.extend(node.block.map(|block| (block, true)));
            stack.extend((0..ENTRIES).filter_map(|slot| match self.child(id, slot) {
                Child::Table(below) => Some(below),
                _ => None,
            }));
        }
        all
    }
}
