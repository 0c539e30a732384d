//! A machine: its description, the loop that runs a trace through it, what it counts, and what that costs.
//!
//! [`Machine`] owns the cores (TLBs, walkers), physical memory and the kernel, and passes between them what each must
//! not know of the others. [`run`] takes one decoded trace through any number of machines.

mod check;
mod clock;
mod counted;
mod counts;
pub mod describe;
mod draw;
mod ended;
mod engine;
mod flights;
mod host;
mod interleave;
mod misses;
mod model;
mod narrate;
mod open;
mod portions;
mod report;
mod run;
mod siblings;
mod story;
mod tally;
mod timed;
mod touched;
mod warps;

pub use counts::Counts;
pub use describe::{MachineDesc, Options, Resolved};
pub use draw::draw_tables;
pub use ended::{Ended, EndedReport, MachineError};
pub use engine::Machine;
pub use interleave::interleave;
pub use misses::Misses;
pub use narrate::{NarrateError, Narrator, schema as line_schema};
pub use open::open;
pub use report::{Report, ReportError, report, schema as report_schema};
pub use run::{Control, Limits, Progress, Ran, run, run_watched};
pub use story::{Answer, Failure, FaultReason, Nobody, Seen, Story, WalkEnd, Watch};
pub use tally::{Cost, Tally};
pub use timed::{Sample, Sampled, TimingReport};
pub use touched::Touched;
pub use warps::WarpCounts;
