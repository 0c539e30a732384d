//! Generators: known algorithms at work, without their data.
//!
//! `gen:NAME?key=value&key=value` is usable wherever a trace is. An [`Algorithm`] is written once for every [`Memory`].
//! The generator's memory emits each reference and computes what data would hold. In real memory, the algorithm runs as
//! a program of its own ([`run_native`]). The same text gives the same references everywhere.

mod algorithm;
mod algorithms;
mod described;
mod division;
mod emit;
mod flow;
mod generator;
mod gpu;
mod graph;
mod heap;
mod layout;
mod memory;
mod native;
mod part;
mod program;
mod query;
mod ranks;
mod registry;
mod seed;
#[cfg(test)]
mod testing;
mod touched;
mod twin;

pub use algorithm::Algorithm;
pub use algorithms::NAMES;
pub use generator::Generator;
pub use layout::{Layout, Records, Region};
pub use memory::{Array, Chain, Contents, Kept, Memory, Setup, Word};
pub use native::{Done, GATE};
pub use part::Part;
pub use registry::{GenerateError, NativeError, list, open, run_native};
pub use twin::{TwinError, Twins, before_gate, compare};
