//! Use of memory, and fragmentation of free memory.

use crate::{machine::Machine, system::System, touched::Touched};
use mmulab_addr::{BASE_BYTES, show_bytes};
use mmulab_frames::{Fragment, MemoryDesc};
use mmulab_kernel::{TableCounts, Usage};
use schemars::JsonSchema;
use serde::Serialize;

/// Use of memory at the end of the run.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct MemoryReport {
    /// Its use.
    #[serde(flatten)]
    usage: Usage,
    /// Memory that was resident and never touched.
    #[serde(flatten)]
    unused: Option<Unused>,
    /// How broken up the free memory is.
    fragmentation: Fragmentation,
}

/// Memory that was resident and never touched, by cause. Only where touched pages were tracked.
#[derive(Debug, Serialize, JsonSchema)]
struct Unused {
    /// Private pages that were touched, at the peak, and pages of files.
    touched_bytes: u64,
    /// Private memory at its peak beyond what was touched of it: what the page sizes of the policy cost.
    bloat_bytes: u64,
    /// Pages of files in the page cache at their peak beyond those touched: what reading ahead and around brought.
    read_around_bytes: u64,
}

/// How much of the free memory blocks of each order cannot use.
#[derive(Debug, Serialize, JsonSchema)]
struct Fragmentation {
    /// The value that the description asks for.
    target: Option<Target>,
    /// Each order.
    orders: Vec<OrderReport>,
}

/// Values that the machine's description asked for.
#[derive(Debug, Serialize, JsonSchema)]
struct Target {
    /// The order.
    order: u8,
    /// The index of free memory fragmentation (FMFI).
    fmfi: f64,
}

/// FMFI of an order.
#[derive(Debug, Serialize, JsonSchema)]
struct OrderReport {
    /// The order: blocks of 2^order base pages.
    order: u8,
    /// The size of a block.
    block: String,
    /// FMFI before the program ran.
    fmfi_at_start: f64,
    /// FMFI at the end.
    fmfi_at_end: f64,
}

/// What memory went to that `system` hands out, as `desc` describes it. Of tables, what is counted.
pub(super) fn usage(system: &System, desc: &MemoryDesc, tables: &TableCounts) -> MemoryReport {
    let mut usage = system.kernel.usage(&system.mem);
    usage.tables.counts.clone_from(tables);
    MemoryReport { usage, unused: None, fragmentation: fragmentation(system, desc) }
}

/// The same of the programs' system, and what of it they never touched.
pub(super) fn memory(machine: &Machine, tables: &TableCounts, touched: Option<&Touched>) -> MemoryReport {
    let m = &machine.desc().machine;
    let mut report = usage(&machine.state().system, m.guest.as_ref().map_or(&m.memory, |guest| &guest.memory), tables);
    report.unused = touched.map(|t| {
        let (private, files) = (t.private_bytes_peak(), t.file_bytes());
        Unused {
            touched_bytes: private + files,
            bloat_bytes: report.usage.private_bytes_peak.saturating_sub(private),
            read_around_bytes: report.usage.file_bytes_peak.saturating_sub(files),
        }
    });
    report
}

fn fragmentation(system: &System, desc: &MemoryDesc) -> Fragmentation {
    let target = match &desc.fragment {
        Fragment::Fmfi { target, order, .. } => Some(Target { order: order.get(), fmfi: *target }),
        Fragment::None | Fragment::Memhog { .. } => None,
    };
    let pairs = system.fmfi_at_start.iter().zip(system.fmfi());
    let orders = pairs.enumerate().map(|(order, (&fmfi_at_start, fmfi_at_end))| OrderReport {
        order: order as u8,
        block: show_bytes(BASE_BYTES << order),
        fmfi_at_start,
        fmfi_at_end,
    });
    Fragmentation { target, orders: orders.collect() }
}
