//! What memory went to, and how broken up the free memory was.

use crate::{Machine, Touched, host::System};
use mmulab_addr::{BASE_BYTES, show_bytes};
use mmulab_frames::{Fragment, MemoryDesc};
use mmulab_kernel::{Kernel, Usage};
use serde::Serialize;

#[derive(Debug, Serialize)]
pub(super) struct MemoryReport {
    #[serde(flatten)]
    usage: Usage,
    #[serde(flatten)]
    unused: Option<Unused>,
    fragmentation: Fragmentation,
}

/// What was resident and never touched, by what brought it there. Only where touched pages were tracked.
#[derive(Debug, Serialize)]
struct Unused {
    /// Private pages that were touched, at the peak, and pages of files.
    touched_bytes: u64,
    /// Private memory at its peak beyond what was touched of it: what the page sizes of the policy cost.
    bloat_bytes: u64,
    /// Pages of files in the page cache at their peak beyond those touched: what reading ahead and around brought.
    read_around_bytes: u64,
}

/// How much of the free memory blocks of each order cannot use.
#[derive(Debug, Serialize)]
struct Fragmentation {
    target: Option<Target>,
    orders: Vec<OrderReport>,
}

/// What the machine's description asked for.
#[derive(Debug, Serialize)]
struct Target {
    order: u8,
    fmfi: f64,
}

#[derive(Debug, Serialize)]
struct OrderReport {
    order: u8,
    block: String,
    fmfi_at_start: f64,
    fmfi_at_end: f64,
}

/// The index of every order, from 0 on.
pub(crate) fn fmfi(kernel: &Kernel) -> Vec<f64> {
    let frames = kernel.frames();
    (0..=frames.max_order()).map(|order| frames.fmfi(order)).collect()
}

/// What memory went to that `system` hands out, as `desc` describes it.
pub(super) fn usage(system: &System, desc: &MemoryDesc) -> MemoryReport {
    MemoryReport { usage: system.kernel.usage(&system.mem), unused: None, fragmentation: fragmentation(system, desc) }
}

/// The same of the programs' system, and what of it they never touched.
pub(super) fn memory(machine: &Machine, touched: Option<&Touched>) -> MemoryReport {
    let m = &machine.desc.machine;
    let mut report = usage(&machine.system, m.guest.as_ref().map_or(&m.memory, |guest| &guest.memory));
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
    let pairs = system.fmfi_at_start.iter().zip(fmfi(&system.kernel));
    let orders = pairs.enumerate().map(|(order, (&fmfi_at_start, fmfi_at_end))| OrderReport {
        order: order as u8,
        block: show_bytes(BASE_BYTES << order),
        fmfi_at_start,
        fmfi_at_end,
    });
    Fragmentation { target, orders: orders.collect() }
}
