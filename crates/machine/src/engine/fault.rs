//! Page faults of the programs, served by their kernel.

use super::{below::Below, execution::Execution, parts::Engine, reach::Asker, slow_path::Pending};
use crate::{
    count::Cause,
    describe::Unmapped,
    ended::Ended,
    observe::{Failure, Observe},
};
use mmulab_addr::{Access, PageOrder, VirtAddr};
use mmulab_kernel::{EventKind, Fault, FaultError, Kernel};
use mmulab_trace::Event;
use mmulab_walker::WalkContext;

impl<B: Below, X: Execution> Engine<B, X> {
    /// A reference of a process that has ended: it comes back, with nothing mapped.
    #[cold]
    pub(super) fn revive<O: Observe>(&mut self, obs: &mut O) -> Result<Option<WalkContext>, Ended> {
        let state = &mut self.state;
        let again = Event::Switch { pid: state.acting.actor.pid, tid: state.acting.actor.tid };
        let made = state.system.kernel.event(&mut state.system.mem, state.acting.actor, &again, &mut state.effects);
        self.deliver_effects(Cause::Other, obs)?;
        self.load_context();
        Ok(made.ok().and(self.state.context()))
    }

    /// The kernel serves a page fault; false if it cannot and the reference is passed over.
    pub(super) fn fault<O: Observe>(&mut self, p: &mut Pending<X::Time>, obs: &mut O) -> Result<bool, Ended> {
        let (va, access, actor) = (p.va, p.access, self.state.acting.actor);
        let mut served = self.serve(va, access, obs)?;
        if matches!(served, Err(FaultError::Unmapped { .. })) && self.state.control.unmapped == Unmapped::Map {
            let state = &mut self.state;
            let made = state.system.kernel.map_implicit(&mut state.system.mem, actor, va, &mut state.effects);
            self.deliver_effects(Cause::Other, obs)?;
            made.map_err(|e| Ended::of_kernel(&e))?;
            served = self.serve(va, access, obs)?;
        }
        let error = match served {
            Ok(stored) => {
                self.load_context();
                if let Some(order) = stored {
                    self.kernel_stored(va, order);
                }
                return Ok(true);
            }
            Err(error) => error,
        };
        let counts = &mut self.state.account.counts;
        let (failure, count) = match error {
            FaultError::OutOfMemory { .. } => {
                p.seen.failed = Some(Failure::OutOfMemory);
                return Err(Ended::OutOfMemory(self.below.out_of_memory(&error)));
            }
            FaultError::Advised { .. } | FaultError::Adviser { .. } => return Err(Ended::Adviser(error.to_string())),
            FaultError::Unmapped { .. } => (Failure::Unmapped, &mut counts.unmapped),
            FaultError::Protection { .. } => (Failure::Forbidden, &mut counts.forbidden),
        };
        p.seen.failed = Some(failure);
        *count += 1;
        match self.state.control.unmapped {
            Unmapped::Stop => Err(Ended::Violation(error.to_string())),
            Unmapped::Auto | Unmapped::Fault | Unmapped::Map => Ok(false),
        }
    }

    /// Has the kernel work on a fault, and delivers what that asks for. Returns the size of the page that the kernel
    /// stored to, where this matters.
    fn serve<O: Observe>(
        &mut self,
        va: VirtAddr,
        access: Access,
        obs: &mut O,
    ) -> Result<Result<Option<PageOrder>, FaultError>, Ended> {
        let state = &mut self.state;
        let (actor, kernel) = (state.acting.actor, &mut state.system.kernel);
        let promotions = |kernel: &Kernel| kernel.counts().events.get(EventKind::Promotion);
        let promoted = promotions(kernel);
        let served = kernel.fault(&mut state.system.mem, actor, va, access, &mut state.effects);
        let has_promoted = promotions(kernel) != promoted;
        self.time_fault(&served);
        self.deliver_effects(if has_promoted { Cause::Promotion } else { Cause::Fault }, obs)?;
        Ok(served.map(|fault| {
            let is_stored = X::KERNEL_STORES && fault.stores_page();
            // Promotion joins pages that have contents: the fault's own is a base page.
            is_stored.then_some(if has_promoted { PageOrder::P4K } else { fault.order })
        }))
    }

    /// Counts how long a fault took, where that is asked for: before its effects are delivered.
    #[inline]
    fn time_fault(&mut self, served: &Result<Fault, FaultError>) {
        if self.state.account.latency.is_some() {
            let reach = self.shootdown(Asker::Cpu(self.state.acting.cpu())).cycles;
            let state = &mut self.state;
            if let (Some(latency), Ok(fault)) = (&mut state.account.latency, served) {
                latency.add(fault, &state.effects, &state.desc.machine.costs, reach);
            }
        }
    }
}
