//! Physical memory: the bytes of frames that hold tables, and who owns which frame.

mod phys;

pub use phys::PhysMem;
