//! The simulated operating system: processes, their mappings, page faults, and page policies.
//!
//! It is driven by [`mmulab_trace::Event`]s and page faults, edits page tables as bytes in physical memory, and tells
//! its caller which translations to drop and how much work it did ([`Effects`]). It never sees a TLB and takes no
//! time: both are the machine's. What it does is what Linux does, as written down in `docs/concepts/kernel.md`.

mod advice;
mod asids;
mod cache;
mod change;
mod compaction;
mod contiguity;
mod counts;
mod desc;
mod effects;
mod error;
mod events;
mod fault;
mod file_fault;
mod fork;
mod freebsd;
mod gather;
mod heap;
mod kernel;
mod khugepaged;
mod layout;
mod medium;
mod memory;
mod pages;
mod policy;
mod recorded;
mod region;
mod regions;
mod resident;
mod runs;
mod space;
mod spans;
mod stop;
mod tables;
mod tally;
mod usage;
mod vma;

pub use contiguity::Contiguity;
pub use counts::{EventError, FaultKind, Happening, KernelCounts, Refusal};
pub use desc::{
    AdviceFlush, AppliesTo, Defrag, HugeZeroWrite, HugetlbDesc, KhugepagedDesc, LinuxDesc, PageCache, PolicyDesc,
    PolicyKind, ThpDesc, ThpEnabled, ThpSize,
};
pub use effects::{Actor, Effects, Fault, Stored, Told, Work, WorkKind};
pub use error::{FaultError, KernelError, Wanted};
pub use freebsd::FreebsdDesc;
pub use kernel::{Context, Kernel, KernelDesc, TableMemory};
pub use mmulab_addr::Bytes;
pub use recorded::RecordedPages;
pub use region::{BySize, Region, RegionId, RegionKind};
pub use regions::{Fold, Program};
pub use resident::Resident;
pub use runs::{MemoryKind, Runs, RunsByKind, RunsOfSize};
pub use stop::Stop;
pub use tables::{ByLevels, TableCounts};
pub use tally::{Name, Tally};
pub use usage::{ProcessUsage, Usage};
