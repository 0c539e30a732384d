//! Machine-file tables for page walks: the walker, walk caches, the caches that PTE reads go through, and memory
//! latency. Each table names the source of its numbers or lists them as assumed. The field comments become the
//! schema's text.

use mmulab_addr::parse_bytes;
use mmulab_assoc::{Replacement, Ways};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A cache of page-table entries above the leaves, which lets a walk start further down.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WalkCacheDesc {
    /// Its name in reports; unique in the machine.
    pub name: String,
    /// The levels whose entries it holds, counted from the leaves: 2 is the PMD (PDE) level, 3 the PUD (PDPTE), 4 the
    /// PGD (PML4E). Of an elastic cuckoo table it holds lines of cuckoo walk tables (it is a cuckoo walk cache). 4 is
    /// the one to pages of 4 KiB, 5 to those of 2 MiB, 6 to those of 1 GiB.
    #[schemars(inner(range(min = 1, max = 6)))]
    pub levels: Vec<u8>,
    /// Entries in all. 0 means that there is none: every walk starts above.
    #[schemars(range(min = 0, max = 1 << 20))]
    pub entries: u32,
    /// Ways of a set, or `"full"`. A set is chosen by the low bits of the address above what an entry spans.
    pub ways: Ways,
    /// Which entry of a full set goes: `lru`, `tree-plru` or `random`. Default `lru`.
    #[serde(default)]
    pub replacement: Replacement,
    /// Latency of a hit, in cycles. Before a search of a hashed table all are asked first, and a miss takes as long.
    /// Default 0.
    #[serde(default)]
    #[schemars(range(min = 0, max = 10_000))]
    pub hit_cycles: u32,
    /// Time after which 1/e (37 %) of its entries are left, in cycles: where another hardware thread's program
    /// displaces them. Each goes at random. Only a core in time (`--timing`) has that. Default: they stay.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1000, max = 1_000_000_000_000_u64))]
    pub retention_cycles: Option<u64>,
    /// Where the numbers come from.
    #[serde(default)]
    pub source: String,
    /// Keys of this table that no source states, each with the reason for the value.
    #[serde(default)]
    pub assumed: BTreeMap<String, String>,
}

/// The page walker of a core, or of all.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WalkerDesc {
    /// Walks that can go on at once. Default 1.
    #[serde(default = "one")]
    #[schemars(range(min = 1, max = 64))]
    pub count: u8,
    /// One walker, with its walk caches, for all cores, rather than one for each; walks beyond `count` wait for their
    /// turn. Default false.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub shared: bool,
    /// Its walk caches. All are searched at once; the entry nearest the leaf is used.
    #[serde(default)]
    pub cache: Vec<WalkCacheDesc>,
    /// Cycles of a walk besides those of its reads: to begin it, and to hand the translation to who waits. Default 0.
    #[serde(default, skip_serializing_if = "is_zero")]
    #[schemars(range(min = 0, max = 10_000))]
    pub overhead_cycles: u32,
    /// Cycles after a walk in which its walker begins no other one. They delay nobody who does not wait for a walker.
    /// Default 0.
    #[serde(default, skip_serializing_if = "is_zero")]
    #[schemars(range(min = 0, max = 10_000))]
    pub turnaround_cycles: u32,
    /// Cycles of each read besides the latency of the cache that has the entry, from its arrival to the request for the
    /// next one. They are the same in a guest's and its host's table. Reads at once overlap in them, too. Default 0.
    #[serde(default, skip_serializing_if = "is_zero")]
    #[schemars(range(min = 0, max = 10_000))]
    pub read_cycles: u32,
    /// Cycles to compute the hashes for each group of reads; only for page tables found by hashing. Default 0.
    #[serde(default, skip_serializing_if = "is_zero")]
    #[schemars(range(min = 0, max = 10_000))]
    pub hash_cycles: u32,
    /// Where the numbers come from.
    #[serde(default)]
    pub source: String,
    /// Keys of this table that no source states, each with the reason for the value.
    #[serde(default)]
    pub assumed: BTreeMap<String, String>,
}

fn is_zero(cycles: &u32) -> bool {
    *cycles == 0
}

fn one() -> u8 {
    1
}

fn all() -> f64 {
    1.0
}

/// A level of the caches that page-table entries are read through. Lines are 64 bytes, replacement is true LRU.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CacheDesc {
    /// Its name in reports; unique in the machine.
    pub name: String,
    /// Capacity, such as `"32K"`.
    #[schemars(extend("x-least" = "64", "x-most" = "4G"))]
    pub size: String,
    /// Ways of a set. They must divide the lines.
    #[schemars(range(min = 1, max = 256))]
    pub ways: u32,
    /// Latency from the core to a hit, in cycles.
    #[schemars(range(min = 0, max = 100_000))]
    pub cycles: u32,
    /// Whether the cores share it. Default false.
    #[serde(default)]
    pub shared: bool,
    /// Whether it is an instruction cache, for code alone: fetches use it in place of the first level of the others.
    /// Default false.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub code: bool,
    /// Whether it takes the lines that the level before evicts, in place of the lines that it missed itself. Such a
    /// victim cache is the third level of AMD's Zen. Default false.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub victim: bool,
    /// Time after which 1/e (37 %) of the unused lines are left, in cycles. It is for a level that other programs share
    /// and fill, on other cores, or on another hardware thread of this one. A victim cache has the lines that are
    /// displaced before it. Only a core in time (`--timing`) knows how long ago a use was; without one lines stay.
    /// Default: only the level's own lines displace each other.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1000, max = 1_000_000_000_000_u64))]
    pub retention_cycles: Option<u64>,
    /// How alike the times are that unused lines stay: the shape of a Weibull distribution. 1 is exponential, as under
    /// random replacement. Under LRU lines go at about the same age, and it is larger. Where neighbours come and go it
    /// is smaller. Default 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0.2, max = 20))]
    pub retention_shape: Option<f64>,
    /// Of a victim cache that keeps lines for a shorter time until they are used from it. Default: it keeps all alike.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fresh: Option<FreshDesc>,
    /// Where the numbers come from.
    #[serde(default)]
    pub source: String,
    /// Keys of this table that no source states, each with the reason for the value.
    #[serde(default)]
    pub assumed: BTreeMap<String, String>,
}

/// How a victim cache treats lines that memory sent, until they are used from it.
///
/// Few of them are ever used again, so it does not keep them for long. A fresh line may be the one of its set that goes
/// next (LRU insertion policy: Qureshi et al., Adaptive Insertion Policies for High Performance Caching, ISCA 2007).
/// Once used from the cache, it is a line like all others.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FreshDesc {
    /// Share of them that it takes in when the level before evicts them. Default 1.
    #[serde(default = "all")]
    #[schemars(range(min = 0.0, max = 1))]
    pub admits: f64,
    /// Time after which 1/e (37 %) of those taken in are left, in cycles, where neighbours share the cache. They go at
    /// random. Default: `retention_cycles` and `retention_shape` of the cache.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1000, max = 1_000_000_000_000_u64))]
    pub retention_cycles: Option<u64>,
    /// Whether a fresh line goes before all others of its set, so that a stream of them displaces no other line. On a
    /// Zen 4 it does not (docs/results/forecast-causes.md). Default true.
    #[serde(default = "yes", skip_serializing_if = "is_yes")]
    pub goes_next: bool,
    /// Whether lines of page tables that a walk brought are fresh, too. On a Zen 4 they are not
    /// (docs/results/forecast-causes.md). Default true.
    #[serde(default = "yes", skip_serializing_if = "is_yes")]
    pub tables: bool,
}

fn yes() -> bool {
    true
}

fn is_yes(value: &bool) -> bool {
    *value
}

impl CacheDesc {
    /// Lines in it, if `size` is a number of whole lines.
    pub(crate) fn lines(&self) -> Option<u64> {
        let bytes = parse_bytes(&self.size)?;
        bytes.is_multiple_of(mmulab_addr::LINE_BYTES).then_some(bytes / mmulab_addr::LINE_BYTES)
    }
}

/// Accesses that go through the caches, and the memory behind them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CacheRules {
    /// Whether the program's own references go through them too and compete for lines. Default false: page-table
    /// lines have them to themselves, and walks look cheaper than they are.
    #[serde(default)]
    pub data: bool,
    /// Latency from the core to memory, in cycles. With `memory_spread` it is the mean.
    #[schemars(range(min = 0, max = 100_000))]
    pub memory_cycles: u32,
    /// How the latency of memory differs between loads: pairs of a share of the loads, and the latency that this share
    /// does not exceed. Shares rise from 0 to 1. Only ratios of the latencies count: their mean is `memory_cycles`.
    /// In time, lines of a page that are on their way together take as long. Default: all loads take as long.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(inner(inner(range(min = 0, max = 1_000_000))))]
    pub memory_spread: Vec<[f64; 2]>,
    /// Where the numbers come from.
    #[serde(default)]
    pub source: String,
    /// Keys of this table that no source states, each with the reason for the value.
    #[serde(default)]
    pub assumed: BTreeMap<String, String>,
}
