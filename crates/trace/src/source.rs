//! Trace sources: the trait that every trace reader and generator implements, and the metadata of a trace. A
//! simulation takes batches from a `Source` and does not depend on the trace format.

use crate::{Batch, Description, EndInfo, Isa, TraceError};
use mmulab_addr::VirtAddr;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Information about a trace before it is read.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct TraceInfo {
    /// Where it comes from: a path, or the `gen:` text.
    pub name: String,
    /// `native`, `text`, `champsim`, `drmemtrace-view`, `lackey`, `accel-sim` or `generator`.
    pub format: String,
    /// The recorded program.
    pub program: String,
    /// Its arguments.
    pub args: Vec<String>,
    /// Its instruction set.
    pub isa: Isa,
    /// Instructions in it, when known beforehand.
    pub instructions: Option<u64>,
    /// References in it, when known beforehand.
    pub references: Option<u64>,
    /// Whether it carries the program's address-space events; without them, unmapped memory must be mapped on touch.
    pub has_address_space: bool,
    /// Whether it contains the program's calls of its allocator.
    pub has_heap: bool,
    /// Where only references are kept that a machine's TLBs did not serve: that machine, and its policy. Every
    /// reference of such a trace is a walk.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub misses_of: Option<String>,
    /// Where threads are warps of shader cores: how many a core has. Thread T is warp T % warps of core T / warps.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub warps: Option<u16>,
    /// Where the trace begins with a cut: instructions of the program before it. Up to [`crate::Event::Resume`] the
    /// trace makes the state that they left.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub skipped: Option<u64>,
    /// For interleaved traces: the members and the order of turns.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mix: Option<Mixed>,
    /// How its loads depend on each other, if its maker states it and it contains no instructions.
    #[serde(skip_serializing_if = "needs_many_words")]
    pub loads: Option<Loads>,
    /// A hash of its content (hexadecimal), when it can be known without reading all.
    pub hash: Option<String>,
    /// Warnings for the reader, such as a cut end.
    pub warnings: Vec<String>,
    /// Changes of it on its way here, by the part that made them: empty if it is as it was made.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub reshaped: Map<String, Value>,
}

/// Which loads wait for which.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Loads {
    /// No load waits for another.
    Independent,
    /// Each load waits for the load before it.
    Dependent,
    /// As the blocks of code say, each of its accesses in order. A block that is not among these has independent ones.
    /// No part of a result: it is a generator's, and the same in all of them.
    #[serde(skip)]
    Flow(Vec<BlockFlow>),
}

/// Whether a result leaves out how loads depend: nothing is known, or more than one word would say.
fn needs_many_words(loads: &Option<Loads>) -> bool {
    matches!(loads, None | Some(Loads::Flow(_)))
}

/// Dependences of the accesses of a block of code.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BlockFlow {
    /// Where its code begins.
    pub at: VirtAddr,
    /// Its accesses, in order. If it makes more, these are like the last one.
    pub accesses: Vec<AccessFlow>,
}

/// Values that a load or store waits for, and the value that it makes. Values have numbers, and 0 is none.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AccessFlow {
    /// The values that its address is made of. Range 0..=15.
    pub address: [u8; 2],
    /// The value that it loads. Range 0..=15.
    pub result: u8,
}

/// Several interleaved traces.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Mixed {
    /// How they take turns, as whoever mixed them describes it.
    pub schedule: Map<String, Value>,
    /// The traces, in order.
    pub members: Vec<Member>,
}

/// One of several interleaved traces.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Member {
    /// Its name, unlike all others.
    pub name: String,
    /// Its trace.
    pub trace: String,
    /// The number of its virtual machine, where each has one of its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vm: Option<u32>,
    /// The least and the greatest number that its processes can have; within its virtual machine, if it has one.
    pub pids: [u32; 2],
}

/// Result of [`Source::verify`].
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, JsonSchema)]
pub struct Verified {
    /// Whether there were checksums to check.
    pub checksums: bool,
    /// Chunks whose checksum holds.
    pub chunks: u64,
    /// Instructions in what is whole.
    pub instructions: u64,
    /// References in what is whole.
    pub references: u64,
    /// Faults, each with its place.
    pub problems: Vec<String>,
}

/// Something that yields a program's references in order.
pub trait Source: Send {
    /// Information about it.
    fn info(&self) -> &TraceInfo;

    /// Clears `batch` and fills it with the next items; `false` when nothing was left.
    ///
    /// # Errors
    /// The place and nature of the damage. `batch` then holds whatever could be read before it, which is valid.
    fn next_batch(&mut self, batch: &mut Batch) -> Result<bool, TraceError>;

    /// How much of the source has been consumed (0.0..=1.0), for progress; `None` when unknown.
    fn progress(&self) -> Option<f64> {
        None
    }

    /// Has its batches say which code runs ([`crate::Item::Code`]), for models that need dependences. Whether they
    /// will: most sources know nothing of code. Only before the first batch.
    fn tell_code(&mut self) -> bool {
        false
    }

    /// Reads the whole trace and reports what is wrong. `on_progress` gets the share done, and false from it ends the
    /// work early. Only before the first batch.
    fn verify(&mut self, on_progress: &mut dyn FnMut(Option<f64>) -> bool) -> Verified {
        let (mut found, mut batch) = (Verified::default(), Batch::default());
        loop {
            let read = self.next_batch(&mut batch);
            let (instructions, references) = batch.counts();
            found.instructions = found.instructions.wrapping_add(instructions);
            found.references += references;
            match read {
                Ok(true) if on_progress(self.progress()) => continue,
                Ok(true) => found.problems.push("interrupted: the rest was not read".into()),
                Ok(false) => {}
                Err(TraceError { at, kind, .. }) => found.problems.push(format!("{at}: {kind}")),
            }
            return found;
        }
    }

    /// Metadata at the start of a copy of it.
    fn description(&self) -> Description {
        let TraceInfo { program, args, isa, has_address_space, has_heap, misses_of, warps, skipped, format, .. } =
            self.info().clone();
        let writer = concat!("mmulab ", env!("CARGO_PKG_VERSION")).into();
        let source = format;
        Description {
            program,
            args,
            isa,
            has_address_space,
            has_heap,
            misses_of,
            warps,
            skipped,
            writer,
            source,
            cpu: None,
        }
    }

    /// Metadata at its end, if they can be known beforehand.
    fn end(&self) -> Option<&EndInfo> {
        None
    }
}
