//! Settings of parts: the values of a policy file that the parts of a kind read, a struct for each kind that has any.

use super::recovery::RecoveryDesc;
use crate::linux::desc::{HugetlbDesc, KhugepagedDesc, ThpDesc, ThpEnabled};
use mmulab_addr::PageOrder;
use mmulab_pagetable::TableDesc;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Settings of fault sizes.
pub(crate) struct FaultSettings<'a> {
    /// The page table of the run.
    pub table: &'a TableDesc,
    /// Whether a load of an untouched page maps the zero page.
    pub zero_page: bool,
    /// Of `[fault]`: the sizes, which mappings they are used in, and the reach of the TLBs in bytes.
    pub sizes: &'a [PageOrder],
    pub enabled: ThpEnabled,
    pub reach: Option<u64>,
    /// `[thp]` and `[hugetlb]`, in policies that have these sections.
    pub thp: Option<&'a ThpDesc>,
    pub pool: Option<&'a HugetlbDesc>,
}

impl<'a> FaultSettings<'a> {
    /// Without any section.
    pub fn new(table: &'a TableDesc, zero_page: bool) -> Self {
        Self { table, zero_page, sizes: &[], enabled: ThpEnabled::Always, reach: None, thp: None, pool: None }
    }
}

/// Settings of promotion at faults.
pub(crate) struct PromotionSettings {
    /// The size of the larger page, which the page table has a leaf for.
    pub size: PageOrder,
    /// Pages of it in use that are enough.
    pub threshold: u32,
    /// Whether every page must have been accessed.
    pub needs_accessed: bool,
    /// Whether pages that a daemon filled in, which are in no page table yet, count as mapped.
    pub takes_filled: bool,
}

/// Settings of zeroing: how fast a daemon clears memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ZeroingSettings {
    /// Milliseconds between two of its turns.
    pub sleep_ms: u64,
    /// Pages cleared in each.
    pub pages_per_wake: u32,
}

impl Default for ZeroingSettings {
    /// 10,000 pages a second, or 40 MB.
    fn default() -> Self {
        Self { sleep_ms: 100, pages_per_wake: 1000 }
    }
}

/// Settings of reclaim.
pub(crate) struct ReclaimSettings {
    /// `vm.watermark_scale_factor`, if the policy sets it.
    pub scale_factor: Option<u16>,
    /// Base frames of memory.
    pub frames: u64,
}

/// Which processes a daemon serves; khugepaged's linear scan serves the others.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Served {
    /// Those that hints of page sizes were given for: the first hint turns the daemon on for its process.
    #[default]
    Hinted,
    /// All. A process without hints is scanned from its lowest address on, in ranges of 32 MiB.
    All,
    /// Those for which it is turned on: from their beginning, or by themselves (`prctl` in a trace).
    Enabled,
}

/// Settings of a daemon: its description, the mappings that it scans, and the processes that it serves.
pub(crate) struct DaemonSettings<'a> {
    pub desc: &'a KhugepagedDesc,
    /// Which mappings it looks at.
    pub enabled: ThpEnabled,
    /// Which processes it serves, if it can choose.
    pub served: Served,
    /// The smallest mapping that it works on, in bytes, if it has such a limit.
    pub smallest_mapping: Option<u64>,
    /// Whether the process goes first that has the fewest huge pages for its memory.
    pub fair: bool,
    /// Its recovery from bloat, if it does that.
    pub recovery: Option<RecoveryDesc>,
    /// Whether hints take larger pages apart.
    pub demotes: bool,
    /// Whether khugepaged makes huge pages of text in the page cache.
    pub takes_text: bool,
    /// The sizes below 2 MiB that khugepaged makes, the largest first, and which mappings get each.
    pub mthp: Vec<(PageOrder, ThpEnabled)>,
}
