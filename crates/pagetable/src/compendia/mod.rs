//! Page tables whose dense parts are merged into nodes of 2 MiB (paper 5, Ainsworth and Jones, *Compendia*, ISMM 2021).
//!
//! A table of 4 KiB translates 9 bits. Two levels of tables, merged, are one node of 262,144 entries that translates 18
//! bits in one access, and just fills a huge page. Three merged levels are a node of 1 GiB that translates 27 bits. The
//! entries are in [`entry`], and the time of merges in [`desc`]. The kernel's tree of its tables is in [`tree`], and
//! its writes are in [`write`]. Merging is in [`merge`] and, for three levels, in [`three`].

mod desc;
pub mod entry;
mod merge;
mod requests;
mod table;
mod three;
mod tree;
mod write;

pub use desc::{CompendiaDesc, Marks, Share};
pub use requests::Requests;
pub use table::MergedTree;
