//! The start of a machine: process 1 acts on CPU 0, and nothing has been counted.

use super::{below::Below, execution::Execution, parts::Engine, state::State};
use crate::{
    count::{Cause, CauseCycles, ProcessCounts},
    ended::MachineError,
    observe::NoObserver,
};
use mmulab_addr::{Pid, Tid};
use mmulab_kernel::Stop;
use mmulab_trace::{Event, TraceInfo};

impl<B: Below, X: Execution> Engine<B, X> {
    /// Puts a machine together, and starts it.
    pub fn start(state: State, below: B, execution: X) -> Result<Self, MachineError> {
        let mut engine = Self { state, below, execution };
        engine.below.attach(&engine.state.hardware);
        // The first one last: it is the one that runs.
        for number in (0..engine.below.systems()).rev() {
            engine.below.enter(&mut engine.state, number);
            let first = Event::Switch { pid: Pid(1), tid: Tid(1) };
            let state = &mut engine.state;
            state.system.kernel.event(&mut state.system.mem, state.acting.actor, &first, &mut state.effects)?;
            engine.deliver_effects(Cause::Other, &mut NoObserver).map_err(MachineError::Start)?;
            engine.load_context();
        }
        let account = &mut engine.state.account;
        account.processes.open(0, Pid(1), &ProcessCounts::default());
        account.counts.kernel_cycles = 0;
        account.kernel_cycles = 0.0;
        account.causes = CauseCycles::default();
        engine.state.hardware.cpus[0].pid = Some(Pid(1));
        engine.below.started();
        Ok(engine)
    }

    /// Whether the run is observed from now on.
    pub fn observe(&mut self, observed: bool) {
        self.state.effects.narrate = observed;
        self.below.observe(observed);
    }

    /// Takes a trace: threads run where that says.
    ///
    /// # Errors
    /// The machine has no room for them.
    pub fn take(&mut self, info: &TraceInfo) -> Result<(), MachineError> {
        self.execution.take(&self.state, info)
    }

    /// Ends within an event that takes long, and after any, once `stop` is asked for.
    pub fn stop_with(&mut self, stop: &Stop) {
        self.state.control.stop = stop.clone();
        self.state.system.kernel.stop_with(stop);
        self.below.stop_with(stop);
    }
}
