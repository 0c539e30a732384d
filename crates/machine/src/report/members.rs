//! Shares of a run, for each of several programs of a mix.

use crate::{count::Cost, machine::Machine};
use mmulab_addr::Pid;
use mmulab_trace::{Member, TraceInfo};
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;

/// A mix member's share of the run.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct MemberReport {
    /// Its name.
    name: String,
    /// Its trace.
    trace: String,
    /// Its virtual machine, if it has one of its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    vm: Option<u32>,
    /// Its instructions.
    instructions: u64,
    /// Its references.
    references: u64,
    /// Cost of translation in its regions.
    #[serde(flatten)]
    cost: Cost,
    /// Bytes mapped at the end, by page size.
    mapped: BTreeMap<String, u64>,
    /// Its modelled cycles.
    cycles: MemberCycles,
}

/// Modelled cycles of a member.
#[derive(Debug, Serialize, JsonSchema)]
struct MemberCycles {
    /// Instructions at the base CPI; of cores in time, all cycles but those of translation.
    base: u64,
    /// Stalls for translation.
    translation: u64,
    /// Kernel work while it acted.
    kernel: u64,
    /// The host below it.
    #[serde(skip_serializing_if = "Option::is_none")]
    host: Option<u64>,
    /// All of it.
    total: u64,
}

pub(super) fn members(machine: &Machine, info: &TraceInfo) -> Vec<MemberReport> {
    info.mix.iter().flat_map(|mix| &mix.members).map(|member| of(machine, member)).collect()
}

fn of(machine: &Machine, member: &Member) -> MemberReport {
    let is_its = |vm: usize, pid: Pid| {
        member.vm.is_none_or(|its| its as usize == vm) && (member.pids[0]..=member.pids[1]).contains(&pid.0)
    };
    let had = machine.state().account.processes.sum(is_its);
    let mut cost = Cost::default();
    let mut mapped = BTreeMap::new();
    for (vm, system) in machine.systems() {
        for region in system.kernel.regions().into_iter().filter(|region| is_its(vm, region.pid)) {
            cost.add(&system.tally.region(region.id));
            for (order, now, _) in region.mapped.iter() {
                *mapped.entry(order.to_string()).or_insert(0) += now;
            }
        }
    }
    // A core in time has a clock of its own, which the stalls are part of.
    let desc = machine.desc();
    let base = match desc.options.timing {
        true => had.cycles.saturating_sub(cost.stall_cycles),
        false => (had.instructions as f64 * desc.machine.core.base_cpi) as u64,
    };
    let (kernel, host) = (had.kernel_cycles as u64, had.below_cycles as u64);
    MemberReport {
        name: member.name.clone(),
        trace: member.trace.clone(),
        vm: member.vm,
        instructions: had.instructions,
        references: had.references,
        cost,
        mapped,
        cycles: MemberCycles {
            base,
            translation: cost.stall_cycles,
            kernel,
            host: machine.host().is_some().then_some(host),
            total: base + cost.stall_cycles + kernel + host,
        },
    }
}
