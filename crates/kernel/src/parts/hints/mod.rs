//! The parts that give hints about larger pages, a file each. The list of the files makes the key of policy files, its
//! text in the schema and the enum of a run's part (`parts/list.rs`).

use crate::parts::list::kind;
use crate::parts::traits::Hints;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

include!(concat!(env!("OUT_DIR"), "/hints.rs"));

with_parts!(kind! {
    /// Source of hints where larger pages are worth while.
    HintSource: Madvise;
    /// The part that gives the hints of a run.
    #[derive(Clone, Debug)]
    HintGivers: ();
});

pub use leshy::LeshyDesc;

impl HintSource {
    /// Whether it names page sizes.
    pub(crate) fn takes_sizes(self) -> bool {
        HintGivers::new(self, &()).is_ok_and(|part| part.takes_sizes())
    }

    /// Whether the kernel of a host can use its hints.
    pub(crate) fn serves_hosts(self) -> bool {
        HintGivers::new(self, &()).is_ok_and(|part| part.serves_hosts())
    }
}

impl Hints for HintGivers {
    fn obeys_program(&self) -> bool {
        each!(self, part => part.obeys_program())
    }

    fn takes_sizes(&self) -> bool {
        each!(self, part => part.takes_sizes())
    }

    fn serves_hosts(&self) -> bool {
        each!(self, part => part.serves_hosts())
    }
}

/// Hints about larger pages.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct HintsDesc {
    /// Source of the hints: `madvise`, `none`, `page-sizes` or `leshy`. Default `madvise`.
    pub from: HintSource,
    /// Whether faults go by hints of page sizes, once a process has any. Inside a hinted range they aim for its size;
    /// elsewhere they map base pages. For `from = "page-sizes"` only. Default `false`: only the daemon goes by them.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub at_faults: bool,
    /// Whether hints may name 1G, where the page table has such pages. The daemon then copies what is there into a free
    /// GiB, or one that smart compaction makes. For `from = "page-sizes"` only. Default `false`: the sizes of paper 3.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub giant: bool,
    /// Whether a hint splits larger pages than it names in its range, when its turn comes with the daemon. For example,
    /// a hint of 4K makes base pages of a page of 2M. For `promotion.by = "coala-khugepaged"` only. Default `false`.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub demote: bool,
    /// The profiler. For `from = "leshy"` only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub leshy: Option<LeshyDesc>,
    /// Where these values come from.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub source: String,
    /// Keys no source states, each with the reason for its value.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub assumed: BTreeMap<String, String>,
}

impl HintsDesc {
    /// The profiler, where it gives the hints.
    pub fn profiler(&self) -> Option<LeshyDesc> {
        (self.from == HintSource::Leshy).then(|| self.leshy.clone().unwrap_or_default())
    }
}
