//! What programs do to their address spaces, who acts, and the daemons.

use super::Machine;
use crate::{
    Ended,
    host::{GUESTS_MAX, PID_BITS},
    portions::Portion,
    story::Watch,
};
use mmulab_addr::{PageOrder, Pid, Tid};
use mmulab_kernel::{Actor, Context};
use mmulab_pagetable::Invalidate;
use mmulab_trace::Event;
use mmulab_walker::WalkContext;

impl Machine {
    /// The program did something to its address space, or another thread acts.
    #[cold]
    pub(super) fn event<W: Watch>(&mut self, event: &Event, watch: &mut W) -> Result<(), Ended> {
        if let Event::Switch { pid, tid } = *event
            && !W::ACTIVE
            && self.go_on(pid, tid)
        {
            return Ok(());
        }
        if let Event::Invlpg { addr } = event {
            // A CPU drops its own translation only.
            let cpu = usize::from(self.who.cpu);
            self.divert(cpu..=cpu);
            let core = &mut self.cores[usize::from(self.who.cpu)];
            if let Some(cx) = core.context {
                let what = Invalidate::Page { asid: cx.asid, va: *addr, order: PageOrder::P4K };
                core.tlbs.invalidate(&what, watch);
                core.walker.invalidate(self.format, &what);
                watch.invalidated_by_program(&what);
                if let Some(host) = self.host.as_mut().filter(|host| host.has_shadows()) {
                    host.forget_tagged(&what);
                    self.settle_host(watch);
                }
            }
            return Ok(());
        }
        if *event == Event::Resume {
            self.resume(watch);
            return Ok(());
        }
        if let Event::Pin { tid, cpu } = *event {
            if self.lanes.is_some() {
                // A warp's core follows from its number.
                return Ok(());
            }
            let cpu = cpu % self.cores.len() as u16;
            self.pinned.insert(tid, cpu);
            let moves = tid == self.who.tid && cpu != self.who.cpu;
            // It goes on over there: the kernel switches to it as to any other.
            let again = Event::Switch { pid: self.who.pid, tid };
            return if moves { self.obey(&again, watch) } else { Ok(()) };
        }
        let of_guest = self.turn(event, watch)?;
        self.obey(of_guest.as_ref().unwrap_or(event), watch)
    }

    /// The kernel that runs obeys.
    fn obey<W: Watch>(&mut self, event: &Event, watch: &mut W) -> Result<(), Ended> {
        if let Event::Switch { pid, tid } = *event {
            let (cpu, warp) = self.pin(tid)?;
            self.act(Actor { pid, tid, cpu }, warp);
            let before = self.core().pid.replace(pid);
            if before.is_some_and(|before| before != pid) {
                self.counts.space_switches += 1;
                self.divert(usize::from(cpu)..=usize::from(cpu));
                if let Some(host) = &mut self.host {
                    host.trap_table_load();
                }
            }
        }
        let result = self.system.kernel.event(&mut self.system.mem, self.who, event, &mut self.fx);
        let settled = self.settle(watch);
        self.load_context();
        if self.stop.is_asked() {
            // The event may be half obeyed.
            return Err(Ended::Interrupted);
        }
        result.map_err(|e| Ended::Kernel(e.to_string()))?;
        settled
    }

    /// Another thread of the process that acts goes on, where its CPU ran that process last: nothing is left for the
    /// kernel to do. False if that is not so.
    fn go_on(&mut self, pid: Pid, tid: Tid) -> bool {
        if pid != self.who.pid || self.host.is_some() {
            return false;
        }
        let Ok((cpu, warp)) = self.pin(tid) else { return false };
        if self.cores[usize::from(cpu)].pid != Some(pid) {
            return false;
        }
        let Some(context) = self.system.kernel.runs_on(cpu, pid) else { return false };
        self.act(Actor { pid, tid, cpu }, warp);
        self.core().context = Some(of(&context));
        true
    }

    /// `who` acts from now on, as that warp of its core.
    #[inline]
    fn act(&mut self, who: Actor, warp: usize) {
        self.close_portion();
        self.hand_over(who.cpu);
        self.who = who;
        self.take_up(warp);
        let now = self.portion();
        self.portions.open(self.host.as_ref().map_or(0, |host| host.at()), who.pid, &now);
    }

    /// The CPU of a thread, and the number that it has there as a warp.
    fn pin(&mut self, tid: Tid) -> Result<(u16, usize), Ended> {
        if let Some(dealt) = self.dealt {
            return dealt.place(tid);
        }
        let next = (self.pinned.len() % self.cores.len()) as u16;
        Ok((*self.pinned.entry(tid).or_insert(next), 0))
    }

    /// The counters of which processes have portions, on the core that acts.
    fn portion(&mut self) -> Portion {
        Portion {
            instructions: self.core().instructions,
            references: self.next,
            kernel_cycles: self.kernel_cycles,
            host_cycles: self.host.as_ref().map_or(0.0, |host| host.counts.cycles as f64),
        }
    }

    /// Whoever acts has had its portion so far.
    pub(crate) fn close_portion(&mut self) {
        let now = self.portion();
        self.portions.close(&now);
    }

    /// What an event means for the host: another guest may act, daemons may run. Returns the event as the guest sees
    /// it, if that is another.
    #[cold]
    fn turn<W: Watch>(&mut self, event: &Event, watch: &mut W) -> Result<Option<Event>, Ended> {
        let Some(host) = self.host.as_mut() else { return Ok(None) };
        match *event {
            Event::Tick => {
                let result = host.system.kernel.event(&mut host.system.mem, self.who, event, &mut host.fx);
                self.settle_host(watch);
                result.map_err(|e| Ended::Kernel(format!("the host: {e}")))?;
                Ok(None)
            }
            Event::Switch { pid, tid } => {
                let (vm, pid) = ((pid.0 >> PID_BITS) as usize % GUESTS_MAX, Pid(pid.0 & ((1 << PID_BITS) - 1)));
                if vm != host.at() && vm < host.count() {
                    host.counts.machine_switches += 1;
                    let all = host.is_tagless();
                    host.enter(vm, &mut self.system);
                    if all {
                        for core in &mut self.cores {
                            core.tlbs.invalidate(&Invalidate::All, watch);
                            core.walker.invalidate(self.format, &Invalidate::All);
                        }
                    }
                }
                Ok(Some(Event::Switch { pid, tid }))
            }
            Event::Fork { child, shares_memory } => {
                Ok(Some(Event::Fork { child: Pid(child.0 & ((1 << PID_BITS) - 1)), shares_memory }))
            }
            _ => Ok(None),
        }
    }

    /// Lets the kernel's daemons run if they are due. They are looked at whenever a reference leaves the first level,
    /// by the clock of its core and of the kernel's work so far.
    #[inline(never)]
    pub(super) fn daemons<W: Watch>(&mut self, watch: &mut W) -> Result<(), Ended> {
        let core = &self.cores[usize::from(self.who.cpu)];
        let below = self.host.as_ref().map_or(0, |host| host.counts.cycles);
        let cycles = core.clock.now(core.instructions) as f64 + self.kernel_cycles + below as f64;
        let now_ns = (cycles * 1000.0 / self.desc.machine.core.frequency_mhz) as u64;
        let is_due = |wake: Option<u64>| wake.is_some_and(|wake| now_ns >= wake);
        if let Some(host) = &mut self.host
            && is_due(host.system.kernel.wakes_at())
        {
            let result = host.system.kernel.run_daemons(&mut host.system.mem, now_ns, &mut host.fx);
            host.reload();
            self.settle_host(watch);
            result.map_err(|e| Ended::Kernel(format!("the host: {e}")))?;
        }
        if !is_due(self.system.kernel.wakes_at()) {
            return Ok(());
        }
        let result = self.system.kernel.run_daemons(&mut self.system.mem, now_ns, &mut self.fx);
        let settled = self.settle(watch);
        self.load_context();
        result.map_err(|e| Ended::Kernel(e.to_string()))?;
        settled
    }

    /// Puts the acting process's table into its core's base register.
    pub(super) fn load_context(&mut self) {
        let context = self.system.kernel.context(self.who.pid);
        let mut cx = context.as_ref().map(of);
        if let (Some(cx), Some(host)) = (&mut cx, &mut self.host) {
            cx.asid = host.tag(cx.asid);
        }
        self.core().context = cx;
    }
}

/// What the walker is told.
fn of(context: &Context) -> WalkContext {
    WalkContext { format: context.format, root: context.root, asid: context.asid }
}
