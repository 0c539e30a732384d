//! Merging a table with its children, and taking a merged node apart.

use super::table::MergedTree;
use super::tree::{Child, ENTRIES, GIANT, Id, NODE};
use super::write::{frames_of, move_words, part, read_leaf, refresh_above, refresh_all, word, write_leaf};
use crate::{TableEvent, TableFrames};
use mmulab_addr::{PageOrder, Pfn};
use mmulab_frames::PhysMem;

impl MergedTree {
    /// Decides anew, from table `lowest` up to that of level `upto`, and above as far as a decision changes what its
    /// reasons were. Returns the highest level at which tables were moved.
    ///
    /// A decision depends on the table's entries, and on which tables below are merged. So it is made when an entry
    /// comes or goes or points elsewhere, never for changes to PTEs (paper 5, section 4.1). Decisions are made from the
    /// leaves up, which prefers merges close to them (section 4.4.1).
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
            if self.tree.in_giant(id) {
                // It is merged as long as its parent is, which depends on what is below this one.
                upto = upto.max(level + 1);
            } else if level > 1 && self.decide_one(mem, frames, id) {
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
        if let Some(done) = self.decide_three(mem, frames, id) {
            return done;
        }
        match self.tree.get(id).block {
            None if self.merges(id) => {
                let Some(block) = self.take_block(frames, id, NODE) else { return false };
                let written = self.merge(mem, frames, id, block);
                let level = self.tree.get(id).level;
                frames.happened(TableEvent::Merged { level, levels: 2, written });
                true
            }
            Some(block) if !self.stays(id) => self.unmerge(mem, frames, id, block),
            _ => false,
        }
    }

    /// Whether a table is to be merged with its children, if it is not.
    fn merges(&self, id: Id) -> bool {
        let node = self.tree.get(id);
        let gain = node.gain();
        self.desc.merges(node.level, gain)
            || (gain > 0 && self.desc.request.is_some() && self.desc.merges(node.level, self.asked_for(id)))
    }

    /// Whether a table that is merged with its children is to stay so.
    pub(super) fn stays(&self, id: Id) -> bool {
        !self.desc.unmerges(self.tree.get(id).gain()) || self.merges(id)
    }

    /// A block for the node that table `id` is to be merged into.
    pub(super) fn take_block(&mut self, frames: &mut impl TableFrames, id: Id, order: PageOrder) -> Option<Pfn> {
        let block = if order == GIANT { frames.take_contiguous(order) } else { frames.take_block(order) };
        match block {
            Some(_) => *self.count_of(order) += 1,
            None => frames.happened(TableEvent::NoBlock { level: self.tree.get(id).level }),
        }
        block
    }

    pub(super) fn count_of(&mut self, order: PageOrder) -> &mut u64 {
        if order == GIANT { &mut self.giants } else { &mut self.blocks }
    }

    /// Merges a table with its children into `block`; how many words that took.
    pub(super) fn merge(&mut self, mem: &mut PhysMem, frames: &mut impl TableFrames, id: Id, block: Pfn) -> u64 {
        let mut written = 0;
        for slot in 0..ENTRIES {
            let into = part(block, slot);
            mem.clear(into);
            if let Child::Table(below) = self.tree.child(id, slot) {
                match self.tree.get(below).frame.filter(|_| !self.tree.get(below).is_merged()) {
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
        for slot in 0..ENTRIES {
            if self.tree.child(id, slot) == Child::Leaf {
                let frame = self.tree.get(id).frame;
                let bits = frame.map_or(0, |frame| mem.read(word(frame, slot)));
                written += write_leaf(&self.tree, mem, id, slot, bits);
            }
        }
        written + self.told_above(mem, frames, id)
    }

    /// Writes the entries that lead to a table that was just merged. These are its entries in its parent's node, if the
    /// parent is merged, too; else only the pointer to the table. Returns the number of words written.
    pub(super) fn told_above(&mut self, mem: &mut PhysMem, frames: &mut impl TableFrames, id: Id) -> u64 {
        let mut written = 0;
        if self.tree.in_parent(id) {
            refresh_all(&self.tree, mem, id);
            written = ENTRIES as u64;
        } else if let Some(own) = self.tree.get_mut(id).frame.take() {
            mem.clear(own);
            self.give(frames, own);
        }
        refresh_above(&self.tree, mem, id);
        written
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

    /// Takes a node apart, if there are frames for its tables.
    pub(super) fn unmerge(&mut self, mem: &mut PhysMem, frames: &mut impl TableFrames, id: Id, block: Pfn) -> bool {
        let level = self.tree.get(id).level;
        let needed = self.frames_apart(id, self.tree.in_parent(id));
        let Some(got) = self.take_frames(frames, needed) else {
            frames.happened(TableEvent::NoFrames { level });
            return false;
        };
        let written = self.take_apart(mem, id, block, got);
        self.drop_block(mem, frames, block, NODE);
        refresh_above(&self.tree, mem, id);
        frames.happened(TableEvent::Unmerged { level, levels: 2, written });
        true
    }

    /// How many frames table `id`, which is merged with its children, consists of without that. Its own entries need
    /// none if they are in its parent's node.
    pub(super) fn frames_apart(&self, id: Id, in_parent: bool) -> usize {
        let is_whole = |slot: &usize| match self.tree.child(id, *slot) {
            Child::Table(below) => !self.tree.get(below).is_merged(),
            Child::Nothing | Child::Leaf => false,
        };
        (0..ENTRIES).filter(is_whole).count() + usize::from(!in_parent)
    }

    /// So many frames, or none.
    pub(super) fn take_frames(&mut self, frames: &mut impl TableFrames, needed: usize) -> Option<Vec<Pfn>> {
        let got: Vec<Pfn> = std::iter::from_fn(|| frames.take()).take(needed).collect();
        if got.len() < needed {
            got.into_iter().for_each(|frame| frames.give_back(frame));
            return None;
        }
        self.frames += needed as u64;
        Some(got)
    }

    /// Moves the contents of the node into which table `id` and its children are merged to the frames in `got`. Returns
    /// the number of words moved. The pointer to the table stays as it is.
    pub(super) fn take_apart(&mut self, mem: &mut PhysMem, id: Id, block: Pfn, mut got: Vec<Pfn>) -> u64 {
        let below: Vec<_> = (0..ENTRIES).map(|slot| self.tree.child(id, slot)).collect();
        let mut next = || got.pop().expect("as many as are needed were taken");
        let leaves: Vec<_> = (0..ENTRIES)
            .filter(|&slot| below[slot] == Child::Leaf)
            .map(|slot| (slot, read_leaf(&self.tree, mem, id, slot)))
            .collect();
        let mut written = leaves.len() as u64;
        for (slot, child) in below.iter().enumerate() {
            let Child::Table(table) = *child else { continue };
            if self.tree.get(table).is_merged() {
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
        written
    }

    /// The entries of the merged table `id` for those who come through its parent go: what hardware marked in leaves
    /// among them is kept in the others. How many words that took.
    fn leave_shadow(&mut self, mem: &mut PhysMem, id: Id) -> u64 {
        let marked = |slot: &usize| self.tree.child(id, *slot) == Child::Leaf;
        let leaves: Vec<_> =
            (0..ENTRIES).filter(marked).map(|slot| (slot, read_leaf(&self.tree, mem, id, slot))).collect();
        self.tree.get_mut(id).frame = None;
        leaves.into_iter().map(|(slot, bits)| write_leaf(&self.tree, mem, id, slot, bits)).sum()
    }

    /// Gives the memory of a node back.
    pub(super) fn drop_block(
        &mut self,
        mem: &mut PhysMem,
        frames: &mut impl TableFrames,
        block: Pfn,
        order: PageOrder,
    ) {
        frames_of(block, order).for_each(|frame| mem.clear(frame));
        frames.give_back_block(block, order);
        *self.count_of(order) -= 1;
    }
}
