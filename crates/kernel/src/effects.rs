//! Effects of one event or page fault outside the kernel: TLB invalidations, work to charge, stored frames and an
//! event log. The kernel fills an `Effects`, and the machine applies the parts. Thus the kernel needs no access to
//! TLBs and clocks.
//!
//! ```text
//! event, fault --> Kernel --> Effects --+-- invalidations ---> TLBs, page-walk caches
//!                                       +-- work ------------> cost table --> kernel cycles
//!                                       +-- stored frames ---> host of the virtual machine
//!                                       '-- event log -------> observer of the run
//! ```

use crate::report::counts::{EventError, FaultKind, Refusal};
use crate::report::regions::Fold;
use crate::report::work::WorkKind;
use mmulab_addr::{Asid, PageOrder, Pfn, Pid, Prot, Tid, VirtAddr, VirtRange};
use mmulab_frames::FrameCounts;
use mmulab_pagetable::Invalidate;
use schemars::JsonSchema;
use serde::Serialize;

/// The process, thread and CPU that act.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Actor {
    /// The process.
    pub pid: Pid,
    /// Its thread.
    pub tid: Tid,
    /// The processor it runs on, below [`crate::KernelDesc::cpus`].
    pub cpu: u16,
}

/// So many units of one kind of work.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, JsonSchema)]
pub struct Work {
    /// Kind of work.
    pub kind: WorkKind,
    /// How many units.
    pub count: u64,
}

/// A run of frames that the kernel stored to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stored {
    /// The first.
    pub first: Pfn,
    /// How many.
    pub frames: u64,
    /// It is one block, and a node of a page table that merges levels.
    pub is_node: bool,
}

/// A block of memory that lies together as a hint of its size asks. A guest's kernel can hand the hint on to its host.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HintedBlock {
    /// Its first frame.
    pub first: Pfn,
    /// Its size.
    pub size: PageOrder,
}

/// Effects of one event or fault. The caller empties it between calls.
#[derive(Clone, Debug, Default)]
pub struct Effects {
    /// Translations every core must drop, in order.
    pub invalidations: Vec<Invalidate>,
    /// Whether only the core that acts must drop them: a switch of address space without ASIDs.
    pub local: bool,
    /// Work to be charged, once for each kind.
    pub work: Vec<Work>,
    /// Steps that the allocator of frames took for it: splits, merges, per-CPU lists refilled.
    pub allocator: FrameCounts,
    /// Memory that was given contents (zeroed, copied to, read into, made a table of), in order, if
    /// [`crate::Kernel::tell_touched`] asked for it. Frames may be named more than once.
    pub touched: Vec<Stored>,
    /// Pages of mappings that were populated, as runs in the order in which the kernel stored to them. Pages whose
    /// contents were there before (read from a file, zeroed ahead) are left out.
    pub populated: Vec<VirtRange>,
    /// Blocks that lie together now as hints of page sizes ask, in order, if [`crate::Kernel::tell_hinted`] asked for
    /// them. What the host has heard of before is left out.
    pub hinted: Vec<HintedBlock>,
    /// Regions that are gone. Their costs so far go to the rows that sum them up.
    pub folded: Vec<Fold>,
    /// Whether `notes` are wanted.
    pub narrate: bool,
    /// The events in words, if they are wanted.
    pub notes: Vec<Note>,
}

impl Effects {
    /// Empties it, keeping memory and `narrate`.
    pub fn clear(&mut self) {
        self.invalidations.clear();
        self.local = false;
        self.work.clear();
        self.allocator = FrameCounts::default();
        self.touched.clear();
        self.populated.clear();
        self.hinted.clear();
        self.folded.clear();
        self.notes.clear();
    }
}

/// One thing the kernel did, for narration.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, JsonSchema)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Note {
    /// A fault was handled.
    Fault {
        /// Kind of the fault.
        kind: FaultKind,
        /// The first address of the page now mapped.
        va: VirtAddr,
        /// Its size.
        size: PageOrder,
        /// Its first frame.
        pfn: Pfn,
        /// Its rights in the page table.
        prot: Prot,
    },
    /// A new mapping was populated (MAP_POPULATE): a run of its pages whose frames lie one after another.
    Populated {
        /// The first address.
        va: VirtAddr,
        /// The size of each page.
        size: PageOrder,
        /// How many.
        pages: u64,
        /// The first frame.
        pfn: Pfn,
        /// Their rights in the page table.
        prot: Prot,
    },
    /// Neighbours were mapped by fault-around.
    Around {
        /// The first page of the window.
        va: VirtAddr,
        /// Pages mapped in it beside the faulting one.
        pages: u64,
    },
    /// Pages of a file were read.
    Read {
        /// The first page of the file.
        page: u64,
        /// Pages read.
        pages: u64,
    },
    /// A stack grew down.
    StackGrowth {
        /// Its new lowest address.
        start: VirtAddr,
    },
    /// A larger page was not mapped.
    Refused {
        /// Why.
        why: Refusal,
        /// The address that faulted.
        va: VirtAddr,
    },
    /// A large mapping became smaller ones.
    Split {
        /// Its first address.
        va: VirtAddr,
        /// Its former size.
        size: PageOrder,
    },
    /// Small pages became a large one, in another place of memory (MADV_COLLAPSE, khugepaged).
    Collapsed {
        /// Its first address.
        va: VirtAddr,
        /// Its size.
        size: PageOrder,
        /// Its first frame.
        pfn: Pfn,
    },
    /// A block of base pages was mapped together.
    Block {
        /// Its first address.
        va: VirtAddr,
        /// Its size.
        size: PageOrder,
        /// Its first frame.
        pfn: Pfn,
    },
    /// Compaction or a daemon moved a page.
    Moved {
        /// The frame it was in.
        from: Pfn,
        /// The frame it is in.
        to: Pfn,
    },
    /// A daemon had two pages change places.
    Exchanged {
        /// The frame of the one before, and of the other one now.
        first: Pfn,
        /// The frame of the other one before.
        second: Pfn,
    },
    /// A program moved text onto pages of its own.
    TextMoved {
        /// The first address.
        va: VirtAddr,
        /// Base pages moved.
        pages: u64,
        /// Huge pages they lie in.
        huge: u64,
    },
    /// A reservation was made.
    Reserved {
        /// The address whose page it was made for.
        va: VirtAddr,
        /// Its size.
        size: PageOrder,
    },
    /// Base pages became a superpage where they lie.
    Promoted {
        /// Its first address.
        va: VirtAddr,
        /// Its size.
        size: PageOrder,
        /// Its first frame.
        pfn: Pfn,
    },
    /// A daemon brought the pages of a range to their places in an aligned block.
    Assembled {
        /// The first address of the range.
        va: VirtAddr,
        /// Its size.
        size: PageOrder,
        /// The first frame of the block.
        pfn: Pfn,
    },
    /// Sixteen neighbouring entries got the contiguous bit: they translate as one page.
    ContiguousSet {
        /// The first address.
        va: VirtAddr,
        /// The size that they translate as.
        size: PageOrder,
        /// The first frame.
        pfn: Pfn,
    },
    /// Such entries lost the bit, and their range was flushed.
    ContiguousCleared {
        /// The first address.
        va: VirtAddr,
        /// The size that they translated as.
        size: PageOrder,
        /// The first frame.
        pfn: Pfn,
    },
    /// A page table's tables of a level and those below became one node.
    TablesMerged {
        /// The level of the uppermost ones.
        level: u8,
        /// How many levels.
        levels: u8,
    },
    /// Such a node became tables again.
    TablesUnmerged {
        /// The level of the uppermost ones.
        level: u8,
        /// How many levels.
        levels: u8,
    },
    /// A hashed page table got ways of another size, to which its lines move by and by.
    TableResized {
        /// Its level.
        level: u8,
        /// Lines of a way before; 0 if there were none.
        from: u64,
        /// Lines of a way from now on.
        to: u64,
        /// Pieces of memory of a way.
        pieces: u64,
    },
    /// A process got an ASID.
    Asid {
        /// The process.
        pid: Pid,
        /// Its ASID.
        asid: Asid,
    },
    /// An event could not be obeyed.
    Failed {
        /// How.
        error: EventError,
    },
}

/// Outcome of a fault.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, JsonSchema)]
pub struct Fault {
    /// The service that it needed.
    pub kind: FaultKind,
    /// The size of the page that holds the address now. That page may be one of sixteen that translate as one.
    pub order: PageOrder,
    /// Whether the stack grew for it.
    pub stack_growth: bool,
    /// Pages read from storage for it.
    pub read_pages: u32,
    /// Pages mapped beside it by fault-around.
    pub around_pages: u32,
    /// Whether a daemon had zeroed a part of the page before, or all of it.
    #[serde(skip)]
    pub zeroed_ahead: bool,
}

impl Fault {
    /// A fault of one kind that mapped a page of `order`, and nothing beside it.
    pub(crate) fn of(kind: FaultKind, order: PageOrder) -> Self {
        Self { kind, order, stack_growth: false, read_pages: 0, around_pages: 0, zeroed_ahead: false }
    }

    /// Whether the kernel stored to all of the page just now: its lines are in the caches.
    #[must_use]
    pub fn stores_page(&self) -> bool {
        self.kind.stores_page() && !self.zeroed_ahead
    }
}
