//! The `reshape` table of a run: the changes of a recorded program that a trace is run with. The engine, the command
//! line and the reference page share this description.

use crate::{HeapDesc, HugeRange, ImageDesc, OrderFile};
use mmulab_addr::Bytes;
use mmulab_leshy::HintFile;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Changes of a recorded program.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ReshapeDesc {
    /// The order of its functions, as `mmulab reorder` finds it. Default: as they were linked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub order: Option<OrderFile>,
    /// How its ELF files are linked. Default: as they were.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image: Option<ImageDesc>,
    /// The allocator that keeps its heap. Default: the one it was recorded with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub heap: Option<HeapDesc>,
    /// Fault in the program's private writable memory before it runs, as MAP_POPULATE does. Default `false`.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub populate: bool,
    /// Unit by which memory that may be executed and written grows, as for compiled code. It grows by whole multiples
    /// of this size within the program's reservation, all of it accessed when it is mapped. Default: as it was
    /// recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-least" = "4K", "x-most" = "1G", "x-power-of-two" = true))]
    pub code_heap: Option<Bytes>,
    /// Addresses whose private anonymous memory is advised MADV_HUGEPAGE as soon as it is mapped. Default: none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub huge: Vec<HugeRange>,
    /// Hints of page sizes, as `mmulab leshy` writes them, given to the kernel when the program makes the mappings that
    /// they are for. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hints: Option<HintFile>,
}
