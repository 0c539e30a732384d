//! Memory figures of a kernel at one moment, with their peaks: mapped, resident, page-table, pool, reserved and free
//! bytes. Reports use them for the memory cost of large pages.

use crate::{BySize, Contiguity, Kernel, TableCounts};
use mmulab_addr::{BASE_BYTES, Pid};
use mmulab_frames::PhysMem;
use mmulab_pagetable::Census;
use schemars::JsonSchema;
use serde::Serialize;

/// Use of memory at one moment. All numbers except those of contiguity are bytes.
///
/// How much of a huge page a program truly touched no kernel knows; the machine counts that.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, JsonSchema)]
pub struct Usage {
    /// Mapped in all page tables, by page size: shared pages as often as they are mapped, zero pages not at all.
    pub mapped: BySize,
    /// Zero pages mapped, by page size, as often as they are mapped: they take no memory.
    pub mapped_zero: BySize,
    /// The same, for each process that lives.
    pub processes: Vec<ProcessUsage>,
    /// Held by private pages and the page cache, each frame once.
    pub resident_bytes: u64,
    /// The most that ever was.
    pub resident_bytes_peak: u64,
    /// Of that, held by private pages now.
    pub private_bytes: u64,
    /// The most that private pages ever held.
    pub private_bytes_peak: u64,
    /// Of that, held by the page cache and by shared memory now.
    pub page_cache_bytes: u64,
    /// The most that pages of files in the page cache ever held.
    pub file_bytes_peak: u64,
    /// Held by page tables.
    pub table_bytes: u64,
    /// The most that ever was.
    pub table_bytes_peak: u64,
    /// Frames and nodes of page tables now, and counts of their merges and resizes.
    pub tables: TableUsage,
    /// Set aside for the hugetlb pool at boot.
    pub pool_bytes: u64,
    /// Of the pool, in use.
    pub pool_used_bytes: u64,
    /// Set aside in reservations and not in use (FreeBSD).
    pub reserved_bytes: u64,
    /// Free in the allocator.
    pub free_bytes: u64,
    /// How well base pages lie together.
    pub contiguity: Contiguity,
}

/// Frames and nodes of page tables.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, JsonSchema)]
pub struct TableUsage {
    /// In tables of a frame each.
    pub small_bytes: u64,
    /// In nodes of 2 MiB.
    pub node_bytes: u64,
    /// Size of the same mappings in tables of a frame each.
    pub unmerged_bytes: u64,
    /// Counts of the run.
    #[serde(flatten)]
    pub counts: TableCounts,
}

/// Memory that a process has mapped.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, JsonSchema)]
pub struct ProcessUsage {
    /// The process, or the one that made the address space if several run in it.
    pub pid: Pid,
    /// Mapped in its page table, by page size; zero pages left out.
    pub mapped: BySize,
    /// Frames of its page table, in bytes.
    pub table_bytes: u64,
}

impl Kernel {
    /// Use of memory now.
    pub fn usage(&self, mem: &PhysMem) -> Usage {
        let mut contiguity = self.ended.clone();
        for space in self.spaces.iter().flatten() {
            contiguity.add(&Contiguity::of(space, mem));
        }
        let memory = &self.shared.memory;
        let mut processes: Vec<ProcessUsage> = self
            .spaces
            .iter()
            .flatten()
            .map(|space| ProcessUsage {
                pid: space.pid,
                mapped: space.mapped.pages.clone(),
                table_bytes: space.table.table_frames() * BASE_BYTES,
            })
            .collect();
        processes.sort_by_key(|p| p.pid);
        let pool = memory.pool.as_ref();
        let mut census = Census::default();
        self.spaces.iter().flatten().for_each(|space| census.add(&space.table.census()));
        Usage {
            mapped: self.shared.mapped.pages.clone(),
            mapped_zero: self.shared.mapped.zero.clone(),
            processes,
            resident_bytes: memory.resident_bytes(),
            resident_bytes_peak: memory.resident_peak * BASE_BYTES,
            private_bytes: memory.anon_frames * BASE_BYTES,
            private_bytes_peak: memory.private_peak * BASE_BYTES,
            page_cache_bytes: memory.cache.pages() * BASE_BYTES,
            file_bytes_peak: memory.file_peak * BASE_BYTES,
            table_bytes: memory.table_frames * BASE_BYTES,
            table_bytes_peak: memory.table_frames_peak * BASE_BYTES,
            tables: TableUsage {
                small_bytes: census.tables * BASE_BYTES,
                node_bytes: census.nodes * BASE_BYTES,
                unmerged_bytes: census.unmerged * BASE_BYTES,
                counts: memory.table_counts.clone(),
            },
            pool_bytes: pool.map_or(0, |p| p.total * p.order.bytes()),
            pool_used_bytes: pool.map_or(0, |p| p.used() * p.order.bytes()),
            reserved_bytes: memory.reservations.idle_frames() * BASE_BYTES,
            free_bytes: memory.frames.free_frames() * BASE_BYTES,
            contiguity,
        }
    }
}
