//! What the host's kernel asks for: invalidations of all that was made with its tables, and cycles for its work.

use super::host::Host;
use crate::{
    ended::Ended,
    engine::{Asker, Shootdown, State},
    observe::Observe,
};
use mmulab_kernel::{HintedBlock, Stored};
use mmulab_pagetable::Invalidate;

impl Host {
    /// Delivers what the host's kernel asked for, and charges its work apart.
    pub(super) fn deliver_effects<O: Observe>(&mut self, state: &mut State, obs: &mut O) {
        if !self.effects.invalidations.is_empty() {
            self.counts.flushes += 1;
            let mut took = Shootdown::default();
            for tag in self.stale_tags() {
                let what = Invalidate::Asid(tag);
                let (machine, cpus) = (&state.desc.machine, &state.hardware.cpus);
                took.add(machine, cpus, Asker::Cpu(state.acting.cpu()), &what, |each| each(&what));
                state.hardware.invalidate(&Invalidate::Asid(tag), obs);
            }
            self.counts.shootdown_instructions += took.counts.instructions;
            self.counts.shootdown_interrupts += took.counts.interrupts;
            self.cycles += took.cycles;
        }
        for what in self.take_shadow_stale() {
            state.hardware.invalidate(&what, obs);
        }
        let machine = &state.desc.machine;
        self.cycles += machine.costs.of(&self.effects);
        let exits = machine.guest.as_ref().map_or(0.0, |g| g.exit_cycles) * self.counts.exits as f64;
        self.counts.cycles = (self.cycles + exits) as u64;
        if let Some(watch) = obs.watch() {
            watch.happened_in_host(&self.effects.notes, &self.effects.invalidations);
        }
        self.effects.clear();
    }

    /// The kernel of the guest that runs made these blocks because of hints: the host hears of them.
    #[cold]
    pub(super) fn hint_all<O: Observe>(
        &mut self,
        state: &mut State,
        blocks: &[HintedBlock],
        obs: &mut O,
    ) -> Result<(), Ended> {
        let cpu = state.acting.actor.cpu;
        let result = blocks.iter().try_for_each(|block| self.hint(block, cpu));
        self.deliver_effects(state, obs);
        result
    }

    /// The kernel of the guest that runs stored to these frames: the host must have them.
    #[cold]
    pub(super) fn back_all<O: Observe>(
        &mut self,
        state: &mut State,
        stored: &[Stored],
        obs: &mut O,
    ) -> Result<(), Ended> {
        let cpu = state.acting.actor.cpu;
        let result = stored.iter().try_for_each(|stored| self.back(stored, cpu));
        self.deliver_effects(state, obs);
        result
    }
}
