//! Counters of shootdowns: what flushes took to reach the TLBs of CPUs other than that which asked for them.

use schemars::JsonSchema;
use serde::Serialize;

/// Cost of flushes that reach the TLBs of all CPUs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ShootdownCounts {
    /// Flushes that concern all CPUs.
    pub flushes: u64,
    /// Instructions that were broadcast for them.
    pub instructions: u64,
    /// Interrupts that were sent for them: one for each CPU that had to flush.
    pub interrupts: u64,
    /// Cycles of all this, of the CPUs that asked and of those that were interrupted. Kernel cycles contain them.
    pub cycles: u64,
}
