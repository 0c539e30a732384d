//! Interface between an array and its storage of any kind.

use super::Line;
use crate::{CoalescingCounts, Entry, key::Value, pages::Slot};
use mmulab_addr::{Asid, PageOrder, Vpn};

/// Input of a fill.
#[derive(Clone, Copy)]
pub enum FillInput<'a> {
    /// A base page, and its neighbours.
    Line(&'a Line),
    /// A larger page, and its neighbours of the same size.
    Large(&'a Line),
    /// A page of any size.
    Page(Value, PageOrder),
}

impl FillInput<'_> {
    /// Value and size of the page alone.
    pub fn page(&self) -> (Value, PageOrder) {
        match *self {
            Self::Line(line) | Self::Large(line) => (line.value, line.order),
            Self::Page(value, order) => (value, order),
        }
    }
}

/// Change of an entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Change {
    /// It was written.
    Filled,
    /// It made way for another.
    Evicted,
    /// It made way for another in this set, in an array that holds copies of it in other sets.
    EvictedFrom(u32),
    /// It must not be used any more.
    Dropped,
}

/// Which neighbours of a page are of use to an array.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Looks {
    /// Those of base pages.
    pub base: bool,
    /// Those of larger pages.
    pub large: bool,
}

impl Looks {
    /// At the neighbours of base pages alone.
    pub const AT_BASE_PAGES: Self = Self { base: true, large: false };
}

/// A storage of a design's own. Every change is passed to `tell`, page by page.
pub trait Storage {
    /// The entry that translates `vpn`, which counts as used.
    fn hit(&mut self, asid: Asid, vpn: Vpn) -> Option<Slot>;

    /// The entry that translates `vpn` as a page of size number `size`, if sizes are searched one by one. It counts as
    /// used.
    fn hit_size(&mut self, asid: Asid, vpn: Vpn, size: usize) -> Option<Slot> {
        let _ = size;
        self.hit(asid, vpn)
    }

    /// Translation of `vpn` by the entry at `slot`, which is occupied, and the size of the page that it covers.
    fn read(&self, slot: Slot, vpn: Vpn) -> (Value, PageOrder);

    /// Writes an entry for `vpn`, or extends one.
    fn put(&mut self, asid: Asid, vpn: Vpn, input: FillInput, tell: impl FnMut(Change, Asid, &Entry)) -> Slot;

    /// The line of base page `vpn` as the entry at `at` holds it, if the entry was made from a line.
    fn line(&self, at: u32, vpn: Vpn) -> Option<Line>;

    /// The page's dirty bit has been set.
    fn set_dirty(&mut self, asid: Asid, vpn: Vpn);

    /// Drops every entry of `asid`, none of the global ones; everything for `None`.
    fn drop_space(&mut self, asid: Option<Asid>, tell: impl FnMut(Change, Asid, &Entry));

    /// Drops what `asid` has, and what is global, of the `pages` base pages from `first`.
    fn drop_range(&mut self, asid: Asid, first: Vpn, pages: u64, tell: impl FnMut(Change, Asid, &Entry));

    /// Passes every entry held, page by page, to `tell`.
    fn all(&self, tell: impl FnMut(Asid, &Entry));

    /// Fills, evictions and invalidations.
    fn traffic(&self) -> [u64; 3];

    /// Results for lines, if the design coalesces.
    fn coalescing(&self) -> Option<CoalescingCounts>;
}
