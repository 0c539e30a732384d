//! Address types: virtual and physical addresses, page and frame numbers, and ranges of virtual addresses. Separate
//! types let the compiler reject code that mixes virtual with physical numbers, or addresses with page numbers.
//!
//! ```text
//! bits   63 to 57            56 to 12                     11 to 0
//!        copies of bit 56    virtual page number (VPN)    offset in the base page
//! ```

use crate::{BASE_SHIFT, PageOrder};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;

/// A virtual address, canonical: bit 56 is copied into the bits above it (x86-64 with LA57, Intel SDM vol. 3A
/// section 4.5; narrower address spaces are subsets).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize, JsonSchema)]
#[repr(transparent)]
pub struct VirtAddr(u64);

/// A physical address, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize, JsonSchema)]
#[repr(transparent)]
pub struct PhysAddr(pub u64);

/// A virtual page number, in base pages; 45 bits (57 - 12), the sign bits dropped.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug, Serialize, Deserialize, JsonSchema)]
#[repr(transparent)]
pub struct Vpn(pub u64);

/// A physical frame number, in base pages.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug, Serialize, Deserialize, JsonSchema)]
#[repr(transparent)]
pub struct Pfn(pub u64);

/// Bits of a virtual address that any modelled machine translates.
const VA_BITS: u32 = 57;

impl VirtAddr {
    /// Takes the low 57 bits of `raw` and sign-extends them.
    #[inline(always)]
    pub const fn new(raw: u64) -> Self {
        Self((((raw << (64 - VA_BITS)) as i64) >> (64 - VA_BITS)) as u64)
    }

    /// The address as the program sees it.
    #[inline(always)]
    pub const fn raw(self) -> u64 {
        self.0
    }

    /// The base page it lies in.
    #[inline(always)]
    pub const fn vpn(self) -> Vpn {
        Vpn((self.0 << (64 - VA_BITS)) >> (64 - VA_BITS + BASE_SHIFT))
    }

    /// The offset in a page of `order`.
    #[inline(always)]
    pub const fn offset_in(self, order: PageOrder) -> u64 {
        self.0 & (order.bytes() - 1)
    }

    /// Rounded down to a page of `order`.
    #[inline(always)]
    pub const fn align_down(self, order: PageOrder) -> Self {
        Self(self.0 & !(order.bytes() - 1))
    }

    /// Rounded up to a page of `order`; wraps at the end of the address space.
    #[inline(always)]
    pub const fn align_up(self, order: PageOrder) -> Self {
        Self::new(self.0.wrapping_add(order.bytes() - 1) & !(order.bytes() - 1))
    }

    /// The address `bytes` further on.
    #[inline(always)]
    pub const fn add(self, bytes: u64) -> Self {
        Self::new(self.0.wrapping_add(bytes))
    }
}

impl PhysAddr {
    /// The frame it lies in.
    #[inline(always)]
    pub const fn pfn(self) -> Pfn {
        Pfn(self.0 >> BASE_SHIFT)
    }
}

impl Vpn {
    /// The first address of the page.
    #[inline(always)]
    pub const fn addr(self) -> VirtAddr {
        VirtAddr::new(self.0 << BASE_SHIFT)
    }

    /// The first base page of the page of `order` that holds this one.
    #[inline(always)]
    pub const fn align_down(self, order: PageOrder) -> Self {
        Self(self.0 & !(order.base_pages() - 1))
    }
}

impl Pfn {
    /// The first byte of the frame.
    #[inline(always)]
    pub const fn addr(self) -> PhysAddr {
        PhysAddr(self.0 << BASE_SHIFT)
    }

    /// The first frame of the aligned block of `order` that holds this one.
    #[inline(always)]
    pub const fn align_down(self, order: PageOrder) -> Self {
        Self(self.0 & !(order.base_pages() - 1))
    }
}

/// Virtual addresses from `start` up to, not including, `end`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug, Serialize, Deserialize, JsonSchema)]
pub struct VirtRange {
    /// First address.
    pub start: VirtAddr,
    /// First address after the range.
    pub end: VirtAddr,
}

impl VirtRange {
    /// `bytes` from `start`.
    pub const fn sized(start: VirtAddr, bytes: u64) -> Self {
        Self { start, end: start.add(bytes) }
    }

    /// The length in bytes.
    pub const fn bytes(self) -> u64 {
        self.end.0.wrapping_sub(self.start.0)
    }

    /// Whether it holds nothing.
    pub const fn is_empty(self) -> bool {
        self.start.0 == self.end.0
    }

    /// Whether `va` lies inside.
    #[inline(always)]
    pub const fn contains(self, va: VirtAddr) -> bool {
        va.0.wrapping_sub(self.start.0) < self.bytes()
    }

    /// Whether all of `other` lies inside.
    pub const fn covers(self, other: Self) -> bool {
        // By distances, not by ends: the end of a range that reaches the last address is 0.
        let before = other.start.0.wrapping_sub(self.start.0);
        before <= self.bytes() && other.bytes() <= self.bytes() - before
    }

    /// Whether the two share an address.
    pub const fn overlaps(self, other: Self) -> bool {
        !self.is_empty() && !other.is_empty() && (self.contains(other.start) || other.contains(self.start))
    }
}

macro_rules! hex {
    ($($t:ty),*) => {$(
        impl fmt::Display for $t {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{:#x}", self.0)
            }
        }
        impl fmt::Debug for $t {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}({:#x})", stringify!($t), self.0)
            }
        }
    )*};
}
hex!(VirtAddr, PhysAddr);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_address_survives_the_round_trip_through_57_bits() {
        let va = VirtAddr::new(0xffff_8880_0000_1234);
        assert_eq!(va.raw(), 0xffff_8880_0000_1234);
        assert_eq!(va.vpn().addr().raw(), 0xffff_8880_0000_1000);
    }

    #[test]
    fn alignment_and_ranges() {
        let va = VirtAddr::new(0x20_3456);
        assert_eq!(va.align_down(PageOrder::P2M).raw(), 0x20_0000);
        assert_eq!(va.align_up(PageOrder::P2M).raw(), 0x40_0000);
        assert_eq!(va.offset_in(PageOrder::P4K), 0x456);
        let r = VirtRange::sized(VirtAddr::new(0x1000), 0x2000);
        assert!(r.contains(VirtAddr::new(0x2fff)) && !r.contains(VirtAddr::new(0x3000)));
        assert!(!r.overlaps(VirtRange::sized(VirtAddr::new(0x3000), 1)));
    }

    #[test]
    fn ranges_that_reach_the_last_address_are_ranges_like_others() {
        let last = VirtRange::sized(VirtAddr::new(u64::MAX - 0xfff), 0x1000);
        let before = VirtRange::sized(VirtAddr::new(u64::MAX - 0x1fff), 0x1000);
        let both = VirtRange::sized(before.start, 0x2000);
        let low = VirtRange::sized(VirtAddr::new(0), 0x1000);
        assert_eq!((last.end.raw(), last.bytes()), (0, 0x1000));
        assert!(last.overlaps(last) && both.overlaps(last) && last.overlaps(both) && both.overlaps(before));
        assert!(!last.overlaps(before) && !before.overlaps(last) && !last.overlaps(low) && !low.overlaps(last));
        assert!(both.covers(last) && both.covers(before) && both.covers(both));
        assert!(!last.covers(both) && !before.covers(last) && !low.covers(last) && !last.covers(low));
    }

    #[test]
    fn overlap_and_cover_are_what_they_are_address_by_address() {
        // Every pair of ranges of up to 4 addresses among the 4 before and the 4 after the end of the address space.
        let ranges = |bytes: u64| (0..8u64).map(move |at| VirtRange::sized(VirtAddr::new(at.wrapping_sub(4)), bytes));
        for (one, other) in (0..5).flat_map(ranges).flat_map(|a| (0..5).flat_map(ranges).map(move |b| (a, b))) {
            let inside = |r: VirtRange| (0..r.bytes()).map(move |i| r.start.add(i));
            assert_eq!(one.overlaps(other), inside(other).any(|va| one.contains(va)), "{one:?} {other:?}");
            if !other.is_empty() {
                assert_eq!(one.covers(other), inside(other).all(|va| one.contains(va)), "{one:?} {other:?}");
            }
        }
    }
}
