//! A kernel's effects on the machine: TLB shootdowns, and cycles for its work.

use super::{
    below::Below,
    execution::Execution,
    parts::Engine,
    reach::{Asker, Shootdown},
    state::{Account, Hardware, State, walk_context},
};
use crate::{count::Cause, ended::Ended, observe::Observe};
use mmulab_pagetable::Invalidate;

impl<B: Below, X: Execution> Engine<B, X> {
    /// Delivers the kernel's effects: invalidations to the CPUs, work to the kernel cycles, and the rest to the layer
    /// below.
    pub(super) fn deliver_effects<O: Observe>(&mut self, cause: Cause, obs: &mut O) -> Result<(), Ended> {
        let asker = Asker::Cpu(self.state.acting.cpu());
        self.deliver_effects_of(asker, cause, obs)
    }

    /// The same for effects of a daemon.
    pub(super) fn deliver_daemons<O: Observe>(&mut self, obs: &mut O) -> Result<(), Ended> {
        self.deliver_effects_of(Asker::Daemon, Cause::Other, obs)
    }

    fn deliver_effects_of<O: Observe>(&mut self, asker: Asker, cause: Cause, obs: &mut O) -> Result<(), Ended> {
        let before = self.state.account.kernel_cycles;
        if !self.state.effects.invalidations.is_empty() {
            let took = self.shootdown(asker);
            self.state.account.take_shootdown(&took);
            self.deliver_invalidations(obs);
        }
        let state = &mut self.state;
        state.account.kernel_cycles += state.desc.machine.costs.of(&state.effects);
        state.account.counts.kernel_cycles = state.account.kernel_cycles as u64;
        state.account.causes.add(cause, state.account.kernel_cycles - before);
        if let Some(watch) = obs.watch() {
            watch.happened(&state.effects.notes, &state.effects.invalidations);
        }
        if !state.effects.folded.is_empty() {
            state.system.tally.fold(&state.effects.folded);
            let paused = state.account.paused.iter_mut();
            paused.for_each(|paused| paused.costs.tally.fold(&state.effects.folded));
        }
        let done = self.below.kernel_worked(state, obs);
        state.effects.clear();
        done
    }

    /// What it takes until the invalidations have reached all CPUs.
    pub(super) fn shootdown(&self, asker: Asker) -> Shootdown {
        let State { effects, hardware, desc, .. } = &self.state;
        let mut took = Shootdown::default();
        if !effects.local {
            for what in &effects.invalidations {
                let each = |tagged: &mut dyn FnMut(&Invalidate)| self.below.each_tagged(what, tagged);
                took.add(&desc.machine, &hardware.cpus, asker, what, each);
            }
        }
        took
    }

    /// Delivers the kernel's invalidations to the TLBs and walk caches of the CPUs.
    fn deliver_invalidations<O: Observe>(&mut self, obs: &mut O) {
        let State { effects, hardware, acting, .. } = &mut self.state;
        let Hardware { cpus, sharing, format, .. } = hardware;
        let all = 0..cpus.len();
        self.execution.cancel(cpus, all.clone());
        // Without ASIDs, the CPU that switches drops its own translations; what CPUs share is everybody's.
        let is_own = effects.local && !sharing.is_between_cores() && !self.below.invalidates_everywhere();
        let cpu = acting.cpu();
        let which = if is_own { cpu..cpu + 1 } else { all };
        let walkers = sharing.walkers(which.clone(), cpu);
        for what in &effects.invalidations {
            self.below.each_tagged(what, |what| {
                cpus[which.clone()].iter_mut().for_each(|cpu| cpu.tlbs.invalidate(what, obs));
                cpus[walkers.clone()].iter_mut().for_each(|cpu| cpu.walker.invalidate(*format, what));
            });
        }
        self.below.invalidated(&mut self.state, obs);
    }

    /// Puts the acting process's table into its CPU's base register.
    pub(super) fn load_context(&mut self) {
        let context = self.state.system.kernel.context(self.state.acting.actor.pid);
        let mut cx = context.as_ref().map(walk_context);
        if let Some(cx) = &mut cx {
            cx.asid = self.below.tag(cx.asid);
        }
        self.state.cpu().context = cx;
    }
}

impl Account {
    /// Counts a shootdown of the programs' kernel, and charges it.
    pub fn take_shootdown(&mut self, took: &Shootdown) {
        let all = &mut self.shootdown;
        all.counts.flushes += took.counts.flushes;
        all.counts.instructions += took.counts.instructions;
        all.counts.interrupts += took.counts.interrupts;
        all.cycles += took.cycles;
        all.counts.cycles = all.cycles as u64;
        self.kernel_cycles += took.cycles;
    }
}

impl Hardware {
    /// Drops translations of all CPUs.
    pub fn invalidate<O: Observe>(&mut self, what: &Invalidate, obs: &mut O) {
        for cpu in &mut self.cpus {
            cpu.tlbs.invalidate(what, obs);
            cpu.walker.invalidate(self.format, what);
        }
    }
}
