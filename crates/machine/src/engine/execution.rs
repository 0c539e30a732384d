//! How CPUs spend time on references: the loop over them, what waiting means, and when the TLBs take what a walk found.
//! On a plain machine ([`super::Windowed`]) a CPU waits at once, and the TLBs take it at once.

use super::{below::Below, parts::Engine, state::State};
use crate::{
    count::Counted,
    cpu::Cpu,
    ended::{Ended, MachineError},
    observe::Observe,
};
use mmulab_addr::{Access, Asid, PhysAddr, Side, Tid, VirtAddr};
use mmulab_pagetable::{Leaf, Walked};
use mmulab_trace::{Batch, TraceInfo};
use std::ops::Range;

/// Where a thread runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Slot {
    pub cpu: u16,
    /// Its number among the threads that the CPU holds at once; 0 if it holds one.
    pub number: usize,
}

/// When a walk ended, and what its reference paid for that.
pub(crate) struct WalkTime {
    pub end: u64,
    /// Cycles from when it was wanted to its end.
    pub waited: u64,
    /// Cycles that the CPU stalled.
    pub stall: u64,
}

/// How CPUs spend time on references. The defaults are those of a CPU that runs one thread and waits.
pub(crate) trait Execution: Sized {
    /// When the parts of a reference were done, if that is kept.
    type Time: Copy;
    /// Threads run where they are pinned.
    const PINS: bool = true;
    /// References go through the caches once they are translated, if the machine's data do.
    const READS_DATA: bool = true;
    /// Stores of a kernel at a fault go to the caches, too.
    const KERNEL_STORES: bool = false;

    /// Runs references up to the next control word that it leaves to the engine; returns where that is.
    fn run_references<B: Below, O: Observe>(
        engine: &mut Engine<B, Self>,
        batch: &Batch,
        from: usize,
        obs: &mut O,
    ) -> Result<usize, Ended>;

    /// A reference waits for the second level. Returns the stall in cycles.
    fn wait_for_l2(&mut self, state: &mut State, time: &mut Self::Time, va: VirtAddr, side: Side, cycles: u32) -> u64;

    /// A reference waits for a walk.
    fn wait_for_walk(
        &mut self,
        state: &mut State,
        time: &mut Self::Time,
        va: VirtAddr,
        side: Side,
        cycles: u32,
    ) -> WalkTime;

    /// The reference needed the kernel, or what lies below it.
    #[inline(always)]
    fn trapped(_time: &mut Self::Time) {}

    /// The reference is over, and went to `pa`.
    #[inline(always)]
    fn answered(time: Self::Time, _pa: Option<PhysAddr>) -> Self::Time {
        time
    }

    /// A walk in flight brings what a lookup did not find: the reference waits for that. `l2_missed`: the second level
    /// was asked.
    #[inline(always)]
    fn join(&mut self, _state: &mut State, _va: VirtAddr, _access: Access, _l2_missed: bool) -> Option<Leaf> {
        None
    }

    /// A walk that ends at `end` found a page: the TLBs take it.
    #[inline(always)]
    fn take_walk<O: Observe>(&mut self, state: &mut State, asid: Asid, miss: Miss, walked: &Walked, obs: &mut O) {
        state.cpu().tlbs.fill(asid, miss.va, miss.access, walked, obs);
    }

    /// The walks in flight on these CPUs bring nothing: an invalidation, or another process.
    #[inline(always)]
    fn cancel(&mut self, _cpus: &mut [Cpu], _which: Range<usize>) {}

    /// A control word follows: the instruction before it has no more references.
    #[inline(always)]
    fn end_instruction(&mut self, _state: &mut State) {}

    /// All walks in flight end.
    fn complete_all<O: Observe>(&mut self, _state: &mut State, _obs: &mut O) {}

    /// Where a thread runs.
    fn place(&mut self, state: &mut State, tid: Tid) -> Result<Slot, Ended> {
        let pinned = &mut state.control.pinned;
        let next = (pinned.len() % state.hardware.cpus.len()) as u16;
        Ok(Slot { cpu: *pinned.entry(tid).or_insert(next), number: 0 })
    }

    /// The thread there acts.
    #[inline(always)]
    fn act(&mut self, _slot: Slot) {}

    /// A thread acts next: hints to the computer that simulates what that begins with.
    #[inline(always)]
    fn prefetch(&self, _state: &State, _next: Tid) {}

    /// Takes a trace.
    ///
    /// # Errors
    /// The machine has no room for its threads.
    fn take(&mut self, _state: &State, _info: &TraceInfo) -> Result<(), MachineError> {
        Ok(())
    }

    /// Counts begin here.
    fn restart(&mut self, _state: &State) {}

    /// Adds its counters.
    fn count(&mut self, _state: &State, _all: &mut Counted) {}
}

/// The reference that a walk was made for.
#[derive(Clone, Copy)]
pub(crate) struct Miss {
    pub va: VirtAddr,
    pub access: Access,
    /// It missed the second level.
    pub l2_missed: bool,
    /// When its walk ended.
    pub end: u64,
}
