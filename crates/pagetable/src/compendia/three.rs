//! Merging a table with its children and theirs into a node of 1 GiB: what paper 5, section 4.1, leaves to future
//! systems.
//!
//! Each of its 512 parts of 2 MiB is the node that a middle table would be merged into. So the middle tables are merged
//! tables like others, but their nodes are parts of the larger node.

use super::table::MergedTree;
use super::tree::{Child, ENTRIES, GIANT, Id, NODE};
use super::write::{frames_of, middle, move_node, part, read_leaf, refresh_above, refresh_all, write_leaf};
use crate::{TableEvent, TableFrames};
use mmulab_addr::Pfn;
use mmulab_frames::PhysMem;

/// Where a middle table's entries go when a giant is taken apart.
enum Apart {
    Node(Pfn),
    Frames(Vec<Pfn>),
}

impl MergedTree {
    /// Whether the table was merged with two levels, or such a node taken apart; none where there is nothing to decide
    /// but whether to merge it with one.
    pub(super) fn decide_three(&mut self, mem: &mut PhysMem, frames: &mut impl TableFrames, id: Id) -> Option<bool> {
        if self.desc.merge_three != Some(self.tree.get(id).level) {
            return None;
        }
        let dense = self.middle_tables(id).filter(|&(_, below)| self.tree.get(below).is_merged() && self.stays(below));
        let dense = dense.count() as u16;
        let merges = || {
            let asked = self.desc.request.is_some() && self.desc.is_dense(self.asked_for(id));
            self.desc.is_dense(dense) || (dense > 0 && asked)
        };
        match self.tree.get(id).giant {
            None if merges() => self.merge_three(mem, frames, id).then_some(true),
            None => None,
            Some(giant) => Some(self.desc.unmerges(dense) && !merges() && self.unmerge_three(mem, frames, id, giant)),
        }
    }

    /// The tables below table `id`, with their entries.
    fn middle_tables(&self, id: Id) -> impl Iterator<Item = (usize, Id)> {
        (0..ENTRIES).filter_map(move |slot| match self.tree.child(id, slot) {
            Child::Table(below) => Some((slot, below)),
            Child::Nothing | Child::Leaf => None,
        })
    }

    /// The leaves of table `id`.
    fn leaves(&self, mem: &PhysMem, id: Id) -> Vec<(usize, u64)> {
        let leaves = (0..ENTRIES).filter(|&slot| self.tree.child(id, slot) == Child::Leaf);
        leaves.map(|slot| (slot, read_leaf(&self.tree, mem, id, slot))).collect()
    }

    fn merge_three(&mut self, mem: &mut PhysMem, frames: &mut impl TableFrames, id: Id) -> bool {
        let Some(giant) = self.take_block(frames, id, GIANT) else { return false };
        // A node of two levels is no part of it.
        let block = self.tree.get(id).block;
        if block.is_some_and(|block| !self.unmerge(mem, frames, id, block)) {
            self.drop_block(mem, frames, giant, GIANT);
            return false;
        }
        frames_of(giant, GIANT).for_each(|frame| mem.clear(frame));
        let leaves = self.leaves(mem, id);
        let mut written = 0;
        for (slot, below) in self.middle_tables(id).collect::<Vec<_>>() {
            let into = middle(giant, slot);
            written += match self.tree.get(below).block {
                Some(node) => {
                    let words = self.move_middle(mem, below, node, into);
                    self.drop_block(mem, frames, node, NODE);
                    words
                }
                None => self.merge(mem, frames, below, into),
            };
        }
        self.tree.set_giant(id, Some(giant));
        for (slot, bits) in leaves {
            written += write_leaf(&self.tree, mem, id, slot, bits);
        }
        written += self.told_above(mem, frames, id);
        frames.happened(TableEvent::Merged { level: self.tree.get(id).level, levels: 3, written });
        true
    }

    /// Moves the node of a merged table; how many words were something.
    fn move_middle(&mut self, mem: &mut PhysMem, id: Id, from: Pfn, to: Pfn) -> u64 {
        let words = move_node(mem, from, to);
        for (slot, below) in self.middle_tables(id).collect::<Vec<_>>() {
            self.tree.get_mut(below).frame = Some(part(to, slot));
        }
        self.tree.set_block(id, Some(to));
        words
    }

    /// Takes a node of three levels apart: middle tables that are dense enough keep nodes of their own, if there are
    /// blocks.
    fn unmerge_three(&mut self, mem: &mut PhysMem, frames: &mut impl TableFrames, id: Id, giant: Pfn) -> bool {
        let level = self.tree.get(id).level;
        let tables: Vec<_> = self.middle_tables(id).collect();
        let Some((own, places)) = self.take_places(mem, frames, id, &tables) else {
            frames.happened(TableEvent::NoFrames { level });
            return false;
        };
        let leaves = self.leaves(mem, id);
        let mut written = leaves.len() as u64;
        for ((slot, below), place) in tables.into_iter().zip(places) {
            let from = middle(giant, slot);
            written += match place {
                Apart::Node(to) => self.move_middle(mem, below, from, to),
                Apart::Frames(got) => self.take_apart(mem, below, from, got),
            };
        }
        self.tree.set_giant(id, None);
        if let Some(&own) = own.first() {
            mem.clear(own);
            self.tree.get_mut(id).frame = Some(own);
        }
        refresh_all(&self.tree, mem, id);
        for (slot, bits) in leaves {
            write_leaf(&self.tree, mem, id, slot, bits);
        }
        self.drop_block(mem, frames, giant, GIANT);
        refresh_above(&self.tree, mem, id);
        frames.happened(TableEvent::Unmerged { level, levels: 3, written });
        true
    }

    /// The memory that table `id` and the middle ones take without being one node: for its own entries, if they need
    /// any, and for each of `tables`. Nothing is taken if it is not there.
    fn take_places(
        &mut self,
        mem: &mut PhysMem,
        frames: &mut impl TableFrames,
        id: Id,
        tables: &[(usize, Id)],
    ) -> Option<(Vec<Pfn>, Vec<Apart>)> {
        let own = self.take_frames(frames, usize::from(!self.tree.in_parent(id)))?;
        let mut places = Vec::new();
        for &(_, below) in tables {
            let node = if self.stays(below) { self.take_block(frames, below, NODE) } else { None };
            let place = node.map(Apart::Node).or_else(|| {
                let needed = self.frames_apart(below, false);
                self.take_frames(frames, needed).map(Apart::Frames)
            });
            let Some(place) = place else {
                places.push(Apart::Frames(own));
                for place in places {
                    match place {
                        Apart::Node(node) => self.drop_block(mem, frames, node, NODE),
                        Apart::Frames(got) => got.into_iter().for_each(|frame| self.give(frames, frame)),
                    }
                }
                return None;
            };
            places.push(place);
        }
        Some((own, places))
    }
}
