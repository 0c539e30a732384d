//! Hierarchies of several machines with one search: which can have that, and the trail that each keeps.

use super::{
    Hierarchy,
    trail::{Levels, Trail},
};
use crate::{ArrayDesc, HierarchyDesc, Inclusion, Placement, Probe, pages::Slot};
use mmulab_addr::Asid;
use mmulab_assoc::Replacement;

impl Hierarchy {
    /// Whether what the first level does depends on references, walks and invalidations alone, and one search of it can
    /// serve several hierarchies.
    ///
    /// Not so with victim arrays, inclusion, arrays that coalesce, page-size predictors, or arrays that cores have in
    /// common. Two fills of one place leave what one fill leaves under exact LRU only.
    pub fn can_share_first(&self, desc: &[ArrayDesc], rules: &HierarchyDesc) -> bool {
        let is_simple = |d: &ArrayDesc| {
            d.replacement == Replacement::Lru && d.probe == Probe::Parallel && d.retention_cycles.is_none() && !d.shared
        };
        rules.inclusion == Inclusion::None
            && !self.coalesces
            && !self.guesses
            && desc.iter().all(|d| d.victim_of.is_none())
            && desc.iter().filter(|d| d.level == 1).all(is_simple)
            && desc.iter().any(|d| d.level == 1 && d.side != Placement::Instruction)
    }

    /// Keeps a trail of these levels from now on. `is_elsewhere`: another hierarchy is searched for this one, in which
    /// they stay empty.
    pub fn keep_trail(&mut self, levels: Levels, is_elsewhere: bool) {
        self.trail = Some(Box::new(Trail::new(self.arrays.len(), levels, is_elsewhere)));
        self.is_plain = false;
    }

    /// The trail so far.
    pub fn trail(&self) -> u64 {
        self.trail.as_ref().map_or(0, |trail| trail.hash())
    }

    /// Word `at` of a batch is over, or references begin there.
    pub fn close_reference(&mut self, asid: Asid, at: u64) {
        if let Some(trail) = &mut self.trail {
            trail.close(asid, at);
        }
    }

    /// By array: entries that were brought and dropped again while a reference ran.
    pub(super) fn undone(&self, array: usize) -> u64 {
        self.trail.as_ref().map_or(0, |trail| trail.undone(array))
    }

    /// The first level was filled elsewhere: what this hierarchy counts itself.
    pub(super) fn filled_elsewhere(&mut self, array: u8, size: u8) -> (u8, Slot) {
        self.arrays[usize::from(array)].count_fill();
        (array, Slot { at: 0, size })
    }
}
