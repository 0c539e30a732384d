//! The zeroing parts, a file each. The list of the files makes the key of policy files, its text in the schema and the
//! enum of a run's part (`parts/list.rs`).

use crate::parts::list::kind;
use crate::parts::settings::ZeroingSettings;
use crate::parts::traits::Zeroing;
use crate::space::Cx;
use crate::space::system::SystemCx;
use mmulab_addr::{PageOrder, Pfn};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

include!(concat!(env!("OUT_DIR"), "/zeroing.rs"));

with_parts!(kind! {
    /// When the frames of new private pages are cleared.
    ZeroingKind: AtFault;
    /// The zeroing part of a run.
    #[derive(Clone, Debug)]
    Zeroings: ZeroingSettings;
});

impl Zeroing for Zeroings {
    #[inline]
    fn zero(&self, cx: &mut Cx, pfn: Pfn, order: PageOrder) {
        each!(self, part => part.zero(cx, pfn, order));
    }

    #[inline]
    fn wakes_at(&self) -> Option<u64> {
        each!(self, part => part.wakes_at())
    }

    fn wake(&mut self, system: &mut SystemCx, now_ns: u64) {
        each!(self, part => part.wake(system, now_ns));
    }
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
    /// Settings of the part.
    pub(crate) fn settings(&self) -> ZeroingSettings {
        let usual = ZeroingSettings::default();
        ZeroingSettings {
            sleep_ms: self.sleep_ms.unwrap_or(usual.sleep_ms),
            pages_per_wake: self.pages_per_wake.unwrap_or(usual.pages_per_wake),
        }
    }
}
