//! Counters of the host below virtual machines: VM exits and their causes, host page faults, switches between virtual
//! machines, flushes and host cycles. These counters show the cost of virtualization beside the guest's own work.

use super::zero::is_zero;
use schemars::JsonSchema;
use serde::Serialize;

/// Counts of the machine about its host; kernel and walkers count their own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub(crate) struct HostCounts {
    /// Times a guest was left for the host.
    pub exits: u64,
    /// Walks that the host's table ended: nothing was there, or not for this access.
    pub walk_violations: u64,
    /// Pages of the host that were made because a guest's kernel stored there.
    pub kernel_violations: u64,
    /// Of the exits, entries that a guest's kernel wrote to its tables, which shadow tables are made of.
    pub table_writes: u64,
    /// Of the exits, tables that a guest loaded into the base register, where the host has shadow tables for them.
    pub table_loads: u64,
    /// Merged nodes of guests' tables that guests reported to the host, each an exit.
    pub nodes_told: u64,
    /// Hints of page sizes that guests handed on, each an exit.
    #[serde(skip_serializing_if = "is_zero")]
    pub hints_told: u64,
    /// Times another virtual machine ran than before.
    pub machine_switches: u64,
    /// Times all translations of a virtual machine were dropped, for the host had changed its table.
    pub flushes: u64,
    /// Instructions broadcast for those, on machines that say how flushes reach other CPUs.
    #[serde(skip_serializing_if = "is_zero")]
    pub shootdown_instructions: u64,
    /// Interrupts sent for them: one for each other CPU that ran the virtual machine.
    #[serde(skip_serializing_if = "is_zero")]
    pub shootdown_interrupts: u64,
    /// Cycles of the host's kernel work and of leaving guests.
    pub cycles: u64,
}
