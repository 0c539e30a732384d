//! Descriptions: what a kernel is made from, and the sections of a page policy's TOML file.

use crate::freebsd::FreebsdDesc;
use crate::linux::desc::{HugetlbDesc, LinuxDesc, ThpDesc};
use crate::parts::contiguous::ContiguousDesc;
use crate::parts::demotion::DemotionDesc;
use crate::parts::desc::{FaultDesc, PlacementDesc, PromotionDesc};
use crate::parts::hints::HintsDesc;
use crate::parts::reclaim::ReclaimDesc;
use crate::parts::text::TextDesc;
use crate::parts::zeroing::ZeroingDesc;
use mmulab_frames::MemoryDesc;
use mmulab_pagetable::TableDesc;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What a kernel is made from: the memory and page table of a machine, and a policy.
#[derive(Clone, Debug)]
pub struct KernelDesc {
    /// Physical memory and what occupies it beforehand.
    pub memory: MemoryDesc,
    /// The page-table format.
    pub table: TableDesc,
    /// The page policy and what Linux does beside it.
    pub policy: PolicyDesc,
    /// Processors, each with its own list of free frames.
    pub cpus: u16,
    /// Bits of an address-space tag; 0: the TLBs have none, and every switch of address space flushes.
    pub asid_bits: u8,
}

/// An operating-system page policy: `policies/NAME.toml`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PolicyDesc {
    /// Its short name, as given to `--policy`.
    pub name: String,
    /// Its name in reports.
    #[serde(default)]
    pub title: String,
    /// What it does, in a sentence or two.
    #[serde(default)]
    pub description: String,
    /// Which policy it is.
    pub kind: PolicyKind,
    /// Transparent huge pages: for kind `linux-thp` only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thp: Option<ThpDesc>,
    /// Reserved huge pages: for kind `hugetlb` only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hugetlb: Option<HugetlbDesc>,
    /// FreeBSD's memory manager: for kind `freebsd` only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub freebsd: Option<FreebsdDesc>,
    /// Fault sizes: for kind `linux` only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fault: Option<FaultDesc>,
    /// Placement: for kind `linux` only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub placement: Option<PlacementDesc>,
    /// Promotion: for kind `linux` only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub promotion: Option<PromotionDesc>,
    /// Zeroing: for kind `linux` only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zeroing: Option<ZeroingDesc>,
    /// Demotion: for kind `linux` only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub demotion: Option<DemotionDesc>,
    /// Reclaim: for kind `linux` only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reclaim: Option<ReclaimDesc>,
    /// The contiguous bit of page-table entries: for kinds `linux` and `linux-thp` only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub contiguous: Option<ContiguousDesc>,
    /// Hints: for kind `linux` only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hints: Option<HintsDesc>,
    /// Text, which is code mapped from files: for every kind but `freebsd`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<TextDesc>,
    /// What every Linux does, whatever the policy. Kind `freebsd` shares `stack_limit`, `stack_guard`, `page_cache`,
    /// `implicit_vma` and `kernel_page`, and takes no other value than the default for the rest.
    #[serde(default)]
    pub linux: LinuxDesc,
}

/// The policies there are.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub enum PolicyKind {
    /// Base pages only.
    #[serde(rename = "linux-4k")]
    Linux4k,
    /// Transparent huge pages, mapped at a fault when the aligned region allows it.
    #[serde(rename = "linux-thp")]
    LinuxThp,
    /// Huge pages from a pool reserved at boot.
    #[serde(rename = "hugetlb")]
    Hugetlb,
    /// Linux with the parts that `fault`, `placement`, `zeroing`, `promotion`, `demotion`, `reclaim`, `contiguous` and
    /// `hints` put together; without them, base pages.
    #[serde(rename = "linux")]
    Linux,
    /// FreeBSD: reservations, and base pages promoted when all of them are in use.
    #[serde(rename = "freebsd")]
    Freebsd,
}

impl PolicyDesc {
    /// The policy of this kind with every default, for tests and as the base of others.
    pub fn linux_4k() -> Self {
        Self {
            name: "linux-4k".into(),
            title: "Linux, base pages".into(),
            description: String::new(),
            kind: PolicyKind::Linux4k,
            thp: None,
            hugetlb: None,
            freebsd: None,
            fault: None,
            placement: None,
            promotion: None,
            zeroing: None,
            demotion: None,
            reclaim: None,
            contiguous: None,
            hints: None,
            text: None,
            linux: LinuxDesc::default(),
        }
    }

    /// Transparent huge pages wherever possible, every other value its default.
    pub fn linux_thp() -> Self {
        Self {
            name: "linux-thp".into(),
            title: "Linux, transparent huge pages".into(),
            kind: PolicyKind::LinuxThp,
            thp: Some(ThpDesc::default()),
            ..Self::linux_4k()
        }
    }

    /// FreeBSD with reservations and promotion, every other value its default.
    pub fn freebsd() -> Self {
        Self {
            name: "freebsd-super".into(),
            title: "FreeBSD, superpages".into(),
            kind: PolicyKind::Freebsd,
            freebsd: Some(FreebsdDesc::default()),
            ..Self::linux_4k()
        }
    }
}
