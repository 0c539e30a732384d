//! The parts that give hints about larger pages, a file each, and the one list of them: it makes the key of policy
//! files, the schema, and the dispatch.

mod leshy;
mod madvise;
mod nobody;
mod page_sizes;

pub use leshy::LeshyDesc;

use crate::parts::traits::Hints;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Makes the enum of the givers of hints out of a list: variant, name in policy files, module.
macro_rules! hints {
    ($($(#[$about:meta])* $part:ident = $name:literal in $module:ident,)*) => {
        /// Who says where larger pages are worth while.
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
        pub enum HintSource {
            $($(#[$about])* #[serde(rename = $name)] $part,)*
        }

        impl HintSource {
            /// Its name in policy files.
            pub fn name(self) -> &'static str {
                match self { $(Self::$part => $name),* }
            }
        }

        impl Hints for HintSource {
            fn obeys_program(&self) -> bool {
                match self { $(Self::$part => $module::$part.obeys_program()),* }
            }

            fn takes_sizes(&self) -> bool {
                match self { $(Self::$part => $module::$part.takes_sizes()),* }
            }
        }
    };
}

hints! {
    /// The program, by MADV_HUGEPAGE, MADV_NOHUGEPAGE and MADV_COLLAPSE.
    #[default]
    Madvise = "madvise" in madvise,
    /// Nobody: such advice is ignored.
    Nobody = "none" in nobody,
    /// The program or a profiler, by the extended madvise of Elastic Translations, which names the page size that a
    /// range should be translated by. Linux's own advice is obeyed, too.
    PageSizes = "page-sizes" in page_sizes,
    /// The profiler of Elastic Translations, which samples TLB misses while the programs run, and names page sizes at
    /// the end of every epoch. Programs may name sizes, too; the next epoch forgets those.
    Leshy = "leshy" in leshy,
}

/// Hints about larger pages.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct HintsDesc {
    /// Who gives them: `madvise`, `none`, `page-sizes` or `leshy`. Default `madvise`.
    pub from: HintSource,
    /// Whether faults go by hints of page sizes, once a process has any: inside a hinted range they aim for its size,
    /// elsewhere they map base pages. For `from = "page-sizes"` only. Default `false`: only the daemon goes by them.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub at_faults: bool,
    /// Whether hints may name 1G, where the page table has such pages: the daemon then copies what is there into a free
    /// GiB, or one that smart compaction makes. For `from = "page-sizes"` only. Default `false`: the sizes of paper 3.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub giant: bool,
    /// Whether a hint takes apart larger pages than it names in its range, when its turn comes with the daemon: a hint
    /// of 4K makes base pages of a page of 2M. For `promotion.by = "coala-khugepaged"` only. Default `false`.
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
