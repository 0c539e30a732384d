use crate::{Batch, TraceError};
use serde::{Deserialize, Serialize};
use std::fmt;

/// The instruction set a trace was made on.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub enum Isa {
    /// x86-64.
    #[default]
    #[serde(rename = "x86-64")]
    X86_64,
    /// AArch64.
    #[serde(rename = "aarch64")]
    Aarch64,
    /// 64-bit RISC-V.
    #[serde(rename = "riscv64")]
    Riscv64,
}

impl fmt::Display for Isa {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::X86_64 => "x86-64",
            Self::Aarch64 => "aarch64",
            Self::Riscv64 => "riscv64",
        })
    }
}

/// What is known of a trace before it is read.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct TraceInfo {
    /// Where it comes from: a path, or the `gen:` text.
    pub name: String,
    /// `native`, `text`, `champsim`, `drmemtrace-view`, `lackey` or `generator`.
    pub format: String,
    /// The recorded program.
    pub program: String,
    /// Its arguments.
    pub args: Vec<String>,
    /// Its instruction set.
    pub isa: Isa,
    /// Instructions in it, when known beforehand.
    pub instructions: Option<u64>,
    /// References in it, when known beforehand.
    pub references: Option<u64>,
    /// Whether it carries the program's address-space events; without them, unmapped memory must be mapped on touch.
    pub has_address_space: bool,
    /// A hash of its content (hexadecimal), when it can be known without reading all.
    pub hash: Option<String>,
    /// Things a reader must be told, such as a cut end.
    pub warnings: Vec<String>,
}

/// Something that yields a program's references in order.
pub trait Source: Send {
    /// What is known of it.
    fn info(&self) -> &TraceInfo;

    /// Clears `batch` and fills it with the next stretch; `false` when nothing was left.
    ///
    /// # Errors
    /// The place and nature of the damage. `batch` then holds whatever could be read before it, which is valid.
    fn next_batch(&mut self, batch: &mut Batch) -> Result<bool, TraceError>;

    /// How much of the source has been consumed (0.0..=1.0), for progress; `None` when unknown.
    fn progress(&self) -> Option<f64> {
        None
    }
}
