//! The bits of a TLB entry.

use mmulab_sets::{Ways, geometry};
use mmulab_tlb::{ArrayDesc, Bundle, Design};

/// Bits of a virtual page number: 48-bit addresses (paper 4, section 4.1).
const PAGE_BITS: u32 = 36;
/// Bits of a frame number: 48-bit physical addresses (paper 4, section 4.1).
const FRAME_BITS: u32 = 36;
/// Readable, writable, executable, user, global and dirty, and whether the entry is valid.
const FLAG_BITS: u32 = 7;
/// A time stamp: 8 bits, as the bucketed stamps of Sanchez and Kozyrakis, The ZCache (MICRO 2010; paper 4's [37]).
pub const STAMP_BITS: u32 = 8;

/// Sets and ways of an array whose description has been accepted.
pub fn shape(desc: &ArrayDesc) -> (u32, u32) {
    let (sets, ways) = geometry(u64::from(desc.entries), desc.ways, desc.replacement).unwrap_or((1, 1));
    (sets as u32, ways as u32)
}

/// Whether all entries are searched at once by their tags.
pub fn associative(desc: &ArrayDesc) -> bool {
    desc.ways == Ways::Full || shape(desc).0 == 1
}

/// Bits of the tag of an entry of `desc`, beside `asid_bits` of address space.
pub fn tag_bits(desc: &ArrayDesc, asid_bits: u8) -> u32 {
    let (sets, _) = shape(desc);
    let smallest = desc.sizes.iter().map(|o| u32::from(o.get())).min().unwrap_or(0);
    // Hashed places say nothing of the page, nor do those that a larger page's number chose.
    let known = match desc.design {
        Design::Skew => 0,
        _ => sets.ilog2(),
    };
    let by_size = u32::from(asid_bits) + PAGE_BITS - smallest;
    by_size.saturating_sub(known)
}

/// Bits of an entry of `desc`: flags, tag, page size, frame, and what its design adds.
pub fn entry_bits(desc: &ArrayDesc, asid_bits: u8) -> u32 {
    let smallest = desc.sizes.iter().map(|o| u32::from(o.get())).min().unwrap_or(0);
    let size_bits = usize::BITS - desc.sizes.len().saturating_sub(1).leading_zeros();
    let plain = FLAG_BITS + tag_bits(desc, asid_bits) + FRAME_BITS - smallest + size_bits;
    let group = u32::from(desc.group.unwrap_or(0));
    // A bitmap of so many pages, less the tag bits that a group of them does not need.
    let bitmap = |pages: u32| pages - pages.checked_ilog2().unwrap_or(0);
    plain
        + match desc.design {
            Design::Plain | Design::Tps => 0,
            // One bit: a group or a page.
            Design::Zen => 1,
            Design::ColtSa | Design::ColtPlus => bitmap(group),
            Design::ColtFa => group.max(1).ilog2(),
            Design::Clustered => group + group * group.max(1).ilog2() - 2 * group.max(1).ilog2(),
            Design::Skew => STAMP_BITS,
            Design::Mix => {
                let options = desc.mix.clone().unwrap_or_default();
                let small = u32::from(options.small_group.unwrap_or(1));
                u32::from(options.extra_bits) + if small > 1 { bitmap(small) } else { 0 }
            }
        }
}

/// Bits of the ranges that are compared in each way: lengths need comparators.
pub fn range_bits(desc: &ArrayDesc) -> u32 {
    let options = desc.mix.clone().unwrap_or_default();
    let bundle = options.bundle.unwrap_or(if desc.level == 1 { Bundle::Bitmap } else { Bundle::Length });
    match (desc.design, bundle) {
        (Design::Mix, Bundle::Length) | (Design::ColtFa, _) => u32::from(desc.group.unwrap_or(1)).max(1).ilog2(),
        _ => 0,
    }
}
