//! Counts below virtual machines.

use super::memory::{MemoryReport, usage};
use crate::{
    count::{Counted, HostCounted, HostCounts, SystemCounts},
    describe::Mode,
    machine::Machine,
    system::System,
};
use mmulab_kernel::KernelCounts;
use mmulab_walker::{NestedTlbCounts, SideWalks, WalkCounts};
use schemars::JsonSchema;
use serde::Serialize;

/// The host below virtual machines.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct HostReport {
    /// How guest addresses are translated.
    mode: Mode,
    /// Counts of the machine.
    #[serde(flatten)]
    counts: HostCounts,
    /// Walks of its table alone.
    walks: HostWalks,
    /// The nested TLB.
    #[serde(skip_serializing_if = "Option::is_none")]
    nested_tlb: Option<NestedTlbCounts>,
    /// Counts of its kernel.
    kernel: KernelCounts,
    /// Use of its memory.
    memory: MemoryReport,
    /// Each guest's, where there are several.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    guests: Vec<GuestReport>,
}

/// Walks of the host's table alone: for addresses of the guest's tables (data), and of its pages.
#[derive(Debug, Serialize, JsonSchema)]
struct HostWalks {
    /// For fetches.
    instruction: SideWalks,
    /// For loads and stores.
    data: SideWalks,
}

/// One of several guests.
#[derive(Debug, Serialize, JsonSchema)]
struct GuestReport {
    /// The number of the virtual machine.
    vm: usize,
    /// Counts of its kernel.
    kernel: KernelCounts,
    /// Use of its memory.
    memory: MemoryReport,
}

/// All walks: those of the programs' tables, with the reads of the host's that were made for them.
pub(super) fn all_walks(counted: &Counted) -> Result<WalkCounts, String> {
    let mut walks = counted.walks.clone();
    walks.check()?;
    let Some(below) = &counted.host else { return Ok(walks) };
    below.walks.check().map_err(|e| format!("the host: {e}"))?;
    let [instruction, data] = below.reads;
    let read = below.walks.instruction.accesses + below.walks.data.accesses;
    if instruction + data != read {
        return Err(format!("entries of the host read, {read}, and for walks of both sides"));
    }
    walks.instruction.accesses += instruction;
    walks.data.accesses += data;
    Ok(walks)
}

pub(super) fn report(machine: &Machine, counted: &Counted) -> Option<HostReport> {
    let (host, guest) = (machine.host()?, machine.desc().machine.guest.as_ref()?);
    let HostCounted { counts, system, nested_tlb, walks, .. } = counted.host.as_ref()?;
    let guests = if host.count() > 1 {
        let of = |(vm, system): (usize, &System)| {
            let SystemCounts { kernel, tables } = counted.systems.get(&vm).cloned().unwrap_or_default();
            GuestReport { vm, kernel, memory: usage(system, &guest.memory, &tables) }
        };
        machine.systems().map(of).collect()
    } else {
        Vec::new()
    };
    Some(HostReport {
        mode: guest.mode,
        counts: *counts,
        walks: HostWalks { instruction: walks.instruction, data: walks.data },
        nested_tlb: *nested_tlb,
        kernel: system.kernel.clone(),
        memory: usage(&host.system, &machine.desc().machine.memory, &system.tables),
        guests,
    })
}
