//! The `reshape` table of a run: the changes of a recorded program that a trace is run with. The engine, the command
//! line and the reference page share this description.

use crate::{HeapDesc, HugeRange, ImageDesc};
use mmulab_leshy::HintFile;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What of a recorded program is to be otherwise.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ReshapeDesc {
    /// How its ELF files are linked. Default: as they were.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image: Option<ImageDesc>,
    /// The allocator that keeps its heap. Default: the one it was recorded with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub heap: Option<HeapDesc>,
    /// Whether its private writable memory is there before it runs, as if mapped with MAP_POPULATE. Default `false`.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub populate: bool,
    /// Addresses whose private anonymous memory is advised MADV_HUGEPAGE as soon as it is mapped. Default: none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub huge: Vec<HugeRange>,
    /// Hints of page sizes, as `mmulab leshy` writes them, given to the kernel when the program makes the mappings that
    /// they are for. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hints: Option<HintFile>,
}
