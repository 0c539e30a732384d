//! The whole system as daemons and compaction see it: all address spaces beside what they share.

use super::cx::Shared;
use super::{AddressSpace, Cx};
use crate::Effects;
use crate::report::counts::Refusal;
use mmulab_frames::PhysMem;

/// Everything that work on several address spaces needs.
pub(crate) struct SystemCx<'a> {
    pub mem: &'a mut PhysMem,
    pub effects: &'a mut Effects,
    pub shared: &'a mut Shared,
    /// By slot; slots are used again.
    pub spaces: &'a mut [Option<AddressSpace>],
}

impl SystemCx<'_> {
    /// The address space in a slot that is in use, beside everything else that work on it needs.
    pub fn at(&mut self, slot: usize) -> (&mut AddressSpace, Cx<'_>) {
        let Some(space) = &mut self.spaces[slot] else { unreachable!("the caller found the slot in use") };
        let pid = space.pid;
        (space, self.shared.cx(self.mem, self.effects, pid))
    }

    /// Counts a refusal that concerns no one address space.
    pub fn refuse(&mut self, why: Refusal, at: u64) {
        self.shared.refuse(why, at, self.effects);
    }
}
