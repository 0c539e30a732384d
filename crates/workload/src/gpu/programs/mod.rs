//! Rodinia's programs: the index arithmetic of their CUDA kernels (Che and others, *Rodinia: A Benchmark Suite for
//! Heterogeneous Computing*, IISWC 2009; version 3.1). What they keep in shared memory or registers is not told.

pub mod backprop;
pub mod bfs;
pub mod btree;
pub mod hotspot;
pub mod kmeans;
pub mod lud;
pub mod nw;
pub mod pathfinder;
pub mod srad;
pub mod streamcluster;

/// What each of them is written with.
mod prelude {
    pub use crate::{
        gpu::{
            describe::Describe,
            grid::{Grid, Lanes, Launch, Warp},
        },
        layout::Layout,
        memory::Array,
    };
    pub use schemars::JsonSchema;
    pub use serde::{Deserialize, Serialize};
}
