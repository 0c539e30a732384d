//! An entry that translates several pages of one size.

use crate::{Entry, design::Change, key::Value};
use mmulab_addr::{Asid, PageOrder, Vpn};

/// Longest run of base pages that anybody asks about: all that can be numbered.
pub const MAX_SPAN: u64 = 1 << PageOrder::MAX.get();
/// Where a tag stands above a page number, or the sum of two.
const TAG_SHIFT: u32 = 48;

/// A base page of an address space as one number. Pages of different spaces are farther from each other than any entry
/// is long.
#[inline(always)]
pub fn tagged(tag: u16, vpn: u64) -> u64 {
    u64::from(tag) << TAG_SHIFT | vpn
}

/// An entry; of no pages where the way is empty.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Bundle {
    /// The first page, by base pages.
    pub base: u64,
    /// Of that page, which a bitmap may leave out.
    pub value: Value,
    /// Which of the pages, for bitmaps; all ones for runs.
    pub mask: u64,
    pub tag: u16,
    /// Pages, those left out counted.
    pub len: u16,
    /// log2 of the base pages of one.
    pub order: u8,
    /// The number of its size.
    pub size: u8,
}

impl Bundle {
    /// The place of `vpn`'s page among its pages, if it is one of them.
    #[inline(always)]
    pub fn place(&self, vpn: Vpn) -> Option<u64> {
        let at = vpn.0.wrapping_sub(self.base) >> self.order;
        (at < u64::from(self.len) && self.mask >> (at & 63) & 1 == 1).then_some(at)
    }

    /// Whether `vpn`'s page is one of its pages or of those it leaves out: whether its tag is that of the page.
    #[inline(always)]
    pub fn near(&self, vpn: Vpn) -> bool {
        vpn.0.wrapping_sub(self.base) >> self.order < u64::from(self.len)
    }

    pub fn pages(&self) -> impl Iterator<Item = Vpn> + '_ {
        let page = |at: u64| Vpn(self.base + (at << self.order));
        (0..u64::from(self.len)).map(page).filter(|&vpn| self.place(vpn).is_some())
    }

    /// Which of the eight pages of its size from `first` on are its pages, bit by bit.
    pub fn eight(&self, first: Vpn) -> u8 {
        let low = |count: u64| if count < 64 { (1 << count) - 1 } else { u64::MAX };
        let len = u64::from(self.len);
        if first.0 < self.base {
            let skipped = (self.base - first.0) >> self.order;
            return if skipped < 8 { ((self.mask & low(len)) << skipped) as u8 } else { 0 };
        }
        let at = (first.0 - self.base) >> self.order;
        // A run's word is all ones.
        if at < len { (self.mask >> (at & 63) & low(len - at)) as u8 } else { 0 }
    }

    #[inline(always)]
    pub fn count(&self) -> u32 {
        let within = if self.len < 64 { (1 << self.len) - 1 } else { u64::MAX };
        (self.mask & within).count_ones() + u32::from(self.len).saturating_sub(64)
    }

    #[inline(always)]
    pub fn end(&self) -> u64 {
        self.base + (u64::from(self.len) << self.order)
    }

    /// Base pages from the first to the last.
    #[inline(always)]
    pub fn span(&self) -> u64 {
        (u64::from(self.len) << self.order).min(MAX_SPAN)
    }

    /// Whether it has each page of `other`, of the same size.
    pub fn holds(&self, other: &Self) -> bool {
        if self.mask == u64::MAX {
            return self.base <= other.base && other.end() <= self.end();
        }
        other.pages().all(|vpn| self.place(vpn).is_some())
    }

    /// Itself with this dirty bit.
    #[inline(always)]
    pub fn with_dirty(self, dirty: bool) -> Self {
        Self { value: if dirty { self.value.dirtied() } else { self.value.cleaned() }, ..self }
    }

    /// Its translation of the page that holds `vpn`.
    #[inline(always)]
    pub fn value_of(&self, vpn: Vpn) -> Value {
        self.value.moved(((vpn.0 - self.base) >> self.order) << self.order)
    }

    #[inline(always)]
    pub fn order(&self) -> PageOrder {
        PageOrder::new(self.order)
    }

    /// Whether it meets the `pages` base pages from `first`.
    pub fn meets(&self, first: Vpn, pages: u64) -> bool {
        let (from, to) = (first.0.max(self.base), (first.0 + pages).min(self.end()));
        if self.mask == u64::MAX {
            return from < to;
        }
        from < to && self.pages().any(|vpn| vpn.0 < to && vpn.0 + (1 << self.order) > from)
    }

    pub fn tell(&self, change: Change, tell: &mut impl FnMut(Change, Asid, &Entry)) {
        for vpn in self.pages() {
            tell(change, Asid(self.tag), &self.value_of(vpn).entry(vpn, self.order()));
        }
    }
}
