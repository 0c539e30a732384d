//! Memory as a Linux that has booted, and one that has been used, leaves it. It has the free lists of real guests, by
//! order, migrate type and position in the list, as a seeded distribution.
//!
//! A list is a sequence of runs of blocks that follow each other in memory, upwards or downwards, and of jumps between
//! them. How long the runs are and how far the jumps go was counted in guests (`data/aged-linux-6.1.txt`, made by
//! `scripts/aged/observe.py`). A layout draws both anew, from a seed.

mod layout;
mod observed;

pub use layout::{Layout, lay};
pub use observed::observed;
