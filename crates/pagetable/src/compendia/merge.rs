//! Merging a table with its children, and taking a merged node apart.

use super::table::Compendia;
use super::tree::{Child, ENTRIES, Id};
use super::write::{move_words, part, read_leaf, refresh_above, refresh_all, word, write_leaf};
use crate::{TableEvent, TableFrames};
use mmulab_addr::{PageOrder, Pfn};
use mmulab_frames::PhysMem;

/// The size of a merged node.
pub const NODE: PageOrder = PageOrder::P2M;

impl Compendia {
    /// Decides anew, from table `lowest` up to that of level `upto`, and above as far as a decision changes what its reasons
    /// were. Returns the highest level at which tables were moved.
    ///
    /// A decision depends on the table's entries, and on which tables below are merged. So it is made when an entry comes
    /// or goes or points elsewhere, never for changes to PTEs (paper 5, section 4.1), and from the leaves up, which prefers
    /// merges close to them (section 4.4.1).
    pub(super) fn decide(
        &mut self,
        mem: &mut PhysMem,
        frames: &mut impl TableFrames,
        lowest: Id,
        mut upto: u8,
    ) -> Option<u8> {
        let (mut at, mut highest) = (Some(lowest), None);
        while let Some(id) = at {
            let level = self.tree.get(id).level;
            if level > upto {
                break;
            }
            if level > 1 && self.decide_one(mem, frames, id) {
                highest = Some(level);
                // The parent's entry points elsewhere, and its own parent may gain more or less by being merged.
                upto = upto.max(level + 2);
            }
            at = self.tree.get(id).parent.map(|(parent, _)| parent);
        }
        highest
    }

    /// Whether the table was merged or unmerged.
    fn decide_one(&mut self, mem: &mut PhysMem, frames: &mut impl TableFrames, id: Id) -> bool {
        frames.happened(TableEvent::Checked);
        let node = self.tree.get(id);
        match node.block {
            None if self.desc.merges(node.level, node.gain()) => self.merge(mem, frames, id),
            Some(block) if self.desc.unmerges(node.gain()) => self.unmerge(mem, frames, id, block),
            _ => false,
        }
    }

    fn merge(&mut self, mem: &mut PhysMem, frames: &mut impl TableFrames, id: Id) -> bool {
        let level = self.tree.get(id).level;
        let Some(block) = frames.take_block(NODE) else {
            frames.happened(TableEvent::NoBlock { level });
            return false;
        };
        let mut written = 0;
        for slot in 0..ENTRIES {
            let into = part(block, slot);
            mem.clear(into);
            if let Child::Table(below) = self.tree.child(id, slot) {
                match self.tree.get(below).frame.filter(|_| self.tree.get(below).block.is_none()) {
                    Some(from) => {
                        written += move_words(mem, from, into);
                        self.give(frames, from);
                    }
                    // A merged table is found again by who comes through this node.
                    None => written += self.shadow(mem, below, into),
                }
                self.tree.get_mut(below).frame = Some(into);
            }
        }
        self.tree.set_block(id, Some(block));
        self.blocks += 1;
        for slot in 0..ENTRIES {
            if self.tree.child(id, slot) == Child::Leaf {
                let frame = self.tree.get(id).frame;
                let bits = frame.map_or(0, |frame| mem.read(word(frame, slot)));
                written += write_leaf(&self.tree, mem, id, slot, bits);
            }
        }
        if self.tree.in_parent(id) {
            refresh_all(&self.tree, mem, id);
            written += ENTRIES as u64;
        } else if let Some(own) = self.tree.get_mut(id).frame.take() {
            mem.clear(own);
            self.give(frames, own);
        }
        refresh_above(&self.tree, mem, id);
        frames.happened(TableEvent::Merged { level, written });
        true
    }

    /// Writes the entries of the merged table `id` into `into`; how many words that took.
    fn shadow(&mut self, mem: &mut PhysMem, id: Id, into: Pfn) -> u64 {
        for slot in 0..ENTRIES {
            if self.tree.child(id, slot) == Child::Leaf {
                let bits = read_leaf(&self.tree, mem, id, slot);
                mem.write(word(into, slot), bits);
            }
        }
        self.tree.get_mut(id).frame = Some(into);
        refresh_all(&self.tree, mem, id);
        ENTRIES as u64
    }

    fn unmerge(&mut self, mem: &mut PhysMem, frames: &mut impl TableFrames, id: Id, block: Pfn) -> bool {
        let level = self.tree.get(id).level;
        let below: Vec<_> = (0..ENTRIES).map(|slot| self.tree.child(id, slot)).collect();
        let is_whole = |child: &Child| matches!(child, Child::Table(t) if self.tree.get(*t).block.is_none());
        let needed = below.iter().filter(|child| is_whole(child)).count() + usize::from(!self.tree.in_parent(id));
        let mut got: Vec<Pfn> = std::iter::from_fn(|| frames.take()).take(needed).collect();
        if got.len() < needed {
            got.into_iter().for_each(|frame| frames.give_back(frame));
            frames.happened(TableEvent::NoFrames { level });
            return false;
        }
        self.frames += needed as u64;
        let mut next = || got.pop().expect("as many as are needed were taken");
        let leaves: Vec<_> = (0..ENTRIES)
            .filter(|&slot| below[slot] == Child::Leaf)
            .map(|slot| (slot, read_leaf(&self.tree, mem, id, slot)))
            .collect();
        let mut written = leaves.len() as u64;
        for (slot, child) in below.iter().enumerate() {
            let Child::Table(table) = *child else { continue };
            if self.tree.get(table).block.is_some() {
                written += self.leave_shadow(mem, table);
                continue;
            }
            let frame = next();
            mem.clear(frame);
            written += move_words(mem, part(block, slot), frame);
            self.tree.get_mut(table).frame = Some(frame);
        }
        if !self.tree.in_parent(id) {
            let own = next();
            mem.clear(own);
            self.tree.get_mut(id).frame = Some(own);
        }
        self.tree.set_block(id, None);
        refresh_all(&self.tree, mem, id);
        for (slot, bits) in leaves {
            write_leaf(&self.tree, mem, id, slot, bits);
        }
        self.drop_block(mem, frames, block);
        refresh_above(&self.tree, mem, id);
        frames.happened(TableEvent::Unmerged { level, written });
        true
    }

    /// The entries of the merged table `id` for those who come through its parent go: what hardware marked in leaves among
    /// them is kept in the others. How many words that took.
    fn leave_shadow(&mut self, mem: &mut PhysMem, id: Id) -> u64 {
        let marked = |slot: &usize| self.tree.child(id, *slot) == Child::Leaf;
        let leaves: Vec<_> =
            (0..ENTRIES).filter(marked).map(|slot| (slot, read_leaf(&self.tree, mem, id, slot))).collect();
        self.tree.get_mut(id).frame = None;
        leaves.into_iter().map(|(slot, bits)| write_leaf(&self.tree, mem, id, slot, bits)).sum()
    }

    /// Gives the 2 MiB of a node back.
    pub(super) fn drop_block(&mut self, mem: &mut PhysMem, frames: &mut impl TableFrames, block: Pfn) {
        (0..ENTRIES).for_each(|slot| mem.clear(part(block, slot)));
        frames.give_back_block(block, NODE);
        self.blocks -= 1;
    }
}
