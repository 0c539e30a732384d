//! A cache of the host's translations of guest-physical addresses.

use crate::{
    WalkerError,
    kept::{Kept, MAX_KINDS, Name},
};
use mmulab_addr::{Access, Asid, PageOrder, Pfn, PhysAddr, VirtAddr, VirtRange};
use mmulab_assoc::{Replacement, Ways};
use mmulab_pagetable::{Invalidate, Leaf};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A cache of whole translations from guest-physical to host-physical addresses, which two-dimensional walks search
/// before they read the host's table. It is the nested TLB of Bhargava and others (*Accelerating Two-Dimensional Page
/// Walks for Virtualized Systems*, ASPLOS 2008, section 4).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NestedTlbDesc {
    /// Entries in all. 0 means that there is none.
    #[schemars(range(min = 0, max = 1 << 20))]
    pub entries: u32,
    /// Ways of a set, or `"full"`. A set is chosen by the low bits of the page's number.
    pub ways: Ways,
    /// The sizes it holds; a larger page of the host fills an entry of the largest of these that fits into it.
    /// Default `["4K", "2M", "1G"]`.
    #[serde(default = "sizes")]
    pub sizes: Vec<PageOrder>,
    /// Which entry of a full set goes: `lru`, `tree-plru` or `random`. Default `lru`.
    #[serde(default)]
    pub replacement: Replacement,
    /// Latency of a hit, in cycles. Default 0.
    #[serde(default)]
    #[schemars(range(min = 0, max = 10_000))]
    pub hit_cycles: u32,
    /// Where the numbers come from.
    #[serde(default)]
    pub source: String,
    /// Keys of this table that no source states, each with the reason for the value.
    #[serde(default)]
    pub assumed: BTreeMap<String, String>,
}

fn sizes() -> Vec<PageOrder> {
    vec![PageOrder::P4K, PageOrder::P2M, PageOrder::P1G]
}

/// Counts of the nested TLB.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct NestedTlbCounts {
    /// Guest-physical addresses looked up.
    pub accesses: u64,
    /// Those it translated.
    pub hits: u64,
    /// Those it did not, or not for this access.
    pub misses: u64,
}

impl NestedTlbCounts {
    /// Adds another core's.
    pub fn add(&mut self, other: &Self) {
        self.accesses += other.accesses;
        self.hits += other.hits;
        self.misses += other.misses;
    }
}

/// A page of the host, as far as an entry holds it.
#[derive(Clone, Copy, Debug)]
pub struct Held {
    /// The translation; its size may be less than the page's.
    pub leaf: Leaf,
    /// The level of the host's entry.
    pub level: u8,
}

/// The nested TLB of one core.
pub struct NestedTlb {
    held: Kept<Held>,
    /// Sizes held, smallest first.
    sizes: Vec<PageOrder>,
    hit_cycles: u32,
    counts: NestedTlbCounts,
}

impl NestedTlb {
    /// The nested TLB, or none where it has no entries.
    pub fn new(desc: &NestedTlbDesc) -> Result<Option<Self>, WalkerError> {
        let place = || "virtual.nested_tlb".to_owned();
        let mut sizes = desc.sizes.clone();
        sizes.sort_unstable();
        sizes.dedup();
        if sizes.first() != Some(&PageOrder::P4K) || sizes.len() > MAX_KINDS {
            let what = format!("sizes must hold 4K, and at most {MAX_KINDS}: pages of any size are cut down to them");
            return Err(WalkerError { place: place(), what });
        }
        if desc.entries == 0 {
            return Ok(None);
        }
        let nothing = Held { leaf: NOTHING, level: 1 };
        Ok(Some(Self {
            held: Kept::new(place, (desc.entries, desc.ways), desc.replacement, 1, nothing)?,
            sizes,
            hit_cycles: desc.hit_cycles,
            counts: NestedTlbCounts::default(),
        }))
    }

    #[inline(always)]
    fn name(&self, size: usize, asid: Asid, gpa: PhysAddr) -> Name {
        Name { kind: size as u8, asid, number: gpa.0 >> self.sizes[size].shift() }
    }

    /// The page that holds `gpa`, if it may be used for `access` as it is.
    #[inline]
    pub fn lookup(&mut self, asid: Asid, gpa: PhysAddr, access: Access, cycles: &mut u32) -> Option<Held> {
        self.counts.accesses += 1;
        for size in 0..self.sizes.len() {
            let Some((held, _)) = self.held.find(self.name(size, asid, gpa)) else { continue };
            if held.leaf.allows(access) && (held.leaf.dirty || access != Access::Write) {
                self.counts.hits += 1;
                *cycles += self.hit_cycles;
                return Some(held);
            }
            break;
        }
        self.counts.misses += 1;
        None
    }

    /// Keeps what a walk of the host's table found for `gpa`.
    #[inline]
    pub fn insert(&mut self, asid: Asid, gpa: PhysAddr, leaf: &Leaf, level: u8) {
        let Some(size) = self.sizes.iter().rposition(|&order| order <= leaf.order) else { return };
        let order = self.sizes[size];
        let frame = PhysAddr(leaf.translate(VirtAddr::new(gpa.0)).0).pfn().align_down(order);
        self.held.keep(self.name(size, asid, gpa), Held { leaf: Leaf { pfn: frame, order, ..*leaf }, level });
    }

    /// Forgets what must not be used any more.
    pub fn invalidate(&mut self, what: &Invalidate) {
        let sizes = &self.sizes;
        self.held.drop_if(|Name { kind, asid, number }| {
            let order = sizes[usize::from(kind)];
            what.meets(asid, VirtRange::sized(VirtAddr::new(number << order.shift()), order.bytes()))
        });
    }

    /// Calls `each` for every entry, with its ASID and its first guest-physical address.
    pub fn each_entry(&self, mut each: impl FnMut(Asid, PhysAddr, &Held)) {
        self.held.each(|Name { kind, asid, number }, held| {
            each(asid, PhysAddr(number << self.sizes[usize::from(kind)].shift()), held);
        });
    }

    /// Its counts so far.
    pub fn counts(&self) -> NestedTlbCounts {
        self.counts
    }
}

const NOTHING: Leaf = Leaf {
    pfn: Pfn(0),
    order: PageOrder::P4K,
    prot: mmulab_addr::Prot::NONE,
    user: false,
    accessed: false,
    dirty: false,
    global: false,
};

#[cfg(test)]
mod tests {
    use super::*;
    use mmulab_addr::Prot;

    fn tlb(entries: u32, ways: u32) -> NestedTlb {
        let desc = NestedTlbDesc {
            entries,
            ways: Ways::Count(ways),
            sizes: sizes(),
            replacement: Replacement::Lru,
            hit_cycles: 2,
            source: String::new(),
            assumed: BTreeMap::new(),
        };
        NestedTlb::new(&desc).expect("a geometry").expect("has entries")
    }

    fn leaf(pfn: u64, order: PageOrder, dirty: bool) -> Leaf {
        Leaf { pfn: Pfn(pfn), order, prot: Prot::RW, user: true, accessed: true, dirty, global: false }
    }

    #[test]
    fn a_clean_page_serves_loads_and_no_stores() {
        let (mut t, mut cycles) = (tlb(8, 8), 0);
        let gpa = PhysAddr(0x5000);
        t.insert(Asid(1), gpa, &leaf(9, PageOrder::P4K, false), 1);
        assert!(t.lookup(Asid(1), gpa, Access::Write, &mut cycles).is_none());
        let held = t.lookup(Asid(1), PhysAddr(0x5ff8), Access::Read, &mut cycles).expect("held");
        assert_eq!((held.leaf.pfn, cycles), (Pfn(9), 2));
        assert!(t.lookup(Asid(2), gpa, Access::Read, &mut cycles).is_none(), "another machine's");
        assert_eq!(t.counts(), NestedTlbCounts { accesses: 3, hits: 1, misses: 2 });
    }

    #[test]
    fn a_size_it_has_none_of_is_cut_down() {
        let (mut t, mut cycles) = (tlb(8, 8), 0);
        // 64 KiB of the host at guest 64 KiB: entries of 4 KiB.
        t.insert(Asid(1), PhysAddr(0x1_3000), &leaf(0x40, PageOrder::P64K, true), 1);
        let held = t.lookup(Asid(1), PhysAddr(0x1_3008), Access::Write, &mut cycles).expect("held");
        assert_eq!((held.leaf.pfn, held.leaf.order), (Pfn(0x43), PageOrder::P4K));
        assert!(t.lookup(Asid(1), PhysAddr(0x1_4000), Access::Read, &mut cycles).is_none());
    }

    #[test]
    fn a_page_flush_drops_what_meets_it() {
        let (mut t, mut cycles) = (tlb(8, 8), 0);
        t.insert(Asid(1), PhysAddr(0), &leaf(0x200, PageOrder::P2M, true), 2);
        t.insert(Asid(1), PhysAddr(0x20_0000), &leaf(7, PageOrder::P4K, true), 1);
        t.invalidate(&Invalidate::Page { asid: Asid(1), va: VirtAddr::new(0x3000), order: PageOrder::P4K });
        assert!(t.lookup(Asid(1), PhysAddr(0), Access::Read, &mut cycles).is_none());
        assert!(t.lookup(Asid(1), PhysAddr(0x20_0000), Access::Read, &mut cycles).is_some());
        t.invalidate(&Invalidate::Asid(Asid(1)));
        assert!(t.lookup(Asid(1), PhysAddr(0x20_0000), Access::Read, &mut cycles).is_none());
    }
}
