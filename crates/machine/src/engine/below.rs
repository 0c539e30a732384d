//! What lies below the kernel that programs run on: on a plain machine, nothing. Another part has a kernel of its own
//! there, and then walks, invalidations and daemons concern both.

use super::state::{Hardware, State};
use crate::{
    count::Counted,
    describe::Options,
    ended::Ended,
    observe::{Observe, WalkEnd},
};
use mmulab_addr::{Access, Asid, PhysAddr, VirtAddr};
use mmulab_kernel::{FaultError, Stop};
use mmulab_pagetable::Invalidate;
use mmulab_trace::{Event, Ref};
use mmulab_walker::{Walk, WalkContext};
use std::convert::Infallible;

/// References between one that misses and the one whose table entry is prefetched: enough for an access to the memory
/// of the computer that simulates to finish meanwhile.
pub(crate) const AHEAD: usize = 12;

/// How a walk ended.
pub(crate) enum WalkResult<T> {
    /// The walker read the tables to their end: a page, or none.
    Ended(Walk),
    /// The walk needs something of what lies below first.
    Trapped {
        /// What.
        trap: T,
        /// Cycles until then.
        cycles: u32,
    },
}

impl<T> WalkResult<T> {
    /// The cycles that it took.
    #[inline(always)]
    pub fn cycles(&self) -> u32 {
        match self {
            Self::Ended(Walk::Mapped { cycles, .. } | Walk::Fault { cycles, .. }) | Self::Trapped { cycles, .. } => {
                *cycles
            }
        }
    }
}

/// What lies below the kernel that programs run on. The defaults are those of nothing at all.
pub(crate) trait Below: Sized {
    /// What a walk may need of it.
    type Trap;
    /// How often one reference may walk before something is broken.
    const MAX_WALKS: u32;
    /// Nothing is there to act when another thread of a process does.
    const SWITCHES_FREELY: bool;

    /// The CPUs have been built.
    fn attach(&mut self, _hardware: &Hardware) {}

    /// Whether a run is observed from now on.
    fn observe(&mut self, _observed: bool) {}

    /// Ends what takes long once `stop` is asked for.
    fn stop_with(&mut self, _stop: &Stop) {}

    /// The number of systems that programs run on.
    fn systems(&self) -> usize {
        1
    }

    /// The number of the one that runs.
    fn running(&self) -> usize {
        0
    }

    /// System `number` runs from now on, if it does not.
    fn enter(&mut self, _state: &mut State, _number: usize) {}

    /// Hints to the computer that simulates what walks for the words that `coming` begins with will read.
    fn prefetch(&self, state: &State, asid: Asid, coming: &[Ref]);

    /// Walks for the acting process.
    fn walk<O: Observe>(
        &mut self,
        state: &mut State,
        cx: WalkContext,
        va: VirtAddr,
        access: Access,
        obs: &mut O,
    ) -> Result<WalkResult<Self::Trap>, Ended>;

    /// Entries of tables below that the last walk of a core read.
    #[inline(always)]
    fn reads(&self, _core: usize) -> u64 {
        0
    }

    /// Where the memory is that the programs' kernel has at `pa`; `None` if nothing below gave it any.
    #[inline(always)]
    fn physical(&self, pa: PhysAddr) -> Option<PhysAddr> {
        Some(pa)
    }

    /// The walker found no page. Whether another walk may find one, before the kernel is asked.
    #[inline(always)]
    fn fill<O: Observe>(
        &mut self,
        _state: &mut State,
        _cx: WalkContext,
        _va: VirtAddr,
        _access: Access,
        _obs: &mut O,
    ) -> Result<bool, Ended> {
        Ok(false)
    }

    /// Does what a walk needs.
    fn serve<O: Observe>(&mut self, state: &mut State, trap: Self::Trap, obs: &mut O) -> Result<(), Ended>;

    /// The message for a kernel whose frames ran out.
    fn out_of_memory(&self, error: &FaultError) -> String {
        error.to_string()
    }

    /// The ASID that TLBs use for what the kernel calls `asid`.
    fn tag(&mut self, asid: Asid) -> Asid {
        asid
    }

    /// Whether the kernel's own invalidations concern all CPUs, whatever it says.
    fn invalidates_everywhere(&self) -> bool {
        false
    }

    /// Calls `each` for an invalidation of the kernel, with the ASIDs that TLBs use.
    #[inline(always)]
    fn each_tagged(&self, what: &Invalidate, mut each: impl FnMut(&Invalidate)) {
        each(what);
    }

    /// The kernel's invalidations have reached the CPUs.
    #[inline(always)]
    fn invalidated<O: Observe>(&mut self, _state: &mut State, _obs: &mut O) {}

    /// The program itself dropped a translation.
    fn invalidated_by_program<O: Observe>(&mut self, _state: &mut State, _what: &Invalidate, _obs: &mut O) {}

    /// The kernel has done its work: what of that concerns what lies below.
    #[inline(always)]
    fn kernel_worked<O: Observe>(&mut self, _state: &mut State, _obs: &mut O) -> Result<(), Ended> {
        Ok(())
    }

    /// A CPU runs another address space than before.
    fn space_switched(&mut self) {}

    /// Takes an event before the kernel does. Returns the event as the kernel is to see it, if that is another.
    fn event<O: Observe>(&mut self, _state: &mut State, _event: &Event, _obs: &mut O) -> Result<Option<Event>, Ended> {
        Ok(None)
    }

    /// When its daemons want to wake, in simulated nanoseconds.
    #[inline(always)]
    fn wakes_at(&self) -> Option<u64> {
        None
    }

    /// Runs its daemons.
    fn run_daemons<O: Observe>(&mut self, _state: &mut State, _now_ns: u64, _obs: &mut O) -> Result<(), Ended> {
        Ok(())
    }

    /// Cycles spent below so far.
    #[inline(always)]
    fn cycles(&self) -> u64 {
        0
    }

    /// Counts begin here: what was needed to start the machine is no part of a run.
    fn started(&mut self) {}

    /// Costs of the systems that do not run begin anew.
    fn restart_costs(&mut self, _options: &Options) {}

    /// Adds its counters.
    fn count(&self, state: &State, all: &mut Counted) {
        state.count_system(0, all);
    }
}

/// Nothing below: the kernel runs on the machine itself.
pub(crate) struct Bare;

impl Below for Bare {
    type Trap = Infallible;
    /// A write to a page that was not there, was then mapped read-only for want of a better idea, then copied, takes
    /// three.
    const MAX_WALKS: u32 = 8;
    const SWITCHES_FREELY: bool = true;

    #[inline(always)]
    fn prefetch(&self, state: &State, asid: Asid, coming: &[Ref]) {
        if let Some(&ahead) = coming.get(AHEAD) {
            let cpu = &state.hardware.cpus[state.acting.cpu()];
            cpu.walker.prefetch_hint(&state.system.mem, &state.hardware.caches, asid, ahead.va());
        }
    }

    #[inline(always)]
    fn walk<O: Observe>(
        &mut self,
        state: &mut State,
        cx: WalkContext,
        va: VirtAddr,
        access: Access,
        obs: &mut O,
    ) -> Result<WalkResult<Infallible>, Ended> {
        let cpu = &mut state.hardware.cpus[state.acting.cpu()];
        let walk = cpu.walker.walk(&mut state.system.mem, &mut state.hardware.caches, cx, va, access);
        if let Some(watch) = obs.watch() {
            watch.walked(cpu.walker.steps());
            watch.walk_ended(&WalkEnd::of(&walk));
        }
        Ok(WalkResult::Ended(walk))
    }

    fn serve<O: Observe>(&mut self, _: &mut State, trap: Infallible, _: &mut O) -> Result<(), Ended> {
        match trap {}
    }
}
