//! Metadata of a trace at its start and at its end, in any format. Every source has them, and mmulab's own format keeps
//! them as JSON.

use crate::Isa;
use serde::{Deserialize, Serialize};

/// Metadata of a trace at its start: JSON in the file.
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
    /// Whether the events contain the program's calls of its allocator.
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
    /// Name and version of the program that wrote the trace.
    pub writer: String,
    /// Origin of the references: `qemu-x86_64 ...`, or the format converted from.
    pub source: String,
}

/// Metadata of a trace at its end: JSON in the file.
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
    /// Lost parts, each with its reason.
    pub lost: Vec<String>,
}
