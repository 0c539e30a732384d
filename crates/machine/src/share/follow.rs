//! A follower's execution: it runs the references that the leader's log names.

use super::log::Log;
use crate::{
    count::Counted,
    ended::Ended,
    engine::{Below, Engine, Execution, State, WalkTime, Windowed},
    observe::Observe,
};
use mmulab_addr::{Access, Side, VirtAddr};
use mmulab_tlb::{HierarchyCounts, SharedLevels};
use mmulab_trace::Batch;
use std::sync::Arc;

/// A CPU with a window of instructions, whose TLBs another machine searches: the first level, or both.
pub(crate) struct Following {
    levels: SharedLevels,
    log: Arc<Log>,
    /// Entries of the log, and counts in it, that are done.
    entries_done: usize,
    counts_done: usize,
    /// Counts of the leader's TLBs at the end of the run.
    last: HierarchyCounts,
    windowed: Windowed,
}

impl Following {
    /// A follower of a leader whose search of these levels serves for all.
    pub fn new(levels: SharedLevels) -> Self {
        let last = HierarchyCounts::default();
        Self { levels, log: Arc::default(), entries_done: 0, counts_done: 0, last, windowed: Windowed::default() }
    }

    /// The log of the batch that is run next.
    pub fn give(&mut self, log: Arc<Log>) {
        self.log = log;
        (self.entries_done, self.counts_done) = (0, 0);
    }

    /// The run is over, and the leader's TLBs counted `last`. The last log is given back.
    pub fn end(&mut self, last: HierarchyCounts) {
        self.give(Arc::default());
        self.last = last;
    }
}

impl Execution for Following {
    type Time = ();

    fn run_references<B: Below, O: Observe>(
        engine: &mut Engine<B, Self>,
        batch: &Batch,
        from: usize,
        obs: &mut O,
    ) -> Result<usize, Ended> {
        let at_cpu = engine.state.acting.cpu();
        let mut asid = engine.state.asid(at_cpu);
        engine.state.hardware.cpus[at_cpu].tlbs.close_reference(asid, from as u64);
        let mut from = from;
        loop {
            // The leader was interrupted here.
            let Some(&entry) = engine.execution.log.entries.get(engine.execution.entries_done) else {
                return Err(Ended::Interrupted);
            };
            engine.execution.entries_done += 1;
            let State { hardware, account, .. } = &mut engine.state;
            let cpu = &mut hardware.cpus[at_cpu];
            cpu.instructions += entry.passed.instructions;
            cpu.tlbs.code = entry.code;
            account.counts.writes += entry.passed.writes;
            account.references += (entry.at - from) as u64 + u64::from(entry.why.is_some());
            from = entry.at + 1;
            if let Some(why) = entry.why {
                let word = batch.refs[entry.at];
                let access = word.access();
                let outcome = match entry.outcome {
                    Some(outcome) => outcome,
                    None => cpu.tlbs.search_below(asid, word.va(), access, (why, entry.wait), obs),
                };
                if access == Access::Fetch {
                    engine.state.fetch_missed(batch, entry.at);
                }
                engine.slow_path(word.va(), access, outcome, (), obs)?;
                asid = engine.state.asid(at_cpu);
            }
            engine.state.hardware.cpus[at_cpu].tlbs.close_reference(asid, entry.at as u64);
            if entry.why.is_none() {
                return Ok(entry.at);
            }
        }
    }

    fn wait_for_l2(&mut self, state: &mut State, time: &mut (), va: VirtAddr, side: Side, cycles: u32) -> u64 {
        self.windowed.wait_for_l2(state, time, va, side, cycles)
    }

    fn wait_for_walk(&mut self, state: &mut State, time: &mut (), va: VirtAddr, side: Side, cycles: u32) -> WalkTime {
        self.windowed.wait_for_walk(state, time, va, side, cycles)
    }

    fn count(&mut self, _: &State, all: &mut Counted) {
        let first = self.log.counts.get(self.counts_done).unwrap_or(&self.last);
        match self.levels {
            SharedLevels::First => all.tlb.take_first_level(first),
            SharedLevels::Both => all.tlb.clone_from(first),
        }
        self.counts_done += 1;
    }
}
