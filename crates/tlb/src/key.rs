//! A translation's identity in one word, so that a probe is one compare.
//!
//! | bits | |
//! |---|---|
//! | 0..3 | which of the array's sizes (7 in an empty way) |
//! | 3..19 | address-space tag; all ones for global entries |
//! | 19..64 | first base page |

use mmulab_addr::{Asid, PageOrder, Vpn};

/// The tag that global entries carry; no address space is given it.
pub const GLOBAL: Asid = Asid(u16::MAX);
/// Sizes one array can hold: three bits, less the empty mark.
pub const MAX_SIZES: usize = 7;

const SIZE_BITS: u32 = 3;
const TAG_BITS: u32 = 16;

/// The key of the page of `order` (the array's size number `size`) that holds `vpn`.
#[inline(always)]
pub fn key(vpn: Vpn, asid: Asid, order: PageOrder, size: usize) -> u64 {
    (vpn.align_down(order).0 << (SIZE_BITS + TAG_BITS)) | (u64::from(asid.0) << SIZE_BITS) | size as u64
}

/// The tag in a key.
#[inline(always)]
pub fn asid(key: u64) -> Asid {
    Asid((key >> SIZE_BITS) as u16)
}

/// The size number in a key.
#[inline(always)]
pub fn size(key: u64) -> usize {
    (key & ((1 << SIZE_BITS) - 1)) as usize
}
