//! Cores that run warps: what the lanes name together is looked up once, and a warp that waits lets others go on.

use crate::{
    Ended, Machine, MachineError,
    describe::GpuDesc,
    engine::Core,
    flights::{Flights, prefetch},
    story::Watch,
    tally::Cost,
};
use mmulab_addr::{Access, Pid, Tid, VirtAddr};
use mmulab_tlb::Outcome;
use mmulab_trace::{Batch, TraceInfo};
use schemars::JsonSchema;
use serde::Serialize;

/// What warps did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct WarpCounts {
    /// Loads and stores, of all lanes of a warp together.
    pub instructions: u64,
    /// Addresses that lanes named.
    pub lanes: u64,
    /// Lookups that they came to.
    pub lookups: u64,
    /// Cycles that cores were kept by lookups beyond those that the first level begins at once.
    pub port_stalls: u64,
    /// Lookups that found nothing and waited for a walk that was under way.
    pub joined: u64,
}

/// The instruction whose lanes are being read; it may go on in the next batch.
#[derive(Clone, Copy)]
pub(crate) struct Lanes {
    most: usize,
    shift: u32,
    ports: u64,
    lanes: usize,
    write: bool,
    /// What was looked up for it.
    seen: [u64; GpuDesc::MAX_LANES],
    lookups: usize,
    pub counts: WarpCounts,
}

impl Lanes {
    pub fn new(desc: &GpuDesc) -> Self {
        Self {
            most: usize::from(desc.lanes),
            shift: desc.shift(),
            ports: desc.ports.into(),
            lanes: 0,
            write: false,
            seen: [0; GpuDesc::MAX_LANES],
            lookups: 0,
            counts: WarpCounts::default(),
        }
    }

    /// The instruction has no more lanes. The cycles that its lookups took beyond the first.
    #[inline]
    pub fn close(&mut self) -> u64 {
        if self.lanes == 0 {
            return 0;
        }
        self.counts.instructions += 1;
        self.counts.lanes += self.lanes as u64;
        self.counts.lookups += self.lookups as u64;
        let more = (self.lookups as u64).div_ceil(self.ports) - 1;
        self.counts.port_stalls += more;
        (self.lanes, self.lookups) = (0, 0);
        more
    }

    /// Whether the next lane begins an instruction.
    #[inline]
    fn is_closed(&self) -> bool {
        self.lanes == 0
    }

    /// Whether a lane with such an access belongs to another instruction than those before.
    #[inline]
    fn is_another(&self, write: bool) -> bool {
        self.lanes == self.most || (self.lanes != 0 && self.write != write)
    }

    /// A lane names `va`. Whether that is looked up.
    #[inline]
    fn add(&mut self, va: VirtAddr, write: bool) -> bool {
        let key = if self.shift == 0 { self.lanes as u64 } else { va.raw() >> self.shift };
        (self.write, self.lanes) = (write, self.lanes + 1);
        // Neighbouring lanes mostly name neighbouring places.
        let seen = &self.seen[..self.lookups];
        if seen.last() == Some(&key) || seen.contains(&key) {
            return false;
        }
        self.seen[self.lookups] = key;
        self.lookups += 1;
        true
    }
}

/// Until when each warp of a core waits.
#[derive(Default)]
pub(crate) struct Waiting {
    warps: Vec<Until>,
    acting: usize,
    /// What of its walks is under way.
    pub flights: Flights,
}

/// Until when a warp waits, and for which page.
#[derive(Clone, Copy, Default)]
struct Until {
    cycle: u64,
    pid: Pid,
    va: VirtAddr,
}

impl Waiting {
    pub fn new(warps: u16) -> Self {
        Self { warps: vec![Until::default(); usize::from(warps)], ..Self::default() }
    }

    /// The acting warp has what it wants at `va` at `cycle`.
    #[inline]
    pub fn until(&mut self, cycle: u64, pid: Pid, va: VirtAddr) {
        let warp = &mut self.warps[self.acting];
        if cycle > warp.cycle {
            *warp = Until { cycle, pid, va };
        }
    }

    /// When the last warp goes on.
    pub fn last(&self) -> u64 {
        self.warps.iter().map(|warp| warp.cycle).max().unwrap_or(0)
    }
}

/// Which core a warp is on.
#[derive(Clone, Copy)]
pub(crate) struct Dealt {
    /// Warps of a core, as the trace numbers them.
    warps: u32,
    cores: u32,
    /// Whether the trace says so. The threads of any other are warps as they come.
    told: bool,
}

impl Dealt {
    pub fn new(gpu: &GpuDesc, cores: u16) -> Self {
        Self { warps: gpu.warps.into(), cores: cores.into(), told: false }
    }

    /// The core that a warp is on, and its place there; an error if a trace of warps has more cores than there are.
    #[inline]
    pub fn place(self, tid: Tid) -> Result<(u16, usize), Ended> {
        let (core, warp) = (tid.0 / self.warps, tid.0 % self.warps);
        if core < self.cores {
            return Ok((core as u16, warp as usize));
        }
        if self.told { Err(self.beyond(core)) } else { Ok(((core % self.cores) as u16, warp as usize)) }
    }

    #[cold]
    fn beyond(self, core: u32) -> Ended {
        let (warps, cores, wanted) = (u64::from(self.warps), u64::from(self.cores), u64::from(core) + 1);
        let (all, asked) = (cores * warps, wanted * warps);
        Ended::NoPlace(format!(
            "a warp of core {core} acts, and this machine has {cores} cores: {cores} x {warps} = {all} warps, and the trace is of \
             {wanted} x {warps} = {asked} or more; deal it out anew (cores={cores} in the name of a generator's or an Accel-Sim \
             trace), or give more cores (--set core.count={wanted})"
        ))
    }
}

impl Machine {
    /// Takes a trace: where that says how many warps its cores have, they are on cores as it says.
    ///
    /// # Errors
    /// More than this machine's cores have.
    pub fn take(&mut self, info: &TraceInfo) -> Result<(), MachineError> {
        if let Some(checker) = &mut self.checker {
            checker.take(info)?;
        }
        if let Some(timed) = &mut self.timed {
            timed.read(info);
        }
        let (Some(dealt), Some(warps)) = (&mut self.dealt, info.warps) else { return Ok(()) };
        if u32::from(warps) > dealt.warps {
            let (machine, has) = (self.desc.machine.name.clone(), dealt.warps);
            return Err(MachineError::Warps { machine, has, warps });
        }
        *dealt = Dealt { warps: warps.into(), told: true, ..*dealt };
        Ok(())
    }

    /// Another warp acts, on the core that is now the acting one.
    pub(crate) fn take_up(&mut self, warp: usize) {
        if let Some(waiting) = &mut self.core().waiting {
            waiting.acting = warp;
        }
    }

    /// A warp acts next: has the host fetch what that begins with. All cores' TLBs and walks are more than its nearest
    /// caches hold, and by the time that a core's turn comes they have gone from there.
    #[inline]
    pub(crate) fn foresee_warp(&self, tid: Tid) {
        let Some(Ok((cpu, warp))) = self.dealt.map(|dealt| dealt.place(tid)) else { return };
        if let Some(waiting) = &self.cores[usize::from(cpu)].waiting {
            prefetch(&waiting.warps, warp);
            waiting.flights.foresee();
        }
    }

    /// No lane of the instruction is left.
    #[inline]
    pub(crate) fn close_lanes(&mut self) {
        let Some(lanes) = &mut self.lanes else { return };
        let more = lanes.close();
        if more != 0 {
            let core = self.core();
            let now = core.clock.now(core.instructions);
            core.clock.wait(now, now + more, false);
        }
    }

    /// The acting warp begins an instruction: its core stands still until the last one has what it wanted. What walks
    /// have brought meanwhile is there.
    #[inline]
    fn begin<W: Watch>(&mut self, watch: &mut W) {
        let core = &mut self.cores[usize::from(self.who.cpu)];
        let Some(waiting) = &core.waiting else { return };
        let until = waiting.warps[waiting.acting];
        let mut now = core.clock.now(core.instructions);
        let next = waiting.flights.next();
        if until.cycle > now {
            let stall = core.clock.wait(now, until.cycle, false);
            now += stall;
            self.counts.walk_stalls += stall;
            self.charge(until.pid, until.va, Cost { stall_cycles: stall, ..Cost::default() });
        }
        if next <= now {
            self.land(now, watch);
        }
    }

    /// What a warp does up to the next control word.
    pub(crate) fn warp<W: Watch>(&mut self, batch: &Batch, from: usize, watch: &mut W) -> Result<usize, Ended> {
        let through_caches = self.desc.machine.cache_rules.data;
        let cpu = usize::from(self.who.cpu);
        let mut at = from;
        while let Some(&word) = batch.refs.get(at)
            && !word.is_control()
        {
            let va = word.va();
            at += 1;
            if word.is_fetch() {
                self.close_lanes();
                let core = &mut self.cores[cpu];
                core.instructions += u64::from(word.instructions());
                core.tlbs.code = va;
                self.begin(watch);
                continue;
            }
            let write = word.is_write();
            if self.lanes.as_ref().is_some_and(|lanes| lanes.is_another(write)) {
                self.close_lanes();
            }
            if self.lanes.as_ref().is_some_and(|lanes| lanes.is_closed()) {
                self.begin(watch);
            }
            if !self.lanes.as_mut().is_some_and(|lanes| lanes.add(va, write)) {
                continue;
            }
            self.next += 1;
            self.counts.writes += u64::from(write);
            let access = if write { Access::Write } else { Access::Read };
            let asid = self.asid(cpu);
            let outcome = self.cores[cpu].tlbs.access(asid, va, access, watch);
            if W::ACTIVE || through_caches || !matches!(outcome, Outcome::L1 { .. }) {
                self.beyond(va, access, outcome, watch)?;
            }
        }
        Ok(at)
    }
}

impl Core {
    /// Waits for something at `what` that takes until `end`, as [`Clock::wait`](crate::clock::Clock::wait) has it; a
    /// core that runs warps goes on with another one.
    #[inline]
    pub(crate) fn wait(&mut self, now: u64, end: u64, hidden: bool, (pid, va): (Pid, VirtAddr)) -> u64 {
        match &mut self.waiting {
            None => self.clock.wait(now, end, hidden),
            Some(waiting) => {
                waiting.until(end, pid, va);
                0
            }
        }
    }

    /// What is one for all cores goes to the one that acts next.
    pub(crate) fn hand_over(&mut self, to: &mut Self, walker_is_shared: bool) {
        self.tlbs.hand_over(&mut to.tlbs);
        if walker_is_shared {
            std::mem::swap(&mut self.walker, &mut to.walker);
            std::mem::swap(&mut self.slots, &mut to.slots);
        }
    }

    /// When it has done all it had to.
    pub(crate) fn finished(&self) -> u64 {
        self.clock.now(self.instructions).max(self.waiting.as_ref().map_or(0, Waiting::last))
    }
}
