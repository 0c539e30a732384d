//! What an observer of the engine is told of each reference.

use crate::tally::Cost;
use mmulab_addr::{Access, PhysAddr, Pid, VirtAddr};
use mmulab_kernel::Told;
use mmulab_pagetable::Invalidate;
use mmulab_tlb::{Observer, Outcome};
use mmulab_walker::{Nested, NestedStep, StepRecord, Violation, Walk};
use schemars::JsonSchema;
use serde::Serialize;

/// Watches the engine. [`Nobody`] does, in ordinary runs, and costs nothing.
pub trait Watch: Observer {
    /// A reference is over.
    fn reference(&mut self, story: &Story);

    /// The kernel did this, and asked for these invalidations.
    fn happened(&mut self, told: &[Told], invalidations: &[Invalidate]);

    /// The program itself dropped a translation.
    fn invalidated_by_program(&mut self, what: &Invalidate);

    /// The walker read these entries.
    fn walked(&mut self, steps: &[StepRecord]);

    /// A walk of two dimensions read these entries.
    fn walked_nested(&mut self, _steps: &[NestedStep]) {}

    /// The walk whose entries were named last ended so.
    fn walk_ended(&mut self, _ended: &WalkEnd) {}

    /// The host's kernel did this, and asked for these invalidations.
    fn happened_in_host(&mut self, _told: &[Told], _invalidations: &[Invalidate]) {}

    /// A guest's kernel wrote so many entries of its tables, each of which left the guest.
    fn trapped_table_writes(&mut self, _count: u64) {}

    /// Whether it wants to see no more: the run ends.
    fn is_over(&self) -> bool {
        false
    }
}

/// Nobody watches.
pub struct Nobody;

impl Observer for Nobody {
    const ACTIVE: bool = false;
}

impl Watch for Nobody {
    fn reference(&mut self, _: &Story) {}
    fn happened(&mut self, _: &[Told], _: &[Invalidate]) {}
    fn invalidated_by_program(&mut self, _: &Invalidate) {}
    fn walked(&mut self, _: &[StepRecord]) {}
}

/// How a walk ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum WalkEnd {
    /// It found a page that allows the access; the TLBs get its translation.
    Mapped,
    /// It ended in a page fault: the kernel of the program (in virtual machines, of the guest) has to act.
    Fault {
        /// The level of the entry that ended it, 1 for the last.
        level: u8,
        /// Why that entry ended it.
        reason: FaultReason,
    },
    /// It ended in an EPT violation: the host's table has no page for a guest-physical address, or not for this access.
    HostFault {
        /// The guest-physical address.
        gpa: PhysAddr,
    },
}

/// Why the entry of a page table ended a walk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FaultReason {
    /// The entry is not present.
    NotPresent,
    /// The rights along the path do not allow the access.
    Denied,
}

impl WalkEnd {
    /// How this walk ended.
    pub fn of(walk: &Nested) -> Self {
        match *walk {
            Nested::Guest(Walk::Mapped { .. }) => Self::Mapped,
            Nested::Guest(Walk::Fault { level, denied, .. }) => {
                Self::Fault { level, reason: if denied { FaultReason::Denied } else { FaultReason::NotPresent } }
            }
            Nested::Violation(Violation { gpa, .. }) => Self::HostFault { gpa },
        }
    }
}

/// Why a reference got no physical address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Failure {
    /// No mapping holds the address (SEGV_MAPERR).
    Unmapped,
    /// The rights of the mapping forbid the access (SEGV_ACCERR).
    Forbidden,
    /// No frame was free for the page, or for its tables.
    OutOfMemory,
}

/// How a level answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub enum Answer {
    /// It was not asked.
    #[default]
    #[serde(rename = "-")]
    NotAsked,
    /// It held the translation.
    #[serde(rename = "hit")]
    Hit,
    /// It did not.
    #[serde(rename = "miss")]
    Miss,
}

/// What became of a reference.
#[derive(Clone, Copy, Debug, Default)]
pub struct Seen {
    /// The first level's answer.
    pub l1: Answer,
    /// The second level's.
    pub l2: Answer,
    /// Where it went, once translated.
    pub pa: Option<PhysAddr>,
    /// Bytes the entry used or filled covers.
    pub size: u64,
    /// It waits for a walk that was under way.
    pub joined: bool,
    /// Why it has no physical address, where the kernel said so.
    pub failed: Option<Failure>,
}

impl Seen {
    /// What the first lookup came to.
    #[inline]
    pub fn of(outcome: &Outcome) -> Self {
        let (l1, l2) = match outcome.level() {
            Some(1) => (Answer::Hit, Answer::NotAsked),
            Some(_) => (Answer::Miss, Answer::Hit),
            None => (Answer::Miss, Answer::Miss),
        };
        Self { l1, l2, ..Self::default() }
    }

    /// Whether the first level did not hold the translation.
    #[inline]
    pub fn missed_l1(&self) -> bool {
        self.l1 == Answer::Miss
    }
}

/// One reference, whole.
pub struct Story {
    /// Its number, from 0.
    pub index: u64,
    /// The process.
    pub pid: Pid,
    /// What was done.
    pub access: Access,
    /// To which address.
    pub va: VirtAddr,
    /// How it went.
    pub seen: Seen,
    /// What it cost.
    pub cost: Cost,
}
