//! Options of a recording, as the command line passes them in JSON: the program, the trace, limits, QEMU, and the
//! environment of the program. Unknown keys are errors.

use crate::SystemOptions;
use mmulab_addr::PageOrder;
use mmulab_trace::Isa;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Which instructions of a program are recorded.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Intervals {
    /// Instructions of an interval.
    pub length: u64,
    /// Instructions from the beginning of one to that of the next: more than `length`.
    pub every: u64,
}

/// Options of a recording.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RecordOptions {
    /// The trace to write.
    pub output: PathBuf,
    /// The program and its arguments. A name without a slash is looked for in PATH.
    pub command: Vec<String>,
    /// The plugin (`libmmulab_record.so`) that QEMU loads.
    pub plugin: PathBuf,
    /// Stop the program when it, its threads and its children have retired this many recorded instructions. Default:
    /// no limit.
    #[serde(default)]
    pub max_instructions: Option<u64>,
    /// Begin to record after this many instructions; the mappings at that point are written first.
    #[serde(default)]
    pub skip: u64,
    /// Record in intervals, from `skip` on. Between them, the trace has the program's changes of its memory and the
    /// pages that it used. Default: all instructions are recorded.
    #[serde(default)]
    pub intervals: Option<Intervals>,
    /// Record no instructions while the page at this address is mapped: a program has it mapped while it makes its data
    /// ready (`mmulab-kernel` does). Mappings made meanwhile are recorded. Default: all instructions are recorded.
    #[serde(default)]
    pub gate: Option<u64>,
    /// The program's instruction set. Default: read from its ELF header.
    #[serde(default)]
    #[schemars(with = "Option<String>")]
    pub isa: Option<Isa>,
    /// The qemu-user binary to run. Default: `qemu-x86_64`, `qemu-aarch64` or `qemu-riscv64` in PATH.
    #[serde(default)]
    pub qemu: Option<PathBuf>,
    /// QEMU's CPU model (`qemu-x86_64 -cpu help` lists them). Default: QEMU's own.
    #[serde(default)]
    pub cpu: Option<String>,
    /// The size of a base page that the program sees, at least this computer's. QEMU reports it to the program, and
    /// gives it mappings that begin and end at multiples of it. Default: this computer's.
    #[serde(default)]
    pub page_size: Option<PageOrder>,
    /// Turn off address randomisation and fix the random bytes a program starts with, so that recordings repeat.
    #[serde(default)]
    pub fixed_layout: bool,
    /// Where the libraries of a program for another instruction set are. Default: `/usr/TRIPLET` if it is there.
    #[serde(default)]
    pub sysroot: Option<PathBuf>,
    /// The library (`libmmulab_heap.so`) that the program preloads to report its calls of the allocator. Default: they
    /// are not recorded.
    #[serde(default)]
    pub heap: Option<PathBuf>,
    /// The library (`libmmulab_sites.so`) that the program preloads to report where it asks for large blocks of memory.
    /// Default: memory is not named.
    #[serde(default)]
    pub sites: Option<PathBuf>,
    /// Record a whole system that runs the program, its kernel included. Default: the program alone.
    #[serde(default)]
    pub system: Option<SystemOptions>,
    /// Environment variables to add, as (name, value).
    #[serde(default)]
    pub env: Vec<(String, String)>,
    /// The file that the program reads as its standard input. Default: the launcher's own input.
    #[serde(default)]
    pub stdin: Option<PathBuf>,
    /// Drop what the program writes to its standard output. Default: it appears on the launcher's standard error.
    #[serde(default)]
    pub quiet: bool,
}
