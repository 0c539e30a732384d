//! Cost and contents of each region of a program's memory, and the programs that have regions.

use crate::{count::Cost, machine::Machine, system::System};
use mmulab_addr::Pid;
use mmulab_kernel::{Region, Resident};
use schemars::JsonSchema;
use serde::Serialize;
use std::sync::Arc;

/// A region of memory: its kind, its resident pages and its cost.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct RegionReport {
    /// The virtual machine, where there are several.
    #[serde(skip_serializing_if = "Option::is_none")]
    vm: Option<usize>,
    /// The region.
    #[serde(flatten)]
    region: Region,
    /// Bytes resident for it.
    resident: Resident,
    /// Cost of translation there.
    #[serde(flatten)]
    cost: Cost,
}

/// Costs by whose memory references were to: paper 2 counts user space and the kernel apart.
#[derive(Debug, Default, Serialize, JsonSchema)]
pub(super) struct Halves {
    /// Of programs.
    user: Cost,
    /// Of the kernel: of mappings under global entries.
    kernel: Cost,
}

/// A program that was run.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct ProgramReport {
    /// The virtual machine, where there are several.
    #[serde(skip_serializing_if = "Option::is_none")]
    vm: Option<usize>,
    /// The path of its exec.
    path: Arc<str>,
    /// The first process that ran it.
    pid: Pid,
    /// How many did, forked children among them.
    processes: u64,
}

pub(super) fn regions(machine: &Machine) -> Vec<RegionReport> {
    let several = machine.systems().count() > 1;
    let of = |(vm, system): (usize, &System)| -> Vec<RegionReport> {
        let vm = several.then_some(vm);
        let report = |r: &Region| RegionReport {
            vm,
            cost: system.tally.region(r.id),
            resident: system.kernel.resident(r.id),
            region: r.clone(),
        };
        system.kernel.regions().into_iter().map(report).collect()
    };
    machine.systems().flat_map(of).collect()
}

/// The costs of both halves, if the trace shows the kernel's.
pub(super) fn halves(machine: &Machine) -> Option<Halves> {
    let mut halves = Halves::default();
    let mut has_kernel = false;
    for (_, system) in machine.systems() {
        for region in system.kernel.regions() {
            has_kernel |= region.is_kernel;
            let half = if region.is_kernel { &mut halves.kernel } else { &mut halves.user };
            half.add(&system.tally.region(region.id));
        }
    }
    has_kernel.then_some(halves)
}

pub(super) fn programs(machine: &Machine) -> Vec<ProgramReport> {
    let several = machine.systems().count() > 1;
    let of = |(vm, system): (usize, &System)| -> Vec<ProgramReport> {
        let programs = system.kernel.programs().map(|program| ProgramReport {
            vm: several.then_some(vm),
            path: Arc::clone(&program.path),
            pid: program.pid,
            processes: program.processes,
        });
        programs.collect()
    };
    machine.systems().flat_map(of).collect()
}
