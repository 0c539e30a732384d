//! The result of a run as JSON: everything counted, what it costs by the model, and what that rests on.

use super::{
    edges::{EdgeReports, edges},
    host::{self, HostReport},
    latency::{LatencyReport, latency},
    level::LevelReport,
    members::{MemberReport, members},
    memory::{MemoryReport, memory},
    model::{self, Events, Model},
    perf::{PerfInput, PerfReport, perf},
    places::{Places, places},
    regions::{Halves, ProgramReport, RegionReport, halves, programs, regions},
};
use crate::{
    count::{Cost, Counted, KernelCycles, Place, ShootdownCounts, Tally, TimingReport, WarpCounts},
    describe::{Assumption, Resolved},
    ended::{Ended, EndedReport},
    machine::Machine,
    touched::Touched,
};
use mmulab_energy::EnergyReport;
use mmulab_kernel::{CodeWindow, KernelCounts};
use mmulab_tlb::{ArrayCounts, ArrayDesc, HierarchyCounts, Reloads, SideCounts};
use mmulab_trace::TraceInfo;
use mmulab_walker::{LevelCounts, SideWalks, WalkCounts};
use schemars::{JsonSchema, Schema, generate::SchemaSettings};
use serde::Serialize;
use std::{collections::BTreeMap, sync::Arc};
use thiserror::Error;

/// The version of the result's layout.
const SCHEMA: u32 = 4;

/// An identity that every run must satisfy does not hold: a defect of the simulator.
#[derive(Debug, Error)]
#[error("the figures do not add up ({0}): please report this with the trace and the description")]
pub struct ReportError(String);

/// The result of one machine's run.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(title = "A result of mmulab")]
pub struct Report {
    /// Version of this layout; it grows when a key changes its meaning.
    schema: u32,
    /// The version of mmulab.
    version: &'static str,
    /// The trace that was run.
    trace: TraceInfo,
    #[serde(flatten)]
    resolved: Arc<Resolved>,
    /// Whether all that was asked for was run.
    complete: bool,
    /// Why the run ended.
    ended: EndedReport,
    /// What was run before counts began, if they did not begin at once: the state of a trace that was cut, and what
    /// --skip left out. Nothing is counted of it; what memory is used for, and peaks, are of the whole run.
    #[serde(skip_serializing_if = "Option::is_none")]
    uncounted: Option<Uncounted>,
    /// The counts.
    counts: AllCounts,
    /// Misses, walks and faults per 1000 instructions.
    per_kilo_instruction: BTreeMap<&'static str, f64>,
    /// Its cost, by the model.
    model: Model,
    /// With --timing: where the cycles of cores in time went.
    #[serde(skip_serializing_if = "Option::is_none")]
    timing: Option<TimingReport>,
    /// The energy that translation took, by the model.
    energy: EnergyReport,
    /// The machine's own performance counters, as they would read, if its description names them.
    #[serde(skip_serializing_if = "Option::is_none")]
    perf: Option<PerfReport>,
    /// Where the trace is a mix: each of its members.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    members: Vec<MemberReport>,
    /// The programs that were run.
    programs: Vec<ProgramReport>,
    /// Cost and contents of each region of the programs' memory.
    regions: Vec<RegionReport>,
    /// Where the trace shows the kernel's half of address spaces: what translation cost in user space, and there.
    #[serde(skip_serializing_if = "Option::is_none")]
    halves: Option<Halves>,
    /// With --fault-latency: how long page faults took, by kind and by the size that they mapped.
    #[serde(skip_serializing_if = "Option::is_none")]
    fault_latency: Option<Vec<LatencyReport>>,
    /// With --code-residency: which clusters of 64 KiB of each 2 MiB of code are in memory at the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    code_residency: Option<Vec<CodeWindow>>,
    /// With --code-residency: the kernel's cycles by what it worked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    kernel_cycles_by: Option<KernelCycles>,
    /// With --profile: costs by the 2 MiB of memory that references were to.
    heat: Places,
    /// With --profile: costs by the block of code that was running.
    code: Places,
    /// With --profile: misses of the first level for instructions, by the jump that met them.
    #[serde(skip_serializing_if = "Option::is_none")]
    edges: Option<EdgeReports>,
    /// Which keys are exact for the machine described, and which are modelled.
    exactness: Exactness,
}

/// Part of the trace that was run and not counted.
#[derive(Debug, Serialize, JsonSchema)]
struct Uncounted {
    /// Instructions. Those before the cut that a trace begins with were not run, and are not among them.
    instructions: u64,
    /// References; one for each use of a page before such a cut, too.
    references: u64,
}

/// The counts.
#[derive(Debug, Serialize, JsonSchema)]
struct AllCounts {
    /// Instructions retired.
    instructions: u64,
    /// Fetches, reads and writes.
    references: u64,
    /// Executions of a translation block, one for each page that it touches.
    fetches: u64,
    /// Loads, one for each page touched.
    reads: u64,
    /// Stores, one for each page touched.
    writes: u64,
    /// Lookups by level and side: l1i, l1d, l2i, l2d.
    tlb: BTreeMap<&'static str, SideCounts>,
    /// Entries that the misses of l1i and l1d brought into the first level.
    reloads: BTreeMap<&'static str, Reloads>,
    /// Each TLB array.
    arrays: Vec<ArrayCounts>,
    /// Page walks.
    walks: Walks,
    /// References to memory that no mapping holds (unmapped), or against its rights (forbidden).
    segfaults: BTreeMap<&'static str, u64>,
    /// Changes of address space that a core's TLBs or walker noticed.
    space_switches: u64,
    /// On shader cores: what warps did.
    #[serde(skip_serializing_if = "Option::is_none")]
    warps: Option<WarpCounts>,
    /// Where the machine says how: what flushes took to reach the TLBs of all CPUs.
    #[serde(skip_serializing_if = "Option::is_none")]
    shootdowns: Option<ShootdownCounts>,
    /// Counts of the kernel.
    kernel: KernelCounts,
    /// Use of memory at the end of the run.
    memory: MemoryReport,
    /// In virtual machines: the host.
    #[serde(rename = "virtual", skip_serializing_if = "Option::is_none")]
    host: Option<HostReport>,
}

/// Page walks.
#[derive(Debug, Serialize, JsonSchema)]
struct Walks {
    /// Walks for fetches.
    instruction: SideWalks,
    /// Walks for loads and stores.
    data: SideWalks,
    /// Walks made again after the kernel served a fault.
    replays: u64,
    /// Walks that only set a dirty bit.
    dirty_updates: u64,
    /// Walks made because the rights of a TLB entry did not allow the access.
    denied_rechecks: u64,
    /// By level of the table, 1 is the last.
    levels: Vec<LevelReport>,
    /// Of the host's table, where walks have two dimensions.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    host_levels: Vec<LevelReport>,
}

/// How far figures can be relied on.
#[derive(Debug, Serialize, JsonSchema)]
struct Exactness {
    /// Exact for the machine described.
    counted: &'static [&'static str],
    /// Modelled.
    modelled: &'static [&'static str],
}

/// The result of `machine` after a trace that ended as `trace_ended`.
///
/// # Errors
/// An identity between the counts that does not hold.
pub fn report(
    machine: &mut Machine,
    info: &TraceInfo,
    trace_ended: &Ended,
    touched: Option<&Touched>,
) -> Result<Report, ReportError> {
    let counted = machine.close(info);
    let machine = &*machine;
    let walks = host::all_walks(&counted).map_err(ReportError)?;
    check(machine, &counted, &walks)?;
    let Counted { own, tlb, timing, warps, systems, .. } = &counted;
    let host_walks = counted.host.as_ref().map(|below| &below.walks);
    let events = events(machine, &counted);
    let servers = machine.state().hardware.caches.names();
    let kernel = systems.get(&0).cloned().unwrap_or_default();

    let ended = machine.ended().unwrap_or(trace_ended);
    let (fetches, data) = (tlb.l1i.accesses, tlb.l1d.accesses);
    let desc = &machine.desc().machine;
    let served = |l: &LevelCounts| LevelReport {
        level: l.level,
        from_walk_cache: l.from_walk_cache,
        reads: l.reads,
        served_by: servers
            .iter()
            .cloned()
            .zip(l.served_by.iter().copied())
            .enumerate()
            .filter(|(by, _)| !desc.cache.get(*by).is_some_and(|cache| cache.code))
            .map(|(_, served)| served)
            .collect(),
    };
    let model = model::model(&events, machine.desc());
    let seen = PerfInput {
        instructions: events.instructions,
        tlb,
        walks: &walks,
        model: &model,
        fetch_waits: own.fetch_waits,
    };
    let perf = perf(&machine.desc().machine.perf, &seen);
    let energy = mmulab_energy::report(&mmulab_energy::Run {
        tlb: &desc.tlb,
        asid_bits: desc.tlb_rules.asid_bits,
        walker: &desc.walker,
        caches: &desc.cache,
        known: &desc.energy,
        arrays: &tlb.arrays,
        walks: &walks,
        host_walks: host_walks.unwrap_or(&WalkCounts::default()),
        dirty_updates: own.dirty_updates,
        seconds: model.seconds,
        cores: desc.core.count,
        threads: desc.core.threads,
    });
    let programs_run_on = &machine.state().system;
    let per_kilo = |n: u64| n as f64 * 1000.0 / events.instructions.max(1) as f64;
    Ok(Report {
        schema: SCHEMA,
        version: env!("CARGO_PKG_VERSION"),
        trace: info.clone(),
        complete: ended.is_complete(),
        uncounted: machine
            .state()
            .account
            .uncounted
            .as_ref()
            .map(|before| Uncounted { instructions: before.instructions, references: before.references() }),
        ended: ended.report(),
        per_kilo_instruction: BTreeMap::from([
            ("l1i_misses", per_kilo(tlb.l1i.misses)),
            ("l1d_misses", per_kilo(tlb.l1d.misses)),
            ("l2i_misses", per_kilo(tlb.l2i.misses)),
            ("l2d_misses", per_kilo(tlb.l2d.misses)),
            ("walks", per_kilo(walks.instruction.walks + walks.data.walks)),
            ("faults", per_kilo(kernel.kernel.faults.total())),
        ]),
        counts: AllCounts {
            instructions: events.instructions,
            references: fetches + data,
            fetches,
            reads: data - own.writes,
            writes: own.writes,
            tlb: BTreeMap::from([("l1i", tlb.l1i), ("l1d", tlb.l1d), ("l2i", tlb.l2i), ("l2d", tlb.l2d)]),
            reloads: BTreeMap::from([("l1i", tlb.reloads_i.clone()), ("l1d", tlb.reloads_d.clone())]),
            arrays: tlb.arrays.clone(),
            walks: Walks {
                instruction: walks.instruction,
                data: walks.data,
                replays: own.replays,
                dirty_updates: own.dirty_updates,
                denied_rechecks: own.denied_rechecks,
                levels: walks.levels.iter().map(served).collect(),
                host_levels: host_walks.iter().flat_map(|walks| &walks.levels).map(served).collect(),
            },
            segfaults: BTreeMap::from([("unmapped", own.unmapped), ("forbidden", own.forbidden)]),
            space_switches: own.space_switches,
            warps: *warps,
            shootdowns: counted.shootdowns,
            memory: memory(machine, &kernel.tables, touched),
            kernel: kernel.kernel,
            host: host::report(machine, &counted),
        },
        model,
        timing: timing.clone(),
        energy,
        perf,
        members: members(machine, info),
        programs: programs(machine),
        regions: regions(machine),
        halves: halves(machine),
        fault_latency: machine
            .state()
            .account
            .latency
            .as_ref()
            .map(|found| latency(found, machine.desc().machine.core.frequency_mhz)),
        code_residency: machine
            .desc()
            .options
            .code_residency
            .then(|| machine.systems().flat_map(|(_, system)| system.kernel.code_residency(&system.mem)).collect()),
        kernel_cycles_by: machine.desc().options.code_residency.then_some(counted.causes),
        heat: places(&programs_run_on.kernel, &programs_run_on.tally.heat()),
        code: places(&programs_run_on.kernel, &programs_run_on.tally.code()),
        edges: programs_run_on.tally.edges().map(|found| edges(&programs_run_on.kernel, &found)),
        exactness: Exactness {
            counted: &[
                "counts",
                "per_kilo_instruction",
                "regions (all but stall_cycles)",
                "heat",
                "code",
                "perf (events not modelled)",
            ],
            modelled: &["model", "energy", "stall_cycles", "counts.kernel.work as cycles", "perf (events modelled)"],
        },
        resolved: Arc::clone(machine.desc()),
    })
}

/// Parts of the model's cycles.
fn events(machine: &Machine, counted: &Counted) -> Events {
    let Counted { own, tlb, timing, warps, .. } = counted;
    let mut events = Events {
        instructions: counted.instructions,
        base_cycles: counted.base_cycles,
        l2_hit_stalls: own.l2_hit_stalls,
        l2_hit_cycles: own.l2_hit_cycles,
        l1_probe_stalls: probe_stalls(tlb, &machine.desc().machine.tlb) + warps.map_or(0, |warps| warps.port_stalls),
        walk_stalls: own.walk_stalls,
        walk_pending: counted.walk_pending,
        walk_queued: counted.walk_queued,
        finished: counted.finished,
        walk_active: counted.walk_active,
        in_time: timing.is_some(),
        kernel_cycles: own.kernel_cycles,
        host_cycles: counted.host.as_ref().map(|below| below.counts.cycles),
    };
    if let Some(timing) = timing {
        let stack = &timing.stack;
        (events.l2_hit_stalls, events.walk_stalls) = (stack.at_second_level(), stack.at_walks());
        events.base_cycles = timing.cycles - events.l2_hit_stalls - events.walk_stalls;
    }
    events
}

/// The JSON schema of a result.
pub fn schema() -> Schema {
    SchemaSettings::draft2020_12().for_serialize().into_generator().into_root_schema_for::<Report>()
}

impl Report {
    /// Assumptions of the description.
    pub fn assumptions(&self) -> &[Assumption] {
        &self.resolved.assumptions
    }

    /// Instructions that were counted.
    pub fn instructions(&self) -> u64 {
        self.counts.instructions
    }

    /// Whether the whole trace was run.
    pub fn is_complete(&self) -> bool {
        self.complete
    }
}

/// Cycles that first levels searched size by size cost beyond their first probes.
fn probe_stalls(tlb: &HierarchyCounts, desc: &[ArrayDesc]) -> u64 {
    let further = |a: &ArrayCounts| a.probes.map_or(0, |probes| probes - a.accesses);
    tlb.arrays.iter().zip(desc).map(|(a, d)| further(a) * u64::from(d.probe_cycles)).sum()
}

/// Every identity that must hold between the counts of the rooms.
fn check(machine: &Machine, counted: &Counted, walks: &WalkCounts) -> Result<(), ReportError> {
    let Counted { own, tlb, .. } = counted;
    tlb.check().map_err(ReportError)?;
    let same = |what: &str, a: u64, b: u64| {
        if a == b { Ok(()) } else { Err(ReportError(format!("{what}: {a} and {b}"))) }
    };
    let begun = walks.instruction.walks + walks.data.walks;
    let joined = counted.warps.map_or(0, |warps| warps.joined);
    let reasons = tlb.l2i.misses + tlb.l2d.misses + own.replays + own.dirty_updates + own.denied_rechecks;
    same("walks, and second-level misses with replays, dirty updates and rechecks", begun + joined, reasons)?;
    // What a miss may end in without a translation: a reference to what is not there, one against its rights, or the
    // end.
    let walked = [&tlb.reloads_i, &tlb.reloads_d].map(|r| r.l2_misses.values().sum::<u64>());
    let left = (tlb.l2i.misses + tlb.l2d.misses) - walked.iter().sum::<u64>();
    let most = own.unmapped + own.forbidden + u64::from(machine.ended().is_some());
    if left > most {
        return Err(ReportError(format!(
            "second-level misses that ended in no translation: {left}, of at most {most}"
        )));
    }
    let mut total = Cost::default();
    machine.systems().for_each(|(_, system)| total.add(&system.tally.total()));
    same("first-level instruction misses, and their sum over regions", tlb.l1i.misses, total.l1i_misses)?;
    same("first-level data misses, and their sum over regions", tlb.l1d.misses, total.l1d_misses)?;
    same("walks, and their sum over regions", begun, total.walks)?;
    same("walk reads, and their sum over regions", walks.instruction.accesses + walks.data.accesses, total.walk_reads)?;
    same("walk cycles, and their sum over regions", walks.instruction.cycles + walks.data.cycles, total.walk_cycles)?;
    let stalls = match &counted.timing {
        Some(timing) => {
            same("cycles, and the sum of what they went to", timing.cycles, timing.stack.total())?;
            timing.stack.at_second_level() + timing.stack.at_walks()
        }
        None => own.walk_stalls + own.l2_hit_stalls,
    };
    same("stall cycles, and their sum over regions", stalls, total.stall_cycles)?;
    for (_, system) in machine.systems() {
        let kernel = &system.kernel;
        let held: u64 = kernel.regions().iter().map(|region| kernel.resident(region.id).now).sum();
        same("resident bytes, and their sum over regions", kernel.resident_bytes(), held)?;
    }
    if machine.desc().options.profile {
        let of = |pick: fn(&Tally) -> Vec<Place>| machine.systems().flat_map(move |(_, s)| pick(&s.tally)).collect();
        let both: [(_, Vec<Place>); 2] = [("code", of(Tally::code)), ("memory", of(Tally::heat))];
        for (what, places) in both {
            let mut sum = Cost::default();
            places.iter().for_each(|place| sum.add(&place.cost));
            if sum != total {
                return Err(ReportError(format!("the sum over {what} and over regions: {sum:?} and {total:?}")));
            }
        }
    }
    Ok(())
}
