//! Free blocks in lists, one per size and mobility, as the kernel links them through `struct page`.

use std::{
    collections::HashMap,
    hash::{BuildHasherDefault, Hasher},
};

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

/// Puts the nodes of neighbouring frames beside each other: memory is freed and taken in order, and fragmented memory
/// has millions of blocks. A hash that scatters them costs a miss of the host's caches for each.
#[derive(Default)]
struct Nearby(u64);

impl Hasher for Nearby {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.write_u32(byte.into()));
    }

    fn write_u32(&mut self, pfn: u32) {
        // The map takes its place from the low bits, and from the high ones what it compares before the key.
        let pfn = u64::from(pfn);
        let scattered = (pfn >> RUN).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let place = pfn.wrapping_add(scattered >> 20) & (u64::MAX >> 8);
        self.0 = place | pfn.wrapping_mul(0x9e37_79b9_7f4a_7c15) << 24 & !(u64::MAX >> 8);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// Bits of a frame number whose nodes stay together.
const RUN: u32 = 10;

/// All free blocks, found by first frame. The map is only looked into, never iterated: its order cannot show.
pub struct Lists {
    nodes: HashMap<u32, Node, BuildHasherDefault<Nearby>>,
    ends: Vec<Ends>,
}

impl Lists {
    pub fn new(lists: usize) -> Self {
        Self { nodes: HashMap::default(), ends: vec![Ends { head: NONE, tail: NONE, length: 0 }; lists] }
    }

    /// Makes room for this many blocks more.
    pub fn expect(&mut self, blocks: usize) {
        self.nodes.reserve(blocks);
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

    /// The blocks of a list, from its head on.
    pub fn blocks(&self, list: usize) -> impl Iterator<Item = u32> {
        let next = |&pfn: &u32| self.nodes.get(&pfn).map(|node| node.next).filter(|&next| next != NONE);
        std::iter::successors(self.head(list), next)
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::{collections::BTreeSet, hash::Hash};

    fn hash(pfn: u32) -> u64 {
        let mut hasher = Nearby::default();
        pfn.hash(&mut hasher);
        hasher.finish()
    }

    #[test]
    fn neighbours_have_neighbouring_places() {
        let far = (0..1u32 << 16).filter(|&pfn| (hash(pfn + 1) & 0xffff).abs_diff(hash(pfn) & 0xffff) != 1);
        assert!(far.count() <= (1 << (16 - RUN)) + 64, "but where a run ends, or the places do");
    }

    #[test]
    fn large_blocks_are_spread_over_the_places() {
        for order in [9, 10, 13] {
            let places: BTreeSet<u64> = (0..1u32 << 14).map(|n| hash(n << order) & ((1 << 14) - 1)).collect();
            assert!(places.len() > 8000, "order {order}: {} places of 16384", places.len());
        }
    }

    #[test]
    fn what_is_compared_before_the_key_differs_among_neighbours() {
        let tags: BTreeSet<u64> = (0..64).map(|pfn| hash(pfn) >> 57).collect();
        assert!(tags.len() > 32, "{} tags of 64 frames", tags.len());
    }
}
