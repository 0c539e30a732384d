//! What happened below virtual machines.

use super::{MemoryReport, ReportError, memory::usage};
use crate::{Machine, describe::Mode, host::HostCounts};
use mmulab_kernel::KernelCounts;
use mmulab_walker::{NestedTlbCounts, SideWalks, WalkCounts};
use schemars::JsonSchema;
use serde::Serialize;

/// The host below virtual machines.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct HostReport {
    /// How guest addresses are translated.
    mode: Mode,
    /// What the machine counted.
    #[serde(flatten)]
    counts: HostCounts,
    /// Walks of its table alone.
    walks: HostWalks,
    /// The nested TLB.
    #[serde(skip_serializing_if = "Option::is_none")]
    nested_tlb: Option<NestedTlbCounts>,
    /// What its kernel did.
    kernel: KernelCounts,
    /// What its memory is used for.
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
    /// What its kernel did.
    kernel: KernelCounts,
    /// What its memory is used for.
    memory: MemoryReport,
}

/// The host's walks. Their reads are added to those of the walks they were made for.
pub(super) fn walks(machine: &Machine, walks: &mut WalkCounts) -> Result<WalkCounts, ReportError> {
    walks.check().map_err(ReportError)?;
    let mut below = WalkCounts::default();
    let Some(host) = &machine.host else { return Ok(below) };
    let servers = machine.caches.names().len();
    let mut reads = [0; 2];
    for walker in host.walkers() {
        below.add(&walker.counts(servers, host.format.levels()));
        for (sum, more) in reads.iter_mut().zip(walker.reads_by_side()) {
            *sum += more;
        }
    }
    below.check().map_err(|e| ReportError(format!("the host: {e}")))?;
    let [instruction, data] = reads;
    let read = below.instruction.accesses + below.data.accesses;
    if instruction + data != read {
        return Err(ReportError(format!("entries of the host read, {read}, and for walks of both sides")));
    }
    walks.instruction.accesses += instruction;
    walks.data.accesses += data;
    Ok(below)
}

pub(super) fn report(machine: &Machine, walks: WalkCounts) -> Option<HostReport> {
    let (host, guest) = (machine.host.as_ref()?, machine.desc.machine.guest.as_ref()?);
    let mut nested_tlb: Option<NestedTlbCounts> = None;
    for counts in host.walkers().iter().filter_map(|w| w.tlb_counts()) {
        nested_tlb.get_or_insert_default().add(&counts);
    }
    let guests = if host.count() > 1 {
        let of = |(vm, system): (usize, &crate::host::System)| GuestReport {
            vm,
            kernel: system.kernel.counts().clone(),
            memory: usage(system, &guest.memory),
        };
        machine.systems().map(of).collect()
    } else {
        Vec::new()
    };
    Some(HostReport {
        mode: guest.mode,
        counts: host.counts,
        walks: HostWalks { instruction: walks.instruction, data: walks.data },
        nested_tlb,
        kernel: host.system.kernel.counts().clone(),
        memory: usage(&host.system, &machine.desc.machine.memory),
        guests,
    })
}
