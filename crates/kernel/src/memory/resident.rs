//! Which region each resident frame is held for: the one definition of what memory a region takes.
//!
//! A frame is resident while it is a private page, or is in the page cache. It counts once, however often it is mapped,
//! for the region whose fault brought it into memory. So the regions add up to what the program has resident, and zero
//! pages, which belong to the kernel, count for none.

use crate::report::region::RegionId;
use crate::report::regions::Fold;
use mmulab_addr::BASE_BYTES;
use schemars::JsonSchema;
use serde::Serialize;

/// Bytes now, and the most that ever were at one time.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, JsonSchema)]
pub struct Resident {
    /// Bytes now.
    pub now: u64,
    /// The most there ever were.
    pub peak: u64,
}

/// Resident frames by region.
#[derive(Default)]
pub(crate) struct Residency {
    /// By slot.
    regions: Vec<Resident>,
    /// The region whose fault the kernel serves.
    acting: RegionId,
}

impl Residency {
    /// Frames that the kernel takes from now on are for this region.
    #[inline]
    pub fn act_for(&mut self, region: RegionId) {
        self.acting = region;
    }

    /// The region whose fault the kernel serves.
    #[inline]
    pub fn acting(&self) -> RegionId {
        self.acting
    }

    /// Frames taken for the region that acts.
    #[inline]
    pub fn take(&mut self, frames: u64) {
        let bytes = frames * BASE_BYTES;
        let held = self.of_mut(self.acting);
        held.now += bytes;
        held.peak = held.peak.max(held.now);
    }

    /// Frames of a region given back.
    #[inline]
    pub fn give_back(&mut self, region: RegionId, frames: u64) {
        self.of_mut(region).now -= frames * BASE_BYTES;
    }

    /// Resident memory of a region.
    pub fn of(&self, region: RegionId) -> Resident {
        self.regions.get(region.index()).copied().unwrap_or_default()
    }

    fn of_mut(&mut self, region: RegionId) -> &mut Resident {
        if region.index() >= self.regions.len() {
            self.regions.resize(region.index() + 1, Resident::default());
        }
        &mut self.regions[region.index()]
    }

    /// The row of a kind takes over what is resident for a region that is folded into it, and its peak if that was
    /// higher.
    pub fn fold(&mut self, fold: Fold) {
        let gone = std::mem::take(self.of_mut(fold.from));
        let sum = self.of_mut(fold.into);
        sum.now += gone.now;
        sum.peak = sum.peak.max(gone.peak).max(sum.now);
    }
}
