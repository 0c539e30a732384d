//! Generators: the references of known algorithms, without their data.
//!
//! `gen:NAME?key=value&key=value` is usable wherever a trace is. A generator is an iterator of loop rounds in constant
//! memory; the same text gives the same references everywhere.

mod chase;
mod desc;
mod generator;
mod gups;
mod seed;
mod sequential;
mod sparse;
mod zipf;

pub use desc::{GenerateError, list, open};
pub use generator::{Generator, Round, Rounds};
