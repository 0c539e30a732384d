//! Descriptions: what a machine is, read from TOML, checked, and repeated beside every result.

mod assumption;
mod check;
mod core;
mod costs;
mod gpu;
mod guest;
mod machine;
mod options;
mod perf;
mod resolve;
mod sample;
mod sampling;
mod shootdown;
mod timing;

pub use self::core::CoreDesc;
pub use assumption::Assumption;
pub use costs::{ALLOCATOR_COSTS, CostsDesc};
pub use gpu::{GpuDesc, Merge};
pub use guest::{Mode, VirtualDesc};
pub use machine::MachineDesc;
pub use mmulab_describe::{DescribeError, Whole, file_schema, find, list, load, nearest, title};
pub use options::{Check, Options, Unmapped};
pub use perf::{Counted, EventDesc, PerfDesc};
pub use resolve::{HOST_POLICY, Names, Resolved, policy, resolve};
pub use sample::Sample;
pub use sampling::Sampling;
pub use shootdown::{Reach, ShootdownDesc};
