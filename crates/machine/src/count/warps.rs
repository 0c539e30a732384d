//! Counters of shader cores: warp instructions, lanes, coalesced lookups, and lookups that joined a walk in flight.

use schemars::JsonSchema;
use serde::Serialize;

/// Counts of warps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct WarpCounts {
    /// Loads and stores, of all lanes of a warp together.
    pub instructions: u64,
    /// Addresses that lanes named.
    pub lanes: u64,
    /// Lookups that they came to.
    pub lookups: u64,
    /// Cycles that cores were kept by lookups beyond those that the first level begins at once.
    pub port_stalls: u64,
    /// Lookups that found nothing and waited for a walk in flight.
    pub joined: u64,
}
