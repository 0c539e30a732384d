//! Clustered TLB: an aligned group of pages shares an entry if their frames lie in one equally large aligned group, in
//! any order; for each page the entry keeps the low bits of its frame (Pham and others, HPCA 2014).

use super::{
    Line,
    colt_sa::{group_of, in_group, larger_class, without_in_group},
    scan::{Held, Rule},
};
use mmulab_addr::{PageOrder, Pfn, Vpn};

/// Bits of `Held::low` for each page: its place in the group of frames.
const LOW_BITS: u64 = 3;

pub struct Clustered {
    pub group: PageOrder,
    pub sizes: Vec<PageOrder>,
}

impl Rule for Clustered {
    fn index(&self) -> PageOrder {
        self.group
    }

    fn make(&self, line: &Line) -> Held {
        let (first, pages) = group_of(line, self.group);
        let base = Pfn(line.pfns[line.at]).align_down(self.group);
        let (mut mask, mut low) = (0, 0);
        for at in 0..pages {
            let slot = first + at;
            let pfn = Pfn(line.pfns[slot]);
            if line.same >> slot & 1 == 1 && pfn.align_down(self.group) == base {
                mask |= 1 << at;
                low |= ((pfn.0 - base.0) as u32) << (LOW_BITS * at as u64);
            }
        }
        Held { low, ..in_group(line, first, pages, mask, base) }
    }

    fn frame(held: &Held, vpn: Vpn) -> Pfn {
        let low = held.low >> (LOW_BITS * (vpn.0 - held.first.0)) & ((1 << LOW_BITS) - 1);
        Pfn(held.value.pfn().0 + u64::from(low))
    }

    fn join(&self, old: &Held, new: &Held) -> Option<Held> {
        if old.first != new.first || old.value != new.value {
            return None;
        }
        // What the new one says of a page counts.
        let mut low = old.low;
        for at in (0..8).filter(|at| new.mask >> at & 1 == 1) {
            let field = ((1 << LOW_BITS) - 1) << (LOW_BITS * at);
            low = (low & !field) | (new.low & field);
        }
        Some(Held { mask: old.mask | new.mask, low, ..*new })
    }

    fn without(old: &Held, new: &Held) -> Option<Held> {
        without_in_group(old, new)
    }

    fn class(&self, order: PageOrder) -> u8 {
        larger_class(&self.sizes, order)
    }
}
