//! Address spaces: mappings, the page table behind them, and operations on it that every memory manager uses.
//!
//! No method here knows which memory manager runs. A manager's work on an address space is a method of the manager, in
//! a folder of its own. It calls the methods of this folder.

pub(crate) mod assemble;
pub(crate) mod census;
mod change;
mod collapse;
pub(crate) mod compaction;
pub(crate) mod cx;
mod edit;
pub(crate) mod finder;
mod fold;
pub(crate) mod fork;
pub(crate) mod gather;
pub(crate) mod handing_on;
pub(crate) mod hints;
mod join;
mod kernel_half;
mod layout;
pub(crate) mod migration;
mod naming;
pub(crate) mod offsets;
mod private;
pub(crate) mod range;
mod share_zeros;
mod shared_tables;
pub(crate) mod smart;
mod split;
mod stack;
pub(crate) mod stores;
pub(crate) mod system;
pub(crate) mod text;
pub(crate) mod vma;
pub(crate) mod window;

pub(crate) use cx::Cx;
pub(crate) use gather::Gather;

use crate::Note;
use crate::memory::Memory;
use crate::memory::cache::ObjectId;
use crate::memory::pages::Use;
use crate::parts::contiguous::Contiguous;
use crate::ranges::RangeMap;
use crate::report::counts::FaultKind;
use crate::report::region::{Mapped, Places, RegionId};
use crate::report::regions::ProgramId;
use hints::SizeHints;
use mmulab_addr::{Asid, PageOrder, Pfn, Pid, Prot, VirtAddr, Vpn};
use mmulab_frames::PhysMem;
pub use mmulab_pagetable::Probe as Found;
use mmulab_pagetable::{Leaf, Table};
use std::collections::{BTreeMap, BTreeSet};
use stores::StoredPages;
use vma::{Back, Vma};
use window::Window;

/// The rights of a page in the table: whatever is present can be read (Intel SDM vol. 3A, section 4.6).
fn readable(prot: Prot) -> Prot {
    if prot == Prot::NONE { prot } else { prot.with(Prot::R) }
}

/// An address space.
pub(crate) struct AddressSpace {
    /// Unique in the run, never used again.
    pub serial: u64,
    /// Its place among the address spaces, which another one gets once it is gone.
    pub slot: usize,
    pub pid: Pid,
    pub table: Table,
    pub asid: Option<Asid>,
    /// Processes that run in it: more than one after vfork.
    pub users: u32,
    pub vmas: RangeMap<Vma>,
    pub places: Places,
    /// Pages whose mapping allows no access (PROT_NONE): Linux keeps them in the table, marked not present.
    pub hidden: BTreeMap<Vpn, Leaf>,
    /// Where the kernel padded code: the end that the program gave it, and the end of the padding.
    pub paddings: BTreeMap<u64, u64>,
    /// Page tables that it shares with others, by the first address that each maps. No two map the same.
    pub windows: BTreeMap<u64, Window>,
    pub heap: Option<(u64, u64)>,
    /// Page sizes that hints name for its memory.
    pub hints: SizeHints,
    /// Whether its process turned the policy's daemon on for itself.
    pub is_switched_on: bool,
    pub mapped: Mapped,
    /// The base pages that were stored to, in runs whose policy asks for them.
    pub stored: StoredPages,
    /// The program that runs in it.
    pub program: ProgramId,
    /// Whether it counts as one that runs the program.
    pub is_counted: bool,
    /// Whether exec makes its mappings now: until the program's first fault.
    pub is_loading: bool,
    /// Where entries get the contiguous bit.
    pub contiguous: Contiguous,
}

impl AddressSpace {
    /// An empty address space.
    pub fn new(
        (serial, slot): (u64, usize),
        pid: Pid,
        table: Table,
        program: ProgramId,
        contiguous: Contiguous,
    ) -> Self {
        Self {
            serial,
            slot,
            pid,
            table,
            asid: None,
            users: 0,
            vmas: RangeMap::default(),
            places: RangeMap::default(),
            hidden: BTreeMap::new(),
            paddings: BTreeMap::new(),
            windows: BTreeMap::new(),
            heap: None,
            hints: SizeHints::default(),
            is_switched_on: false,
            mapped: Mapped::default(),
            stored: StoredPages::default(),
            program,
            is_counted: false,
            is_loading: false,
            contiguous,
        }
    }

    /// The shared memory it shows, each once.
    pub fn objects(&self) -> BTreeSet<ObjectId> {
        let objects = self.vmas.iter().filter_map(|s| match s.value.back {
            Back::Object(id, _) => Some(id),
            Back::Anon => None,
        });
        objects.collect()
    }

    /// The anonymous objects its mappings have, each once. Only reservations make any.
    pub fn anon_objects(&self) -> BTreeSet<u32> {
        self.vmas.iter().filter_map(|s| s.value.anon.map(|a| a.object)).collect()
    }

    /// The size of a base page.
    #[inline]
    pub fn base(&self) -> PageOrder {
        self.table.format().base()
    }

    /// The mapping at `va`.
    #[inline]
    pub fn probe(&self, mem: &PhysMem, va: VirtAddr) -> Found {
        self.table.probe(mem, va.vpn())
    }

    /// The first page mapped at or above `va` and below `end`.
    pub fn next_leaf(&self, mem: &PhysMem, mut va: u64, end: u64) -> Option<(u64, Leaf)> {
        while va < end {
            match self.probe(mem, VirtAddr::new(va)) {
                Found::Leaf(leaf) => return Some((va & !(leaf.order.bytes() - 1), leaf)),
                Found::Hole(order) => va = (va & !(order.bytes() - 1)).checked_add(order.bytes())?,
            }
        }
        None
    }

    /// The leaves of an address range, in order, each with its first address. For work that leaves the table as it is.
    pub fn leaves<'a>(&'a self, mem: &'a PhysMem, start: u64, end: u64) -> impl Iterator<Item = (u64, Leaf)> + use<'a> {
        let mut next = Some(start);
        std::iter::from_fn(move || {
            let (va, leaf) = self.next_leaf(mem, next?, end)?;
            next = va.checked_add(leaf.order.bytes());
            Some((va, leaf))
        })
    }

    /// Whether programs can have the address, as the format of the table has it.
    pub fn is_canonical(&self, va: u64) -> bool {
        self.table.format().is_canonical(va)
    }

    #[inline]
    pub(crate) fn region(&self, va: u64) -> RegionId {
        self.places.find(va).map_or(RegionId::NONE, |s| s.value.0)
    }

    /// A leaf with the kernel's usual bits.
    #[inline]
    pub fn leaf(vma: &Vma, pfn: Pfn, order: PageOrder, prot: Prot, dirty: bool) -> Leaf {
        Leaf { pfn, order, prot: readable(prot), user: !vma.global, accessed: true, dirty, global: vma.global }
    }

    /// The rights an existing page of `vma` may have in the table: not for stores if a store must fault first.
    pub fn rights(vma: &Vma, leaf: &Leaf, memory: &Memory) -> Prot {
        let prot = readable(vma.prot);
        if !prot.has(Prot::W) {
            return prot;
        }
        let stores = if vma.shared {
            match vma.back {
                Back::Anon => true,
                Back::Object(id, _) => memory.cache.is_memory(id) || leaf.dirty,
            }
        } else {
            !memory.is_zero(leaf.pfn)
                && memory.pages.get(leaf.pfn).used == Use::Anon
                && memory.pages.is_exclusive(leaf.pfn, leaf.order)
        };
        if stores { prot } else { prot.without(Prot::W) }
    }

    /// Notes a fault that was handled.
    pub fn tell_fault(cx: &mut Cx, kind: FaultKind, va: u64, leaf: &Leaf) {
        let leaf = *leaf;
        cx.tell(|| Note::Fault {
            kind,
            va: VirtAddr::new(va).align_down(leaf.order),
            size: leaf.order,
            pfn: leaf.pfn,
            prot: leaf.prot,
        });
    }
}
