//! Page tables that are found by hashing: elastic cuckoo tables and an open-addressing table.
//!
//! Both keep *lines*: the eight entries of neighbouring pages in 64 bytes, with the number of the group in bits of the
//! entries that x86-64 ignores ([`line`]). There is a table for each page size, and each table is one or several *ways*
//! of lines ([`store`]). Where the ways are and how large is told by registers, which are loaded from one frame
//! ([`registers`]). Hardware makes its reads in groups, at once ([`search`]). The cuckoo table has *guides* besides:
//! tables that tell which sizes there are, and in which way ([`sections`]).
//!
//! How lines find their places is in [`cuckoo`] and [`open`]; what both do for the kernel in [`table`].

mod cuckoo;
mod desc;
mod draw;
mod line;
mod open;
mod registers;
mod search;
mod sections;
mod store;
mod table;

pub use desc::{CuckooDesc, HashedDesc, OpenDesc, Part, Probing};
pub use draw::draw;
pub use line::{Hash, hash};
pub(crate) use registers::each_line;
pub use search::{Found, Group, Hashing, Learned, Read, Search};
pub use table::Hashed;

use mmulab_addr::PageOrder;

/// Page sizes: 4 KiB, 2 MiB and 1 GiB.
pub const SIZES: usize = 3;
/// Tables in all: one of pages and one guide for each size.
pub const TABLES: usize = 2 * SIZES;
/// The level of the first guide: levels count the tables of pages first.
pub const FIRST_GUIDE: u8 = SIZES as u8 + 1;
/// Bits of a page number that an entry of the next larger size spans.
const SIZE_BITS: u8 = 9;
/// Entries of a line, as a power of two.
const LINE_BITS: u8 = 3;
/// Sections that a line of a guide tells of, as a power of two.
const GUIDE_BITS: u8 = 6;

/// The page size that table number `size` maps.
pub const fn order_of(size: usize) -> PageOrder {
    PageOrder::new(SIZE_BITS * size as u8)
}

/// What an entry of `level` spans: of a table of pages a page, of a guide all that a line of it tells of.
#[inline(always)]
pub const fn covers(level: u8) -> PageOrder {
    if level < FIRST_GUIDE {
        order_of(level as usize - 1)
    } else {
        PageOrder::new(SIZE_BITS * (level - FIRST_GUIDE) + LINE_BITS + GUIDE_BITS)
    }
}
