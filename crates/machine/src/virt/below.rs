//! The host as the part of the engine that lies below the kernels of guests.

use super::{host::Host, shadow::Filled};
use crate::{
    count::{Counted, HostCounted, SystemCounts, Tally},
    describe::Options,
    ended::Ended,
    engine::{AHEAD, Bare, Below, Hardware, State, WalkResult},
    observe::{Observe, WalkEnd},
};
use mmulab_addr::{Access, Asid, PhysAddr, Pid, VirtAddr};
use mmulab_interleave::{MACHINES_MAX, PID_BITS};
use mmulab_kernel::{FaultError, Stop};
use mmulab_pagetable::Invalidate;
use mmulab_trace::{Event, Ref};
use mmulab_walker::{Nested, Violation, WalkContext};

/// As [`AHEAD`], for what a guest's table entry says of the host's table: that entry must be near by then.
const NEARER: usize = AHEAD / 2;

impl Below for Host {
    type Trap = Violation;
    /// Each walk may find that the host lacks any of up to five tables and the page.
    const MAX_WALKS: u32 = Bare::MAX_WALKS * 7;
    const SWITCHES_FREELY: bool = false;

    fn attach(&mut self, hardware: &Hardware) {
        self.set_neighbours(hardware.cpus.iter().any(|cpu| cpu.tlbs.looks_at_neighbours()));
    }

    fn observe(&mut self, observed: bool) {
        self.effects.narrate = observed;
        self.watch_walks(observed);
    }

    fn stop_with(&mut self, stop: &Stop) {
        self.stop_kernels_with(stop);
    }

    fn systems(&self) -> usize {
        self.count()
    }

    fn running(&self) -> usize {
        self.at()
    }

    fn enter(&mut self, state: &mut State, number: usize) {
        self.swap_in(number, &mut state.system);
    }

    #[inline]
    fn prefetch(&self, state: &State, asid: Asid, coming: &[Ref]) {
        let Some(&ahead) = coming.get(AHEAD) else { return };
        let cpu = &state.hardware.cpus[state.acting.cpu()];
        cpu.walker.prefetch_entry_hint(&state.system.mem, asid, ahead.va());
        if let (Some(cx), Some(nearer)) = (cpu.context, coming.get(NEARER)) {
            let wanted = (state.acting.core(), nearer.va());
            self.prefetch_hint(&cpu.walker, &state.system.mem, &state.hardware.caches, cx, wanted);
        }
    }

    #[inline]
    fn physical(&self, pa: PhysAddr) -> Option<PhysAddr> {
        self.leaf(pa).map(|leaf| leaf.translate(VirtAddr::new(pa.0)))
    }

    #[inline]
    fn walk<O: Observe>(
        &mut self,
        state: &mut State,
        cx: WalkContext,
        va: VirtAddr,
        access: Access,
        obs: &mut O,
    ) -> Result<WalkResult<Violation>, Ended> {
        let (core, caches) = (state.acting.core(), &mut state.hardware.caches);
        let cpu = &mut state.hardware.cpus[state.acting.cpu()];
        if self.has_shadows() {
            let shadow = self.shadow(cx)?;
            let walk = cpu.walker.walk(&mut self.system.mem, caches, shadow, va, access);
            if let Some(watch) = obs.watch() {
                watch.walked(cpu.walker.steps());
                watch.walk_ended(&WalkEnd::of(&walk));
            }
            return Ok(WalkResult::Ended(walk));
        }
        let (walk, nested) = self.walk_nested(&mut cpu.walker, &mut state.system.mem, caches, cx, (core, va, access));
        if let Some(watch) = obs.watch() {
            watch.walked_nested(nested.steps());
            watch.walk_ended(&match &walk {
                Nested::Guest(walk) => WalkEnd::of(walk),
                Nested::Violation(violation) => WalkEnd::HostFault { gpa: violation.gpa },
            });
        }
        Ok(match walk {
            Nested::Guest(walk) => WalkResult::Ended(walk),
            Nested::Violation(trap) => WalkResult::Trapped { cycles: trap.cycles, trap },
        })
    }

    fn reads(&self, core: usize) -> u64 {
        if self.has_shadows() { 0 } else { self.walkers()[core].reads() as u64 }
    }

    /// Where the walker reads a shadow table, the host looks whether the guest's has the page.
    fn fill<O: Observe>(
        &mut self,
        state: &mut State,
        cx: WalkContext,
        va: VirtAddr,
        access: Access,
        obs: &mut O,
    ) -> Result<bool, Ended> {
        if !self.has_shadows() {
            return Ok(false);
        }
        let filled = self.fill_shadow(&mut state.system.mem, cx, (state.acting.actor.cpu, va, access));
        self.deliver_effects(state, obs);
        Ok(filled? == Filled::Yes)
    }

    /// The host serves a violation of its table.
    #[cold]
    fn serve<O: Observe>(&mut self, state: &mut State, what: Violation, obs: &mut O) -> Result<(), Ended> {
        self.counts.walk_violations += 1;
        let served = self.serve_violation(what.gpa, what.access, state.acting.actor.cpu);
        self.deliver_effects(state, obs);
        served
    }

    #[cold]
    fn out_of_memory(&self, error: &FaultError) -> String {
        match error {
            FaultError::OutOfMemory { pid, va, wanted, free_frames } => format!(
                "virtual machine {} is out of memory: {wanted} for {va} of process {pid}, with {free_frames} frames \
                 free: give it more (virtual.memory.size), or less fragmentation",
                self.at()
            ),
            FaultError::Unmapped { .. }
            | FaultError::Protection { .. }
            | FaultError::Advised { .. }
            | FaultError::Adviser { .. } => error.to_string(),
        }
    }

    #[inline]
    fn tag(&mut self, asid: Asid) -> Asid {
        self.use_tag(asid)
    }

    /// Shadow tables are all CPUs'.
    fn invalidates_everywhere(&self) -> bool {
        self.has_shadows()
    }

    fn each_tagged(&self, what: &Invalidate, each: impl FnMut(&Invalidate)) {
        self.tagged(what, each);
    }

    fn invalidated<O: Observe>(&mut self, state: &mut State, obs: &mut O) {
        if self.has_shadows() {
            for what in &state.effects.invalidations {
                self.forget_in_shadow(what);
            }
            self.deliver_effects(state, obs);
        }
    }

    fn invalidated_by_program<O: Observe>(&mut self, state: &mut State, what: &Invalidate, obs: &mut O) {
        if self.has_shadows() {
            self.forget_tagged(what);
            self.deliver_effects(state, obs);
        }
    }

    /// Writes to tables that shadow tables are made of are VM exits. Memory that the guest's kernel wrote gets frames
    /// of the host.
    fn kernel_worked<O: Observe>(&mut self, state: &mut State, obs: &mut O) -> Result<(), Ended> {
        let trapped = self.trap_table_writes(&state.effects.work);
        self.cycles += state.desc.machine.costs.guest_table_write * trapped as f64;
        if trapped != 0
            && let Some(watch) = obs.watch()
        {
            watch.trapped_table_writes(trapped);
        }
        if !state.effects.hinted.is_empty() {
            let hinted = std::mem::take(&mut state.effects.hinted);
            let told = self.hint_all(state, &hinted, obs);
            state.effects.hinted = hinted;
            told?;
        }
        if state.effects.touched.is_empty() {
            return Ok(());
        }
        let stored = std::mem::take(&mut state.effects.touched);
        let backed = self.back_all(state, &stored, obs);
        state.effects.touched = stored;
        backed
    }

    fn space_switched(&mut self) {
        self.trap_table_load();
    }

    /// Another guest may act, daemons may run.
    #[cold]
    fn event<O: Observe>(&mut self, state: &mut State, event: &Event, obs: &mut O) -> Result<Option<Event>, Ended> {
        let of_guest = |pid: Pid| Pid(pid.0 & ((1 << PID_BITS) - 1));
        match *event {
            Event::Tick => {
                let result =
                    self.system.kernel.event(&mut self.system.mem, state.acting.actor, event, &mut self.effects);
                self.deliver_effects(state, obs);
                result.map_err(|e| Ended::Kernel(format!("the host: {e}")))?;
                Ok(None)
            }
            Event::Switch { pid, tid } => {
                let vm = (pid.0 >> PID_BITS) as usize % MACHINES_MAX;
                if vm != self.at() && vm < self.count() {
                    self.counts.machine_switches += 1;
                    self.swap_in(vm, &mut state.system);
                    if self.is_without_asids() {
                        state.hardware.invalidate(&Invalidate::All, obs);
                    }
                }
                Ok(Some(Event::Switch { pid: of_guest(pid), tid }))
            }
            Event::Fork { child, shares_memory } => Ok(Some(Event::Fork { child: of_guest(child), shares_memory })),
            _ => Ok(None),
        }
    }

    fn wakes_at(&self) -> Option<u64> {
        self.system.kernel.wakes_at()
    }

    fn run_daemons<O: Observe>(&mut self, state: &mut State, now_ns: u64, obs: &mut O) -> Result<(), Ended> {
        let result = self.system.kernel.run_daemons(&mut self.system.mem, now_ns, &mut self.effects);
        self.reload();
        self.deliver_effects(state, obs);
        result.map_err(|e| Ended::Kernel(format!("the host: {e}")))
    }

    fn cycles(&self) -> u64 {
        self.counts.cycles
    }

    fn started(&mut self) {
        self.cycles = 0.0;
        self.counts = Default::default();
    }

    fn restart_costs(&mut self, options: &Options) {
        self.parked_mut().for_each(|system| system.tally = Tally::new(options));
    }

    fn count(&self, state: &State, all: &mut Counted) {
        state.count_system(self.at(), all);
        for (vm, system) in self.parked() {
            all.systems.insert(vm, SystemCounts::of(&system.kernel));
        }
        let servers = state.hardware.caches.names().len();
        let system = SystemCounts::of(&self.system.kernel);
        let mut below = HostCounted { counts: self.counts, system, ..HostCounted::default() };
        for walker in self.walkers() {
            below.walks.add(&walker.counts(servers, self.format.levels()));
            for (sum, more) in below.reads.iter_mut().zip(walker.reads_by_side()) {
                *sum += more;
            }
            if let Some(counts) = walker.tlb_counts() {
                below.nested_tlb.get_or_insert_default().add(&counts);
            }
        }
        all.host = Some(below);
    }
}
