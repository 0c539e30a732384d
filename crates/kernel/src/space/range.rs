//! A range of whole pages, as system calls mean it.

use super::AddressSpace;
use crate::report::counts::EventError;
use mmulab_addr::{BASE_BYTES, VirtAddr, VirtRange};

/// A whole number of pages.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PageRange {
    pub start: u64,
    pub end: u64,
}

impl PageRange {
    /// The same as a range of addresses.
    pub fn range(self) -> VirtRange {
        VirtRange::sized(VirtAddr::new(self.start), self.end.wrapping_sub(self.start))
    }

    /// The pages a system call means by an address and a length: the address must be aligned, the length is rounded
    /// up. `Err` is EINVAL.
    pub fn exact(space: &AddressSpace, addr: VirtAddr, len: u64) -> Result<Self, EventError> {
        if addr.offset_in(space.base()) != 0 {
            return Err(EventError::Invalid);
        }
        Self::around(space, addr, len)
    }

    /// The pages that lie wholly in `len` bytes at `addr`; there may be none.
    pub fn inside(addr: VirtAddr, len: u64) -> Self {
        let start = addr.raw().checked_next_multiple_of(BASE_BYTES).unwrap_or(u64::MAX);
        let end = addr.raw().saturating_add(len) & !(BASE_BYTES - 1);
        Self { start, end: end.max(start) }
    }

    /// All pages that `len` bytes at `addr` touch.
    pub fn around(space: &AddressSpace, addr: VirtAddr, len: u64) -> Result<Self, EventError> {
        let base = space.base();
        let start = addr.align_down(base).raw();
        let end = addr.raw().checked_add(len).and_then(|e| e.checked_next_multiple_of(base.bytes()));
        match end {
            Some(end) if end == start || (space.is_canonical(start) && space.is_canonical(end - 1)) => {
                // The two ends may lie in the two halves of the address space, with the hole between them inside.
                if (start ^ end.saturating_sub(1)) >> 63 != 0 && end != start {
                    return Err(EventError::Invalid);
                }
                Ok(Self { start, end })
            }
            _ => Err(EventError::Invalid),
        }
    }
}
