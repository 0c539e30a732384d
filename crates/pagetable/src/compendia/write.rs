//! The bytes of the tree: where each entry lies, and what is written there.

use super::entry::{self, H, O, T};
use super::tree::{Child, ENTRIES, Id, NODE, Tree};
use crate::x86;
use mmulab_addr::{PageOrder, Pfn, PhysAddr};
use mmulab_frames::PhysMem;

/// Entry `slot` of the 4 KiB at `frame`.
pub fn word(frame: Pfn, slot: usize) -> PhysAddr {
    PhysAddr(frame.addr().0 + slot as u64 * 8)
}

/// The 4 KiB of a merged node that stand for the entry `slot` of the table that is merged.
pub fn part(block: Pfn, slot: usize) -> Pfn {
    Pfn(block.0 + slot as u64)
}

/// The 2 MiB of a node of three levels that stand for the entry `slot` of the uppermost table.
pub fn middle(giant: Pfn, slot: usize) -> Pfn {
    Pfn(giant.0 + slot as u64 * NODE.base_pages())
}

/// All frames of a block of `order`.
pub fn frames_of(block: Pfn, order: PageOrder) -> impl Iterator<Item = Pfn> {
    (block.0..block.0 + order.base_pages()).map(Pfn)
}

/// The entry that points to a table.
pub fn pointer(tree: &Tree, id: Id) -> u64 {
    let node = tree.get(id);
    match (node.giant, node.block, node.frame) {
        (Some(giant), _, _) => x86::encode_table(giant) | H | T,
        (None, Some(block), _) => x86::encode_table(block) | H,
        (None, None, Some(frame)) => x86::encode_table(frame),
        (None, None, None) => unreachable!("a table that is not merged has its entries in a frame"),
    }
}

/// The entry of each place of a merged table in its parent's node; `None` for other tables.
fn around(tree: &Tree, id: Id) -> Option<u64> {
    let node = tree.get(id);
    let giant = node.giant.map(|giant| x86::encode_table(giant) | O | T);
    giant.or_else(|| node.block.map(|block| x86::encode_table(block) | O))
}

/// Writes what entry `slot` of table `id` points to, if walks can come to that entry. Leaves are left as they are.
pub fn refresh(tree: &Tree, mem: &mut PhysMem, id: Id, slot: usize) {
    let node = tree.get(id);
    let Some(frame) = node.frame else { return };
    let bits = match (tree.child(id, slot), around(tree, id)) {
        (Child::Leaf, _) => return,
        (Child::Nothing, around) => around.unwrap_or(0),
        // The next table but one is merged: it is pointed to directly (paper 5, section 4.4.3, figure 11b).
        // Of three merged levels all entries are in the one node.
        (Child::Table(below), Some(around))
            if !(tree.direct && tree.get(below).is_merged()) || node.giant.is_some() =>
        {
            around
        }
        (Child::Table(below), _) => pointer(tree, below),
    };
    mem.write(word(frame, slot), tree.marks.pointer(bits));
}

/// Writes what all entries of table `id` point to.
pub fn refresh_all(tree: &Tree, mem: &mut PhysMem, id: Id) {
    (0..ENTRIES).for_each(|slot| refresh(tree, mem, id, slot));
}

/// Writes what points to table `id` in its parent; the root has the base register.
pub fn refresh_above(tree: &Tree, mem: &mut PhysMem, id: Id) {
    if let Some((parent, slot)) = tree.get(id).parent {
        refresh(tree, mem, parent, usize::from(slot));
    }
}

/// Where the copies of the leaf at entry `slot` of table `id` are, if it is merged, and how many levels down.
fn copies(tree: &Tree, id: Id, slot: usize) -> Option<(Pfn, PageOrder, u8)> {
    let node = tree.get(id);
    let giant = node.giant.map(|giant| (middle(giant, slot), NODE, 2));
    giant.or_else(|| node.block.map(|block| (part(block, slot), PageOrder::P4K, 1)))
}

/// All words of a block of `order`.
fn words(block: Pfn, order: PageOrder) -> impl Iterator<Item = PhysAddr> {
    frames_of(block, order).flat_map(|frame| (0..ENTRIES).map(move |at| word(frame, at)))
}

/// The leaf at entry `slot` of table `id`: of its copies, whatever one of them saw.
pub fn read_leaf(tree: &Tree, mem: &PhysMem, id: Id, slot: usize) -> u64 {
    let node = tree.get(id);
    let direct = node.frame.map_or(0, |frame| mem.read(word(frame, slot)));
    let Some((first, order, down)) = copies(tree, id, slot) else { return direct };
    let marks = words(first, order).fold(direct, |bits, copy| bits | mem.read(copy)) & (x86::A | x86::D);
    entry::whole_leaf(tree.marks.read(mem.read(word(first, 0))), node.level - down) | marks
}

/// Writes a leaf into entry `slot` of table `id`; how many words that took.
pub fn write_leaf(tree: &Tree, mem: &mut PhysMem, id: Id, slot: usize, bits: u64) -> u64 {
    let node = tree.get(id);
    let mut written = 0;
    if let Some(frame) = node.frame {
        mem.write(word(frame, slot), bits);
        written += 1;
    }
    if let Some((first, order, down)) = copies(tree, id, slot) {
        let copy = tree.marks.leaf(entry::overlapping_leaf(bits, node.level - down, down));
        words(first, order).for_each(|at| mem.write(at, copy));
        written += order.base_pages() * ENTRIES as u64;
    }
    written
}

/// Takes the leaf out of entry `slot` of table `id`, which the tree knows to be nothing any more.
pub fn clear_leaf(tree: &Tree, mem: &mut PhysMem, id: Id, slot: usize) {
    let node = tree.get(id);
    if let Some((first, order, _)) = copies(tree, id, slot) {
        frames_of(first, order).for_each(|frame| mem.clear(frame));
    }
    match node.frame {
        // Of the last level the tree knows nothing, and it is never merged.
        Some(frame) if !node.is_merged() => mem.write(word(frame, slot), 0),
        _ => refresh(tree, mem, id, slot),
    }
}

/// Moves the contents of a 4 KiB frame; how many words were something.
pub fn move_words(mem: &mut PhysMem, from: Pfn, to: Pfn) -> u64 {
    let mut moved = 0;
    for slot in 0..ENTRIES {
        let bits = mem.read(word(from, slot));
        if bits != 0 {
            mem.write(word(to, slot), bits);
            moved += 1;
        }
    }
    mem.clear(from);
    moved
}

/// Moves what is in a block of 2 MiB; how many words were something.
pub fn move_node(mem: &mut PhysMem, from: Pfn, to: Pfn) -> u64 {
    frames_of(from, NODE).zip(frames_of(to, NODE)).map(|(from, to)| move_words(mem, from, to)).sum()
}
