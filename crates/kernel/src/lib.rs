//! The simulated operating system: processes, their mappings, page faults, and page policies.
//!
//! It is driven by [`mmulab_trace::Event`]s and page faults, and edits page tables as bytes in physical memory. It
//! returns the translations to drop and the work that it did ([`Effects`]). It never sees a TLB and takes no time: both
//! are the machine's. It behaves like Linux, as written down in `docs/concepts/kernel.md`.

mod adviser;
mod asids;
mod calls;
mod clock;
mod desc;
mod effects;
mod error;
mod freebsd;
mod kernel;
mod linux;
mod manager;
mod managers;
mod memory;
mod parts;
mod ranges;
mod report;
mod space;
mod stop;

pub use adviser::{Adviser, Advises, Asked, Mapping, PageRun, ProcessView, Promotion, Raised, Sizes, View};
pub use desc::{KernelDesc, PolicyDesc, PolicyKind};
pub use effects::{Actor, Effects, Fault, HintedBlock, Note, Stored, Work};
pub use error::{FaultError, KernelError, Wanted};
pub use freebsd::{CodeDesc, FreebsdDesc, Padding, QuicksilverDesc, ShareTables, Threshold};
pub use kernel::{Context, Kernel, TableMemory};
pub use linux::desc::{
    AdviceFlush, AppliesTo, Defrag, HugeZeroWrite, HugetlbDesc, KhugepagedDesc, LinuxDesc, PageCache, ThpDesc,
    ThpEnabled, ThpSize,
};
pub use memory::resident::Resident;
pub use mmulab_addr::Bytes;
pub use parts::contiguous::{ContiguousDesc, ContiguousKind};
pub use parts::daemon::DaemonKind;
pub use parts::declared::Declared;
pub use parts::demotion::{DemotionDesc, DemotionKind};
pub use parts::desc::{FaultDesc, PlacementDesc, PromotionDesc, PromotionTime};
pub use parts::fault_size::FaultSizeKind;
pub use parts::hints::{HintSource, HintsDesc, LeshyDesc};
pub use parts::placement::PlacementKind;
pub use parts::promotion::PromotionKind;
pub use parts::reclaim::{ReclaimDesc, ReclaimKind};
pub use parts::recovery::RecoveryDesc;
pub use parts::settings::Served;
pub use parts::text::{Remap, TextDesc};
pub use parts::zeroing::{ZeroingDesc, ZeroingKind};
pub use report::contiguity::Contiguity;
pub use report::counts::{EventError, EventKind, FaultKind, KernelCounts, Refusal};
pub use report::recorded::RecordedPages;
pub use report::region::{BySize, Region, RegionId, RegionKind};
pub use report::regions::{Fold, Program};
pub use report::residency::CodeWindow;
pub use report::runs::{MemoryKind, Runs, RunsByKind, RunsOfSize};
pub use report::tables::{ByLevels, TableCounts};
pub use report::tally::{Name, Tally};
pub use report::usage::{ProcessUsage, Usage};
pub use report::work::WorkKind;
pub use space::fork::ForkCopies;
pub use stop::Stop;
