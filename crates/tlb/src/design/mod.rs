//! Designs whose entries may translate more than one page of the table, a file each.
//!
//! All of them learn from one thing only: the line of entries that a walk read ([`Line`]). `zen` needs no storage of
//! its own, a coalesced entry is an entry of one more page size in the ordinary sets; the others search theirs
//! ([`Spans`]). `skew`, whose entries are pages in places of their own, is here too.

mod bundles;
mod clustered;
mod colt_fa;
mod colt_sa;
mod line;
mod mix;
mod scan;
mod skew;
mod spans;
mod tps;
pub mod zen;

pub use line::Line;
pub use scan::{Change, Known};
pub use spans::Spans;
