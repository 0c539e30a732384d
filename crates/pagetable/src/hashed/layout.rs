//! How many tables there are, of which sizes, and what a line of each spans. All parts of hashed tables count by these
//! numbers.

use mmulab_addr::PageOrder;

/// Page sizes: 4 KiB, 2 MiB and 1 GiB.
pub const SIZES: usize = 3;
/// Tables in all: one of pages and one cuckoo walk table for each size.
pub const TABLES: usize = 2 * SIZES;
/// The level of the first cuckoo walk table: levels count the tables of pages first.
pub const FIRST_WALK_TABLE: u8 = SIZES as u8 + 1;
/// Bits of a page number that an entry of the next larger size spans.
pub const SIZE_BITS: u8 = 9;
/// Entries of a line, as a power of two.
pub const LINE_BITS: u8 = 3;
/// Sections in a line of a cuckoo walk table, as a power of two.
pub const WALK_TABLE_BITS: u8 = 6;

/// The page size that table number `size` maps.
pub const fn order_of(size: usize) -> PageOrder {
    PageOrder::new(SIZE_BITS * size as u8)
}

/// Memory that an entry of `level` covers: in a table of pages a page, in a cuckoo walk table all sections of a line.
#[inline(always)]
pub const fn covers(level: u8) -> PageOrder {
    if level < FIRST_WALK_TABLE {
        order_of(level as usize - 1)
    } else {
        PageOrder::new(SIZE_BITS * (level - FIRST_WALK_TABLE) + LINE_BITS + WALK_TABLE_BITS)
    }
}
