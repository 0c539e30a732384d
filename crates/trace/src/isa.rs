//! The instruction sets that traces come from.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;

/// The instruction set a trace was made on.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
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
