//! Two-dimensional (nested) page walks (AMD64 APM vol. 2, section 15.25; Intel SDM vol. 3C, chapter 29). Each address
//! in the guest's table is guest-physical (gPA). The host's table must translate it before anything can be read there.
//!
//! ```text
//! guest                    host: nested TLB, else a walk               reads of memory
//!
//! gPA of the root    --->  hL4 - hL3 - hL2 - hL1  ---> hPA: read gL4    5
//!   gL4 has a gPA    --->  hL4 - hL3 - hL2 - hL1  ---> hPA: read gL3    5
//!   gL3 has a gPA    --->  hL4 - hL3 - hL2 - hL1  ---> hPA: read gL2    5
//!   gL2 has a gPA    --->  hL4 - hL3 - hL2 - hL1  ---> hPA: read gL1    5
//!   gL1: gPA of the  --->  hL4 - hL3 - hL2 - hL1  ---> hPA of the page  4
//!        page                                              |           24, without any cache
//! gVA ------------------------------------------------> combined mapping: gVA to hPA, for the TLBs
//! ```

use crate::{
    Caches, NestedTlbCounts, NestedTlbDesc, Pace, Server, StepRecord, Walk, WalkCacheDesc, WalkContext, WalkCounts,
    Walker, WalkerDesc, WalkerError,
    below::Below,
    combine::{HostPage, combine},
    nested_tlb::NestedTlb,
};
use mmulab_addr::{Access, PageOrder, PhysAddr, VirtAddr};
use mmulab_frames::PhysMem;
use mmulab_pagetable::{Invalidate, Walked};

/// What a core has for the second dimension.
#[derive(Clone, Copy, Debug)]
pub struct NestedDesc<'a> {
    /// Caches of the host's entries above the leaves.
    pub caches: &'a [WalkCacheDesc],
    /// Cycles of each read besides the latency of the cache that has the entry.
    pub read_cycles: u32,
    /// What computing hashes takes for each group of reads, where the host's table is found by hashing.
    pub hash_cycles: u32,
    /// The cache of whole translations.
    pub tlb: Option<&'a NestedTlbDesc>,
}

/// The memory of both dimensions.
pub struct Memories<'a> {
    /// The guest's, by guest-physical address.
    pub guest: &'a mut PhysMem,
    /// The host's.
    pub host: &'a mut PhysMem,
}

/// The tables of both dimensions. The host's ASID is that of the virtual machine. Entries of its guest go by it, too.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NestedContext {
    /// The table of the program, at guest-physical addresses.
    pub guest: WalkContext,
    /// The table of the machine.
    pub host: WalkContext,
}

/// How a walk ended. Cycles are those of the walk alone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Nested {
    /// The guest's table ended it, one way or the other.
    Guest(Walk),
    /// The host has nothing for an address of the guest (an EPT violation, a nested page fault).
    Violation(Violation),
}

/// A guest-physical address that the host's table does not translate.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Violation {
    /// The address.
    pub gpa: PhysAddr,
    /// What was to be done there. Reading the guest's table counts as a store (see [`NestedWalker`]).
    pub access: Access,
    /// How long the walk took so far.
    pub cycles: u32,
}

/// Whose entry it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Dimension {
    /// The guest's.
    Guest,
    /// The host's.
    Host,
}

/// One entry on the way of a walk of two dimensions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NestedStep {
    /// Whose it is.
    pub dimension: Dimension,
    /// The entry; addresses are the host's.
    pub record: StepRecord,
}

/// The second dimension of one core's walker.
///
/// The processor sets accessed and dirty bits in both tables. Reading the guest's entries counts as storing to them,
/// for it may set their accessed bits: so the host's pages that hold the guest's tables become dirty, and must be
/// writable (Intel SDM vol. 3C, section 29.3.5; AMD64 APM vol. 2, section 15.25.6).
pub struct NestedWalker {
    host: Walker,
    tlb: Option<NestedTlb>,
    steps: Vec<NestedStep>,
    /// Whether steps are kept: somebody wants to know them.
    pub watched: bool,
    /// Whether TLBs look at the neighbours of a page's entry.
    pub neighbours: bool,
    /// Entries of the host read for walks of each side, and by the last walk.
    reads: [u64; 2],
    last_reads: usize,
}

/// The host's side of a walk in flight.
struct Host<'a> {
    walker: &'a mut Walker,
    tlb: Option<&'a mut NestedTlb>,
    /// Where steps are kept, if somebody wants to know them.
    steps: Option<&'a mut Vec<NestedStep>>,
    neighbours: bool,
    mem: &'a mut PhysMem,
    cx: WalkContext,
    reads: usize,
}

impl Host<'_> {
    /// The page of the host that holds `gpa`.
    #[inline]
    fn find(
        &mut self,
        caches: &mut Caches,
        gpa: PhysAddr,
        access: Access,
        cycles: &mut u32,
    ) -> Result<HostPage, Violation> {
        let format = self.cx.format;
        let before = *cycles;
        if let Some(tlb) = &mut self.tlb
            && let Some(held) = tlb.lookup(self.cx.asid, gpa, access, cycles)
        {
            if let Some(steps) = &mut self.steps {
                let pa = held.leaf.translate(VirtAddr::new(gpa.0));
                let (level, cycles) = (held.level, *cycles - before);
                let record = StepRecord { level, pa, server: Server::NestedTlb, cycles, pace: Pace::Next };
                steps.push(NestedStep { dimension: Dimension::Host, record });
            }
            return Ok(HostPage { leaf: held.leaf, level: held.level, format, line: None });
        }
        let walk = self.walker.walk(self.mem, caches, self.cx, VirtAddr::new(gpa.0), access);
        self.reads += self.walker.reads();
        if let Some(steps) = &mut self.steps {
            let read = self.walker.steps().iter();
            steps.extend(read.map(|&record| NestedStep { dimension: Dimension::Host, record }));
        }
        match walk {
            Walk::Fault { cycles: took, .. } => {
                *cycles += took;
                Err(Violation { gpa, access, cycles: *cycles })
            }
            Walk::Mapped { walked, cycles: took } => {
                *cycles += took;
                if let Some(tlb) = &mut self.tlb {
                    tlb.insert(self.cx.asid, gpa, &walked.leaf, walked.level);
                }
                let Walked { leaf, line, slot, level, format } = walked;
                Ok(HostPage { leaf, level, format, line: Some((line, slot)) })
            }
        }
    }
}

impl Below for Host<'_> {
    const NESTED: bool = true;
    type Refusal = Violation;

    #[inline]
    fn place(
        &mut self,
        caches: &mut Caches,
        entry: PhysAddr,
        cycles: &mut u32,
    ) -> Result<(PhysAddr, PageOrder), Violation> {
        let page = self.find(caches, entry, Access::Write, cycles)?;
        Ok((page.leaf.translate(VirtAddr::new(entry.0)), page.leaf.order))
    }

    #[inline]
    fn complete(
        &mut self,
        caches: &mut Caches,
        walked: Walked,
        va: VirtAddr,
        access: Access,
        cycles: &mut u32,
    ) -> Result<Walked, Violation> {
        let gpa = walked.leaf.translate(va);
        let page = self.find(caches, gpa, access, cycles)?;
        Ok(combine(&walked, &page, va, gpa, self.neighbours))
    }

    #[inline]
    fn note(&mut self, record: &StepRecord) {
        if let Some(steps) = &mut self.steps {
            steps.push(NestedStep { dimension: Dimension::Guest, record: *record });
        }
    }
}

impl NestedWalker {
    /// Builds the second dimension of core number `core`'s walker.
    ///
    /// # Errors
    /// A geometry that cannot be.
    pub fn new(desc: NestedDesc, core: usize) -> Result<Self, WalkerError> {
        let host = WalkerDesc {
            count: 1,
            shared: false,
            cache: desc.caches.to_vec(),
            hash_cycles: desc.hash_cycles,
            // It is of the whole walk, which the guest's walker counts.
            overhead_cycles: 0,
            turnaround_cycles: 0,
            read_cycles: desc.read_cycles,
            source: String::new(),
            assumed: [].into(),
        };
        Ok(Self {
            host: Walker::new(&host, core)?,
            tlb: desc.tlb.map(NestedTlb::new).transpose()?.flatten(),
            steps: Vec::new(),
            watched: false,
            neighbours: true,
            reads: [0; 2],
            last_reads: 0,
        })
    }

    /// Builds the first dimension: the walker of core number `core` in a guest.
    ///
    /// # Errors
    /// A geometry that cannot be.
    pub fn guest(desc: &WalkerDesc, core: usize) -> Result<Walker, WalkerError> {
        Walker::new(desc, core).map(Walker::in_guest)
    }

    /// Walks both tables for `access` to `va`. Like any walk it counts with `guest`, its cycles too; `guest` counts
    /// the guest's entries, this the host's.
    #[inline]
    pub fn walk(
        &mut self,
        guest: &mut Walker,
        mem: Memories,
        caches: &mut Caches,
        cx: NestedContext,
        va: VirtAddr,
        access: Access,
    ) -> Nested {
        self.steps.clear();
        let mut host = Host {
            walker: &mut self.host,
            tlb: self.tlb.as_mut(),
            steps: self.watched.then_some(&mut self.steps),
            neighbours: self.neighbours,
            mem: mem.host,
            cx: cx.host,
            reads: 0,
        };
        let walk = guest.walk_over(mem.guest, caches, cx.guest, va, access, &mut host);
        self.last_reads = host.reads;
        self.reads[access.side() as usize] += host.reads as u64;
        match walk {
            Ok(walk) => Nested::Guest(walk),
            Err(violation) => Nested::Violation(violation),
        }
    }

    /// A reference to `va` may soon need a walk, and the last entry of its guest is probably cached by now: software
    /// prefetches of the host entries that the walk will read. A hint, as [`Walker::prefetch_hint`].
    #[inline]
    pub fn prefetch_hint(
        &self,
        guest: &Walker,
        (mem, host_mem): (&PhysMem, &PhysMem),
        caches: &Caches,
        cx: NestedContext,
        va: VirtAddr,
    ) {
        let Some(entry) = guest.predicted_entry(cx.guest.asid, va) else { return };
        // Caches know the guest's entry by the host's address.
        if let Some(at) = self.host.predicted_entry(cx.host.asid, VirtAddr::new(entry.0))
            && let Some(leaf) = cx.host.format.decode_leaf(host_mem.read(at), 1)
        {
            caches.prefetch(self.host.core(), leaf.translate(VirtAddr::new(entry.0)));
        }
        if let Some(leaf) = cx.guest.format.decode_leaf(mem.read(entry), 1) {
            self.host.prefetch_hint(host_mem, caches, cx.host.asid, VirtAddr::new(leaf.translate(va).0));
        }
    }

    /// The entries of the last walk, in order, of both dimensions, if it was watched.
    pub fn steps(&self) -> &[NestedStep] {
        &self.steps
    }

    /// Entries of the host that the last walk read.
    pub fn reads(&self) -> usize {
        self.last_reads
    }

    /// Entries of the host read for walks of each side so far: instructions, data.
    pub fn reads_by_side(&self) -> [u64; 2] {
        self.reads
    }

    /// What the host's walk caches are called.
    pub fn names(&self) -> Vec<String> {
        self.host.names()
    }

    /// Walks of the host's table alone; see [`Walker::counts`].
    pub fn counts(&self, servers: usize, levels: u8) -> WalkCounts {
        self.host.counts(servers, levels)
    }

    /// What the nested TLB did, if there is one.
    pub fn tlb_counts(&self) -> Option<NestedTlbCounts> {
        self.tlb.as_ref().map(NestedTlb::counts)
    }

    /// Forgets what must not be used any more of the host's translations. What the guest's caches hold of them is the
    /// caller's to drop.
    pub fn invalidate(&mut self, format: mmulab_pagetable::Format, what: &Invalidate) {
        self.host.invalidate(format, what);
        if let Some(tlb) = &mut self.tlb {
            tlb.invalidate(what);
        }
    }

    /// Calls `each` for every translation that the nested TLB holds: its ASID, the guest-physical page and the host's
    /// leaf.
    pub fn each_held(&self, mut each: impl FnMut(mmulab_addr::Asid, PhysAddr, &mmulab_pagetable::Leaf)) {
        if let Some(tlb) = &self.tlb {
            tlb.each_entry(|asid, gpa, held| each(asid, gpa, &held.leaf));
        }
    }
}
