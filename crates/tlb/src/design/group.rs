//! Entries for groups of base pages, and what a design that has them must say ([`GroupDesign`]).
//!
//! ```text
//! group | ASID | first page | pages | valid bits of the first 16 | attributes, frame of the first page | extra |
//! whole | ASID | first page | pages |                            | attributes, frame of the first page |
//! ```
//!
//! A `whole` entry is a page of the table as it is, mostly a larger one.

use super::Line;
use crate::key::{GLOBAL, Value};
use mmulab_addr::{Asid, PageOrder, Vpn};
use std::fmt::Debug;

/// The class of entries that translate one base page.
pub const BASE: u8 = 0;
/// The class of entries that translate several base pages.
pub const SEVERAL: u8 = 1;
/// Pages of an entry that have a valid bit; those beyond are all valid.
pub const VALID_BITS: u32 = u16::BITS;

/// An entry: pages from `first` on. `X` is what a design holds beside the attributes and the frame in `value`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GroupEntry<X> {
    /// Its address space.
    pub tag: Asid,
    /// A page of the table as it is, rather than what a line of entries gave.
    pub whole: bool,
    /// Valid bits of the first [`VALID_BITS`] pages.
    pub mask: u16,
    /// Pages from the first to the last, invalid ones counted.
    pub pages: u32,
    pub first: Vpn,
    /// Of `first`, or of what the design counts from.
    pub value: Value,
    pub extra: X,
}

/// The valid bits of `pages` pages in a row.
pub fn run_mask(pages: u32) -> u16 {
    if pages < VALID_BITS { (1 << pages) - 1 } else { u16::MAX }
}

impl<X: Copy + Default> GroupEntry<X> {
    /// A page of the table.
    pub fn of_page(vpn: Vpn, value: Value, order: PageOrder) -> Self {
        let pages = order.base_pages() as u32;
        let (mask, extra) = (run_mask(pages), X::default());
        Self { tag: GLOBAL, whole: true, mask, pages, first: vpn.align_down(order), value, extra }
    }

    /// Whether it translates `vpn`.
    #[inline]
    pub fn covers(&self, vpn: Vpn) -> bool {
        let at = vpn.0.wrapping_sub(self.first.0);
        at < u64::from(self.pages) && (at >= u64::from(VALID_BITS) || self.mask >> at & 1 == 1)
    }

    /// Whether it translates one of the `pages` base pages from `first`.
    pub fn meets(&self, first: Vpn, pages: u64) -> bool {
        let (from, to) = (first.0.max(self.first.0), (first.0 + pages).min(self.first.0 + u64::from(self.pages)));
        // Beyond the valid bits there are no holes.
        (from..to).any(|vpn| self.covers(Vpn(vpn)))
    }

    /// The base pages it translates.
    pub fn each(&self) -> impl Iterator<Item = Vpn> + '_ {
        (0..u64::from(self.pages)).map(|at| Vpn(self.first.0 + at)).filter(|&vpn| self.covers(vpn))
    }

    /// How many base pages it translates.
    pub fn count(&self) -> u32 {
        self.mask.count_ones() + self.pages.saturating_sub(VALID_BITS)
    }

    /// The page after its last.
    pub fn end(&self) -> u64 {
        self.first.0 + u64::from(self.pages)
    }

    /// The size of its pages.
    pub fn order(&self) -> PageOrder {
        if self.whole { PageOrder::new(self.pages.trailing_zeros() as u8) } else { PageOrder::P4K }
    }
}

/// The entry type of a design.
pub type EntryOf<R> = GroupEntry<<R as GroupDesign>::Extra>;

/// Rules by which the designs with this storage differ.
pub trait GroupDesign: Sized {
    /// Contents of an entry besides one frame: for example the low bits of each page's own frame.
    type Extra: Copy + Default + PartialEq + Debug;

    /// Page size whose number selects the set of a base page.
    fn index(&self) -> PageOrder;

    /// The entry that a line gives; the tag is the caller's. `set` is the set of the page as it is, of which entries
    /// with the tag `tag` may be continued.
    fn make(&self, line: &Line, tag: Asid, set: &[Option<EntryOf<Self>>]) -> EntryOf<Self>;

    /// Attributes and frame of a page of an entry that is not `whole`.
    fn value(held: &EntryOf<Self>, vpn: Vpn) -> Value;

    /// Both in one, if they may be.
    fn join(&self, old: &EntryOf<Self>, new: &EntryOf<Self>) -> Option<EntryOf<Self>>;

    /// The part of `old` that is left after `new` took over its own pages.
    fn without(old: &EntryOf<Self>, new: &EntryOf<Self>) -> Option<EntryOf<Self>>;

    /// The part of an entry that is left after an invalidation of the `pages` base pages from `first`. By default,
    /// none.
    fn invalidated(held: &EntryOf<Self>, first: Vpn, pages: u64) -> Option<EntryOf<Self>> {
        let _ = (held, first, pages);
        None
    }

    /// The entry after the dirty bit of its page `vpn` was set; `None` if it must go. By default the pages of an entry
    /// have one dirty bit: an entry of one page can take it, a clean one of several is no longer true.
    fn dirtied(held: &EntryOf<Self>, vpn: Vpn) -> Option<EntryOf<Self>> {
        let _ = vpn;
        (held.count() == 1 || held.value.dirty()).then(|| GroupEntry { value: held.value.dirtied(), ..*held })
    }

    /// The class of an entry that is a page of the table, of this size.
    fn class(&self, order: PageOrder) -> u8;
}
