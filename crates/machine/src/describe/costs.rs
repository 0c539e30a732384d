//! The `[costs]` table of a machine file: the price in cycles of each unit of kernel work. The simulated kernel
//! executes no instructions, so kernel time is the sum of units times prices.

use mmulab_frames::FrameCounts;
use mmulab_kernel::{Effects, WorkKind};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Cycles the kernel needs for one unit of each kind of its work. Kept apart from user time in every report.
///
/// The defaults are orders of magnitude for a core of about 3.5 GHz, not measurements of a particular machine. Each is
/// repeated as an assumption beside the results it enters.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct CostsDesc {
    /// Cycles of a system call entered and left.
    #[schemars(range(min = 0.0, max = 1e7))]
    pub syscall: f64,
    /// Cycles of a page fault entered and left, the VMA found.
    #[schemars(range(min = 0.0, max = 1e7))]
    pub fault_entry: f64,
    /// Cycles to zero a byte, at a fault or by a daemon ahead of it. A daemon that looks for zeros reads at this price.
    #[schemars(range(min = 0.0, max = 1000.0))]
    pub zero_bytes: f64,
    /// Cycles to copy a byte.
    #[schemars(range(min = 0.0, max = 1000.0))]
    pub copy_bytes: f64,
    /// Cycles to take or give back a base frame (per-CPU list).
    #[schemars(range(min = 0.0, max = 1e7))]
    pub base_frame: f64,
    /// Cycles to take or give back a larger block.
    #[schemars(range(min = 0.0, max = 1e7))]
    pub large_block: f64,
    /// Cycles to refill or relieve a per-CPU list of frames under the zone's lock, besides `base_frame` of each fault.
    /// Default 0: `base_frame` is then an average that contains it.
    #[serde(skip_serializing_if = "is_zero")]
    #[schemars(range(min = 0.0, max = 1e7))]
    pub list_refill: f64,
    /// Cycles of each step in the allocator's lists of blocks: a block split in two, two merged, or a part of a larger
    /// block given back. Default 0: `base_frame` and `large_block` are then averages that contain them.
    #[serde(skip_serializing_if = "is_zero")]
    #[schemars(range(min = 0.0, max = 1e7))]
    pub block_step: f64,
    /// Cycles to take or give back a page of the hugetlb pool.
    #[schemars(range(min = 0.0, max = 1e7))]
    pub pool_page: f64,
    /// Cycles to take or give back a page-table frame, its zeroing included.
    #[schemars(range(min = 0.0, max = 1e7))]
    pub table_frame: f64,
    /// Cycles to merge two levels of a page table into a node of 2 MiB, or to take it apart: its block, zeroing and
    /// copying included.
    #[schemars(range(min = 0.0, max = 1e7))]
    pub table_merge: f64,
    /// Cycles to move a line of a hashed page table to another place.
    #[schemars(range(min = 0.0, max = 1e7))]
    pub table_line: f64,
    /// Cycles of a daemon to look at a page-table entry and the page it maps.
    #[schemars(range(min = 0.0, max = 1e7))]
    pub entry_scan: f64,
    /// Cycles to write a page-table entry, with the bookkeeping of the page it maps.
    #[schemars(range(min = 0.0, max = 1e7))]
    pub entry_write: f64,
    /// Cycles to read a byte from storage into the page cache: the processor's part, not the waiting.
    #[schemars(range(min = 0.0, max = 1000.0))]
    pub read_bytes: f64,
    /// Cycles to invalidate one page's translation on the core that asks.
    #[schemars(range(min = 0.0, max = 1e7))]
    pub flush_page: f64,
    /// Cycles to invalidate a range.
    #[schemars(range(min = 0.0, max = 1e7))]
    pub flush_range: f64,
    /// Cycles to invalidate an address space.
    #[schemars(range(min = 0.0, max = 1e7))]
    pub flush_space: f64,
    /// Cycles to switch address spaces.
    #[schemars(range(min = 0.0, max = 1e7))]
    pub space_switch: f64,
    /// Cycles of a host with shadow tables to do what a guest wanted to write to its page table, besides the VM exit
    /// (`virtual.exit_cycles`).
    #[schemars(range(min = 0.0, max = 1e7))]
    pub guest_table_write: f64,
    /// Where the numbers come from.
    pub source: String,
    /// Keys of this table that no source states, each with the reason for the value.
    pub assumed: BTreeMap<String, String>,
}

impl Default for CostsDesc {
    fn default() -> Self {
        let why = [
            ("syscall", "about 100 ns: entry, mitigations and exit"),
            ("fault_entry", "about 300 ns: exception entry, VMA lookup and return"),
            ("zero_bytes", "8 bytes a cycle: near 28 GB/s at 3.5 GHz"),
            ("copy_bytes", "4 bytes a cycle: a load and a store for each byte zeroing stores"),
            ("base_frame", "about 30 ns through the per-CPU list"),
            ("large_block", "about 150 ns under the zone's lock"),
            ("pool_page", "as a larger block"),
            ("table_frame", "a base frame and 4 KiB zeroed"),
            (
                "table_merge",
                "20 us at 3.5 GHz (paper 5, section 5, measured a merge); taking a node apart is taken to cost the \
                 same",
            ),
            ("table_line", "about 60 ns: a line read where it is likely to be in memory, and written to another"),
            ("entry_scan", "about 10 ns: the entry and the page's description"),
            ("entry_write", "about 15 ns with the reverse map"),
            ("read_bytes", "2 bytes a cycle; waiting for storage is not modelled"),
            ("flush_page", "about 60 ns (INVLPG)"),
            ("flush_range", "as 33 pages, Linux's default ceiling before it flushes all (arch/x86/mm/tlb.c)"),
            ("flush_space", "about 150 ns (a write of CR3)"),
            ("space_switch", "about 150 ns (a write of CR3)"),
            (
                "guest_table_write",
                "about 600 ns: the store is decoded and done for the guest, and the shadow entry dropped; as long as \
                 leaving the guest is taken to be",
            ),
        ];
        Self {
            syscall: 350.0,
            fault_entry: 1000.0,
            zero_bytes: 1.0 / 8.0,
            copy_bytes: 1.0 / 4.0,
            base_frame: 100.0,
            large_block: 500.0,
            list_refill: 0.0,
            block_step: 0.0,
            pool_page: 500.0,
            table_frame: 612.0,
            table_merge: 70_000.0,
            table_line: 200.0,
            entry_scan: 35.0,
            entry_write: 50.0,
            read_bytes: 0.5,
            flush_page: 200.0,
            flush_range: 6600.0,
            flush_space: 500.0,
            space_switch: 500.0,
            guest_table_write: 2000.0,
            source: String::new(),
            assumed: why.iter().map(|&(k, v)| (k.to_owned(), v.to_owned())).collect(),
        }
    }
}

// The rule of serde's `skip_serializing_if` takes a reference.
#[expect(clippy::trivially_copy_pass_by_ref)]
fn is_zero(price: &f64) -> bool {
    *price == 0.0
}

/// Names of what the allocator's steps cost, beside those of [`WorkKind`].
pub const ALLOCATOR_COSTS: [&str; 2] = ["list_refill", "block_step"];

impl CostsDesc {
    /// Cycles of all that the kernel did in one call.
    pub fn of(&self, effects: &Effects) -> f64 {
        let work: f64 = effects.work.iter().map(|work| self.cycles(work.kind) * work.count as f64).sum();
        work + self.allocator(&effects.allocator).iter().sum::<f64>()
    }

    /// Cycles of the allocator's steps, in the order of [`ALLOCATOR_COSTS`].
    pub fn allocator(&self, steps: &FrameCounts) -> [f64; 2] {
        let lists = steps.refills + steps.reliefs;
        let blocks = steps.splits + steps.merges + steps.returns;
        [self.list_refill * lists as f64, self.block_step * blocks as f64]
    }

    /// Cycles of one unit of `kind`.
    pub fn cycles(&self, kind: WorkKind) -> f64 {
        match kind {
            WorkKind::Syscall => self.syscall,
            WorkKind::FaultEntry => self.fault_entry,
            WorkKind::ZeroBytes | WorkKind::ZeroBytesAhead | WorkKind::ScanBytes => self.zero_bytes,
            WorkKind::CopyBytes => self.copy_bytes,
            WorkKind::BaseFrame => self.base_frame,
            WorkKind::LargeBlock => self.large_block,
            WorkKind::PoolPage => self.pool_page,
            WorkKind::TableFrame => self.table_frame,
            WorkKind::TableMerge => self.table_merge,
            WorkKind::TableLine => self.table_line,
            WorkKind::EntryScan => self.entry_scan,
            WorkKind::EntryWrite => self.entry_write,
            WorkKind::ReadBytes => self.read_bytes,
            WorkKind::FlushPage => self.flush_page,
            WorkKind::FlushRange => self.flush_range,
            WorkKind::FlushSpace => self.flush_space,
            WorkKind::SpaceSwitch => self.space_switch,
        }
    }
}
