//! A translation in two words: what it is for, so that a probe is one compare, and what it says.
//!
//! | bits of the key | |
//! |---|---|
//! | 0..3 | which of the array's sizes (7 in an empty way) |
//! | 3..19 | ASID; 0 for global entries |
//! | 19..64 | first base page |
//!
//! | bits of the value | |
//! |---|---|
//! | 0..3 | rights |
//! | 3, 4, 5 | user, dirty, global |
//! | 8..64 | first frame |

use crate::Entry;
use mmulab_addr::{Access, Asid, PageOrder, Pfn, Prot, VirtAddr, Vpn};
use mmulab_pagetable::Leaf;

/// The ASID of global entries; no address space is given it.
pub const GLOBAL: Asid = Asid(0);
/// Sizes one array can hold: three bits, less the empty mark.
pub const MAX_SIZES: usize = 7;

const SIZE_BITS: u32 = 3;
const ASID_BITS: u32 = 16;

/// The key of the page of `order` (the array's size number `size`) that holds `vpn`.
#[inline(always)]
pub fn key(vpn: Vpn, asid: Asid, order: PageOrder, size: usize) -> u64 {
    (vpn.align_down(order).0 << (SIZE_BITS + ASID_BITS)) | (u64::from(asid.0) << SIZE_BITS) | size as u64
}

/// A base page of an address space, as one number.
#[inline(always)]
pub fn page_of(asid: Asid, va: VirtAddr) -> u64 {
    (va.vpn().0 << 16) | u64::from(asid.0)
}

/// The ASID in a key.
#[inline(always)]
pub fn asid(key: u64) -> Asid {
    Asid((key >> SIZE_BITS) as u16)
}

/// The size number in a key.
#[inline(always)]
pub fn size(key: u64) -> usize {
    (key & ((1 << SIZE_BITS) - 1)) as usize
}

/// The first base page in a key.
#[inline(always)]
pub fn vpn(key: u64) -> Vpn {
    Vpn(key >> (SIZE_BITS + ASID_BITS))
}

/// What an entry for the page of `held` that holds `vpn` says, where the page-table entry for the page of `order` says
/// `value`.
#[inline(always)]
pub fn part(value: Value, vpn: Vpn, order: PageOrder, held: PageOrder) -> Value {
    if held == order { value } else { value.moved(vpn.align_down(held).0 - vpn.align_down(order).0) }
}

/// Contents of an entry besides its key.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Value(u64);

impl Value {
    /// No rights to frame 0.
    pub const ZERO: Self = Self(0);
    const USER: u64 = 1 << 3;
    const DIRTY: u64 = 1 << 4;
    const GLOBAL: u64 = 1 << 5;
    const PFN_SHIFT: u32 = 8;

    /// The value for a leaf.
    #[inline(always)]
    pub fn of(leaf: &Leaf) -> Self {
        let flags = (u64::from(leaf.user) * Self::USER)
            | (u64::from(leaf.dirty) * Self::DIRTY)
            | (u64::from(leaf.global) * Self::GLOBAL);
        Self((leaf.pfn.0 << Self::PFN_SHIFT) | flags | u64::from(leaf.prot.bits()))
    }

    /// The same of frames `pages` further on.
    #[inline(always)]
    pub fn moved(self, pages: u64) -> Self {
        Self(self.0.wrapping_add(pages << Self::PFN_SHIFT))
    }

    /// The same of frame `pfn`.
    #[inline(always)]
    pub fn at(self, pfn: Pfn) -> Self {
        Self((self.0 & ((1 << Self::PFN_SHIFT) - 1)) | (pfn.0 << Self::PFN_SHIFT))
    }

    /// All it says, as a number.
    pub fn bits(self) -> u64 {
        self.0
    }

    /// The first frame.
    #[inline(always)]
    pub fn pfn(self) -> Pfn {
        Pfn(self.0 >> Self::PFN_SHIFT)
    }

    /// Whether both say the same of different frames.
    #[inline(always)]
    pub fn alike(self, other: Self) -> bool {
        (self.0 ^ other.0) & ((1 << Self::PFN_SHIFT) - 1) == 0
    }

    /// Whether stores may use it without a walk, as far as the dirty bit goes.
    #[inline(always)]
    pub fn dirty(self) -> bool {
        self.0 & Self::DIRTY != 0
    }

    /// The same, dirty.
    #[inline(always)]
    pub fn dirtied(self) -> Self {
        Self(self.0 | Self::DIRTY)
    }

    /// The same, clean.
    #[inline(always)]
    pub fn cleaned(self) -> Self {
        Self(self.0 & !Self::DIRTY)
    }

    /// Whether it is valid in every address space.
    #[inline(always)]
    pub fn global(self) -> bool {
        self.0 & Self::GLOBAL != 0
    }

    /// Whether its rights allow `access`.
    #[inline(always)]
    pub fn allows(self, access: Access) -> bool {
        Prot::from_bits(self.0 as u8).allows(access)
    }

    /// Whether it lets `access` through as it is: right granted, and for stores the dirty bit known to be set.
    #[inline(always)]
    pub fn ready(self, access: Access) -> bool {
        self.allows(access) && (self.0 & Self::DIRTY != 0 || !matches!(access, Access::Write))
    }

    /// The entry for the page of `order` that holds `vpn`.
    #[inline(always)]
    pub fn entry(self, vpn: Vpn, order: PageOrder) -> Entry {
        Entry {
            vpn: vpn.align_down(order),
            pfn: Pfn(self.0 >> Self::PFN_SHIFT),
            order,
            prot: Prot::from_bits(self.0 as u8),
            user: self.0 & Self::USER != 0,
            dirty: self.0 & Self::DIRTY != 0,
            global: self.global(),
        }
    }
}
