//! The bytes of the tree: where each entry lies, and what is written there.

use super::entry::{self, H, O};
use super::tree::{Child, ENTRIES, Id, Tree};
use crate::x86;
use mmulab_addr::{Pfn, PhysAddr};
use mmulab_frames::PhysMem;

/// Entry `slot` of the 4 KiB at `frame`.
pub fn word(frame: Pfn, slot: usize) -> PhysAddr {
    PhysAddr(frame.addr().0 + slot as u64 * 8)
}

/// The 4 KiB of a merged node that stand for the entry `slot` of the table that is merged.
pub fn part(block: Pfn, slot: usize) -> Pfn {
    Pfn(block.0 + slot as u64)
}

/// What points to a table.
pub fn pointer(tree: &Tree, id: Id) -> u64 {
    let node = tree.get(id);
    match (node.block, node.frame) {
        (Some(block), _) => x86::encode_table(block) | H,
        (None, Some(frame)) => x86::encode_table(frame),
        (None, None) => unreachable!("a table that is not merged has its entries in a frame"),
    }
}

/// Writes what entry `slot` of table `id` points to, if walks can come to that entry. Leaves are left as they are.
pub fn refresh(tree: &Tree, mem: &mut PhysMem, id: Id, slot: usize) {
    let node = tree.get(id);
    let Some(frame) = node.frame else { return };
    let around = node.block.map(|block| x86::encode_table(block) | O);
    let bits = match (tree.child(id, slot), around) {
        (Child::Leaf, _) => return,
        (Child::Nothing, around) => around.unwrap_or(0),
        // The next table but one is merged: it is pointed to directly (paper 5, section 4.4.3, figure 11b).
        (Child::Table(below), Some(around)) if tree.get(below).block.is_none() || !tree.direct => around,
        (Child::Table(below), _) => pointer(tree, below),
    };
    mem.write(word(frame, slot), bits);
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

/// The leaf at entry `slot` of table `id`: of its copies, whatever one of them saw.
pub fn read_leaf(tree: &Tree, mem: &PhysMem, id: Id, slot: usize) -> u64 {
    let node = tree.get(id);
    let direct = node.frame.map_or(0, |frame| mem.read(word(frame, slot)));
    let Some(block) = node.block else { return direct };
    let copies = part(block, slot);
    let below = node.level - 1;
    let marks = (0..ENTRIES).fold(direct, |bits, copy| bits | mem.read(word(copies, copy))) & (x86::A | x86::D);
    entry::whole_leaf(mem.read(word(copies, 0)), below) | marks
}

/// Writes a leaf into entry `slot` of table `id`; how many words that took.
pub fn write_leaf(tree: &Tree, mem: &mut PhysMem, id: Id, slot: usize, bits: u64) -> u64 {
    let node = tree.get(id);
    let mut words = 0;
    if let Some(frame) = node.frame {
        mem.write(word(frame, slot), bits);
        words += 1;
    }
    if let Some(block) = node.block {
        let copy = entry::overlapping_leaf(bits, node.level - 1);
        (0..ENTRIES).for_each(|at| mem.write(word(part(block, slot), at), copy));
        words += ENTRIES as u64;
    }
    words
}

/// Takes the leaf out of entry `slot` of table `id`, which the tree knows to be nothing any more.
pub fn clear_leaf(tree: &Tree, mem: &mut PhysMem, id: Id, slot: usize) {
    let node = tree.get(id);
    if let Some(block) = node.block {
        mem.clear(part(block, slot));
    }
    match node.frame {
        // Of the last level the tree knows nothing, and it is never merged.
        Some(frame) if node.block.is_none() => mem.write(word(frame, slot), 0),
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
