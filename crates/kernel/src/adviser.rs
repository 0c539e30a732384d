//! What somebody outside the kernel may decide for it: the page size of a fault, and what is promoted. An adviser is
//! asked at faults and at the rate of a daemon, so that a run without one does no work for it.
//!
//! ```text
//! fault on private anonymous memory --> Adviser::fault(Asked) --> a size, or none: the policy decides
//! period of simulated time ----------> Adviser::tick(View) ----> Promotions, which the kernel carries out
//! ```
//!
//! The kernel knows the trait alone: `crates/python` implements it by objects of Python. `linux/advised.rs` asks.

use crate::report::region::RegionKind;
use mmulab_addr::{Access, PageOrder, Pid, VirtAddr};
use std::fmt;
use std::sync::Arc;

/// The adviser failed, and knows why: the run ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Raised;

/// What an adviser wants to be asked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Advises {
    /// [`Adviser::fault`].
    pub faults: bool,
    /// [`Adviser::tick`].
    pub ticks: bool,
    /// Milliseconds of simulated time between two ticks; `None`: those between two scans of the policy's daemon, or of
    /// khugepaged as Linux ships it.
    pub period_ms: Option<u64>,
}

/// An adviser.
pub trait Adviser: Send {
    /// What it wants to be asked. The answer must not change.
    fn advises(&self) -> Advises;

    /// The size of the page that a fault is to map, one of those in `asked`; `None` leaves the choice to the policy.
    ///
    /// # Errors
    /// The adviser failed.
    fn fault(&mut self, asked: &Asked) -> Result<Option<PageOrder>, Raised>;

    /// Memory to promote now.
    ///
    /// # Errors
    /// The adviser failed.
    fn tick(&mut self, view: &View) -> Result<Vec<Promotion>, Raised>;
}

/// A mapping of private anonymous memory, as an adviser sees it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Mapping {
    /// The first address.
    pub start: VirtAddr,
    /// The address after the last.
    pub end: VirtAddr,
    /// The kind of the region that it belongs to.
    pub kind: RegionKind,
    /// The region's name in reports.
    pub name: Arc<str>,
    /// The program's advice about huge pages: `hugepage`, `nohugepage`, or `None`.
    pub advice: Option<&'static str>,
}

/// A fault that is about to be served.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Asked {
    /// The process.
    pub pid: Pid,
    /// The address that faulted.
    pub va: VirtAddr,
    /// The access.
    pub access: Access,
    /// The mapping that holds it.
    pub mapping: Mapping,
    /// The sizes that can be mapped there now.
    pub sizes: Sizes,
}

/// All memory that can be promoted, at a tick.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct View {
    /// Simulated nanoseconds since the start.
    pub now_ns: u64,
    /// The sizes larger than a base page that memory can be promoted to.
    pub sizes: Sizes,
    /// The address spaces, in the order in which they were made.
    pub processes: Vec<ProcessView>,
}

/// The memory of one address space.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ProcessView {
    /// The process that it was made for.
    pub pid: Pid,
    /// Its private anonymous mappings, from the lowest up.
    pub mappings: Vec<Mapping>,
    /// The pages mapped in these, without zero pages, from the lowest up.
    pub pages: Vec<PageRun>,
}

/// Pages of one size that follow each other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PageRun {
    /// The first address.
    pub start: VirtAddr,
    /// The size of each page in the page table.
    pub size: PageOrder,
    /// How many.
    pub pages: u64,
}

/// A range to be promoted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Promotion {
    /// The process.
    pub pid: Pid,
    /// The first address.
    pub start: VirtAddr,
    /// The address after the last.
    pub end: VirtAddr,
    /// The size of each page then.
    pub size: PageOrder,
}

/// A set of page sizes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Sizes(u64);

impl Sizes {
    /// Whether it has this size.
    pub fn has(self, size: PageOrder) -> bool {
        self.0 >> size.get() & 1 == 1
    }

    /// The same with this size.
    #[must_use]
    pub fn with(self, size: PageOrder) -> Self {
        Self(self.0 | 1 << size.get())
    }

    /// Its sizes, from the smallest up.
    pub fn iter(self) -> impl Iterator<Item = PageOrder> {
        (0..=PageOrder::P1G.get()).map(PageOrder::new).filter(move |&size| self.has(size))
    }
}

impl fmt::Display for Sizes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all: Vec<String> = self.iter().map(|size| size.to_string()).collect();
        f.write_str(&if all.is_empty() { "none".to_owned() } else { all.join(", ") })
    }
}
