//! Daemons of the kernels, and the profiler of page sizes: they wake by simulated time.

use super::{below::Below, execution::Execution, parts::Engine};
use crate::{ended::Ended, observe::Observe, system::System};

impl<B: Below, X: Execution> Engine<B, X> {
    /// Simulated nanoseconds since the start: the clock of the acting CPU, and the kernels' work so far.
    pub(super) fn now_ns(&mut self) -> u64 {
        let user = self.state.cpu().now() as f64;
        let cycles = user + self.state.account.kernel_cycles + self.below.cycles() as f64;
        (cycles * 1000.0 / self.state.desc.machine.core.frequency_mhz) as u64
    }

    /// Lets the kernels' daemons run if they are due. That is checked whenever a reference leaves the first level, by
    /// the clock of its CPU and the kernels' work so far.
    #[inline(never)]
    pub(super) fn daemons<O: Observe>(&mut self, obs: &mut O) -> Result<(), Ended> {
        let now_ns = self.now_ns();
        let is_due = |wake: Option<u64>| wake.is_some_and(|wake| now_ns >= wake);
        if is_due(self.below.wakes_at()) {
            self.below.run_daemons(&mut self.state, now_ns, obs)?;
        }
        let state = &mut self.state;
        if !is_due(state.system.kernel.wakes_at()) {
            return Ok(());
        }
        let result = state.system.kernel.run_daemons(&mut state.system.mem, now_ns, &mut state.effects);
        let delivered = self.deliver_daemons(obs);
        self.load_context();
        result.map_err(|e| Ended::of_kernel(&e))?;
        delivered
    }

    /// The profiler's epoch is over: it gives the kernel the page sizes that it selected.
    #[cold]
    pub(super) fn end_epoch<O: Observe>(&mut self, now_ns: u64, obs: &mut O) -> Result<(), Ended> {
        let state = &mut self.state;
        let System { kernel, mem, leshy, .. } = &mut state.system;
        for (pid, hints) in leshy.as_mut().map(|leshy| leshy.end_epoch(now_ns)).unwrap_or_default() {
            kernel.rehint(mem, pid, &hints, &mut state.effects);
        }
        self.deliver_daemons(obs)
    }
}
