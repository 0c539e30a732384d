//! A machine in the middle of a trace: one of the kinds ([`crate::running`]), checked as it runs or not.

use crate::{
    check::Checker,
    count::Counted,
    describe::{Check, Resolved},
    ended::{Ended, MachineError},
    engine::State,
    observe::Watch,
    running::Running,
    share::Log,
    system::System,
    virt::Host,
};
use mmulab_addr::VirtAddr;
use mmulab_kernel::{Adviser, KernelError, Stop};
use mmulab_pagetable::Leaf;
use mmulab_tlb::{HierarchyCounts, SharedLevels};
use mmulab_trace::{Batch, TraceInfo};
use std::sync::Arc;

/// A machine built from its description, with a kernel, in the middle of a trace.
pub struct Machine {
    running: Running,
    /// With `--check`: runs each batch one item at a time and checks after every item.
    checker: Option<Box<Checker>>,
}

impl Machine {
    /// Builds the machine of `desc` for a trace that carries its address-space events, or does not.
    ///
    /// # Errors
    /// A geometry or memory that cannot be.
    pub fn new(desc: Arc<Resolved>, has_address_space: bool) -> Result<Self, MachineError> {
        let checker = match desc.options.check {
            Check::None => None,
            Check::Translations => Some(Box::new(Checker::new(&desc, has_address_space)?)),
        };
        Ok(Self { running: Running::new(desc, has_address_space)?, checker })
    }

    /// Takes a trace: where that says how many warps its cores have, they are on cores as it says.
    ///
    /// # Errors
    /// More than this machine's cores have.
    pub fn take(&mut self, info: &TraceInfo) -> Result<(), MachineError> {
        if let Some(checker) = &mut self.checker {
            checker.take(info)?;
        }
        self.running.take(info)
    }

    /// Runs a part of a trace; nothing happens once the machine has ended.
    pub fn run(&mut self, batch: &Batch) {
        self.run_observed(batch, None);
    }

    /// Runs a part of a trace with an observer of each reference.
    pub fn run_watched(&mut self, batch: &Batch, watch: &mut dyn Watch) {
        self.run_observed(batch, Some(watch));
    }

    pub(crate) fn run_observed(&mut self, batch: &Batch, watch: Option<&mut dyn Watch>) {
        if self.ended().is_some() {
            return;
        }
        self.running.observe(watch.is_some());
        let ran = match &mut self.checker {
            None => self.running.run(batch, watch),
            Some(checker) => checker.run(&mut self.running, batch, watch),
        };
        if let Err(ended) = ran {
            self.running.state_mut().control.ended = Some(ended);
        }
    }

    /// The trace is over: shows an observer what walks in flight bring.
    pub fn complete_walks(&mut self, watch: &mut dyn Watch) {
        self.running.complete_walks(Some(watch));
    }

    /// Has an adviser asked about page sizes, from before the run on.
    ///
    /// # Errors
    /// A machine whose kernel asks none: with virtual machines, with `--check`, or under a policy of FreeBSD.
    pub fn advise(&mut self, adviser: Box<dyn Adviser>) -> Result<(), MachineError> {
        let wrong = |key: &str, message: &str| {
            MachineError::Kernel(KernelError::Description { key: key.into(), message: message.into() })
        };
        if self.host().is_some() {
            return Err(wrong("virtual", "an adviser is asked by one kernel: take a machine without virtual machines"));
        }
        if self.checker.is_some() {
            return Err(wrong(
                "check",
                "an adviser is asked once at each fault, and a check runs each twice: leave it out",
            ));
        }
        self.running.state_mut().system.kernel.advise(adviser)?;
        Ok(())
    }

    /// Ends within an event that takes long, and after any, once this is asked for.
    pub fn stop_with(&mut self, stop: &Stop) {
        self.running.stop_with(stop);
    }

    /// Why it came to its end, if it has.
    pub fn ended(&self) -> Option<&Ended> {
        self.state().control.ended.as_ref()
    }

    /// The level of each TLB array, in the order observers number them.
    pub fn tlb_levels(&self) -> Vec<u8> {
        let tlbs = &self.state().hardware.cpus[0].tlbs;
        (0..tlbs.names().len()).map(|array| tlbs.level(array)).collect()
    }

    /// The leaf of the acting process's table for `va`; a guest's has guest-physical frames.
    pub fn leaf(&self, va: VirtAddr) -> Option<Leaf> {
        let state = self.state();
        state.context()?.leaf(&state.system.mem, va)
    }

    /// What machines that have one search of these levels have in common ([`crate::share`]). `None` for a machine that
    /// has run already, or whose levels are its own in any case.
    pub(crate) fn in_common(&self, levels: SharedLevels) -> Option<String> {
        self.running.in_common(levels)
    }

    /// The same machine as one that leads others, or follows one.
    pub(crate) fn in_group(self, levels: SharedLevels, leads: bool) -> Self {
        Self { running: self.running.in_group(levels, leads), checker: self.checker }
    }

    /// The log of the batch that was run, of a machine that leads; its memory comes from `used`.
    pub(crate) fn take_log(&mut self, used: Log) -> Log {
        let mut log = self.running.take_log(used);
        log.trails.extend(self.trails());
        log
    }

    /// Runs a batch as its leader's log says.
    pub(crate) fn follow(&mut self, log: &Arc<Log>, batch: &Batch) {
        self.running.give_log(Arc::clone(log));
        self.run(batch);
        // The leader writes into its memory again.
        self.running.give_log(Arc::default());
    }

    /// The run is over; `counts` are the leader's.
    pub(crate) fn end_following(&mut self, counts: HierarchyCounts) {
        self.running.end_following(counts);
    }

    /// By CPU: the trail of its first level.
    pub(crate) fn trails(&self) -> impl Iterator<Item = u64> {
        self.state().hardware.cpus.iter().map(|cpu| cpu.tlbs.trail())
    }

    /// Counts of its TLBs since it was built.
    pub(crate) fn tlb_counts(&mut self) -> HierarchyCounts {
        self.running.state_mut().counted().tlb
    }

    /// References seen so far.
    pub(crate) fn references(&self) -> u64 {
        self.state().account.references
    }

    /// What it is described by.
    pub(crate) fn desc(&self) -> &Arc<Resolved> {
        &self.state().desc
    }

    pub(crate) fn state(&self) -> &State {
        self.running.state()
    }

    /// The state, to be spoiled by tests of the checks.
    #[cfg(test)]
    pub(crate) fn state_mut(&mut self) -> &mut State {
        self.running.state_mut()
    }

    /// The host below virtual machines.
    pub(crate) fn host(&self) -> Option<&Host> {
        self.running.host()
    }

    /// Every kernel that programs run on, with its memory, by number.
    pub(crate) fn systems(&self) -> impl Iterator<Item = (usize, &System)> {
        self.running.systems()
    }

    /// Closes the run over the trace of `info`, and returns all counters since counts began.
    pub(crate) fn close(&mut self, info: &TraceInfo) -> Counted {
        self.running.close();
        let skip = self.desc().options.skip;
        let begun = self.state().account.uncounted.as_ref().map(|before| before.instructions);
        if (skip > 0 || info.skipped.is_some()) && begun.is_none_or(|instructions| instructions < skip) {
            // The run ended before counts began.
            self.running.resume();
        }
        self.running.counted()
    }
}
