//! Physical memory: the bytes of frames that hold tables, and which frames are free.

mod buddy;
mod desc;
mod fragment;
mod frames;
mod freebsd;
mod linux;
mod lists;
mod phys;
mod vm_phys;

pub use desc::{Fragment, MemoryDesc};
pub use frames::{Allocator, FrameCounts, Frames, MemoryError, Mobility};
pub use phys::PhysMem;
