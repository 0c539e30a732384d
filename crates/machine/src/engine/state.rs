//! The state of a machine, whatever its kind: kernel and memory, CPUs and caches, who acts, what was counted.

use super::reach::Shootdown;
use crate::{
    count::{
        Block, CauseCycles, Cost, Counted, Counts, FaultLatency, Missed, ProcessCounts, Processes, SystemCounts, Tally,
    },
    cpu::{Clock, Cpu},
    describe::{Resolved, Unmapped},
    ended::{Ended, MachineError},
    smt::Sharing,
    system::System,
};
use mmulab_addr::{Asid, Pid, Tid, VirtAddr};
use mmulab_kernel::{Actor, Context, Effects, RegionId, Stop};
use mmulab_pagetable::Format;
use mmulab_tlb::{Hierarchy, HierarchyCounts};
use mmulab_trace::Batch;
use mmulab_walker::{Caches, WalkContext, WalkSlots, Walker, WalkerDesc, WalkerError};
use std::{collections::BTreeMap, sync::Arc};

/// The state of a machine in the middle of a trace.
pub(crate) struct State {
    pub desc: Arc<Resolved>,
    /// Kernel and memory that the acting program runs on.
    pub system: System,
    /// What that kernel asked for and has not been delivered yet.
    pub effects: Effects,
    pub hardware: Hardware,
    pub acting: Acting,
    pub account: Account,
    pub control: RunControl,
}

/// What the programs run on.
pub(crate) struct Hardware {
    pub cpus: Vec<Cpu>,
    pub caches: Caches,
    /// Which parts the CPUs have in common.
    pub sharing: Sharing,
    /// The format of the tables that walks for programs begin with.
    pub format: Format,
}

/// Who acts.
pub(crate) struct Acting {
    pub actor: Actor,
    /// The block that the actor ran before the one that runs, where a profile is kept. Up to date when a fetch missed.
    pub from: Option<VirtAddr>,
    /// The core that the actor's CPU is, or is a thread of.
    pub core: u16,
}

impl Acting {
    /// The index of the acting CPU.
    #[inline(always)]
    pub fn cpu(&self) -> usize {
        usize::from(self.actor.cpu)
    }

    /// The index of the acting core.
    #[inline(always)]
    pub fn core(&self) -> usize {
        usize::from(self.core)
    }
}

/// What was counted, beside the counters that TLBs, walkers, caches and kernels keep themselves.
#[derive(Default)]
pub(crate) struct Account {
    pub counts: Counts,
    /// All counters where counts began, if they did not begin at once.
    pub uncounted: Option<Box<Counted>>,
    /// Counts before a pause, while there is one.
    pub paused: Option<Box<Paused>>,
    pub processes: Processes,
    /// Cycles of kernel work, with fractions.
    pub kernel_cycles: f64,
    /// The same by cause.
    pub causes: CauseCycles,
    /// Cost of flushes that reach the TLBs of all CPUs.
    pub shootdown: Shootdown,
    /// References seen.
    pub references: u64,
    /// The times of page faults, where they are asked for.
    pub latency: Option<Box<FaultLatency>>,
}

/// Counts when they paused.
pub(crate) struct Paused {
    /// Since counts began.
    pub counted: Counted,
    pub costs: Costs,
}

/// Costs by process, region and fault.
pub(crate) struct Costs {
    processes: BTreeMap<(usize, Pid), ProcessCounts>,
    pub tally: Tally,
    latency: Option<Box<FaultLatency>>,
}

/// How the run is controlled.
pub(crate) struct RunControl {
    /// Whether references to unmapped memory get a mapping: resolved from the options and the trace.
    pub unmapped: Unmapped,
    /// The CPU of each thread.
    pub pinned: BTreeMap<Tid, u16>,
    /// Whether the user asked for an end.
    pub stop: Stop,
    pub ended: Option<Ended>,
}

/// What kinds of machines build differently in each CPU.
pub(crate) struct Build {
    pub clock: Clock,
    pub walker: fn(&WalkerDesc, usize) -> Result<Walker, WalkerError>,
    pub slots: fn(u8, u32) -> WalkSlots,
}

impl State {
    /// The state of the machine of `desc`, with `system`, for a trace that carries its address-space events or does
    /// not.
    pub fn new(
        desc: Arc<Resolved>,
        system: System,
        build: &Build,
        has_address_space: bool,
    ) -> Result<Self, MachineError> {
        let m = &desc.machine;
        let sharing = Sharing::new(m);
        let caches = Caches::new(&m.cache, &m.cache_rules, m.core.count)?;
        let cpu = |cpu: u16| -> Result<Cpu, MachineError> {
            let core = if m.walker.shared { 0 } else { usize::from(sharing.core_of(cpu)) };
            Ok(Cpu {
                tlbs: Hierarchy::new(&m.tlb, &m.tlb_rules)?,
                walker: Box::new((build.walker)(&m.walker, core)?),
                slots: (build.slots)(m.walker.count, m.walker.turnaround_cycles),
                clock: build.clock.clone(),
                instructions: 0,
                context: None,
                pid: None,
            })
        };
        let cpus = (0..m.core.cpus()).map(cpu).collect::<Result<_, _>>()?;
        let unmapped = match desc.options.unmapped {
            Unmapped::Auto if has_address_space => Unmapped::Fault,
            Unmapped::Auto => Unmapped::Map,
            chosen @ (Unmapped::Fault | Unmapped::Map | Unmapped::Stop) => chosen,
        };
        let format = m.walked_table().format();
        Ok(Self {
            system,
            effects: Effects::default(),
            hardware: Hardware { cpus, caches, sharing, format },
            acting: Acting { actor: Actor { pid: Pid(1), tid: Tid(1), cpu: 0 }, from: None, core: 0 },
            account: Account { latency: desc.options.fault_latency.then(Box::default), ..Account::default() },
            control: RunControl { unmapped, pinned: BTreeMap::from([(Tid(1), 0)]), stop: Stop::default(), ended: None },
            desc,
        })
    }

    /// Word `at` of a batch is a fetch that missed: notes where it came from, if that is kept.
    #[inline(always)]
    pub fn fetch_missed(&mut self, batch: &Batch, at: usize) {
        if self.system.tally.has_profile() {
            self.acting.from = batch.block_before(at);
        }
    }

    /// The acting CPU.
    #[inline(always)]
    pub fn cpu(&mut self) -> &mut Cpu {
        &mut self.hardware.cpus[self.acting.cpu()]
    }

    /// The acting process's table, as its CPU has it.
    pub fn context(&self) -> Option<WalkContext> {
        self.hardware.cpus[self.acting.cpu()].context
    }

    /// The ASID of a CPU's translations; 0, which no process has, while its process has none.
    #[inline(always)]
    pub fn asid(&self, cpu: usize) -> Asid {
        self.hardware.cpus[cpu].context.map_or(Asid(0), |c| c.asid)
    }

    /// `actor` acts from now on.
    #[inline]
    pub fn act(&mut self, actor: Actor) {
        let Hardware { cpus, sharing, .. } = &mut self.hardware;
        sharing.hand_over(cpus, self.acting.actor.cpu, actor.cpu);
        self.acting = Acting { actor, from: None, core: sharing.core_of(actor.cpu) };
    }

    /// Adds a cost at `va` to its region, and to the code that runs on the acting CPU. At once, for a process that ends
    /// takes its regions with it.
    #[inline(always)]
    pub fn charge(&mut self, pid: Pid, va: VirtAddr, cost: Cost) {
        let block = self.cpu().tlbs.code;
        let System { kernel, tally, .. } = &mut self.system;
        let (mut code, mut from) = (RegionId::NONE, None);
        if tally.has_profile() {
            code = kernel.region_at(pid, block);
            from = self
                .acting
                .from
                .filter(|_| cost.l1i_misses > 0)
                .map(|addr| Block { region: kernel.region_at(pid, addr), addr });
        }
        tally.add(kernel.region_at(pid, va), Missed { pid, va, block, code, from, cost });
    }

    /// The counters of which processes have shares, with `below` cycles below the kernel.
    pub fn process_counts(&mut self, below: u64) -> ProcessCounts {
        ProcessCounts {
            instructions: self.cpu().instructions,
            references: self.account.references,
            cycles: self.cpu().now(),
            kernel_cycles: self.account.kernel_cycles,
            below_cycles: below as f64,
        }
    }

    /// All counters of the state; those of the parts are left at zero.
    pub fn counted(&mut self) -> Counted {
        let cpus = &mut self.hardware.cpus;
        let mut all = Counted {
            own: self.account.counts,
            causes: self.account.causes.whole(),
            shootdowns: self.desc.machine.shootdown.as_ref().map(|_| self.account.shootdown.counts),
            tlb: HierarchyCounts::of(&mut cpus.iter_mut().map(|cpu| &mut cpu.tlbs).collect::<Vec<_>>()),
            ..Counted::default()
        };
        let servers = self.hardware.caches.names().len();
        let levels = self.hardware.format.levels();
        for cpu in &self.hardware.cpus {
            all.walks.add(&cpu.walker.counts(servers, levels));
            all.instructions += cpu.instructions;
            all.base_cycles += cpu.clock.base(cpu.instructions);
            all.walk_queued += cpu.slots.queued();
            all.walk_pending += cpu.slots.pending();
            all.walk_active += cpu.slots.active();
        }
        all
    }

    /// The acting program's kernel is number `number`: its counters go there.
    pub fn count_system(&self, number: usize, all: &mut Counted) {
        all.systems.insert(number, SystemCounts::of(&self.system.kernel));
    }

    /// The costs so far; they begin anew. Only right after the acting process was closed.
    pub fn take_costs(&mut self) -> Costs {
        let tally = std::mem::replace(&mut self.system.tally, Tally::new(&self.desc.options));
        let latency = std::mem::replace(&mut self.account.latency, self.desc.options.fault_latency.then(Box::default));
        Costs { processes: self.account.processes.take(), tally, latency }
    }

    /// Goes on with costs that were taken.
    pub fn put_costs(&mut self, costs: Costs) {
        let Costs { processes, tally, latency } = costs;
        self.account.processes.put(processes);
        (self.system.tally, self.account.latency) = (tally, latency);
    }

    /// Costs begin anew.
    pub fn restart_costs(&mut self) {
        self.account.processes.begin_anew();
        self.system.tally = Tally::new(&self.desc.options);
        self.account.latency = self.desc.options.fault_latency.then(Box::default);
    }
}

/// A kernel's context in the form that walkers take.
pub(super) fn walk_context(context: &Context) -> WalkContext {
    WalkContext { format: context.format, root: context.root, asid: context.asid }
}
