//! Schema of the `[mix]` table of a recipe: the members, their turns and their cores. Counts are still texts here,
//! because they may contain parameter names in braces; `expand` turns them into numbers.

use crate::Value;
use mmulab_interleave::{Apart, Counted, End};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Several workloads that run beside each other: their references are told in turns. Each core has a queue of members,
/// and the cores take a turn each. The next turn on a core goes to the next member of its queue.
///
/// Each key but `member` can be set like a parameter (`mix:NAME?quantum=10k`), and counts and cores may name parameters
/// in braces.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Mix {
    /// How the members are kept apart: `processes` of one kernel, or virtual `machines` of their own (which need a
    /// machine with a `[virtual]` table, or `--guest-memory`).
    #[serde(default, rename = "as")]
    pub apart: Apart,
    /// A member's turn, such as `100k` (powers of 1000).
    #[serde(default = "quantum")]
    pub quantum: String,
    /// In what a turn is counted: `references`, exactly, or `instructions`, up to the end of the block of code in which
    /// the turn ends.
    #[serde(default)]
    pub unit: Counted,
    /// Cores that the members are spread over, in order; cores beyond those of the machine are its cores again.
    /// Default: one queue for all members, and the machine places each thread as it appears.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cores: Option<Value>,
    /// One queue for all `cores`: each turn is the next core's, and the next member's, so that members wander.
    #[serde(default)]
    pub migrate: bool,
    /// `all`: when all members have ended; `first`: when the first ends; `restart`: when all have ended at least once,
    /// while those that end before exit and start again.
    #[serde(default)]
    pub end: End,
    /// The most instructions of all members together, such as `100M`. Default: no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instructions: Option<String>,
    /// The members, in order.
    pub member: Vec<Member>,
}

fn quantum() -> String {
    "100k".into()
}

/// A workload of a mix.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Member {
    /// Its name in results. Default: the workload's name, or the generator's, or the file's. Instances are numbered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// A workload by its name. One that is recorded is looked for as `NAME.mmt`, then `build/workloads/NAME.mmt`
    /// (by `mmulab workloads table` in its `--traces`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workload: Option<String>,
    /// Parameters of that workload; not of one that is recorded.
    #[serde(default)]
    pub set: BTreeMap<String, Value>,
    /// In place of `workload`: a generator (`gen:NAME?key=value`), or a trace file beside the recipe or in the working
    /// directory. `{instance}` is the instance's number, from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<String>,
    /// Instances of it. Default 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<Value>,
    /// Instructions left out at its beginning. Default: the workload's own, or 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub skip: Option<String>,
    /// Instructions taken. Default: the workload's own, or all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instructions: Option<String>,
    /// Instructions that the mix has run when it starts. It starts at once if nobody else can run. Default 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
    /// The same between one instance and the next. Default 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stagger: Option<String>,
    /// The core that its threads run on. Default: as `cores` says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub core: Option<Value>,
}
