//! Neighbouring PTEs in the line of a looked-up page, as a coalescing design finds them on a fill: one bit mask per
//! property, one bit per page. The masks decide which pages may share an entry, and why the others may not. Example:
//!
//! ```text
//! page        7 6 5 4 3 2 1 0
//! same        0 0 0 0 1 1 1 1    attributes equal to those of the looked-up page
//! untouched   0 0 1 1 0 0 0 0    present, accessed bit clear
//! missing     1 1 0 0 0 0 0 0    not present
//! ```

use crate::key::Value;
use mmulab_addr::{PageOrder, Vpn};
use mmulab_pagetable::Walked;

/// Base pages whose entries fill a line of 64 bytes.
pub const LINE_PAGES: usize = 8;
/// log2 of that.
const LINE_SHIFT: u8 = LINE_PAGES.trailing_zeros() as u8;

/// The eight pages of one size whose entries share a line, as seen from one of them: the pages that agree with it in
/// every attribute, and the reasons why the others do not. Bit `n` of a mask is page `n` of the line.
#[derive(Clone, Copy)]
pub struct Line {
    /// The size of each.
    pub order: PageOrder,
    /// The first page of the eight.
    pub first: Vpn,
    /// The page that was asked for.
    pub at: usize,
    /// Value of its entry.
    pub value: Value,
    /// The frames, of the pages in `same`.
    pub pfns: [u64; LINE_PAGES],
    /// Pages present and accessed, with the attributes of `value`, its dirty bit included.
    pub same: u8,
    /// Pages not present.
    pub missing: u8,
    /// Pages present and not accessed.
    pub untouched: u8,
    /// Pages with other rights.
    pub other_rights: u8,
    /// Pages that differ in the dirty bit alone.
    pub other_dirty: u8,
    /// Whether a walk read it, now; else it is what another level held.
    pub walked: bool,
}

impl Line {
    /// One base page, and nothing known of its neighbours.
    pub fn of_one(vpn: Vpn, value: Value) -> Self {
        Self::of_one_sized(vpn, PageOrder::P4K, value)
    }

    /// One page, and nothing known of its neighbours.
    pub fn of_one_sized(vpn: Vpn, order: PageOrder, value: Value) -> Self {
        let at = (vpn.0 >> order.get()) as usize % LINE_PAGES;
        let mut pfns = [0; LINE_PAGES];
        pfns[at] = value.pfn().0;
        let (same, none) = (1 << at, 0);
        Self {
            order,
            first: Vpn(vpn.0 >> (order.get() + LINE_SHIFT) << (order.get() + LINE_SHIFT)),
            at,
            value,
            pfns,
            same,
            missing: !same,
            untouched: none,
            other_rights: none,
            other_dirty: none,
            walked: false,
        }
    }

    /// The line around a base page at which a walk ended; `value` is the TLB's form of its leaf. `None` for larger
    /// pages: hardware coalesces entries of the last level only (paper 1, section 3.2: "L1 PTEs").
    pub fn read(vpn: Vpn, value: Value, walked: &Walked) -> Option<Self> {
        if walked.level != 1 || walked.leaf.order != PageOrder::P4K {
            return None;
        }
        Self::read_sized(vpn, value, walked)
    }

    /// The line around a page of any size at which a walk ended: pages of the same size whose entries share the line,
    /// at any level of the table.
    pub fn read_sized(vpn: Vpn, value: Value, walked: &Walked) -> Option<Self> {
        let order = walked.leaf.order;
        let mut line = Self { same: 0, missing: 0, walked: true, ..Self::of_one_sized(vpn, order, value) };
        // Formats may say one page by several entries: then an entry of the line is not a page of this size.
        if line.at != usize::from(walked.slot) {
            return None;
        }
        // The entry's own bits, not what the levels above left of them: those are the same for the whole line.
        let own_bits = walked.line[usize::from(walked.slot)];
        let own = walked.format.decode_leaf(own_bits, walked.level)?;
        let may_be_alike = own.accessed && own.order == order;
        for (slot, &bits) in walked.line.iter().enumerate() {
            if may_be_alike && let Some(pfn) = walked.format.frame_of_alike(bits, own_bits, order) {
                line.pfns[slot] = pfn.0;
                line.same |= 1 << slot;
                continue;
            }
            let leaf = walked.format.decode_leaf(bits, walked.level);
            let Some(leaf) = leaf.filter(|leaf| leaf.order == order) else {
                line.missing |= 1 << slot;
                continue;
            };
            line.pfns[slot] = leaf.pfn.0;
            let group = if !leaf.accessed {
                &mut line.untouched
            } else if (leaf.prot, leaf.user, leaf.global) != (own.prot, own.user, own.global) {
                &mut line.other_rights
            } else if leaf.dirty != own.dirty {
                &mut line.other_dirty
            } else {
                &mut line.same
            };
            *group |= 1 << slot;
        }
        Some(line)
    }

    /// The page that was asked for.
    pub fn page(&self) -> Vpn {
        Vpn(self.first.0 + ((self.at as u64) << self.order.get()))
    }

    /// Adds a page that says the same of frame `pfn`.
    pub fn add(&mut self, slot: usize, pfn: u64) {
        self.pfns[slot] = pfn;
        self.same |= 1 << slot;
        self.missing &= !(1 << slot);
    }
}
