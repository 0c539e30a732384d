//! The sections `[fault]`, `[placement]` and `[promotion]` of a policy file, which put parts together. Sections of few
//! keys stand beside their parts.

use super::daemon::DaemonKind;
use super::fault_size::FaultSizeKind;
use super::placement::PlacementKind;
use super::promotion::PromotionKind;
use super::recovery::RecoveryDesc;
use super::settings::Served;
use crate::linux::desc::{KhugepagedDesc, ThpEnabled};
use mmulab_addr::{Bytes, PageOrder};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Fault sizes: the pages larger than a base page that a fault in private anonymous memory maps.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct FaultDesc {
    /// Sizes from 8K on, each tried if no larger one was mapped; a base page comes last. A size that the page table has
    /// a leaf for is one page; any other, up to 2M, is mapped as base pages that lie together. Sizes above 2M must be
    /// leaves. Up to 32M they need blocks of the allocator (`memory.max_order = 13` for 32M). Larger ones, such as 1G,
    /// take free blocks that lie together, as an allocator that keeps track of such places would. Default: none.
    pub sizes: Vec<PageOrder>,
    /// Which mappings get them: `always` any, `madvise` those advised MADV_HUGEPAGE, `never` none. Default `always`.
    pub enabled: ThpEnabled,
    /// Which part chooses among the sizes. Default: `by-reach` if `reach` is given, else `listed`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<FaultSizeKind>,
    /// Memory that the TLBs can cover with pages of 64K: mappings of at most as many bytes get base pages instead of
    /// these sizes. Absent: the size of a mapping does not matter.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-least" = "4K", "x-most" = "16T"))]
    pub reach: Option<Bytes>,
    /// Where these values come from.
    pub source: String,
    /// Keys no source states, each with the reason for its value.
    pub assumed: BTreeMap<String, String>,
}

/// Placement: which frames the private pages of a process get.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct PlacementDesc {
    /// How frames are chosen. Default `buddy`.
    pub frames: PlacementKind,
    /// Sizes of reservations, from 8K to 16M: for `frames = "reservation"` only.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub levels: Vec<PageOrder>,
    /// Where these values come from.
    pub source: String,
    /// Keys no source states, each with the reason for its value.
    pub assumed: BTreeMap<String, String>,
}

/// When base pages become a larger page.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum PromotionTime {
    /// Never.
    #[default]
    Never,
    /// At the fault that completes the larger page.
    Full,
    /// At the fault after which `threshold` pages of it are in use: the others are zeroed and mapped.
    Threshold,
    /// When a daemon finds them.
    Daemon,
}

/// Promotion of base pages to a larger page.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct PromotionDesc {
    /// When: `never`, `full`, `threshold` or `daemon`. Default `never`.
    pub when: PromotionTime,
    /// How: `in-place` or `copy`. Default: what `when` allows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub how: Option<PromotionKind>,
    /// The size of the larger page: any that the page table has a leaf for; with `when = "daemon"`, 2M. Default `2M`.
    pub size: PageOrder,
    /// Pages in use that are enough, fewer than the larger page has: for `when = "threshold"` only.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 4095))]
    pub threshold: Option<u32>,
    /// Whether every page must have been accessed: for `when = "full"` only. Default `false`.
    pub needs_accessed: bool,
    /// Which mappings the daemon looks at: `always` any, `madvise` those advised MADV_HUGEPAGE. Default `always`.
    pub enabled: ThpEnabled,
    /// Which daemon: for `when = "daemon"` only. Default `khugepaged`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<DaemonKind>,
    /// Which processes it serves, for `by = "coala-khugepaged"` and `"hawkeye"` only: `hinted` those that have hints of
    /// page sizes, `all` every one, `enabled` those for which it is turned on. khugepaged's scan serves the others.
    /// Default `hinted`; for `hawkeye`, which takes no hints of page sizes, `all`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub serves: Option<Served>,
    /// Processes for which it is turned on from their beginning, by their numbers in the trace. The first process is 1,
    /// and those of member n (from 0) of a mix begin at n times 10,000. Others turn it on themselves (`prctl daemon=on`
    /// in a text trace). A host's processes are its virtual machines, from 1 on. For `serves = "enabled"` only.
    /// Default: none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(inner(range(min = 1, max = 4_294_967_295_u32)))]
    pub processes: Vec<u32>,
    /// The smallest mapping whose pages it brings together, for `by = "ranger"` only. Default `10M`, the published
    /// kernel's `defrag_size_threshold` of 5 times 2 MiB.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-least" = "4K", "x-most" = "16T"))]
    pub smallest_mapping: Option<Bytes>,
    /// Whether the process goes first that has the fewest huge pages for its memory, for `by = "ingens"` only. Else the
    /// scan goes from process to process. Default `false`.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub fair: bool,
    /// Recovery from bloat, for `by = "hawkeye"` only. Absent: huge pages are never taken apart for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recovery: Option<RecoveryDesc>,
    /// Its pace and limits: for `when = "daemon"` only, with their defaults if they are absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub daemon: Option<KhugepagedDesc>,
    /// Where these values come from.
    pub source: String,
    /// Keys no source states, each with the reason for its value.
    pub assumed: BTreeMap<String, String>,
}

impl Default for PromotionDesc {
    fn default() -> Self {
        Self {
            when: PromotionTime::Never,
            how: None,
            size: PageOrder::P2M,
            threshold: None,
            needs_accessed: false,
            enabled: ThpEnabled::Always,
            by: None,
            serves: None,
            processes: Vec::new(),
            smallest_mapping: None,
            fair: false,
            recovery: None,
            daemon: None,
            source: String::new(),
            assumed: BTreeMap::new(),
        }
    }
}
