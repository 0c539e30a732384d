//! Observation of one reference: the answers of the TLBs, the address, the cost, and how each walk ended.

use crate::count::Cost;
use mmulab_addr::{Access, PhysAddr, Pid, VirtAddr};
use mmulab_tlb::Outcome;
use mmulab_walker::Walk;
use schemars::JsonSchema;
use serde::Serialize;

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
    pub fn of(walk: &Walk) -> Self {
        match *walk {
            Walk::Mapped { .. } => Self::Mapped,
            Walk::Fault { level, denied, .. } => {
                Self::Fault { level, reason: if denied { FaultReason::Denied } else { FaultReason::NotPresent } }
            }
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

/// Outcome of a reference.
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
    /// It waits for a walk in flight.
    pub joined: bool,
    /// Why it has no physical address, where the kernel said so.
    pub failed: Option<Failure>,
}

impl Seen {
    /// Outcome of the first lookup.
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

/// One reference, from lookup to translation or failure.
pub struct Observation {
    /// Its number, from 0.
    pub index: u64,
    /// The process.
    pub pid: Pid,
    /// The action.
    pub access: Access,
    /// To which address.
    pub va: VirtAddr,
    /// How it went.
    pub seen: Seen,
    /// Its cost.
    pub cost: Cost,
}
