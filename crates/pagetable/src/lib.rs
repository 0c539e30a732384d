//! Translation tables as bytes in simulated frames.
//!
//! Two faces. The kernel edits a [`Table`]; every edit that could leave a stale translation returns a [`Flush`] that
//! must be delivered. Hardware sees only a [`Format`] and a [`Root`]. It asks where the first entry lies, reads that
//! entry's line from [`mmulab_frames::PhysMem`], and asks what the entry's bits mean. The two never share state but the
//! bytes.
//!
//! Tables are walked in one of two ways. A tree is descended, an entry at a time: [`Format::start`] and
//! [`Format::next`]. A hashed table is searched by groups of reads, each made at once: [`Search`]. [`Format::find`]
//! does either.
//!
//! A new page-table format is a file of `formats` and a row of its list.

#[macro_use]
mod formats;
mod arm;
mod compendia;
mod desc;
mod draw;
mod entry;
mod flush;
mod format;
mod frames;
mod geometry;
mod hardware;
mod hashed;
mod leaf_bits;
mod radix;
mod root;
mod table;
mod table_format;
mod tables;
mod walked;
mod x86;

pub use compendia::{Marks, Share};
pub use desc::{TableDesc, TableKind};
pub use draw::draw;
pub use flush::{Flush, Invalidate};
pub use format::Format;
pub use formats::params::*;
pub use frames::{TableEvent, TableFrames};
pub use hardware::{Leaf, Next, Rights, Step};
pub use hashed::{Found, Group, Hash, Hashing, Learned, Part, Probing, Read, Search, hash};
pub use root::Root;
pub use table::Table;
pub use tables::{Census, MapError, Probe};
pub use walked::Walked;
