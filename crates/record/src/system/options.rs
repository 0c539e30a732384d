//! Options of a recorded system: its kernel and memory, its files and the programs that it runs.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// How a system is recorded.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SystemOptions {
    /// The kernel (`vmlinuz`) that QEMU boots: Linux for x86-64 or, with that `isa`, for aarch64.
    pub kernel: PathBuf,
    /// The guest's first program (`mmulab-guest-agent`), linked statically.
    pub agent: PathBuf,
    /// The guest's memory in MiB. Default: 1024. The programs' files are in it, too.
    #[serde(default)]
    pub memory_mb: Option<u64>,
    /// Value written to /sys/kernel/mm/transparent_hugepage/enabled. Default: the kernel's own choice.
    #[serde(default)]
    pub thp: Option<Thp>,
    /// More that is written to files of the guest's kernel, such as those below /sys and /proc/sys: each with its
    /// value.
    #[serde(default)]
    pub tune: Vec<(String, String)>,
    /// Memory that is held before anything runs, so that the rest is fragmented. Default: none.
    #[serde(default)]
    pub memhog: Option<Memhog>,
    /// Files and directories of this machine that the guest has, and where.
    #[serde(default)]
    pub files: Vec<(PathBuf, PathBuf)>,
    /// Where programs run in the guest. Default: its root.
    #[serde(default)]
    pub directory: Option<PathBuf>,
    /// A command that succeeds once the program serves. It is asked again until then.
    #[serde(default)]
    pub ready: Vec<String>,
    /// Seconds that may take. Default: 120.
    #[serde(default)]
    pub ready_seconds: Option<u64>,
    /// Commands that drive the program, one after the other: recording begins with the first and ends with the last.
    /// Default: it begins and ends with the program.
    #[serde(default)]
    pub clients: Vec<Vec<String>>,
    /// Leave the kernel's own references out.
    #[serde(default)]
    pub user_only: bool,
    /// More for the kernel's command line.
    #[serde(default)]
    pub kernel_args: String,
}

/// When Linux gives transparent huge pages.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Thp {
    /// Wherever they fit.
    Always,
    /// Where madvise(2) asks for them.
    Madvise,
    /// Never.
    Never,
}

/// Memory of a guest that is held by its agent, in chunks at random places, where it stays.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Memhog {
    /// So many percent of what is free when the guest has booted (1..=95).
    pub percent: u8,
    /// How much lies together, in KiB: whole pages. Default 2048, as in a simulated machine's `memory.fragment`.
    #[serde(default = "chunk_kb")]
    pub chunk_kb: u64,
}

fn chunk_kb() -> u64 {
    2048
}
