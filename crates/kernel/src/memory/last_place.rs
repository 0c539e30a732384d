//! Where each frame was mapped last. It is a hint: the page may be unmapped since, or mapped elsewhere as well. Whoever
//! follows it looks at the page table there.
//!
//! ```text
//! entry of a frame    63        48 47                             0
//!                     | slot + 1  | page number of the address      |      0: never mapped
//! ```
//!
//! Compaction must know all places of a page before it moves the page. A search through all page tables takes seconds
//! with 100 GB of memory. A private page that is mapped once, where the hint says, needs no search.

use super::per_frame::PerFrame;
use mmulab_addr::{Pfn, VirtAddr, Vpn};

/// Bits of a page number: addresses have 57 bits at most, and pages 12.
const PAGE_BITS: u32 = 48;

/// The place of every frame that was mapped once.
pub(crate) struct LastPlaces(PerFrame<u64>);

impl LastPlaces {
    /// For a memory of this number of frames.
    pub fn new(frames: u64) -> Self {
        Self(PerFrame::new(frames))
    }

    /// A page that begins with this frame is mapped at `va` in the address space of a slot.
    #[inline]
    pub fn note(&mut self, pfn: Pfn, slot: usize, va: u64) {
        // Of more slots than there is room for, the hint leads astray, and is found out.
        *self.0.get_mut(pfn) = (slot as u64 + 1) << PAGE_BITS | VirtAddr::new(va).vpn().0;
    }

    /// The slot of the address space, and the address.
    pub fn of(&self, pfn: Pfn) -> Option<(usize, VirtAddr)> {
        let place = self.0.get(pfn);
        let slot = (place >> PAGE_BITS).checked_sub(1)?;
        Some((slot as usize, Vpn(place & ((1 << PAGE_BITS) - 1)).addr()))
    }
}
