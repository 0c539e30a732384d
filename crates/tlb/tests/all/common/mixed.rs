//! A table of 1 GiB, 2 MiB and 4 KiB pages without upper levels, and a core that walks it, checking all that the TLBs
//! say.

use mmulab_addr::{Access, Asid, PageOrder, Pfn, Prot, VirtAddr, VirtRange};
use mmulab_pagetable::{Format, Invalidate, Leaf, Walked};
use mmulab_tlb::{Bundle, Entry, Frames, Hierarchy, Mirrors, MixDesc, NoObserver, Outcome, Span};
use std::collections::BTreeMap;

use super::flat::{A, D, P, US};

/// The bit that says a large page.
pub const PS: u64 = 1 << 7;
pub const ASID: Asid = Asid(3);
/// Base pages of a superpage.
pub const HUGE: u64 = 512;
/// Base pages of a 1 GiB page.
pub const GIANT: u64 = HUGE * HUGE;

const X86: Format = Format::x86(4);

/// How an access ended: by which level, or by a walk, or by a fault.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ended {
    Hit(u8),
    Walked,
    Rewalked,
    Fault,
}

pub struct Core {
    /// 1 GiB pages by number.
    pub giant: BTreeMap<u64, u64>,
    /// 2 MiB pages by number, where there is no larger one.
    pub huge: BTreeMap<u64, u64>,
    /// Base pages by number, where there is no superpage.
    pub small: BTreeMap<u64, u64>,
    pub tlbs: Hierarchy,
    pub rewalks: u64,
}

/// An entry for a 1 GiB page at such a frame.
pub fn pdpte(frame: u64, bits: u64) -> u64 {
    P | US | PS | frame << 30 | bits
}

/// An entry for a superpage at superpage frame `frame`.
pub fn pde(frame: u64, bits: u64) -> u64 {
    P | US | PS | frame << 21 | bits
}

impl Core {
    pub fn new(tlbs: Hierarchy) -> Self {
        Self { giant: BTreeMap::new(), huge: BTreeMap::new(), small: BTreeMap::new(), tlbs, rewalks: 0 }
    }

    fn slot(&mut self, page: u64) -> (Option<&mut u64>, u8) {
        if let Some(bits) = self.giant.get_mut(&(page / GIANT)) {
            return (Some(bits), 3);
        }
        match self.huge.get_mut(&(page / HUGE)) {
            Some(bits) => (Some(bits), 2),
            None => (self.small.get_mut(&page), 1),
        }
    }

    pub fn leaf(&self, page: u64) -> Option<Leaf> {
        if let Some(&bits) = self.giant.get(&(page / GIANT)) {
            return X86.decode_leaf(bits, 3);
        }
        match self.huge.get(&(page / HUGE)) {
            Some(&bits) => X86.decode_leaf(bits, 2),
            None => X86.decode_leaf(*self.small.get(&page)?, 1),
        }
    }

    fn line(&self, page: u64, level: u8) -> [u64; 8] {
        std::array::from_fn(|at| {
            let number = |n: u64| n / 8 * 8 + at as u64;
            let held = match level {
                3 => self.giant.get(&number(page / GIANT)),
                2 => self.huge.get(&number(page / HUGE)),
                _ => self.small.get(&number(page)),
            };
            held.copied().unwrap_or(0)
        })
    }

    /// What the TLBs alone say.
    pub fn look(&mut self, page: u64) -> Outcome {
        self.tlbs.access(ASID, VirtAddr::new(page << 12), Access::Read, &mut NoObserver)
    }

    /// Does an access as a core does it.
    pub fn access(&mut self, page: u64, access: Access) -> Ended {
        let va = VirtAddr::new(page << 12 | 0x123);
        let outcome = self.tlbs.access(ASID, va, access, &mut NoObserver);
        let hit = |level, entry: Entry| {
            let leaf = self.leaf(page).expect("a page the TLBs translate is mapped");
            assert_eq!(entry.translate(va), leaf.translate(va), "page {page:#x} by {entry:?}");
            assert_eq!(entry.order, leaf.order);
            assert!(leaf.allows(access) && leaf.accessed && (access != Access::Write || leaf.dirty));
            Ended::Hit(level)
        };
        let again = match outcome {
            Outcome::L1 { entry } => return hit(1, entry),
            Outcome::L2 { entry, .. } => return hit(2, entry),
            Outcome::Miss { .. } => false,
            Outcome::NeedDirty { .. } | Outcome::Denied { .. } => true,
        };
        self.rewalks += u64::from(again);
        let Some(leaf) = self.leaf(page).filter(|leaf| leaf.allows(access)) else { return Ended::Fault };
        let set = A | if leaf.dirty || access == Access::Write { D } else { 0 };
        let (bits, level) = self.slot(page);
        *bits.expect("mapped") |= set;
        let number = page / [1, HUGE, GIANT][usize::from(level) - 1];
        let (line, slot) = (self.line(page, level), (number % 8) as u8);
        let walked = Walked { leaf: self.leaf(page).expect("mapped"), line, slot, level, format: X86 };
        self.tlbs.fill(ASID, va, access, &walked, &mut NoObserver);
        if again { Ended::Rewalked } else { Ended::Walked }
    }

    pub fn read(&mut self, page: u64) -> Ended {
        self.access(page, Access::Read)
    }

    pub fn write(&mut self, page: u64) -> Ended {
        self.access(page, Access::Write)
    }

    /// Flushes the `pages` base pages from `page`.
    pub fn flush(&mut self, page: u64, pages: u64) {
        let range = VirtRange::sized(VirtAddr::new(page << 12), pages << 12);
        self.tlbs.invalidate(&Invalidate::Range { asid: ASID, range, stride: PageOrder::P4K }, &mut NoObserver);
    }

    /// Proves that no entry says what the table does not.
    pub fn check(&self) {
        self.tlbs.each_entry(|array, _, entry| {
            let leaf = self.leaf(entry.vpn.0).unwrap_or_else(|| panic!("array {array} holds {:#x}", entry.vpn.0));
            assert_eq!((leaf.pfn, leaf.order), (Pfn(entry.pfn.0), entry.order), "array {array}, {:#x}", entry.vpn.0);
            assert_eq!(entry.prot.bits() & !leaf.prot.bits(), 0, "array {array}, {:#x}", entry.vpn.0);
            assert!(leaf.accessed && (leaf.dirty || !entry.dirty || !entry.prot.has(Prot::W)), "{:#x}", entry.vpn.0);
        });
    }

    /// How many entries of array `array` translate the page of `order` that begins at base page `page`.
    pub fn copies(&self, array: usize, page: u64, order: PageOrder) -> usize {
        let mut count = 0;
        self.tlbs.each_entry(|at, _, e| count += usize::from(at == array && e.vpn.0 == page && e.order == order));
        count
    }
}

/// Options of `mix`: whether bundles are told by a length, may begin anywhere, need aligned frames, and look for
/// copies; what chooses the set; and small pages of a bundle.
pub fn options(
    [length, anywhere, aligned, merged]: [bool; 4],
    index: Option<PageOrder>,
    small: Option<u16>,
) -> MixDesc {
    MixDesc {
        bundle: Some(if length { Bundle::Length } else { Bundle::Bitmap }),
        extra_bits: 64,
        index,
        span: if anywhere { Span::Anywhere } else { Span::Aligned },
        frames: if aligned { Frames::Aligned } else { Frames::Any },
        mirrors: if merged { Mirrors::Merged } else { Mirrors::Blind },
        small_group: small,
    }
}
