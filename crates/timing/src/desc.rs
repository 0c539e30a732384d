//! Description of an out-of-order core in time.

use crate::PerCycle;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// An out-of-order core: how many instructions it keeps in flight, and how long each takes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TimingDesc {
    /// Instructions dispatched per cycle; 2.5 are 2 and 3 in turn. Range 0.25..=64.
    #[schemars(with = "f64", range(min = 0.25, max = 64.0))]
    pub width: PerCycle,
    /// Instructions retired per cycle. Range 0.25..=64.
    #[schemars(with = "f64", range(min = 0.25, max = 64.0))]
    pub retire_width: PerCycle,
    /// Entries of the reorder buffer, in instructions. Range 1..=65536.
    #[schemars(range(min = 1, max = 65536))]
    pub window: u32,
    /// Entries of the load queue: loads dispatched and not retired. Range 1..=65536.
    #[schemars(range(min = 1, max = 65536))]
    pub loads: u32,
    /// Entries of the store queue: stores dispatched and not written to the cache. Range 1..=65536.
    #[schemars(range(min = 1, max = 65536))]
    pub stores: u32,
    /// Integer registers for renaming: results not retired. Range 1..=65536.
    #[schemars(range(min = 1, max = 65536))]
    pub int_registers: u32,
    /// Vector registers for renaming: results not retired. Range 1..=65536.
    #[schemars(range(min = 1, max = 65536))]
    pub vector_registers: u32,
    /// Whether a move between registers takes no register for renaming: it shares that of what it copies. Default:
    /// false.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub moves_share_registers: bool,
    /// Which compares are one operation with the conditional branch behind them. Default: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fusion: Option<Fusion>,
    /// Blocks of code that are fetched ahead of dispatch. Range 1..=65536.
    #[schemars(range(min = 1, max = 65536))]
    pub fetch_ahead: u32,
    /// Blocks of code that are fetched in a cycle, if each follows the one before in memory. A branch that is not taken
    /// ends a block, but not the fetch. Default and range: 1, 1..=8.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    #[schemars(range(min = 1, max = 8))]
    pub fetch_blocks: u8,
    /// Cycles from a mispredicted branch's result to the dispatch of the instruction after it.
    #[schemars(range(min = 0, max = 10000))]
    pub mispredict_cycles: u32,
    /// Cycles from a store's data to a load that takes them out of the store queue.
    #[schemars(range(min = 0, max = 10000))]
    pub forward_cycles: u32,
    /// Cycles until a register is ready that an access changes by a constant, such as the stack pointer of a push. 0:
    /// the front end keeps count of it.
    #[schemars(range(min = 0, max = 10000))]
    pub bump_cycles: u32,
    /// How branches are predicted.
    #[serde(default)]
    pub predictor: Predictor,
    /// How the front end finds taken branches. Default: it knows every one, and where it goes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch_targets: Option<BranchTargets>,
    /// How many instructions of a kind begin in a cycle.
    pub units: Units,
    /// How long they take, in cycles.
    pub latencies: Latencies,
    /// How lines of memory come to the core.
    pub memory: MemoryTiming,
    /// Assumption about the dependences of code whose instructions are not known.
    #[serde(default)]
    pub unknown: Unknown,
    /// Where the numbers come from.
    #[serde(default)]
    pub source: String,
    /// Keys of this table that no source states, each with the reason for the value.
    #[serde(default)]
    pub assumed: BTreeMap<String, String>,
}

/// Fusion of an instruction that sets flags with a conditional branch right behind it. Both take one place in the
/// reorder buffer, one unit, and the time of the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Fusion {
    /// Also instructions that write a register beside the flags, such as additions; else compares and tests alone.
    pub arithmetic: bool,
    /// Also instructions that load from memory.
    pub memory: bool,
}

/// How decoding and renaming shorten a block of code, before it is run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Renaming {
    /// As [`TimingDesc::fusion`].
    pub fusion: Option<Fusion>,
    /// As [`TimingDesc::moves_share_registers`].
    pub moves_share_registers: bool,
}

impl TimingDesc {
    /// The rules that blocks for this core are made with.
    pub fn renaming(&self) -> Renaming {
        Renaming { fusion: self.fusion, moves_share_registers: self.moves_share_registers }
    }
}

/// How branches are predicted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Predictor {
    /// Every branch is predicted that the front end has found.
    Perfect,
    /// Hashed perceptrons (Tarjan and Skadron, ACM TACO 2005) for conditional branches, the last target by recent
    /// history for indirect ones. Returns and direct branches are predicted.
    #[default]
    Perceptron,
}

/// Branch target buffers (BTB): the front end fetches along branches that it has not decoded yet.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BranchTargets {
    /// The buffers, nearest first; at least one.
    pub buffers: Vec<TargetBuffer>,
    /// Cycles from the arrival of a branch's code to the fetch of its target, where no buffer has it: the branch is
    /// decoded first.
    #[schemars(range(min = 0, max = 10000))]
    pub decode_cycles: u32,
}

impl BranchTargets {
    /// Refuses buffers that cannot be, with the remedy.
    ///
    /// # Errors
    /// No buffer at all, or one with a part of a set.
    pub fn check(&self) -> Result<(), String> {
        if self.buffers.is_empty() {
            return Err(
                "core.timing.branch_targets has no buffers: leave it out for a front end that knows all targets, \
                        or give one"
                    .into(),
            );
        }
        for (at, &TargetBuffer { entries, ways, .. }) in self.buffers.iter().enumerate() {
            if ways == 0 || !entries.is_multiple_of(ways) || entries == 0 {
                return Err(format!(
                    "core.timing.branch_targets.buffers[{at}] has {entries} entries in sets of {ways}: give entries \
                     that are a multiple of ways"
                ));
            }
        }
        Ok(())
    }
}

/// A branch target buffer. Its sets are chosen by a hash of the branch's address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TargetBuffer {
    /// Branches that it holds: those that were taken. Range 1..=1048576.
    #[schemars(range(min = 1, max = 1048576))]
    pub entries: u32,
    /// Ways of a set, of which `entries` is a multiple. Range 1..=64.
    #[schemars(range(min = 1, max = 64))]
    pub ways: u32,
    /// Cycles in which nothing is fetched when a branch is found in it, and in no nearer buffer.
    #[schemars(range(min = 0, max = 10000))]
    pub bubbles: u32,
}

/// How lines of memory come to a core. The latencies of caches and memory are theirs (`cache.*.cycles`,
/// `cache_rules.memory_cycles`).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MemoryTiming {
    /// Lines that a core can wait for at once: buffers (MSHRs) of the first data cache. Range 1..=1024.
    #[schemars(range(min = 1, max = 1024))]
    pub fill_buffers: u16,
    /// Bytes that memory gives all cores in a cycle. Range 0.25..=65536.
    #[schemars(range(min = 0.25, max = 65536.0))]
    pub bytes_per_cycle: f64,
    /// Streams that the prefetcher of a core follows; 0 for no prefetcher.
    #[schemars(range(min = 0, max = 1024))]
    pub streams: u16,
    /// Lines that it brings ahead of a stream, into the second cache level. It does not leave a page of 4 KiB.
    #[schemars(range(min = 0, max = 64))]
    pub stream_distance: u16,
    /// Load instructions whose strides a prefetcher by instruction follows; 0 for none. It translates addresses, so it
    /// leaves pages. Of a stride of one line it is `stream_distance` ahead. Default 0.
    #[serde(default)]
    #[schemars(range(min = 0, max = 4096))]
    pub strides: u16,
    /// Steps that it is ahead of a load with another stride. Default 0.
    #[serde(default)]
    #[schemars(range(min = 0, max = 64))]
    pub stride_distance: u16,
    /// Load instructions of which a prefetcher by region learns which lines near their own are used after them; 0 for
    /// none. It brings these lines into the second cache level. Default 0.
    #[serde(default, skip_serializing_if = "is_zero")]
    #[schemars(range(min = 0, max = 4096))]
    pub regions: u16,
    /// Lines to each side of a load's line that its region has. The prefetcher does not leave a page of 4 KiB.
    /// Default 0.
    #[serde(default, skip_serializing_if = "is_zero")]
    #[schemars(range(min = 0, max = 8))]
    pub region_reach: u8,
}

fn one() -> u8 {
    1
}

fn is_one(count: &u8) -> bool {
    *count == one()
}

fn is_zero<T: Default + PartialEq>(count: &T) -> bool {
    *count == T::default()
}

/// Assumption about code whose instructions are not known: traces of other tools, generators, old recordings. The
/// truth lies between the two.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Unknown {
    /// No instruction waits for another.
    #[default]
    Independent,
    /// Each load waits for the load before it.
    Dependent,
}

/// How many instructions of a kind begin in a cycle, which need not be whole numbers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Units {
    /// Integer instructions and branches. Range 0.25..=64.
    #[schemars(with = "f64", range(min = 0.25, max = 64.0))]
    pub int: PerCycle,
    /// Integer multiplications. Range 0.25..=64.
    #[schemars(with = "f64", range(min = 0.25, max = 64.0))]
    pub mul: PerCycle,
    /// Vector and floating-point instructions. Range 0.25..=64.
    #[schemars(with = "f64", range(min = 0.25, max = 64.0))]
    pub vector: PerCycle,
    /// Loads. Range 0.25..=64.
    #[schemars(with = "f64", range(min = 0.25, max = 64.0))]
    pub load: PerCycle,
    /// Stores. Range 0.25..=64.
    #[schemars(with = "f64", range(min = 0.25, max = 64.0))]
    pub store: PerCycle,
}

/// How long instructions take, in cycles. What accesses take comes on top.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Latencies {
    /// Integer arithmetic, logic, compares, branches.
    #[schemars(range(min = 0, max = 10000))]
    pub int: u32,
    /// Integer multiplication.
    #[schemars(range(min = 0, max = 10000))]
    pub mul: u32,
    /// Integer division; the divider does one at a time.
    #[schemars(range(min = 0, max = 10000))]
    pub div: u32,
    /// Vector integer and logic.
    #[schemars(range(min = 0, max = 10000))]
    pub vector: u32,
    /// Floating-point addition and comparison.
    #[schemars(range(min = 0, max = 10000))]
    pub fp_add: u32,
    /// Floating-point multiplication.
    #[schemars(range(min = 0, max = 10000))]
    pub fp_mul: u32,
    /// Floating-point division and square root; ready for the next after half of it.
    #[schemars(range(min = 0, max = 10000))]
    pub fp_div: u32,
    /// Conversions, and moves between register files.
    #[schemars(range(min = 0, max = 10000))]
    pub convert: u32,
    /// Atomic read-modify-write, after its load.
    #[schemars(range(min = 0, max = 10000))]
    pub atomic: u32,
    /// Instructions that wait until all before them have retired.
    #[schemars(range(min = 0, max = 10000))]
    pub serial: u32,
}
