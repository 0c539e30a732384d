//! Reads of page walks by level of the table, and the caches that had the lines.

use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;

/// Reads of walks at a level of the table.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct LevelReport {
    /// The level, 1 is the last.
    pub level: u8,
    /// Walks that took its entry from a walk cache.
    pub from_walk_cache: u64,
    /// Entries read.
    pub reads: u64,
    /// These reads by the cache that had the line, or memory.
    pub served_by: BTreeMap<String, u64>,
}
