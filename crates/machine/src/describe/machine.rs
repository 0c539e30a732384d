//! A machine file: cores, memory, page table, TLBs, walker, caches, costs, and the tables of special machines.

use super::{
    core::CoreDesc,
    costs::CostsDesc,
    gpu::GpuDesc,
    guest::{Mode, VirtualDesc},
    perf::PerfDesc,
    shootdown::ShootdownDesc,
};
use mmulab_addr::Side;
use mmulab_energy::EnergyDesc;
use mmulab_frames::MemoryDesc;
use mmulab_pagetable::TableDesc;
use mmulab_tlb::{ArrayDesc, HierarchyDesc};
use mmulab_trace::Isa;
use mmulab_walker::{CacheDesc, CacheRules, WalkerDesc};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A machine: cores, memory, page-table format, TLBs, walker, caches, and what kernel work costs on it.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MachineDesc {
    /// The name it is chosen by, equal to its file's.
    pub name: String,
    /// The name people know it by.
    #[serde(default)]
    pub title: String,
    /// Its hardware, and the parts that this description leaves out.
    #[serde(default)]
    pub description: String,
    /// The instruction set of the programs it is meant for. A trace of another runs too, with a warning.
    #[schemars(with = "String")]
    pub isa: Isa,
    /// The cores.
    pub core: CoreDesc,
    /// Physical memory and what occupies it beforehand.
    pub memory: MemoryDesc,
    /// The page-table format.
    #[serde(default)]
    pub table: TableDesc,
    /// The TLB arrays of each core. An empty list is a machine without TLBs: every reference walks.
    pub tlb: Vec<ArrayDesc>,
    /// How the arrays work together.
    #[serde(default)]
    pub tlb_rules: HierarchyDesc,
    /// The page walker of each core.
    pub walker: WalkerDesc,
    /// The caches that page-table entries are read through, nearest first. Without any, each read goes to memory.
    #[serde(default)]
    pub cache: Vec<CacheDesc>,
    /// Other accesses that go through those caches, and the cost of memory.
    pub cache_rules: CacheRules,
    /// Cost of kernel work.
    #[serde(default)]
    pub costs: CostsDesc,
    /// How flushes reach the TLBs of other CPUs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shootdown: Option<ShootdownDesc>,
    /// The energy of its structures, where it is known better than the model has it.
    #[serde(default, skip_serializing_if = "is_default")]
    pub energy: EnergyDesc,
    /// Names that the machine's own performance counters have for mmulab's counts.
    #[serde(default, skip_serializing_if = "PerfDesc::is_empty")]
    pub perf: PerfDesc,
    /// That the cores are shader cores, which run warps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu: Option<GpuDesc>,
    /// Virtual machines, if programs run in such.
    #[serde(default, rename = "virtual", skip_serializing_if = "Option::is_none")]
    pub guest: Option<VirtualDesc>,
}

fn is_default(energy: &EnergyDesc) -> bool {
    *energy == EnergyDesc::default()
}

impl MachineDesc {
    /// The page-table format that walks for the programs begin with: the guests', unless there are none, or the host
    /// keeps shadow tables.
    pub fn walked_table(&self) -> &TableDesc {
        self.guest.as_ref().filter(|guest| guest.mode == Mode::Nested).map_or(&self.table, |guest| &guest.table)
    }

    /// Whether cores have walker or TLBs in common.
    pub fn shares(&self) -> bool {
        self.walker.shared || self.tlb.iter().any(|array| array.shared)
    }

    /// CPUs that a kernel sees. Without ASIDs, cores that share TLBs must not hold two address spaces at once.
    pub(crate) fn cpus_apart(&self) -> u16 {
        if self.tlb_rules.asid_bits == 0 && self.shares() { 1 } else { self.core.cpus() }
    }

    /// Base pages that the first level's data side coalesces, if it does so in groups.
    pub fn data_group(&self) -> Option<u16> {
        let serves = |a: &&ArrayDesc| a.level == 1 && a.side.serves(Side::Data);
        self.tlb.iter().filter(serves).find_map(|a| a.group)
    }
}
