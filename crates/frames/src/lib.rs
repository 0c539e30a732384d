//! Physical memory: the bytes of frames that hold tables, and which frames are free.

mod aged;
mod buddy;
mod cleared;
mod counts;
mod desc;
mod fragment;
mod frames;
mod freebsd;
mod held;
mod linux;
mod lists;
mod mobility;
mod occupants;
mod phys;
mod random;
mod rest;
mod vm_phys;

pub use counts::FrameCounts;
pub use desc::{Aged, Fragment, HeldPages, MemoryDesc, MemoryError};
pub use frames::{Allocator, Frames};
pub use mobility::Mobility;
pub use phys::PhysMem;
pub use rest::Rest;
