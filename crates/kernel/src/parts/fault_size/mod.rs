//! The fault-size parts, a file each. The list of the files makes the key of policy files, its text in the schema and
//! the enum of a run's part (`parts/list.rs`).

use crate::parts::list::kind;
use crate::parts::settings::FaultSettings;
use crate::parts::traits::{Candidate, FaultSize, Hole};

include!(concat!(env!("OUT_DIR"), "/fault_size.rs"));

with_parts!(kind! {
    /// Which sizes larger than a base page a fault tries.
    FaultSizeKind: Listed;
    /// The fault-size part of a run.
    #[derive(Clone, Debug)]
    FaultSizes: FaultSettings<'_>;
});

impl FaultSize for FaultSizes {
    #[inline]
    fn sizes(&self) -> usize {
        each!(self, part => part.sizes())
    }

    #[inline]
    fn candidate(&self, index: usize, hole: &Hole, is_empty: impl Fn(u64, u64) -> bool) -> Candidate {
        each!(self, part => part.candidate(index, hole, is_empty))
    }

    fn ends_family(&self, index: usize) -> bool {
        each!(self, part => part.ends_family(index))
    }

    fn heap_end(&self, end: u64) -> u64 {
        each!(self, part => part.heap_end(end))
    }
}
