//! Page tables whose dense parts are merged into nodes of 2 MiB (paper 5, Ainsworth and Jones, *Compendia*, ISMM 2021).
//!
//! A table of 4 KiB translates 9 bits. Two levels of them, merged, are one node of 262,144 entries that translates 18
//! bits in one access, and just fills a huge page; three, if that is wanted, are one of 1 GiB that translates 27. What
//! hardware reads is in [`entry`], when to merge in [`desc`], the tree that the kernel keeps of its tables in [`tree`],
//! what it writes for it in [`write`], and merging itself in [`merge`] and, of three levels, in [`three`].

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
