//! The reclaim parts, a file each. The list of the files makes the key of policy files, its text in the schema and the
//! enum of a run's part (`parts/list.rs`).

use crate::parts::list::kind;
use crate::parts::settings::ReclaimSettings;
use crate::parts::traits::Reclaim;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

include!(concat!(env!("OUT_DIR"), "/reclaim.rs"));

with_parts!(kind! {
    /// When pages of files leave memory, so that others can have their frames.
    ReclaimKind: AtEnd;
    /// The reclaim part of a run.
    #[derive(Clone, Debug)]
    Reclaims: ReclaimSettings;
});

impl Reclaim for Reclaims {
    #[inline]
    fn wanted(&mut self, free: u64) -> u64 {
        each!(self, part => part.wanted(free))
    }

    fn reclaimed(&mut self, frames: u64) {
        each!(self, part => part.reclaimed(frames));
    }
}

/// Reclaim: when clean pages of files that no process maps are dropped, the oldest first.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ReclaimDesc {
    /// When: `end` or `watermarks`. Default `end`.
    pub when: ReclaimKind,
    /// How far the watermarks lie apart, in 1/10,000 of memory (vm.watermark_scale_factor): for `when = "watermarks"`
    /// only. Default 10.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 3000))]
    pub scale_factor: Option<u16>,
    /// Where these values come from.
    pub source: String,
    /// Keys no source states, each with the reason for its value.
    pub assumed: BTreeMap<String, String>,
}
