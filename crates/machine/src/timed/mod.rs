//! Machines whose cores are in time: their loop, and what serves a core's fetches, loads and stores.
//!
//! ```text
//! trace --code, words--> references --block--> mmulab_timing::Core --fetch,access--> Port --> TLBs, walker, kernel
//!                                                                                    '--> caches, lines coming, memory
//! ```
//!
//! The counts are made by the same TLBs, walkers and kernels as without time.

mod blocks;
mod cpu;
mod execution;
mod neighbour;
mod port;
mod references;
mod sampling;
mod timeline;

pub(crate) use timeline::InTime;
