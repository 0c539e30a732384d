//! The fault-size parts, a file each, and the one list of them, which makes the dispatch to the one of a run.

mod by_reach;
mod listed;
mod pool;
mod thp;

pub(crate) use by_reach::ByReach;
pub(crate) use listed::Listed;
pub(crate) use pool::Pool;
pub(crate) use thp::Thp;

use crate::parts::traits::{Candidate, FaultSize, Hole};

/// Makes the enum of the fault-size parts out of a list.
macro_rules! fault_sizes {
    ($($(#[$about:meta])* $part:ident,)*) => {
        /// The fault-size part of a run.
        #[derive(Clone, Debug)]
        pub(crate) enum FaultSizes {
            /// Base pages only.
            Base,
            $($(#[$about])* $part($part),)*
        }

        impl FaultSize for FaultSizes {
            #[inline]
            fn sizes(&self) -> usize {
                match self { Self::Base => 0, $(Self::$part(part) => part.sizes()),* }
            }

            #[inline]
            fn candidate(&self, index: usize, hole: &Hole, is_empty: impl Fn(u64, u64) -> bool) -> Candidate {
                match self {
                    Self::Base => Candidate::NotConsidered,
                    $(Self::$part(part) => part.candidate(index, hole, is_empty),)*
                }
            }

            fn ends_family(&self, index: usize) -> bool {
                match self { Self::Base => true, $(Self::$part(part) => part.ends_family(index)),* }
            }

            fn heap_end(&self, end: u64) -> u64 {
                match self { Self::Base => end, $(Self::$part(part) => part.heap_end(end)),* }
            }
        }
    };
}

fault_sizes! {
    /// The sizes that `[fault]` lists, in mappings that are too large for base pages.
    ByReach,
    /// The sizes that `[fault]` lists.
    Listed,
    /// Pages of the pool reserved at boot.
    Pool,
    /// Transparent huge pages.
    Thp,
}
