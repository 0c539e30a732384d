//! Counters of the run loop, kernels, hosts, warps and cores in time, and how a report takes their differences.

mod causes;
mod cost;
mod counted;
mod counts;
mod edges;
mod host;
mod latency;
mod processes;
mod sampler;
mod shootdown;
mod since;
mod tally;
mod timing;
mod warps;
mod zero;

pub use causes::KernelCycles;
pub use cost::{Block, Cost, Missed};
pub use counts::Counts;
pub use edges::Edge;
pub use latency::{FaultLatency, Faults};
pub use sampler::{PageSamples, SampledPage, Sampler, Walked};
pub use shootdown::ShootdownCounts;
pub use tally::{Place, Tally};
pub use timing::{Sampled, TimingReport};
pub use warps::WarpCounts;
pub(crate) use {
    causes::{Cause, CauseCycles},
    counted::{Counted, HostCounted, SystemCounts},
    host::HostCounts,
    processes::{ProcessCounts, Processes},
    since::Since,
};
