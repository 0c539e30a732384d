//! The microbenchmark of paper 1 (section 3.1). Short programs go over every group of pages of a region, and the
//! counters of L1 DTLB misses are sampled after each word. It runs on a simulated machine or on the computer itself.
//!
//! [`Program`] is the language, [`Plan`] what is repeated and over which region, [`run`] the benchmark itself, over any
//! [`Target`]: [`Simulated`] or [`Live`].

mod language;
mod live;
mod plan;
mod simulated;
mod target;

pub use language::{Kind, Mistake, Operation, Program, Word};
pub use live::{Counters, Live, Perf};
pub use plan::{Plan, PlanError};
pub use simulated::Simulated;
pub use target::{Counted, PageState, Report, Sample, Target, TargetError, run};
