//! CoLT-FA: an entry is a run, a first page and a length, of contiguous pages with contiguous frames. A line gives the
//! run around the page that missed, and a run that touches one already held becomes one with it (Pham and others, MICRO
//! 2012).

use super::{
    Line,
    colt_sa::larger_class,
    line::LINE_PAGES,
    scan::{Held, Rule},
};
use mmulab_addr::{PageOrder, Pfn, Vpn};

pub struct ColtFa {
    /// Pages of the longest run.
    pub longest: u32,
    pub sizes: Vec<PageOrder>,
}

impl Rule for ColtFa {
    fn index(&self) -> PageOrder {
        PageOrder::P4K
    }

    fn make(&self, line: &Line) -> Held {
        let goes_on = |slot: usize, next: usize| {
            line.same >> next & 1 == 1
                && line.pfns[next].wrapping_sub(line.pfns[slot]) == (next as u64).wrapping_sub(slot as u64)
        };
        let (mut from, mut to) = (line.at, line.at + 1);
        while from > 0 && goes_on(from, from - 1) {
            from -= 1;
        }
        while to < LINE_PAGES && goes_on(to - 1, to) {
            to += 1;
        }
        run(line, from, (to - from) as u32)
    }

    fn frame(held: &Held, vpn: Vpn) -> Pfn {
        held.value.moved(vpn.0 - held.first.0).pfn()
    }

    fn join(&self, old: &Held, new: &Held) -> Option<Held> {
        let end = |h: &Held| h.first.0 + u64::from(h.pages);
        let apart = old.first.0 > end(new) || new.first.0 > end(old);
        let distance = |h: &Held| h.value.pfn().0.wrapping_sub(h.first.0);
        if apart || distance(old) != distance(new) || !old.value.alike(new.value) {
            return None;
        }
        let first = if old.first < new.first { old } else { new };
        let pages = (end(old).max(end(new)) - first.first.0) as u32;
        (pages <= self.longest).then(|| Held { pages, mask: mask(pages), ..*first })
    }

    /// A run cannot have holes: it goes.
    fn without(_: &Held, _: &Held) -> Option<Held> {
        None
    }

    fn class(&self, order: PageOrder) -> u8 {
        larger_class(&self.sizes, order)
    }
}

fn mask(pages: u32) -> u8 {
    if pages < 8 { ((1u16 << pages) - 1) as u8 } else { u8::MAX }
}

fn run(line: &Line, from: usize, pages: u32) -> Held {
    Held {
        tag: crate::key::GLOBAL,
        whole: false,
        mask: mask(pages),
        low: 0,
        pages,
        first: Vpn(line.first.0 + from as u64),
        value: line.value.at(Pfn(line.pfns[from])),
    }
}
