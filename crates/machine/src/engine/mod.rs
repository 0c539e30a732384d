//! The engine: a reference looks in the TLBs, else the walker reads the tables, else the kernel serves a fault.
//!
//! ```text
//! Engine<B, X> { state: State, below: B, execution: X }
//!
//! run          items of a batch, one after the other
//! X            the loop over references, and what waiting for a walk means
//! slow_path    second-level hits, walks, faults, and walks after them
//! B            what lies below the kernel of the programs
//! shootdown    invalidations to the CPUs, kernel work to the clock of kernel time
//! ```
//!
//! [`Engine`] is generic over its two parts, so that a plain machine ([`Bare`], [`Windowed`]) compiles to a loop in
//! which no other kind of machine leaves a trace. Which parts a description asks for is decided once, in
//! [`crate::running`].

mod below;
mod daemons;
mod events;
mod execution;
mod fault;
mod kernel_stores;
mod parts;
mod reach;
mod resume;
mod run;
mod shootdown;
mod slow_path;
mod start;
mod state;
mod stores;
mod windowed;

pub(crate) use {
    below::{AHEAD, Bare, Below, WalkResult},
    execution::{Execution, Miss, Slot, WalkTime},
    parts::Engine,
    reach::{Asker, Shootdown},
    state::{Build, Hardware, State},
    windowed::{Passed, Record, Windowed},
};
