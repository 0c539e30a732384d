//! What a leader logs of a batch: references that its first level did not finish, control words, and what lay between.

use crate::{
    count::Counted,
    engine::{Passed, Record, State},
};
use mmulab_addr::VirtAddr;
use mmulab_tlb::{HierarchyCounts, Outcome, SharedLevels, Unfinished};

/// A word of a batch that followers run: a reference, or (`None`) a control word or the batch's end.
#[derive(Clone, Copy)]
pub(crate) struct Entry {
    /// Its index in the batch.
    pub at: usize,
    pub why: Option<Unfinished>,
    /// What the leader's search of both levels found, where that serves for all.
    pub outcome: Option<Outcome>,
    /// What passed since the entry before, its own included.
    pub passed: Passed,
    /// Cycles that it waits, a fetch, if the second level has its page.
    pub wait: u32,
    /// The block of code that runs.
    pub code: VirtAddr,
}

/// The log of a batch.
#[derive(Default)]
pub(crate) struct Log {
    pub entries: Vec<Entry>,
    /// Counts of the leader's TLBs wherever counts began in the batch.
    pub counts: Vec<HierarchyCounts>,
    /// By CPU: the trail of the levels that are shared, at the batch's end.
    pub trails: Vec<u64>,
}

/// The leader's part of the log.
pub(crate) struct Leading {
    levels: SharedLevels,
    log: Log,
}

impl Leading {
    /// A leader whose search of these levels serves for all.
    pub fn new(levels: SharedLevels) -> Self {
        Self { levels, log: Log::default() }
    }

    /// The log of the batch that was run; `empty` takes its place, so that its memory is used again.
    pub fn take(&mut self, mut empty: Log) -> Log {
        empty.entries.clear();
        empty.counts.clear();
        empty.trails.clear();
        std::mem::replace(&mut self.log, empty)
    }
}

impl Record for Leading {
    fn begins(&mut self, state: &mut State, cpu: usize, at: usize) {
        let asid = state.asid(cpu);
        state.hardware.cpus[cpu].tlbs.close_reference(asid, at as u64);
    }

    fn unfinished(&mut self, at: usize, outcome: &Outcome, passed: Passed, code: VirtAddr) {
        let found = (self.levels == SharedLevels::Both).then_some(*outcome);
        self.log.entries.push(Entry { at, why: Unfinished::of(outcome), outcome: found, passed, wait: 0, code });
    }

    fn finished(&mut self, state: &mut State, cpu: usize, at: usize) {
        if let Some(entry) = self.log.entries.last_mut() {
            entry.wait = state.hardware.cpus[cpu].tlbs.wait();
        }
        self.begins(state, cpu, at);
    }

    fn ends(&mut self, state: &mut State, cpu: usize, at: usize, passed: Passed) {
        let code = state.hardware.cpus[cpu].tlbs.code;
        self.log.entries.push(Entry { at, why: None, outcome: None, passed, wait: 0, code });
        self.begins(state, cpu, at);
    }

    fn counted(&mut self, all: &Counted) {
        self.log.counts.push(all.tlb.clone());
    }
}
