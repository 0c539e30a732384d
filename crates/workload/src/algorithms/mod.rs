//! The algorithms, a file each: what the user may say of it, and the algorithm.

pub mod astar;
pub mod bfs;
pub mod btree;
pub mod canneal;
pub mod chase;
pub mod codechain;
mod describe;
mod drawn;
pub mod events;
pub mod firsttouch;
pub mod freqmine;
pub mod graphchi;
pub mod gups;
pub mod hashjoin;
pub mod mcf;
pub mod pagerank;
pub mod rows;
pub mod sequential;
pub mod sparse;
pub mod streamcluster;
pub mod svm;
pub mod tpcc;
pub mod xsbench;
pub mod ycsb;
pub mod zipf;

pub use describe::{Describe, Visit, built};

macro_rules! algorithms {
    ($($desc:ty),* $(,)?) => {
        /// The names of all generators.
        pub const NAMES: &[&str] = &[$(<$desc as Describe>::NAME),*];

        /// The schemas of all generators' keys.
        pub fn schemas() -> Vec<(&'static str, schemars::Schema)> {
            vec![$((<$desc as Describe>::NAME, schemars::schema_for!($desc))),*]
        }

        /// Does `what` with the generator called `name`, given its keys; None when there is none of that name.
        pub fn with<V: Visit>(
            name: &str,
            keys: serde_json::Map<String, serde_json::Value>,
            what: V,
        ) -> Option<Result<V::Out, String>> {
            match name {
                $(<$desc as Describe>::NAME => Some(built::<$desc>(keys).map(|(k, id)| what.visit(k, id))),)*
                _ => None,
            }
        }
    };
}

algorithms![
    gups::GupsDesc,
    sequential::SequentialDesc,
    sequential::StrideDesc,
    firsttouch::FirstTouchDesc,
    zipf::ZipfDesc,
    chase::ChaseDesc,
    sparse::SparseDesc,
    btree::BtreeDesc,
    hashjoin::HashJoinDesc,
    xsbench::XsBenchDesc,
    ycsb::YcsbDesc,
    tpcc::TpccDesc,
    codechain::CodeChainDesc,
    bfs::BfsDesc,
    bfs::FriendsterDesc,
    pagerank::PageRankDesc,
    graphchi::GraphChiDesc,
    svm::SvmDesc,
    canneal::CannealDesc,
    streamcluster::StreamClusterDesc,
    freqmine::FreqMineDesc,
    astar::AstarDesc,
    events::EventsDesc,
    mcf::McfDesc,
];
