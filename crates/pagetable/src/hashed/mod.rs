//! Page tables that are found by hashing: elastic cuckoo tables and an open-addressing table.
//!
//! Both keep *lines*: the eight entries of neighbouring pages in 64 bytes. The number of the group is in bits of the
//! entries that x86-64 ignores ([`line`]). Each page size has a table, and each table is one or several *ways* of lines
//! ([`store`]). Registers hold the places and sizes of the ways; they are loaded from one frame ([`registers`]).
//! Hardware makes its reads in groups, at once ([`search`]). The cuckoo table also has *cuckoo walk tables*, which
//! state the page sizes present, and their ways ([`sections`]).
//!
//! How lines find their places is in [`cuckoo`] and [`open`]; what both do for the kernel in [`table`].

mod cuckoo;
mod desc;
mod draw;
mod layout;
mod line;
mod open;
mod registers;
mod search;
mod sections;
mod store;
mod table;

pub use desc::{CuckooDesc, HashedDesc, OpenDesc, Part, Probing};
pub use draw::draw;
pub use layout::{FIRST_WALK_TABLE, SIZES, TABLES, covers};
pub use line::{Hash, hash};
pub(crate) use registers::each_line;
pub use search::{Found, Group, Hashing, Learned, Read, Search};
pub use table::Hashed;
