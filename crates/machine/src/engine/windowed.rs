//! Execution on a plain CPU: one thread at a time, which waits for each walk but for what its window of instructions
//! hides ([`crate::cpu::Clock`]).

use super::{
    below::Below,
    execution::{Execution, WalkTime},
    parts::Engine,
    state::State,
};
use crate::{
    count::Counted,
    cpu::{Clock, Cpu},
    describe::CoreDesc,
    ended::Ended,
    observe::Observe,
};
use mmulab_addr::{Access, Asid, Side, VirtAddr};
use mmulab_tlb::Outcome;
use mmulab_trace::{Batch, Ref};

/// Instructions and stores.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Passed {
    pub instructions: u64,
    pub writes: u64,
}

impl Passed {
    /// These, too.
    fn add(&mut self, more: Self) {
        self.instructions += more.instructions;
        self.writes += more.writes;
    }
}

/// References that follow each other and that the most recent pages answer. All that they change is counts, so they are
/// counted together.
struct RecentRun {
    references: usize,
    passed: Passed,
}

impl RecentRun {
    /// The run that `coming` begins with.
    #[inline(always)]
    fn of(cpu: &mut Cpu, asid: Asid, coming: &[Ref]) -> Self {
        let pages = cpu.tlbs.recent_pages(asid);
        let (mut fetches, mut passed) = (0, Passed::default());
        let mut code = None;
        let ends = |word: &Ref| word.is_control() || !pages.answer(word.va(), word.access());
        let mut references = 0;
        for word in coming {
            if ends(word) {
                break;
            }
            references += 1;
            passed.instructions += u64::from(word.instructions());
            passed.writes += u64::from(word.is_write());
            if word.is_fetch() {
                fetches += 1;
                code = Some(word.va());
            }
        }
        cpu.tlbs.used_recent(fetches, references as u64 - fetches);
        cpu.tlbs.begin(passed.instructions);
        cpu.tlbs.code = code.unwrap_or(cpu.tlbs.code);
        Self { references, passed }
    }
}

/// Takes note of what the first level did not finish. Words are named by their index in the batch.
pub(crate) trait Record {
    /// CPU `cpu` runs references from word `at` on.
    fn begins(&mut self, _state: &mut State, _cpu: usize, _at: usize) {}

    /// The first level did not finish word `at`. `passed`: since the word before that was noted, this one included.
    fn unfinished(&mut self, _at: usize, _outcome: &Outcome, _passed: Passed, _code: VirtAddr) {}

    /// Word `at`, of which that was so, is over.
    fn finished(&mut self, _state: &mut State, _cpu: usize, _at: usize) {}

    /// A control word, or the end, follows at word `at`.
    fn ends(&mut self, _state: &mut State, _cpu: usize, _at: usize, _passed: Passed) {}

    /// All was counted so far: counts begin or end here.
    fn counted(&mut self, _all: &Counted) {}
}

/// Takes no notes.
#[derive(Default)]
pub(crate) struct NoRecord;

impl Record for NoRecord {}

/// A CPU with a window of instructions.
#[derive(Default)]
pub(crate) struct Windowed<R = NoRecord> {
    pub record: R,
}

impl Windowed {
    /// The clock of such a CPU.
    pub fn clock(core: &CoreDesc) -> Clock {
        Clock::new(core.base_cpi, core.window)
    }
}

impl<R: Record> Execution for Windowed<R> {
    type Time = ();

    /// The loop that everything else stays out of.
    #[inline]
    fn run_references<B: Below, O: Observe>(
        engine: &mut Engine<B, Self>,
        batch: &Batch,
        from: usize,
        obs: &mut O,
    ) -> Result<usize, Ended> {
        let through_caches = engine.state.desc.machine.cache_rules.data;
        let at_cpu = engine.state.acting.cpu();
        let mut asid = engine.state.asid(at_cpu);
        let holds = engine.state.hardware.cpus[at_cpu].tlbs.holds();
        // A hit of the first level changes nothing but counts.
        let hits_end_there = !O::ACTIVE && !through_caches;
        engine.execution.record.begins(&mut engine.state, at_cpu, from);
        let mut at = from;
        let mut passed = Passed::default();
        let outcome = loop {
            let Some(&word) = batch.refs.get(at) else { break Ok(()) };
            if word.is_control() {
                break Ok(());
            }
            let va = word.va();
            let access = word.access();
            let cpu = &mut engine.state.hardware.cpus[at_cpu];
            if hits_end_there && cpu.tlbs.is_recent(asid, va, access) {
                let run = RecentRun::of(cpu, asid, &batch.refs[at..]);
                passed.add(run.passed);
                engine.state.account.references += run.references as u64;
                at += run.references;
                continue;
            }
            passed.instructions += u64::from(word.instructions());
            passed.writes += u64::from(word.is_write());
            if access == Access::Fetch {
                cpu.tlbs.code = va;
            }
            at += 1;
            engine.state.account.references += 1;
            let outcome = if hits_end_there {
                cpu.tlbs.search(asid, va, access, obs)
            } else {
                cpu.tlbs.access(asid, va, access, obs)
            };
            if holds {
                cpu.tlbs.begin(u64::from(word.instructions()));
            }
            if hits_end_there && matches!(outcome, Outcome::L1 { .. }) {
                continue;
            }
            let since = std::mem::take(&mut passed);
            cpu.instructions += since.instructions;
            engine.execution.record.unfinished(at - 1, &outcome, since, cpu.tlbs.code);
            engine.state.account.counts.writes += since.writes;
            if access == Access::Fetch {
                engine.state.fetch_missed(batch, at - 1);
            }
            // Where one reference walks, those after it often do. Nothing is fetched ahead of hits in the second level.
            if matches!(outcome, Outcome::Miss { .. }) {
                engine.below.prefetch(&engine.state, asid, &batch.refs[at..]);
            }
            if let Err(ended) = engine.slow_path(va, access, outcome, (), obs) {
                break Err(ended);
            }
            // A process that had lost its ASID, or its address space, has one again.
            asid = engine.state.asid(at_cpu);
            engine.execution.record.finished(&mut engine.state, at_cpu, at - 1);
        };
        engine.state.hardware.cpus[at_cpu].instructions += passed.instructions;
        engine.state.account.counts.writes += passed.writes;
        if outcome.is_ok() {
            engine.execution.record.ends(&mut engine.state, at_cpu, at, passed);
        }
        outcome.map(|()| at)
    }

    #[inline(always)]
    fn wait_for_l2(&mut self, state: &mut State, (): &mut (), _: VirtAddr, side: Side, cycles: u32) -> u64 {
        let cpu = state.cpu();
        let now = cpu.now();
        cpu.clock.wait(now, now + u64::from(cycles), side)
    }

    #[inline(always)]
    fn wait_for_walk(&mut self, state: &mut State, (): &mut (), _: VirtAddr, side: Side, cycles: u32) -> WalkTime {
        let cpu = state.cpu();
        let now = cpu.now();
        let end = cpu.slots.schedule(now, cycles);
        WalkTime { end, waited: end - now, stall: cpu.clock.wait(now, end, side) }
    }

    fn count(&mut self, _: &State, all: &mut Counted) {
        self.record.counted(all);
    }
}
