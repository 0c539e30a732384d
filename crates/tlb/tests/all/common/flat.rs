//! A table without levels, and a core that walks it: what a coalescing TLB may know is a line of eight entries, as x86
//! writes them.

use mmulab_addr::{Access, Asid, PageOrder, Pfn, Prot, VirtAddr, Vpn};
use mmulab_pagetable::{Format, Invalidate, Leaf, Walked};
use mmulab_tlb::{Entry, Hierarchy, Observer, Outcome};
use std::collections::BTreeMap;

pub const P: u64 = 1;
pub const RW: u64 = 1 << 1;
pub const US: u64 = 1 << 2;
pub const A: u64 = 1 << 5;
pub const D: u64 = 1 << 6;
pub const G: u64 = 1 << 8;
pub const ASID: Asid = Asid(3);

const X86: Format = Format::x86(4);

/// How an access ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ended {
    /// A TLB translated it, with an entry of this size.
    Hit(u8, PageOrder),
    /// A walk did.
    Walked,
    /// A walk did, though a TLB held the page: to set the dirty bit, or to look at the rights again.
    Rewalked,
    /// It faulted.
    Fault,
}

/// Entries by page number, and the TLBs over them.
pub struct Core {
    pub ptes: BTreeMap<u64, u64>,
    pub tlbs: Hierarchy,
}

pub fn va(page: u64) -> VirtAddr {
    VirtAddr::new(page << 12 | 0x123)
}

pub fn pte(frame: u64, bits: u64) -> u64 {
    P | US | frame << 12 | bits
}

impl Core {
    pub fn new(tlbs: Hierarchy) -> Self {
        Self { ptes: BTreeMap::new(), tlbs }
    }

    pub fn bits(&self, page: u64) -> u64 {
        self.ptes.get(&page).copied().unwrap_or(0)
    }

    pub fn leaf(&self, page: u64) -> Option<Leaf> {
        X86.decode_leaf(self.bits(page), 1)
    }

    /// Does an access as a core does it, checking what the TLBs say against the table.
    pub fn access<O: Observer>(&mut self, page: u64, access: Access, obs: &mut O) -> Ended {
        let outcome = self.tlbs.access(ASID, va(page), access, obs);
        let hit = |level, entry: Entry, leaf: Option<Leaf>| {
            let leaf = leaf.expect("a page the TLBs translate is mapped");
            assert_eq!(entry.translate(va(page)).0, leaf.pfn.addr().0 | 0x123, "page {page} by {entry:?}");
            assert!(leaf.allows(access) && leaf.accessed && (access != Access::Write || leaf.dirty));
            Ended::Hit(level, entry.order)
        };
        let again = match outcome {
            Outcome::L1 { entry } => return hit(1, entry, self.leaf(page)),
            Outcome::L2 { entry, .. } => return hit(2, entry, self.leaf(page)),
            Outcome::Miss { .. } => false,
            Outcome::NeedDirty { .. } | Outcome::Denied { .. } => true,
        };
        let Some(leaf) = self.leaf(page).filter(|leaf| leaf.allows(access)) else { return Ended::Fault };
        let dirty = leaf.dirty || access == Access::Write;
        *self.ptes.get_mut(&page).expect("mapped") |= A | if dirty { D } else { 0 };
        let walked = Walked {
            leaf: self.leaf(page).expect("mapped"),
            line: std::array::from_fn(|at| self.bits(page / 8 * 8 + at as u64)),
            slot: (page % 8) as u8,
            level: 1,
            format: X86,
        };
        self.tlbs.fill(ASID, va(page), access, &walked, obs);
        if again { Ended::Rewalked } else { Ended::Walked }
    }

    /// Drops one page's translations, as INVLPG does.
    pub fn invlpg<O: Observer>(&mut self, page: u64, obs: &mut O) {
        self.tlbs.invalidate(&Invalidate::Page { asid: ASID, va: va(page), order: PageOrder::P4K }, obs);
    }

    /// Proves that no entry says what the table does not: frames equal, rights and dirty bits no more than there.
    pub fn check(&self) {
        self.tlbs.each_entry(|array, _, entry| {
            for at in 0..entry.order.base_pages() {
                let page = entry.vpn.0 + at;
                let leaf = self.leaf(page).unwrap_or_else(|| panic!("array {array} holds page {page}, not mapped"));
                assert_eq!(Pfn(entry.pfn.0 + at), leaf.pfn, "array {array}, page {page}");
                assert_eq!(entry.prot.bits() & !leaf.prot.bits(), 0, "array {array}, page {page}");
                assert!(leaf.accessed && (leaf.dirty || !entry.dirty || !entry.prot.has(Prot::W)), "page {page}");
            }
        });
    }

    /// The entries that translate `page`, by array and size.
    pub fn holds(&self, page: u64) -> Vec<(usize, PageOrder)> {
        let mut held = Vec::new();
        self.tlbs.each_entry(|array, _, e| {
            if e.vpn == Vpn(page).align_down(e.order) {
                held.push((array, e.order));
            }
        });
        held
    }
}
