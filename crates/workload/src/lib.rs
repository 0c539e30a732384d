//! Generators: known algorithms at work, without their data.
//!
//! `gen:NAME?key=value&key=value` is usable wherever a trace is. An algorithm is a [`Kernel`], written once for every
//! [`Memory`]: the generator's, which tells of each reference and computes what data would hold, and real memory, in
//! which it is a program of its own ([`run_native`]). The same text gives the same references everywhere.

mod described;
mod division;
mod emit;
mod flow;
mod generator;
mod gpu;
mod graph;
mod heap;
mod kernel;
mod kernels;
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
mod twin;

pub use generator::Generator;
pub use kernel::Kernel;
pub use kernels::NAMES;
pub use layout::{Layout, Records, Region};
pub use memory::{Array, Chain, Contents, Kept, Memory, Setup, Word};
pub use native::{Done, GATE};
pub use part::Part;
pub use registry::{GenerateError, NativeError, list, open, run_native};
pub use twin::{TwinError, Twins, before_gate, compare};
