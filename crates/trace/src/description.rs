//! What a trace says of itself at its start and at its end, whatever its format: the metadata that every source has and
//! that mmulab's own format keeps as JSON.

use crate::Isa;
use serde::{Deserialize, Serialize};

/// What a trace says of itself at its start: JSON in the file.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Description {
    /// The program.
    pub program: String,
    /// Its arguments, its own name not among them.
    pub args: Vec<String>,
    /// Its instruction set.
    pub isa: Isa,
    /// The CPU model it ran on, when one was chosen.
    pub cpu: Option<String>,
    /// Whether the events describe the program's address spaces.
    pub has_address_space: bool,
    /// Whether the events tell what the program asked of its allocator.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub has_heap: bool,
    /// The machine and policy whose TLBs served all other references, where only the rest is kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub misses_of: Option<String>,
    /// Where threads are warps of shader cores: how many a core has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub warps: Option<u16>,
    /// Instructions of the program before the cut that the trace begins with: up to [`crate::Event::Resume`] it makes
    /// the state that they left.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub skipped: Option<u64>,
    /// What wrote the trace: name and version.
    pub writer: String,
    /// What the references came from: `qemu-x86_64 ...`, or the format converted from.
    pub source: String,
}

/// What a trace says of itself at its end: JSON in the file.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct EndInfo {
    /// Processes in it.
    pub processes: u32,
    /// Threads in it.
    pub threads: u32,
    /// How the program ended, when that was not by itself: `signal 11`, `interrupted`.
    pub ended_early: Option<String>,
    /// How the program failed, when it ended by itself and reported a failure: `status 3`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failed: Option<String>,
    /// What was lost, each with its reason.
    pub lost: Vec<String>,
}
