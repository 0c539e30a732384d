//! A machine: its description, the loop that runs a trace through it, what it counts, and what that costs.
//!
//! [`Machine`] owns the CPUs (TLBs, walkers), physical memory and the kernel, and passes between them what each must
//! not know of the others. [`run`] takes one decoded trace through any number of machines.
//!
//! ```text
//! describe   what a machine is, as TOML
//! count      counters; cost by region and place
//! leshy      page sizes selected from samples while programs run
//! observe    what an observer of a run sees
//! near       memory that the host should bring near
//! cpu, smt   one CPU; what CPUs have in common
//! engine     the loop: TLBs, walks, faults, shootdowns; generic over the parts that follow
//! virt       part: the host below virtual machines
//! gpu        part: shader cores
//! timed      part: cores in time
//! share      part: machines that have one search of their first-level TLBs
//! running    which parts a description asks for
//! check      --check: a twin without coalescing, compared after every step
//! machine    all of that
//! group      machines that share a first level, run together
//! windows    the pages of code that ran and the memory that data used, by part of the run
//! profile    samples of TLB misses as a profile
//! report     the result of a run
//! ```
//!
//! Each line uses only those above it.

mod check;
mod count;
mod cpu;
pub mod describe;
mod draw;
mod ended;
mod engine;
mod gpu;
mod group;
mod interleave;
mod leshy;
mod machine;
mod misses;
mod narrate;
mod near;
mod observe;
mod open;
mod profile;
mod report;
mod run;
mod running;
mod share;
mod smt;
mod system;
mod timed;
mod touched;
mod virt;
mod windows;

pub use count::{Cost, Counts, Sampled, Tally, TimingReport, WarpCounts};
pub use describe::{MachineDesc, Options, Resolved, Sample, Sampling};
pub use draw::draw_tables;
pub use ended::{Ended, EndedReport, MachineError};
pub use interleave::interleave;
pub use machine::Machine;
pub use misses::Misses;
pub use narrate::{NarrateError, Narrator, schema as line_schema};
pub use observe::{Answer, Failure, FaultReason, Observation, Seen, WalkEnd, Watch};
pub use open::open;
pub use report::{Report, ReportError, report, schema as report_schema};
pub use run::{Control, Followed, Limits, Progress, Ran, run, run_watched};
pub use touched::Touched;
pub use windows::{CodeWindows, WindowsReport};
