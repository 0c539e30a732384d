//! Free blocks in lists, one per size and mobility, as the kernel links them through `struct page`.

use rustc_hash::FxHashMap;

/// No block.
pub const NONE: u32 = u32::MAX;

/// A free block: its neighbours in its list.
#[derive(Clone, Copy)]
struct Node {
    previous: u32,
    next: u32,
    list: u16,
}

/// A list's ends and length.
#[derive(Clone, Copy)]
struct Ends {
    head: u32,
    tail: u32,
    length: u64,
}

/// All free blocks, found by first frame. The map is only looked into, never iterated: its order cannot show.
pub struct Lists {
    nodes: FxHashMap<u32, Node>,
    ends: Vec<Ends>,
}

impl Lists {
    pub fn new(lists: usize) -> Self {
        Self { nodes: FxHashMap::default(), ends: vec![Ends { head: NONE, tail: NONE, length: 0 }; lists] }
    }

    /// Which list the block at `pfn` is in.
    #[inline]
    pub fn of(&self, pfn: u32) -> Option<usize> {
        self.nodes.get(&pfn).map(|n| usize::from(n.list))
    }

    #[inline]
    pub fn head(&self, list: usize) -> Option<u32> {
        let head = self.ends[list].head;
        (head != NONE).then_some(head)
    }

    #[inline]
    pub fn length(&self, list: usize) -> u64 {
        self.ends[list].length
    }

    pub fn push_head(&mut self, list: usize, pfn: u32) {
        let ends = &mut self.ends[list];
        let next = std::mem::replace(&mut ends.head, pfn);
        ends.length += 1;
        match next {
            NONE => ends.tail = pfn,
            _ => self.nodes.get_mut(&next).expect("a listed block has a node").previous = pfn,
        }
        self.nodes.insert(pfn, Node { previous: NONE, next, list: list as u16 });
    }

    pub fn push_tail(&mut self, list: usize, pfn: u32) {
        let ends = &mut self.ends[list];
        let previous = std::mem::replace(&mut ends.tail, pfn);
        ends.length += 1;
        match previous {
            NONE => ends.head = pfn,
            _ => self.nodes.get_mut(&previous).expect("a listed block has a node").next = pfn,
        }
        self.nodes.insert(pfn, Node { previous, next: NONE, list: list as u16 });
    }

    /// Takes the block at `pfn` out of whichever list it is in.
    pub fn remove(&mut self, pfn: u32) {
        let Some(node) = self.nodes.remove(&pfn) else { return };
        let ends = &mut self.ends[usize::from(node.list)];
        ends.length -= 1;
        match node.previous {
            NONE => ends.head = node.next,
            p => self.nodes.get_mut(&p).expect("a listed block has a node").next = node.next,
        }
        match node.next {
            NONE => ends.tail = node.previous,
            n => self.nodes.get_mut(&n).expect("a listed block has a node").previous = node.previous,
        }
    }
}
