//! The fault-size parts, a file each, and the enum that dispatches to the one of a run.

mod listed;
mod pool;
mod thp;

pub(crate) use listed::Listed;
pub(crate) use pool::Pool;
pub(crate) use thp::Thp;

use crate::parts::traits::{Candidate, FaultSize, Hole};

/// The fault-size part of a run.
#[derive(Clone, Debug)]
pub(crate) enum FaultSizes {
    /// Base pages only.
    Base,
    /// The sizes that `[fault]` lists.
    Listed(Listed),
    /// Pages of the pool reserved at boot.
    Pool(Pool),
    /// Transparent huge pages.
    Thp(Thp),
}

impl FaultSize for FaultSizes {
    #[inline]
    fn sizes(&self) -> usize {
        match self {
            Self::Base => 0,
            Self::Listed(part) => part.sizes(),
            Self::Pool(part) => part.sizes(),
            Self::Thp(part) => part.sizes(),
        }
    }

    #[inline]
    fn candidate(&self, index: usize, hole: &Hole, is_empty: impl Fn(u64, u64) -> bool) -> Candidate {
        match self {
            Self::Base => Candidate::NotConsidered,
            Self::Listed(part) => part.candidate(index, hole, is_empty),
            Self::Pool(part) => part.candidate(index, hole, is_empty),
            Self::Thp(part) => part.candidate(index, hole, is_empty),
        }
    }

    fn ends_family(&self, index: usize) -> bool {
        match self {
            Self::Base => true,
            Self::Listed(part) => part.ends_family(index),
            Self::Pool(part) => part.ends_family(index),
            Self::Thp(part) => part.ends_family(index),
        }
    }

    fn heap_end(&self, end: u64) -> u64 {
        match self {
            Self::Base => end,
            Self::Listed(part) => part.heap_end(end),
            Self::Pool(part) => part.heap_end(end),
            Self::Thp(part) => part.heap_end(end),
        }
    }
}
