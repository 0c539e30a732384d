//! The result of a run: everything counted, what it costs by the model, and what that rests on.

mod edges;
mod host;
mod latency;
mod level;
mod members;
mod memory;
mod model;
mod perf;
mod places;
mod regions;
mod result;

pub use result::{Report, ReportError, report, schema};
