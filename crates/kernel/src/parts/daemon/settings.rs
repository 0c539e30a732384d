//! What a daemon is made from: its description, which mappings it looks at, and which processes it serves.

use crate::linux::desc::{KhugepagedDesc, ThpEnabled};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Which processes `coala-khugepaged` serves; khugepaged's linear scan serves the others.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Served {
    /// Those that hints of page sizes were given for: the first hint turns the daemon on for its process.
    #[default]
    Hinted,
    /// All. A process without hints is scanned from its lowest address on, in ranges of 32 MiB.
    All,
}

/// What a daemon is made from.
pub(crate) struct DaemonSettings<'a> {
    pub desc: &'a KhugepagedDesc,
    /// Which mappings it looks at.
    pub enabled: ThpEnabled,
    /// Which processes it serves, if it can choose.
    pub served: Served,
    /// The smallest mapping that it works on, in bytes, if it has such a limit.
    pub smallest_mapping: Option<u64>,
    /// Whether hints take larger pages apart.
    pub demotes: bool,
}
