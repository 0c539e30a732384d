//! Tailored page sizes: an entry is a page of any power of two, as large as the table says; it holds no more than the
//! table tells of one page (Guvenilir and Patt, ISCA 2020).

use super::{
    Line,
    scan::{Held, Rule},
};
use mmulab_addr::{PageOrder, Pfn, Vpn};

pub struct Tps {
    pub smallest: PageOrder,
}

impl Rule for Tps {
    fn index(&self) -> PageOrder {
        PageOrder::P4K
    }

    fn make(&self, line: &Line) -> Held {
        let vpn = Vpn(line.first.0 + line.at as u64);
        Held { tag: crate::key::GLOBAL, whole: true, mask: 1, low: 0, pages: 1, first: vpn, value: line.value }
    }

    fn frame(held: &Held, vpn: Vpn) -> Pfn {
        held.value.moved(vpn.0 - held.first.0).pfn()
    }

    fn join(&self, _: &Held, _: &Held) -> Option<Held> {
        None
    }

    fn without(_: &Held, _: &Held) -> Option<Held> {
        None
    }

    fn class(&self, order: PageOrder) -> u8 {
        order.get() - self.smallest.get()
    }
}
