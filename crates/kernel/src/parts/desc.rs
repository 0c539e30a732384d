//! The sections `[fault]`, `[placement]` and `[promotion]` of a policy file, which put parts together. Sections of few
//! keys stand beside their parts.

use super::placement::PlacementKind;
use crate::linux::desc::{KhugepagedDesc, ThpEnabled};
use mmulab_addr::PageOrder;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Fault sizes: the pages larger than a base page that a fault in private anonymous memory maps.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct FaultDesc {
    /// Sizes from 8K to 2M, each tried if no larger one was mapped; a base page comes last. A size that the page table
    /// has a leaf for is one page; any other is mapped as base pages that lie together. Default: none.
    pub sizes: Vec<PageOrder>,
    /// Which mappings get them: `always` any, `madvise` those advised MADV_HUGEPAGE, `never` none. Default `always`.
    pub enabled: ThpEnabled,
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

/// How base pages become a larger page.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PromotionWay {
    /// They stay in their frames, which lie together: with `when = "full"` or `"threshold"`.
    InPlace,
    /// They are copied to a free block: with `when = "daemon"`.
    Copy,
}

/// Promotion of base pages to a larger page.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct PromotionDesc {
    /// When: `never`, `full`, `threshold` or `daemon`. Default `never`.
    pub when: PromotionTime,
    /// How: `in-place` or `copy`. Default: what `when` allows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub how: Option<PromotionWay>,
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
    /// The daemon: for `when = "daemon"` only, with its defaults if it is absent.
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
            daemon: None,
            source: String::new(),
            assumed: BTreeMap::new(),
        }
    }
}
