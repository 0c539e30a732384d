//! The `[freebsd]` table of a policy file: reservation sizes, superpage promotion, read clusters at faults, and flush
//! limits. The defaults follow FreeBSD 14. Other values include the variants that paper 1 studies or proposes.

use super::code::CodeDesc;
use super::quicksilver::QuicksilverDesc;
use crate::space::fork::ForkCopies;
use mmulab_addr::Bytes;
use mmulab_addr::PageOrder;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// FreeBSD's memory manager (sys/vm/vm_reserv.c, vm_fault.c; paper 1, section 2.2).
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct FreebsdDesc {
    /// Sizes of reservations, tried from the largest down; none turns reservations off. Each from 8K to 16M. Default
    /// `["2M"]`, the one size of FreeBSD on amd64 (`VM_LEVEL_0_ORDER` 9). Smaller ones as well are what paper 1
    /// proposes (section 7) and Navarro and others had (64K, 512K and 4M, section 6).
    pub levels: Vec<PageOrder>,
    /// Whether 512 base pages become one of 2 MiB (`vm.pmap.superpages_enabled`). Default `true`.
    pub promotion: bool,
    /// Pages of a reservation in use that are enough to promote it. 512 asks for all. With fewer, for anonymous memory,
    /// the others are zeroed and mapped first (Quicksilver: 64; paper 1, section 7). Default 512.
    #[schemars(range(min = 1, max = 512))]
    pub promotion_threshold: u32,
    /// Whether every page must have been accessed before promotion. Default `false`; `true` before FreeBSD 14
    /// (`pmap_promote_pde` in sys/amd64/amd64/pmap.c asked for PG_A).
    pub promotion_needs_accessed: bool,
    /// Quicksilver's daemon, which fills reservations of private memory and empties those that are out of use. Absent:
    /// there is none, as in FreeBSD.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub daemon: Option<QuicksilverDesc>,
    /// Whether MADV_FREE is obeyed; `false` is the configuration `nomdv` of paper 1, where malloc does not call it.
    /// Default `true`.
    pub madv_free: bool,
    /// How much of a file is read and mapped at a fault, aligned in the file. Default `64K`
    /// (`VM_FAULT_READ_DEFAULT`, 16 pages).
    #[schemars(extend("x-least" = "4K", "x-most" = "2M", "x-power-of-two" = true))]
    pub cluster: Bytes,
    /// Pages on either side that are mapped if they are in memory already (`PFBAK` and `PFFOR`). Default 4.
    #[schemars(range(min = 0, max = 512))]
    pub prefault: u32,
    /// Whether pages mapped beside the one that faulted have their accessed bit set, which paper 1 proposes (section
    /// 7). Default `false`.
    pub prefaulted_accessed: bool,
    /// From how many pages of a new mapping, its first ones, mmap maps those that are in memory already. A superpage
    /// counts as one. 0: it maps none. Default 96 (`MAX_INIT_PT`).
    #[schemars(range(min = 0, max = 1_000_000_000))]
    pub mmap_prefault: u32,
    /// Whether exec maps all pages of the program's and the interpreter's files that are in memory already
    /// (`MAP_PREFAULT` in sys/kern/imgact_elf.c). Default `true`.
    pub exec_prefault: bool,
    /// Of which mappings fork copies the entries: `all` (`pmap_copy`), or `private`, those with pages of their own, as
    /// Linux does. Default `all`.
    pub fork_copies: ForkCopies,
    /// Base frames a per-CPU cache is filled with at a time; they go out last first. Default 14.
    #[schemars(range(min = 1, max = 512))]
    pub bucket: u32,
    /// How many pages a flush may name before the whole address space is flushed instead. Default 4096.
    #[schemars(range(min = 0, max = 1_000_000_000))]
    pub flush_ceiling: u64,
    /// Superpages of code. Default: as FreeBSD has them.
    #[serde(skip_serializing_if = "CodeDesc::is_stock")]
    pub code: CodeDesc,
    /// Where these values come from.
    pub source: String,
    /// Keys no source states, each with the reason for its value.
    pub assumed: BTreeMap<String, String>,
}

impl Default for FreebsdDesc {
    fn default() -> Self {
        Self {
            levels: vec![PageOrder::P2M],
            promotion: true,
            promotion_threshold: 512,
            promotion_needs_accessed: false,
            daemon: None,
            madv_free: true,
            cluster: Bytes(64 << 10),
            prefault: 4,
            prefaulted_accessed: false,
            mmap_prefault: 96,
            exec_prefault: true,
            fork_copies: ForkCopies::All,
            bucket: 14,
            flush_ceiling: 4096,
            code: CodeDesc::default(),
            source: concat!(
                "FreeBSD 14: sys/vm/vm_reserv.c; VM_FAULT_READ_DEFAULT, PFBAK and PFFOR in sys/vm/vm_fault.c; ",
                "vm_map_pmap_enter, vm_map_copy_entry and MAX_INIT_PT in sys/vm/vm_map.c; sys/kern/imgact_elf.c; ",
                "pmap_promote_pde, pmap_copy and PMAP_INVLPG_THRESHOLD in sys/amd64/amd64/pmap.c; paper 1, section 2.2"
            )
            .into(),
            assumed: BTreeMap::from([(
                "bucket".into(),
                "UMA's buckets for pages hold 2 to 254 items and grow with contention; 14 is its fourth size".into(),
            )]),
        }
    }
}
