//! The zeroing parts, a file each, and the one list of them: it makes the key of policy files, the schema, and the
//! dispatch.

mod ahead;
mod at_fault;
mod pace;

pub(crate) use ahead::Ahead;
pub(crate) use at_fault::AtFault;

use crate::parts::traits::Zeroing;
use crate::space::Cx;
use crate::space::system::SystemCx;
use mmulab_addr::{PageOrder, Pfn};
use pace::Pace;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Makes the enums of the zeroing parts out of a list: variant, name in policy files, module.
macro_rules! zeroings {
    ($($(#[$about:meta])* $part:ident = $name:literal in $module:ident,)*) => {
        /// When the frames of new private pages are cleared.
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
        pub enum ZeroingKind {
            $($(#[$about])* #[serde(rename = $name)] $part,)*
        }

        /// The zeroing part of a run.
        #[derive(Clone, Debug)]
        pub(crate) enum Zeroings {
            $($part($part),)*
        }

        impl From<&ZeroingDesc> for Zeroings {
            fn from(desc: &ZeroingDesc) -> Self {
                match desc.when { $(ZeroingKind::$part => Self::$part($part::new(desc.pace())),)* }
            }
        }

        impl Zeroing for Zeroings {
            #[inline]
            fn zero(&self, cx: &mut Cx, pfn: Pfn, order: PageOrder) {
                match self { $(Self::$part(part) => part.zero(cx, pfn, order),)* }
            }

            #[inline]
            fn wakes_at(&self) -> Option<u64> {
                match self { $(Self::$part(part) => part.wakes_at(),)* }
            }

            fn wake(&mut self, system: &mut SystemCx, now_ns: u64) {
                match self { $(Self::$part(part) => part.wake(system, now_ns),)* }
            }
        }
    };
}

zeroings! {
    /// By the fault, which waits for it.
    #[default]
    AtFault = "fault" in at_fault,
    /// By a daemon, ahead of the faults; a fault clears what the daemon had not come to.
    Ahead = "ahead" in ahead,
}

/// Zeroing: when the frames of new private pages are cleared, and so whose time that takes.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ZeroingDesc {
    /// When: `fault` or `ahead`. Default `fault`.
    pub when: ZeroingKind,
    /// How long the daemon sleeps, in milliseconds: for `when = "ahead"` only. Default 100.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 86_400_000))]
    pub sleep_ms: Option<u64>,
    /// Pages that the daemon clears each time it wakes: for `when = "ahead"` only. Default 1000.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1_000_000_000))]
    pub pages_per_wake: Option<u32>,
    /// Where these values come from.
    pub source: String,
    /// Keys no source states, each with the reason for its value.
    pub assumed: BTreeMap<String, String>,
}

impl ZeroingDesc {
    fn pace(&self) -> Pace {
        let usual = Pace::default();
        Pace {
            sleep_ms: self.sleep_ms.unwrap_or(usual.sleep_ms),
            pages_per_wake: self.pages_per_wake.unwrap_or(usual.pages_per_wake),
        }
    }
}
