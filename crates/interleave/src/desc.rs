//! The description of a mix: members with their traces, the order and length of turns, and the end of the mix. A mix
//! interleaves several traces on one machine, as processes of one kernel or as virtual machines.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A mix with everything known: the turns, and what takes them.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MixDesc {
    /// Its name in results.
    pub name: String,
    /// The turns.
    pub schedule: Schedule,
    /// The members that take them, in order.
    pub members: Vec<MemberDesc>,
}

/// One of a mix.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MemberDesc {
    /// Its name, unlike all others.
    pub name: String,
    /// A trace file, a generator (`gen:...`), or a mix (`mix:` and its description).
    pub trace: String,
    /// Instructions left out at its beginning.
    #[serde(default)]
    pub skip: u64,
    /// Instructions taken after those; `None` for all.
    #[serde(default)]
    pub instructions: Option<u64>,
    /// Instructions that the mix has run when it starts.
    #[serde(default)]
    pub after: u64,
    /// The core its threads run on.
    #[serde(default)]
    pub core: Option<u16>,
}

/// How the members take turns.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Schedule {
    /// How they are kept apart.
    #[serde(rename = "as")]
    pub apart: Apart,
    /// Length of a turn.
    pub quantum: u64,
    /// The unit of this length.
    pub unit: Counted,
    /// Cores they are spread over, each with a queue of its own; `None` for one queue, and the machine places threads.
    pub cores: Option<u16>,
    /// One queue for all cores: each turn is the next core's, and the next member's, whichever that is.
    pub migrate: bool,
    /// When it ends.
    pub end: End,
    /// The most instructions of all members together; `None` for no limit.
    pub instructions: Option<u64>,
}

/// How the members of a mix are kept apart.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Apart {
    /// Each has processes of its own, under one kernel.
    #[default]
    Processes,
    /// Each has a virtual machine of its own, with its own kernel and memory.
    Machines,
}

/// The unit of a turn.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Counted {
    /// References; exactly.
    #[default]
    References,
    /// Instructions, up to the end of the block of code in which the turn ends.
    Instructions,
}

/// When a mix ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum End {
    /// When all members have ended; whoever ended before has no more turns.
    #[default]
    All,
    /// When the first member ends.
    First,
    /// When all members have ended at least once; one that ends before exits and starts again.
    Restart,
}
