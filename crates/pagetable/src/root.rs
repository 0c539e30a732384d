//! Page-table base registers (CR3, `satp`, TTBR0_EL1 and TTBR1_EL1). Arm has one register for each half of the
//! address space, and bit 63 of the address selects the register. On other processors both fields are equal.

use mmulab_addr::{PhysAddr, VirtAddr};

/// Contents of the base registers: the place where a walk begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Root {
    /// CR3, `satp` or TTBR0_EL1: for programs' addresses; where there is one register, for all.
    pub lower: PhysAddr,
    /// TTBR1_EL1: for addresses whose highest bit is set (Arm ARM, D8.1). Where there is one register, what `lower` is.
    pub upper: PhysAddr,
}

impl Root {
    /// The register that a walk for `va` begins with.
    #[inline(always)]
    pub(crate) const fn of(self, va: VirtAddr) -> PhysAddr {
        if va.raw() >> 63 == 0 { self.lower } else { self.upper }
    }
}

impl From<PhysAddr> for Root {
    #[inline(always)]
    fn from(only: PhysAddr) -> Self {
        Self { lower: only, upper: only }
    }
}
