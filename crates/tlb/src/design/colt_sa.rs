//! CoLT-SA: an aligned group of pages shares an entry, with a valid bit for each; what it translates lies at one
//! distance from its frames. Sets are chosen by the group, so that its pages meet in one (Pham and others, MICRO 2012).

use super::{
    Line,
    scan::{Held, Rule, SEVERAL},
};
use mmulab_addr::{PageOrder, Pfn, Vpn};

pub struct ColtSa {
    pub group: PageOrder,
    pub sizes: Vec<PageOrder>,
}

impl Rule for ColtSa {
    fn index(&self) -> PageOrder {
        self.group
    }

    fn make(&self, line: &Line) -> Held {
        let (first, pages) = group_of(line, self.group);
        // The frame the group's first page would have; it may be no frame at all, if that page is a hole.
        let base = line.pfns[line.at].wrapping_sub((line.at - first) as u64);
        let here = |slot: usize| line.pfns[slot] == base.wrapping_add((slot - first) as u64);
        let mask = (first..first + pages)
            .filter(|&slot| line.same >> slot & 1 == 1 && here(slot))
            .fold(0, |mask, slot| mask | 1 << (slot - first));
        in_group(line, first, pages, mask, Pfn(base))
    }

    fn frame(held: &Held, vpn: Vpn) -> Pfn {
        held.value.moved(vpn.0 - held.first.0).pfn()
    }

    fn join(&self, old: &Held, new: &Held) -> Option<Held> {
        (old.first == new.first && old.value == new.value).then_some(Held { mask: old.mask | new.mask, ..*new })
    }

    fn without(old: &Held, new: &Held) -> Option<Held> {
        without_in_group(old, new)
    }

    fn class(&self, order: PageOrder) -> u8 {
        larger_class(&self.sizes, order)
    }
}

/// The place in the line where the group of its page begins, and how many pages it has.
pub fn group_of(line: &Line, group: PageOrder) -> (usize, usize) {
    let pages = group.base_pages() as usize;
    (line.at & !(pages - 1), pages)
}

/// An entry for a group.
pub fn in_group(line: &Line, first: usize, pages: usize, mask: u8, base: Pfn) -> Held {
    Held {
        tag: crate::key::GLOBAL,
        whole: false,
        mask,
        low: 0,
        pages: pages as u32,
        first: Vpn(line.first.0 + first as u64),
        value: line.value.at(base),
    }
}

/// A group's entry without the pages another speaks for now.
pub fn without_in_group(old: &Held, new: &Held) -> Option<Held> {
    let mask = old.mask & !new.mask;
    (mask != 0).then_some(Held { mask, ..*old })
}

/// Base pages and groups come first, then the larger sizes in order.
pub fn larger_class(sizes: &[PageOrder], order: PageOrder) -> u8 {
    SEVERAL + sizes.iter().position(|&s| s == order).unwrap_or_default() as u8
}
