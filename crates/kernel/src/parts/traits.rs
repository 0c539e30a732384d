//! The contract of each part of a memory manager: what a manager asks it, and what it may answer.
//!
//! ```text
//! page fault on a hole --> FaultSize: which sizes, in which order, and why not
//!                             |  a Candidate for each size
//!                             v
//!                          Placement: which frames
//!                             |  a block of frames, or none: the next size
//!                             v
//!                          Zeroing: what the fault itself must clear of them
//!                             |
//!                             v
//!                          leaf, or base pages that lie together, in the page table
//!                             |
//!                             v
//!                          Promotion: whether this base page completes a larger page
//!
//! store to a read-only page -> Demotion: whether it is taken apart first
//! little memory is free -----> Reclaim: whether a daemon drops pages of files
//! advice of the program -----> Hints: whether anybody listens
//! simulated time ------------> Zeroing: clears free memory ahead
//!                              Daemon: makes larger pages of smaller ones
//! ```

use crate::parts::settings::Served;
use crate::ranges::Span;
use crate::report::counts::Refusal;
use crate::space::compaction::Compaction;
use crate::space::system::SystemCx;
use crate::space::vma::Vma;
use crate::space::{AddressSpace, Cx};
use crate::{Fault, FaultError, KernelError, Wanted};
use mmulab_addr::{Access, PageOrder, Pfn, VirtAddr};
use mmulab_pagetable::{Leaf, TableDesc};

/// A size that the page table of the run can map: with one leaf, or with base pages that lie together.
///
/// Only [`Self::leaf`] makes a size of one leaf, so that no part can ask for a leaf that the table lacks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct MapSize {
    order: PageOrder,
    is_leaf: bool,
}

impl MapSize {
    /// One leaf of `order`, if the table has leaves of that size and it is larger than a base page.
    pub fn leaf(table: &TableDesc, order: PageOrder) -> Option<Self> {
        (order > table.base() && table.has_leaf(order)).then_some(Self { order, is_leaf: true })
    }

    /// As many base pages as `order` has, in a block of frames; one page, where the table's format maps blocks so.
    pub fn block(order: PageOrder) -> Self {
        Self { order, is_leaf: false }
    }

    /// A leaf where the table has one, else a block of base pages.
    pub fn best(table: &TableDesc, order: PageOrder) -> Self {
        Self::leaf(table, order).unwrap_or(Self::block(order))
    }

    pub fn order(self) -> PageOrder {
        self.order
    }

    pub fn is_leaf(self) -> bool {
        self.is_leaf
    }
}

/// A page fault where nothing is mapped.
pub(crate) struct Hole<'a> {
    /// The mapping.
    pub span: &'a Span<Vma>,
    /// The address that faulted.
    pub va: VirtAddr,
    pub access: Access,
    /// The largest page whose aligned place around `va` is empty in the page table.
    pub room: PageOrder,
    /// The size that hints want here; `None` where no hint guides faults.
    pub guide: Option<PageOrder>,
}

impl Hole<'_> {
    /// The first address of the aligned page of `order` around the fault.
    pub fn start(&self, order: PageOrder) -> u64 {
        self.va.align_down(order).raw()
    }

    /// Whether the aligned page of `order` around the fault lies inside the mapping.
    pub fn fits(&self, order: PageOrder) -> bool {
        let start = self.start(order);
        start >= self.span.start && self.span.end - start >= order.bytes()
    }
}

/// Where the frames of a candidate come from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Supply {
    /// From the placement part, zeroed.
    Frames,
    /// The huge zero page, which all address spaces share.
    ZeroPage,
    /// The pool reserved at boot.
    Pool,
}

/// The verdict on one size at one fault.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Candidate {
    /// The size may be mapped; `if_none` is counted if no frames can be had.
    Fits { size: MapSize, supply: Supply, if_none: Refusal },
    /// The size may not be mapped, for this reason.
    Refused(Refusal),
    /// The size does not concern this fault: nothing is counted.
    NotConsidered,
}

/// The fault-size part: the sizes larger than a base page that a fault tries, in order.
///
/// Its sizes form families, such as 2M and the mTHP sizes. One refusal is counted for each family, the first of its
/// reasons, if none of its sizes was mapped.
#[diagnostic::on_unimplemented(
    message = "`{Self}` lies in parts/fault_size, but does not do what such a part does",
    label = "write `impl FaultSize for {Self}`"
)]
pub(crate) trait FaultSize {
    /// How many sizes there are.
    fn sizes(&self) -> usize;

    /// The verdict on the size at `index`. `is_empty` says whether no page of a range of addresses is mapped.
    fn candidate(&self, index: usize, hole: &Hole, is_empty: impl Fn(u64, u64) -> bool) -> Candidate;

    /// Whether the size at `index` is the last of its family.
    fn ends_family(&self, index: usize) -> bool;

    /// Where a brk heap ends that the program wants to end at `end`.
    fn heap_end(&self, end: u64) -> u64 {
        end
    }
}

/// The placement part: which frames private memory gets.
#[diagnostic::on_unimplemented(
    message = "`{Self}` lies in parts/placement, but does not do what such a part does",
    label = "write `impl Placement for {Self}`"
)]
pub(crate) trait Placement {
    /// A block of `order` for the pages from `at` on, with one user. Its contents are the caller's to make. `None`:
    /// there is no such block.
    fn take(&self, space: &mut AddressSpace, cx: &mut Cx, span: &Span<Vma>, at: u64, order: PageOrder) -> Option<Pfn>;

    /// A frame for the base page at `at`.
    ///
    /// # Errors
    /// No frame is left.
    fn base_page(&self, space: &mut AddressSpace, cx: &mut Cx, span: &Span<Vma>, at: u64) -> Result<Pfn, FaultError> {
        let base = cx.memory.base;
        let pfn = self.take(space, cx, span, at, base);
        pfn.ok_or_else(|| cx.out_of_memory(at, Wanted::Page(base)))
    }
}

/// The promotion part at faults: whether base pages become a larger page now.
#[diagnostic::on_unimplemented(
    message = "`{Self}` lies in parts/promotion, but does not do what such a part does",
    label = "write `impl Promotion for {Self}`"
)]
pub(crate) trait Promotion {
    /// Whether it can promote anything.
    fn is_on(&self) -> bool {
        true
    }

    /// Tries to promote around `at`, where a base page was just mapped; the size of the larger page, if there is one
    /// now.
    fn promote(&self, space: &mut AddressSpace, cx: &mut Cx, at: u64) -> Result<Option<PageOrder>, FaultError>;

    /// The fault as large as the page is that holds `at` once promotion was tried.
    ///
    /// # Errors
    /// Those of [`Self::promote`].
    fn promoted(&self, space: &mut AddressSpace, cx: &mut Cx, at: u64, mut fault: Fault) -> Result<Fault, FaultError> {
        if fault.order == PageOrder::P4K
            && let Some(size) = self.promote(space, cx, at)?
        {
            fault.order = size;
        }
        Ok(fault)
    }
}

/// The zeroing part: when the frames of new private pages are cleared, and so whose time that takes.
#[diagnostic::on_unimplemented(
    message = "`{Self}` lies in parts/zeroing, but does not do what such a part does",
    label = "write `impl Zeroing for {Self}`"
)]
pub(crate) trait Zeroing {
    /// Clears the page of `order` at `pfn`, which was taken just now for a fault; the fault pays for what it must
    /// clear itself.
    fn zero(&self, cx: &mut Cx, pfn: Pfn, order: PageOrder);

    /// When a daemon wants to clear free memory, in simulated nanoseconds since the start; never, if there is none.
    fn wakes_at(&self) -> Option<u64> {
        None
    }

    /// Lets the daemon run once, and sleep from `now_ns` on.
    fn wake(&mut self, _: &mut SystemCx, _now_ns: u64) {}
}

/// A daemon, which makes larger pages of smaller ones on simulated time.
#[diagnostic::on_unimplemented(
    message = "`{Self}` lies in parts/daemon, but does not do what such a part does",
    label = "write `impl Daemon for {Self}`"
)]
pub(crate) trait Daemon {
    /// Whether it wants to know which base pages programs store to (`space/stores.rs`).
    fn wants_stores(&self) -> bool {
        false
    }

    /// When it wakes, in simulated nanoseconds since the start.
    fn wakes_at(&self) -> u64;

    /// Lets it run once, and sleep from `now_ns` on. A daemon that is late runs once.
    ///
    /// # Errors
    /// Frames for page tables ran out.
    fn wake(&mut self, system: &mut SystemCx, compaction: &mut Compaction, now_ns: u64) -> Result<(), KernelError>;
}

/// Declarations of a policy with a daemon, for the table of policies (`declared.rs`).
pub(crate) struct Declares {
    /// The sizes that it promotes to.
    pub sizes: &'static [PageOrder],
    /// How it promotes.
    pub how: &'static str,
    /// Its addition to the origin of the frames of private pages.
    pub allocation: &'static str,
}

/// A daemon that policies of kind `linux` choose by its name.
#[diagnostic::on_unimplemented(
    message = "`{Self}` lies in parts/daemon, but does not declare what it promotes to",
    label = "write `impl Declare for {Self}`"
)]
pub(crate) trait Declare {
    /// Its declarations, if it serves these processes.
    fn declares(served: Served) -> Declares;
}

/// The demotion part: when a larger page is taken apart that no operation cuts.
#[diagnostic::on_unimplemented(
    message = "`{Self}` lies in parts/demotion, but does not do what such a part does",
    label = "write `impl Demotion for {Self}`"
)]
pub(crate) trait Demotion {
    /// Whether a store to the page of this leaf, which is mapped read-only, takes it apart. `base`: the size of a base
    /// page, which has no parts.
    fn at_store(&self, leaf: &Leaf, base: PageOrder) -> bool;

    /// Takes the page of `leaf` at `at` apart, if a store to it does so; whether it did.
    ///
    /// # Errors
    /// Frames for page tables ran out.
    fn demoted(&self, space: &mut AddressSpace, cx: &mut Cx, at: u64, leaf: Leaf) -> Result<bool, FaultError> {
        let splits = self.at_store(&leaf, cx.memory.base);
        if splits {
            space.split(cx, at, leaf)?;
        }
        Ok(splits)
    }
}

/// The reclaim part: when pages of files leave memory before an allocation fails.
#[diagnostic::on_unimplemented(
    message = "`{Self}` lies in parts/reclaim, but does not do what such a part does",
    label = "write `impl Reclaim for {Self}`"
)]
pub(crate) trait Reclaim {
    /// Frames to reclaim now that `free` are free.
    fn wanted(&mut self, free: u64) -> u64;

    /// So many of those wanted were found.
    fn reclaimed(&mut self, frames: u64);
}

/// The part that gives hints about larger pages.
#[diagnostic::on_unimplemented(
    message = "`{Self}` lies in parts/hints, but does not do what such a part does",
    label = "write `impl Hints for {Self}`"
)]
pub(crate) trait Hints {
    /// Whether MADV_HUGEPAGE, MADV_NOHUGEPAGE and MADV_COLLAPSE have an effect.
    fn obeys_program(&self) -> bool;

    /// Whether the extended madvise(2), which names page sizes, has an effect.
    fn takes_sizes(&self) -> bool {
        false
    }

    /// Whether the kernel of a host can use them. It can if they are about the host's own processes, which are virtual
    /// machines, and not about the programs in these.
    fn serves_hosts(&self) -> bool {
        true
    }
}
