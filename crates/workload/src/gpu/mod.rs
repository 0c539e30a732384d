//! Programs of GPUs: grids of warps, told for a machine's number of shader cores.

mod describe;
mod grid;
mod programs;
mod registry;
mod schedule;

pub use registry::{NAMES, is_known, open, schemas};
