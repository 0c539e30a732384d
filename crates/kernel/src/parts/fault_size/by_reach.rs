//! Fault size *by reach*: a mapping that pages of 64 KiB can cover within the reach of the TLBs gets base pages. The
//! placement puts these together to 64 KiB. A larger mapping gets the sizes that `[fault]` lists (paper 3, section
//! IV-D).
//!
//! The 64 KiB are not mapped at once: "CoalaPaging attempts to opportunistically create 64KiB translations via base
//! 4KiB fault-time allocations".

use super::listed::Listed;
use crate::parts::part::{Part, Wrong};
use crate::parts::settings::FaultSettings;
use crate::parts::traits::{Candidate, FaultSize, Hole};

/// The sizes of a list, for mappings beyond the reach of the TLBs.
#[derive(Clone, Debug)]
pub(crate) struct ByReach {
    sizes: Listed,
    /// Bytes that the TLBs reach with pages of 64 KiB.
    reach: u64,
}

impl Part<FaultSettings<'_>> for ByReach {
    const NAME: &'static str = "by-reach";
    const ABOUT: &'static str =
        "The sizes that `sizes` lists, in mappings larger than `reach`: the default if that is given.";

    fn new(settings: &FaultSettings) -> Result<Self, Wrong> {
        match settings.reach {
            Some(reach) => Ok(Self { sizes: Listed::of(settings), reach }),
            None => Err(("reach", "by = \"by-reach\" needs it: give the bytes that the TLBs reach, as in 80M".into())),
        }
    }
}

impl FaultSize for ByReach {
    fn sizes(&self) -> usize {
        self.sizes.sizes()
    }

    /// A hint that guides the fault is worth more than the estimate.
    #[inline]
    fn candidate(&self, index: usize, hole: &Hole, is_empty: impl Fn(u64, u64) -> bool) -> Candidate {
        let is_within_reach = hole.span.end - hole.span.start <= self.reach;
        if hole.guide.is_none() && is_within_reach {
            return Candidate::NotConsidered;
        }
        self.sizes.candidate(index, hole, is_empty)
    }

    fn ends_family(&self, index: usize) -> bool {
        self.sizes.ends_family(index)
    }
}
