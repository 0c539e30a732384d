//! Events of the trace: what programs do to their address spaces, and who acts.

use super::{
    below::Below,
    execution::{Execution, Slot},
    parts::Engine,
    state::walk_context,
};
use crate::{count::Cause, ended::Ended, observe::Observe};
use mmulab_addr::{PageOrder, Pid, Tid, VirtAddr};
use mmulab_kernel::Actor;
use mmulab_pagetable::Invalidate;
use mmulab_trace::Event;

impl<B: Below, X: Execution> Engine<B, X> {
    /// The program did something to its address space, or another thread acts.
    #[cold]
    pub(super) fn event<O: Observe>(&mut self, event: &Event, obs: &mut O) -> Result<(), Ended> {
        match *event {
            Event::Switch { pid, tid } if !O::ACTIVE && self.go_on(pid, tid) => return Ok(()),
            Event::Invlpg { addr } => {
                self.invalidate_page(addr, obs);
                return Ok(());
            }
            Event::Resume => {
                self.resume(obs);
                return Ok(());
            }
            Event::Pause => {
                self.pause(obs);
                return Ok(());
            }
            Event::Continue { .. } => {
                self.go_on_counting(obs);
                return Ok(());
            }
            Event::Pin { tid, cpu } => return self.pin(tid, cpu, obs),
            _ => {}
        }
        let changed = self.below.event(&mut self.state, event, obs)?;
        self.obey(changed.as_ref().unwrap_or(event), obs)
    }

    /// A CPU drops its own translation of a page, and no other's.
    fn invalidate_page<O: Observe>(&mut self, va: VirtAddr, obs: &mut O) {
        let cpu = self.state.acting.cpu();
        self.execution.cancel(&mut self.state.hardware.cpus, cpu..cpu + 1);
        let format = self.state.hardware.format;
        let cpu = self.state.cpu();
        if let Some(cx) = cpu.context {
            let what = Invalidate::Page { asid: cx.asid, va, order: PageOrder::P4K };
            cpu.tlbs.invalidate(&what, obs);
            cpu.walker.invalidate(format, &what);
            if let Some(watch) = obs.watch() {
                watch.invalidated_by_program(&what);
            }
            self.below.invalidated_by_program(&mut self.state, &what, obs);
        }
    }

    /// A thread runs on this CPU from now on.
    fn pin<O: Observe>(&mut self, tid: Tid, cpu: u16, obs: &mut O) -> Result<(), Ended> {
        if !X::PINS {
            return Ok(());
        }
        let cpu = cpu % self.state.hardware.cpus.len() as u16;
        self.state.control.pinned.insert(tid, cpu);
        let actor = self.state.acting.actor;
        if tid != actor.tid || cpu == actor.cpu {
            return Ok(());
        }
        // It goes on over there: the kernel switches to it as to any other.
        self.obey(&Event::Switch { pid: actor.pid, tid }, obs)
    }

    /// The kernel obeys.
    fn obey<O: Observe>(&mut self, event: &Event, obs: &mut O) -> Result<(), Ended> {
        if let Event::Switch { pid, tid } = *event {
            let slot = self.execution.place(&mut self.state, tid)?;
            self.act(pid, tid, slot);
            let before = self.state.cpu().pid.replace(pid);
            if before.is_some_and(|before| before != pid) {
                self.state.account.counts.space_switches += 1;
                let cpu = usize::from(slot.cpu);
                self.execution.cancel(&mut self.state.hardware.cpus, cpu..cpu + 1);
                self.below.space_switched();
            }
        }
        let state = &mut self.state;
        let result = state.system.kernel.event(&mut state.system.mem, state.acting.actor, event, &mut state.effects);
        let populated = if X::KERNEL_STORES { std::mem::take(&mut state.effects.populated) } else { Vec::new() };
        let delivered = match event {
            Event::Tick => self.deliver_daemons(obs),
            _ => self.deliver_effects(Cause::of(event), obs),
        };
        self.load_context();
        self.kernel_populated(&populated);
        if self.state.control.stop.is_asked() {
            // The event may be half obeyed.
            return Err(Ended::Interrupted);
        }
        result.map_err(|e| Ended::of_kernel(&e))?;
        delivered
    }

    /// Another thread of the process that acts goes on, where its CPU ran that process last: nothing is left for the
    /// kernel to do. False if that is not so.
    fn go_on(&mut self, pid: Pid, tid: Tid) -> bool {
        if !B::SWITCHES_FREELY || pid != self.state.acting.actor.pid {
            return false;
        }
        let Ok(slot) = self.execution.place(&mut self.state, tid) else { return false };
        if self.state.hardware.cpus[usize::from(slot.cpu)].pid != Some(pid) {
            return false;
        }
        let Some(context) = self.state.system.kernel.runs_on(slot.cpu, pid) else { return false };
        let context = walk_context(&context);
        self.act(pid, tid, slot);
        self.state.cpu().context = Some(context);
        true
    }

    /// A thread acts from now on.
    #[inline]
    fn act(&mut self, pid: Pid, tid: Tid, slot: Slot) {
        self.close_process();
        self.state.act(Actor { pid, tid, cpu: slot.cpu });
        self.execution.act(slot);
        let now = self.state.process_counts(self.below.cycles());
        self.state.account.processes.open(self.below.running(), pid, &now);
    }

    /// The acting process gets its counts so far.
    pub fn close_process(&mut self) {
        let now = self.state.process_counts(self.below.cycles());
        self.state.account.processes.close(&now);
    }
}
