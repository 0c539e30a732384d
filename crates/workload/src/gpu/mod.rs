//! Programs of GPUs: grids of warps, told for a machine with so many shader cores.

mod describe;
mod grid;
mod programs;
mod registry;
mod schedule;

pub use registry::{NAMES, is_known, open, schemas};
