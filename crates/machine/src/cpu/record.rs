//! The record of one CPU: a core, or a hardware thread of one.

use super::clock::Clock;
use mmulab_addr::Pid;
use mmulab_tlb::Hierarchy;
use mmulab_walker::{WalkContext, WalkSlots, Walker};

/// One CPU: its TLBs, its walker, its time.
pub(crate) struct Cpu {
    pub tlbs: Hierarchy,
    /// In a box, because a walker that several CPUs have in common moves from one to the other.
    pub walker: Box<Walker>,
    pub slots: WalkSlots,
    pub clock: Clock,
    pub instructions: u64,
    /// Its base register: the table of the process that runs on it, and that process's ASID.
    pub context: Option<WalkContext>,
    /// The process that runs on it, once one has.
    pub pid: Option<Pid>,
}

impl Cpu {
    /// `count` instructions more, which have no references of their own.
    #[inline]
    pub fn begin(&mut self, count: u64) {
        self.instructions += count;
        self.tlbs.begin(count);
    }

    /// The cycles that have passed on it.
    #[inline]
    pub fn now(&self) -> u64 {
        self.clock.now(self.instructions)
    }
}
