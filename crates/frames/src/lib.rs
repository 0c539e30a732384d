//! Physical memory: the bytes of frames that hold tables, and which frames are free.

mod buddy;
mod desc;
mod fragment;
mod frames;
mod lists;
mod phys;

pub use desc::{Fragment, MemoryDesc};
pub use frames::{FrameCounts, Frames, MemoryError, Mobility};
pub use phys::PhysMem;
