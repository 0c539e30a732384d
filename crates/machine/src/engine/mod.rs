//! The machine and its loop: a reference looks in the TLBs, else the walker reads the tables, else the kernel faults.

mod events;
mod miss;
mod settle;
mod stretch;

pub(crate) use miss::Timeline;

use crate::{
    check::{Checker, lookup},
    clock::Clock,
    counted::Counted,
    counts::Counts,
    describe::{Check, Resolved, Unmapped},
    ended::{Ended, MachineError},
    flights::{Aloft, Common},
    host::{Host, System},
    portions::{Portion, Portions},
    siblings::Siblings,
    story::{Nobody, Watch},
    timed::{self, Timed},
    warps::{Dealt, Lanes, Waiting},
};
use mmulab_addr::{Asid, Pid, Tid, VirtAddr};
use mmulab_kernel::{Actor, Effects, Stop};
use mmulab_pagetable::{Format, Leaf};
use mmulab_tlb::Hierarchy;
use mmulab_trace::{Batch, Event};
use mmulab_walker::{Caches, NestedWalker, WalkContext, WalkSlots, Walker};
use std::{collections::BTreeMap, sync::Arc};

/// A machine built from its description, with a kernel, in the middle of a trace.
pub struct Machine {
    pub(crate) desc: Arc<Resolved>,
    /// What the programs run on: the machine's own kernel, or that of the guest which runs.
    pub(crate) system: System,
    /// What lies below guests.
    pub(crate) host: Option<Box<Host>>,
    pub(crate) caches: Caches,
    /// By CPU.
    pub(crate) cores: Vec<Core>,
    pub(crate) counts: Counts,
    /// What was counted before counts began, if not all is counted.
    pub(crate) uncounted: Option<Box<Counted>>,
    pub(crate) ended: Option<Ended>,
    /// How the tables that walks for the programs begin with are read.
    format: Format,
    pub(crate) who: Actor,
    /// The CPU each thread is pinned to.
    pinned: BTreeMap<Tid, u16>,
    /// What cores in time have in common, if they are.
    pub(crate) timed: Option<Box<timed::Common>>,
    /// Which CPUs are threads of one core.
    pub(crate) siblings: Siblings,
    /// The instruction whose lanes are being read, where cores run warps.
    pub(crate) lanes: Option<Box<Lanes>>,
    /// Where warps are, where cores run such.
    pub(crate) dealt: Option<Dealt>,
    /// Whether cores have walker or TLBs in common.
    pub(crate) shares: bool,
    /// Walks under way, where cores that run warps have the second level in common.
    pub(crate) common: Option<Box<Common>>,
    /// The cores that have walks under way.
    pub(crate) aloft: Aloft,
    /// What each process had of the run.
    pub(crate) portions: Portions,
    fx: Effects,
    /// Whether references to unmapped memory are given some (resolved from the options and the trace).
    unmapped: Unmapped,
    /// Kernel cycles not yet whole, by the costs' fractions.
    kernel_cycles: f64,
    /// The same of the host.
    host_cycles: f64,
    /// References seen.
    pub(crate) next: u64,
    /// Whether the user wants an end.
    stop: Stop,
    /// Runs the batches in its own way, where a check was asked for.
    pub(crate) checker: Option<Box<Checker>>,
}

/// One CPU, which is a core or a thread of one: its TLBs, its walker, its time.
pub(crate) struct Core {
    pub tlbs: Hierarchy,
    /// Where it lies, for what cores have in common goes from one to the other.
    pub walker: Box<Walker>,
    pub slots: WalkSlots,
    pub clock: Clock,
    /// The core in time, which then says what the clock shows.
    pub timed: Option<Box<Timed>>,
    pub instructions: u64,
    /// Until when its warps wait, if it runs such.
    pub waiting: Option<Waiting>,
    context: Option<WalkContext>,
    /// The process that runs on it, once one has.
    pid: Option<Pid>,
}

impl Machine {
    /// Builds the machine of `desc` for a trace that carries its address-space events, or does not.
    ///
    /// # Errors
    /// A geometry or memory that cannot be.
    pub fn new(desc: Arc<Resolved>, has_address_space: bool) -> Result<Self, MachineError> {
        let m = &desc.machine;
        let siblings = Siblings::new(m.core.count);
        let (host, system) = match (&m.guest, &desc.host_policy) {
            (Some(guest), Some(policy)) => {
                let (host, first) = Host::new(&desc, guest, policy)?;
                (Some(Box::new(host)), first)
            }
            _ => (None, System::new(&desc.kernel_desc(), desc.options.profile)?),
        };
        let nested = m.guest.as_ref().is_some_and(|guest| guest.is_nested());
        let walker = if nested { NestedWalker::guest } else { Walker::new };
        let timing = m.core.timing.as_ref().filter(|_| desc.options.timing);
        let core = |cpu: u16| -> Result<Core, MachineError> {
            let index = siblings.core_of(cpu);
            Ok(Core {
                tlbs: Hierarchy::new(&m.tlb, &m.tlb_rules)?,
                walker: Box::new(walker(&m.walker, if m.walker.shared { 0 } else { usize::from(index) })?),
                slots: WalkSlots::new(m.walker.count),
                clock: match timing {
                    Some(_) => Clock::new(0.0, 0),
                    None => Clock::new(m.core.base_cpi, m.core.window),
                },
                timed: timing.map(|timing| Box::new(Timed::new(m, timing, desc.options.sample))),
                instructions: 0,
                waiting: m.gpu.as_ref().map(|gpu| Waiting::new(gpu.warps)),
                context: None,
                pid: None,
            })
        };
        let unmapped = match desc.options.unmapped {
            Unmapped::Auto if has_address_space => Unmapped::Fault,
            Unmapped::Auto => Unmapped::Map,
            chosen => chosen,
        };
        let mut machine = Self {
            caches: Caches::new(&m.cache, &m.cache_rules, m.core.count)?,
            cores: (0..m.core.cpus()).map(core).collect::<Result<_, _>>()?,
            counts: Counts::default(),
            uncounted: None,
            ended: None,
            format: m.walked_table().format(),
            who: Actor { pid: Pid(1), tid: Tid(1), cpu: 0 },
            pinned: BTreeMap::from([(Tid(1), 0)]),
            timed: None,
            siblings,
            lanes: m.gpu.as_ref().map(|gpu| Box::new(Lanes::new(gpu))),
            dealt: m.gpu.as_ref().map(|gpu| Dealt::new(gpu, m.core.cpus())),
            shares: m.shares(),
            common: (m.gpu.is_some() && m.tlb.iter().any(|array| array.shared)).then(Box::default),
            aloft: Aloft::default(),
            portions: Portions::default(),
            fx: Effects::default(),
            unmapped,
            kernel_cycles: 0.0,
            host_cycles: 0.0,
            next: 0,
            stop: Stop::default(),
            checker: match desc.options.check {
                Check::None => None,
                Check::Translations => Some(Box::new(Checker::new(&desc, has_address_space)?)),
            },
            system,
            host,
            desc,
        };
        let nearest = (machine.caches.fetch_cycles(), machine.caches.data_cycles());
        let timing = machine.desc.machine.core.timing.as_ref().filter(|_| machine.desc.options.timing);
        machine.timed = timing.map(|timing| Box::new(timed::Common::new(timing, machine.desc.machine.isa, nearest)));
        let neighbours = machine.cores.iter().any(|core| core.tlbs.looks_at_neighbours());
        if let Some(host) = &mut machine.host {
            host.tell_neighbours(neighbours);
        }
        // The first guest last: it is the one that runs.
        for vm in (0..machine.host.as_ref().map_or(1, |host| host.count())).rev() {
            machine.enter(vm);
            let first = Event::Switch { pid: Pid(1), tid: Tid(1) };
            machine.system.kernel.event(&mut machine.system.mem, machine.who, &first, &mut machine.fx)?;
            machine.settle(&mut Nobody).map_err(MachineError::Start)?;
            machine.load_context();
        }
        machine.cores[0].pid = Some(Pid(1));
        machine.portions.open(0, Pid(1), &Portion::default());
        machine.counts.kernel_cycles = 0;
        (machine.kernel_cycles, machine.host_cycles) = (0.0, 0.0);
        if let Some(host) = &mut machine.host {
            host.counts = Default::default();
        }
        Ok(machine)
    }

    /// Runs a stretch of a trace; nothing happens once the machine has ended.
    pub fn run(&mut self, batch: &Batch) {
        self.run_watched(batch, &mut Nobody);
    }

    /// Runs a stretch of a trace with somebody watching each reference.
    pub fn run_watched<W: Watch>(&mut self, batch: &Batch, watch: &mut W) {
        if self.ended.is_some() {
            return;
        }
        self.fx.narrate = W::ACTIVE;
        if let Some(host) = &mut self.host {
            host.fx.narrate = W::ACTIVE;
            host.watch_walks(W::ACTIVE);
        }
        let ran = match self.checker.take() {
            None => self.go(batch, watch),
            Some(mut checker) => {
                let ran = checker.run(self, batch, watch);
                self.checker = Some(checker);
                ran
            }
        };
        if let Err(ended) = ran {
            self.ended = Some(ended);
        }
    }

    /// Ends within an event that takes long, and after any, once this is asked for.
    pub fn stop_with(&mut self, stop: &Stop) {
        self.stop = stop.clone();
        self.system.kernel.stop_with(stop);
        if let Some(host) = &mut self.host {
            host.stop_with(stop);
        }
    }

    /// Why it came to its end, if it has.
    pub fn ended(&self) -> Option<&Ended> {
        self.ended.as_ref()
    }

    /// The level of each TLB array, in the order observers number them.
    pub fn tlb_levels(&self) -> Vec<u8> {
        let tlbs = &self.cores[0].tlbs;
        (0..tlbs.names().len()).map(|array| tlbs.level(array)).collect()
    }

    /// What the acting process's table says of `va`; of a guest's, with guest-physical frames.
    pub fn leaf(&self, va: VirtAddr) -> Option<Leaf> {
        lookup(&self.system.mem, self.context()?, va)
    }

    /// Every kernel with its memory: the one machine's, or each guest's, by number.
    pub(crate) fn systems(&self) -> impl Iterator<Item = (usize, &System)> {
        let (running, parked) = match &self.host {
            None => (0, None),
            Some(host) => (host.at(), Some(host.parked())),
        };
        std::iter::once((running, &self.system)).chain(parked.into_iter().flatten())
    }

    /// Guest `vm` runs from now on, if it does not.
    pub(crate) fn enter(&mut self, vm: usize) {
        if let Some(host) = &mut self.host {
            host.enter(vm, &mut self.system);
        }
    }

    /// References seen so far.
    pub(crate) fn references(&self) -> u64 {
        self.next
    }

    /// The acting process's table, as its CPU has it.
    pub(crate) fn context(&self) -> Option<WalkContext> {
        self.cores[usize::from(self.who.cpu)].context
    }

    /// The tag that a CPU's translations carry; 0, which is nobody's, while its process has none.
    #[inline]
    pub(crate) fn asid(&self, cpu: usize) -> Asid {
        self.cores[cpu].context.map_or(Asid(0), |c| c.asid)
    }

    #[inline]
    pub(crate) fn core(&mut self) -> &mut Core {
        &mut self.cores[usize::from(self.who.cpu)]
    }
}
