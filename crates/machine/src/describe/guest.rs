//! The `[virtual]` table of a machine file. It has guest memory, guest page table, translation mode, nested TLB,
//! page-walk caches of the host's table, and the cost of a VM exit.
//!
//! ```text
//! mode     page walk
//! nested   gVA --guest table--> gPA --host table--> hPA
//! shadow   gVA ------------shadow table-----------> hPA
//! ```

use mmulab_frames::MemoryDesc;
use mmulab_pagetable::TableDesc;
use mmulab_walker::{NestedTlbDesc, WalkCacheDesc};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// How addresses of a guest become addresses of the host.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// The walker translates in two dimensions, by the guest's table and by the host's.
    #[default]
    Nested,
    /// The host keeps a table of its own for each address space of a guest, straight from guest-virtual to
    /// host-physical. The walker reads only this table.
    Shadow,
}

/// Virtual machines: the programs run in guests, each with a kernel, a policy and memory of its own. The machine's
/// memory and page table are the host's.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct VirtualDesc {
    /// How addresses of a guest become addresses of the host: `nested` or `shadow`. Default `nested`.
    #[serde(default)]
    pub mode: Mode,
    /// Each guest's physical memory and what occupies it beforehand. It may be more than the host has: the host gives
    /// frames as they are first used, and the run ends where it has none.
    pub memory: MemoryDesc,
    /// The guests' page-table format; the host's is the machine's.
    #[serde(default)]
    pub table: TableDesc,
    /// A cache of whole translations from guest-physical to host-physical addresses. Default none.
    #[serde(default)]
    pub nested_tlb: Option<NestedTlbDesc>,
    /// Walk caches of the host's table, searched by guest-physical address. All are searched at once; the entry nearest
    /// the leaf is used.
    #[serde(default)]
    pub cache: Vec<WalkCacheDesc>,
    /// Guests report to the host each 2 MiB node that their page tables merge levels in. The host advises a huge page
    /// for it (as `madvise` does). Only then can hardware keep the place of a whole node. The policy of the host must
    /// take advice, such as `linux-thp-madvise`. Default `false`: no hypervisor has such a call.
    #[serde(default)]
    pub advise_nodes: bool,
    /// Guests hand hints of page sizes on to the host, which paper 3 (Elastic Translations) names as future work. Each
    /// block of memory that lies together in the guest as a hint asks becomes a hint of its size for the host, at its
    /// guest-physical address. It takes a policy of the host that goes by such hints, such as `elastic`. Default
    /// `false`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub hints: bool,
    /// Cycles of a VM exit and of the return. Each violation of the host's table, and each trap of a host with shadow
    /// tables, costs them besides the host's work. Default 2000.
    #[serde(default = "exit_cycles")]
    #[schemars(range(min = 0.0, max = 1e7))]
    pub exit_cycles: f64,
    /// Where the numbers come from.
    #[serde(default)]
    pub source: String,
    /// Keys of this table that no source states, each with the reason for the value.
    #[serde(default = "assumed")]
    pub assumed: BTreeMap<String, String>,
}

impl VirtualDesc {
    /// Whether walks have two dimensions.
    pub(crate) fn is_nested(&self) -> bool {
        self.mode == Mode::Nested
    }
}

fn exit_cycles() -> f64 {
    2000.0
}

fn assumed() -> BTreeMap<String, String> {
    BTreeMap::from([("exit_cycles".to_owned(), "an order of magnitude: about 0.6 us at 3.5 GHz".to_owned())])
}
