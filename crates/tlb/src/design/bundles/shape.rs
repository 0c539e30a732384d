//! Which pages may share an entry, and what an entry is made of.

use super::bundle::Bundle;
use crate::{
    desc::{Frames, Mirrors, Span},
    design::FillInput,
    key::{GLOBAL, Value},
};
use mmulab_addr::{Asid, PageOrder, Vpn};

/// Most pages of a bundle that is a bitmap: the bits of a word.
pub const MAX_BITMAP: u16 = 64;

/// Properties by which the designs differ.
#[derive(Clone, Debug)]
pub struct Shape {
    /// The page sizes, smallest first.
    pub sizes: Vec<PageOrder>,
    /// By size: the most pages of a bundle, a power of two.
    pub group: Vec<u16>,
    /// By size: whether a bitmap encodes the pages, else a length.
    pub bitmap: Vec<bool>,
    /// By size: what chooses the set is the number of the page of this size.
    pub index: Vec<PageOrder>,
    /// Where bundles that are encoded by a length may begin.
    pub span: Span,
    /// Where their frames may lie.
    pub frames: Frames,
    /// Treatment of copies in other sets.
    pub mirrors: Mirrors,
    /// Pages that differ in the dirty bit alone may share a bundle, which is clean then.
    pub mixed_dirty: bool,
}

impl Shape {
    /// The first page that a bundle of size number `size` with `vpn` may have, and the first beyond.
    fn limits(&self, size: usize, vpn: u64) -> (u64, u64) {
        let order = self.sizes[size].get();
        let span = u64::from(self.group[size]) << order;
        let free = !self.bitmap[size] && self.span == Span::Anywhere;
        if free { (0, u64::MAX) } else { (vpn & !(span - 1), (vpn & !(span - 1)) + span) }
    }

    /// Whether pages may share an entry that lie `distance` base pages below their frames.
    fn distance_allowed(&self, size: usize, distance: u64) -> bool {
        let span = u64::from(self.group[size]) << self.sizes[size].get();
        self.frames == Frames::Any || distance & (span - 1) == 0
    }

    /// The entry that what is known of `vpn` gives.
    #[inline(always)]
    pub fn make(&self, asid: Asid, vpn: Vpn, input: &FillInput) -> (Bundle, bool) {
        let (value, order) = input.page();
        let size = self.sizes.iter().position(|&o| o == order).unwrap_or_default();
        let tag = if value.global() { GLOBAL.0 } else { asid.0 };
        let page = vpn.align_down(order).0;
        let (from, _) = self.limits(size, page);
        let shift = order.get();
        let bitmap = self.bitmap[size];
        let one = Bundle { base: page, value, mask: u64::MAX, tag, len: 1, order: shift, size: size as u8 };
        let based = |base: u64, len: u16, mask: u64, value: Value| Bundle {
            base,
            len,
            mask,
            value: value.moved(base.wrapping_sub(page)),
            ..one
        };
        let group = self.group[size];
        let alone = if bitmap { based(from, group, 1 << ((page - from) >> shift), value) } else { one };
        let (FillInput::Line(line) | FillInput::Large(line)) = input else { return (alone, false) };
        let distance = value.pfn().0.wrapping_sub(page);
        if group == 1 || !self.distance_allowed(size, distance) {
            return (alone, line.walked);
        }
        let agree = line.same | if self.mixed_dirty { line.other_dirty } else { 0 };
        let (from, to) = self.limits(size, page);
        let first = line.first.0;
        // Slots of the line within the limits, and those of them that agree, with frames as far off.
        let slots = |pages: u64| (pages >> shift).min(8) as u32;
        let within = (1u32 << slots(to - first)) - (1u32 << slots(from.saturating_sub(first)));
        let continues = |slot: u64| line.pfns[slot as usize].wrapping_sub(first + (slot << shift)) == distance;
        let continued = (0..8).fold(0u8, |slots, slot| slots | u8::from(continues(slot)) << slot);
        let fitting = continued & agree & within as u8;
        let taken = if bitmap {
            fitting
        } else {
            let holes = !u32::from(fitting);
            let below = line.at - (u32::BITS - (holes & ((1 << line.at) - 1)).leading_zeros()) as usize;
            let above = (holes >> (line.at + 1)).trailing_zeros() as usize;
            // The run is no longer than the limit where bundles may begin anywhere: what lies behind goes first.
            let below = below.min(usize::from(group) - 1);
            let above = above.min(usize::from(group) - 1 - below);
            (((1u16 << (below + above + 1)) - 1) << (line.at - below)) as u8
        };
        let value = if taken & line.other_dirty != 0 { value.cleaned() } else { value };
        let bundle = if bitmap {
            let mask = u64::from(taken);
            let mask = if first < from { mask >> slots(from - first) } else { mask << ((first - from) >> shift) };
            based(from, group, mask, value)
        } else {
            let first = first + (u64::from(taken.trailing_zeros()) << shift);
            based(first, taken.count_ones() as u16, u64::MAX, value)
        };
        (bundle, line.walked)
    }

    /// An entry and a fill in one bundle, if they may share one. Its dirty bit is set if both dirty bits are, or if the
    /// fill is dirty and has every page of the entry. A fill with a clean page clears it (paper 4, section 4.4).
    pub fn join(&self, old: &Bundle, new: &Bundle) -> Option<Bundle> {
        let dirty = new.value.dirty() && (old.value.dirty() || new.holds(old));
        self.union(old, new).map(|both| both.with_dirty(dirty))
    }

    /// Two copies of one set in one bundle, if they may share one. A set dirty bit says that all pages of its copy are
    /// dirty, so it also counts for the pages of the other copy that are among them; the order of the ways does not
    /// matter.
    pub fn join_copies(&self, one: &Bundle, other: &Bundle) -> Option<Bundle> {
        let covers = |a: &Bundle, b: &Bundle| a.value.dirty() && (b.value.dirty() || a.holds(b));
        let dirty = covers(one, other) || covers(other, one);
        self.union(one, other).map(|both| both.with_dirty(dirty))
    }

    /// The pages of both in one bundle, if they may share one. The dirty bit is the caller's to set.
    fn union(&self, old: &Bundle, new: &Bundle) -> Option<Bundle> {
        let size = usize::from(new.size);
        let same_kind = (old.tag, old.size) == (new.tag, new.size) && old.len != 0;
        if !same_kind || !old.value.cleaned().alike(new.value.cleaned()) {
            return None;
        }
        let distance = |b: &Bundle| b.value.pfn().0.wrapping_sub(b.base);
        if distance(old) != distance(new) {
            return None;
        }
        if !self.mixed_dirty && !old.value.alike(new.value) {
            return None;
        }
        let joined = if self.bitmap[size] {
            (old.base == new.base).then_some(Bundle { mask: old.mask | new.mask, ..*new })?
        } else {
            let (from, to) = self.limits(size, new.base);
            let base = old.base.min(new.base);
            let end = old.end().max(new.end());
            let len = (end - base) >> new.order;
            let fits = base >= from && end <= to && len <= u64::from(self.group[size]);
            if old.base > new.end() || new.base > old.end() || !fits {
                return None;
            }
            Bundle { base, len: len as u16, value: new.value.moved(base.wrapping_sub(new.base)), ..*new }
        };
        if joined.count() > 1 && !self.distance_allowed(size, distance(new)) {
            return (old.pages().eq(new.pages())).then_some(*new);
        }
        Some(joined)
    }
}
