//! Memory that the kernel lends to page tables, and the events by which tables report merges, moves and resizes.

use mmulab_addr::{PageOrder, Pfn};

/// Where tables get their frames.
pub trait TableFrames {
    /// The frames of a table, as many as a base page has, aligned; `None` when there are none.
    fn take(&mut self) -> Option<Pfn>;
    /// Those of a table that is no longer needed, by the first.
    fn give_back(&mut self, pfn: Pfn);
    /// An aligned block of `order`, for tables that are larger than a frame; `None` when there is none. Who hands out
    /// no blocks need not say so: tables do without.
    fn take_block(&mut self, _order: PageOrder) -> Option<Pfn> {
        None
    }
    /// The same for a block that may be larger than the allocator's own blocks, found among free memory: 1 GiB.
    fn take_contiguous(&mut self, order: PageOrder) -> Option<Pfn> {
        self.take_block(order)
    }
    /// A block a table no longer needs.
    fn give_back_block(&mut self, pfn: Pfn, order: PageOrder) {
        (0..order.base_pages()).for_each(|i| self.give_back(Pfn(pfn.0 + i)));
    }
    /// Reports an event of the table besides the requested edit.
    fn happened(&mut self, _what: TableEvent) {}
}

/// Event that a table causes besides requested edits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TableEvent {
    /// It was decided anew whether a table should be merged with its children.
    Checked,
    /// Tables of `level` and those below became one node.
    Merged {
        /// Of the uppermost ones.
        level: u8,
        /// Levels of them: two, or three.
        levels: u8,
        /// Entries copied into it.
        written: u64,
    },
    /// A node became tables again.
    Unmerged {
        /// Of the uppermost ones.
        level: u8,
        /// Levels of them: two, or three.
        levels: u8,
        /// Entries copied out of it.
        written: u64,
    },
    /// Tables stayed as they are, because there was no block for a node.
    NoBlock {
        /// Of the upper ones.
        level: u8,
    },
    /// Lines of the table of `level` were pushed aside to make room for another, or moved up to fill its place.
    Kicked {
        /// Its level.
        level: u8,
        /// How many.
        lines: u64,
    },
    /// Lines of the table of `level` were moved to ways of another size.
    Rehashed {
        /// Its level.
        level: u8,
        /// How many.
        lines: u64,
    },
    /// The table of `level` got memory for ways of another size, which are zeroed; at first, for any.
    Resized {
        /// Its level.
        level: u8,
        /// Its ways.
        ways: u8,
        /// Lines of a way before; 0 if there were none.
        from: u64,
        /// Lines of a way from now on.
        to: u64,
        /// Pieces of memory of a way.
        pieces: u64,
    },
    /// The table of `level` stayed as large as it is, because there was no memory for another.
    NoResize {
        /// Its level.
        level: u8,
    },
    /// A cuckoo walk table was written.
    WalkTabled,
    /// A node stayed as it is, because there were not enough frames for tables.
    NoFrames {
        /// Of the upper tables.
        level: u8,
    },
}
