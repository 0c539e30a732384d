//! Physical memory: the bytes of frames that hold tables, and which frames are free.

mod aged;
mod buddy;
mod cleared;
mod desc;
mod fragment;
mod frames;
mod freebsd;
mod held;
mod linux;
mod lists;
mod phys;
mod vm_phys;

pub use aged::Aged;
pub use desc::{Fragment, MemoryDesc};
pub use frames::{Allocator, FrameCounts, Frames, MemoryError, Mobility};
pub use phys::PhysMem;
