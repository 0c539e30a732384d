//! Report of a recording, as JSON for the command line: how the program ended, counts, sizes, losses and warnings.
//! `Progress` is the short form during the recording.

use serde::Serialize;
use std::path::PathBuf;

/// How a recording ended.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ended {
    /// The program ended by itself.
    Exited,
    /// A signal ended the program; the trace holds what came before.
    Signal,
    /// `max_instructions` were recorded, and the program was stopped.
    Limit,
    /// The user stopped it; the trace holds what came before.
    Interrupted,
    /// The disk is full; the trace holds what was written up to its last whole chunk.
    DiskFull,
}

/// Result of a recording.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct RecordReport {
    /// The trace.
    pub output: PathBuf,
    /// How it ended.
    pub ended: Ended,
    /// The program's exit status; 128 and the signal if a signal ended it; 0 if it was stopped at the limit.
    pub exit_status: i32,
    /// Instructions recorded.
    pub instructions: u64,
    /// References recorded.
    pub references: u64,
    /// Size of the trace, in bytes.
    pub bytes: u64,
    /// Trace bytes per instruction.
    pub bytes_per_instruction: f64,
    /// Wall-clock seconds the program ran.
    pub seconds: f64,
    /// Instructions retired per wall-clock second, those skipped included.
    pub instructions_per_s: f64,
    /// Processes in it.
    pub processes: u32,
    /// Threads in it.
    pub threads: u32,
    /// Lost parts, each with its reason.
    pub lost: Vec<String>,
    /// Warnings for the user.
    pub warnings: Vec<String>,
    /// Files beside the trace with names of code that the program made while it ran.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub code_names: Vec<PathBuf>,
}

/// How far a recording is.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Progress {
    /// Instructions retired so far, those skipped included.
    pub instructions: u64,
    /// Wall-clock seconds since the program started.
    pub seconds: f64,
}
