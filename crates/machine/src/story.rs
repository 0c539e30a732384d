//! What an observer of the engine is told of each reference.

use crate::tally::Cost;
use mmulab_addr::{Access, PhysAddr, Pid, VirtAddr};
use mmulab_kernel::Told;
use mmulab_pagetable::Invalidate;
use mmulab_tlb::{Observer, Outcome};
use mmulab_walker::{NestedStep, StepRecord};
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

/// How a level answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
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
