//! Identifiers of processes, threads and address spaces. PID and TID name processes and threads of a trace. The
//! simulator assigns ASIDs, and TLB entries carry them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;

/// A process: an address space's name in a trace.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Pid(pub u32);

/// A thread.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Tid(pub u32);

/// The number by which a TLB distinguishes address spaces (x86-64 PCID, Arm and RISC-V ASID).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Asid(pub u16);

impl fmt::Display for Pid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

impl fmt::Display for Tid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}
