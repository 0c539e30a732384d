//! The reclaim parts, a file each, and the one list of them: it makes the key of policy files, the schema, and the
//! dispatch.

mod at_end;
mod watermarks;

pub(crate) use at_end::AtEnd;
pub(crate) use watermarks::Watermarks;

use crate::parts::traits::Reclaim;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Makes the enums of the reclaim parts out of a list: variant, name in policy files, module.
macro_rules! reclaims {
    ($($(#[$about:meta])* $part:ident = $name:literal in $module:ident,)*) => {
        /// When pages of files leave memory, so that others can have their frames.
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
        pub enum ReclaimKind {
            $($(#[$about])* #[serde(rename = $name)] $part,)*
        }

        /// The reclaim part of a run.
        #[derive(Clone, Debug)]
        pub(crate) enum Reclaims {
            $($part($part),)*
        }

        impl Reclaims {
            /// The part for a memory of `frames` base frames.
            pub fn new(desc: &ReclaimDesc, frames: u64) -> Self {
                match desc.when { $(ReclaimKind::$part => Self::$part($part::new(desc.scale_factor, frames)),)* }
            }
        }

        impl Reclaim for Reclaims {
            #[inline]
            fn wanted(&mut self, free: u64) -> u64 {
                match self { $(Self::$part(part) => part.wanted(free),)* }
            }

            fn reclaimed(&mut self, frames: u64) {
                match self { $(Self::$part(part) => part.reclaimed(frames),)* }
            }
        }
    };
}

reclaims! {
    /// When no frame is left, 32 at a time, by the fault that wants one.
    #[default]
    AtEnd = "end" in at_end,
    /// By a daemon as soon as fewer frames are free than the low watermark, up to the high one: kswapd.
    Watermarks = "watermarks" in watermarks,
}

/// Reclaim: when clean pages of files that nobody maps are dropped, the oldest first.
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
