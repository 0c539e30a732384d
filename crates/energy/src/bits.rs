//! The bits of a TLB entry: those of a plain one, and what its design adds.

use mmulab_assoc::{Ways, geometry};
use mmulab_tlb::{ArrayDesc, Cost, Reads, Widths};

/// Bits of a virtual page number: 48-bit addresses (paper 4, section 4.1).
const PAGE_BITS: u32 = 36;
/// Bits of a frame number: 48-bit physical addresses (paper 4, section 4.1).
const FRAME_BITS: u32 = 36;
/// Readable, writable, executable, user, global and dirty, and whether the entry is valid.
const FLAG_BITS: u32 = 7;

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
    let known = match cost(desc).reads {
        Reads::HashedWays => 0,
        Reads::Sets(_) => sets.ilog2(),
    };
    let by_size = u32::from(asid_bits) + PAGE_BITS - smallest;
    by_size.saturating_sub(known)
}

/// What the design of `desc` adds to a plain entry, and what its lookups read.
pub fn cost(desc: &ArrayDesc) -> Cost {
    (desc.design.about().cost)(desc, Widths { frame: FRAME_BITS, flags: FLAG_BITS })
}

/// Bits of an entry of `desc`: flags, tag, page size, frame, and what its design adds.
pub fn entry_bits(desc: &ArrayDesc, asid_bits: u8) -> u32 {
    let smallest = desc.sizes.iter().map(|o| u32::from(o.get())).min().unwrap_or(0);
    let size_bits = usize::BITS - desc.sizes.len().saturating_sub(1).leading_zeros();
    let plain = FLAG_BITS + tag_bits(desc, asid_bits) + FRAME_BITS - smallest + size_bits;
    plain + cost(desc).extra_bits
}

#[cfg(test)]
mod tests {
    use super::*;
    use mmulab_addr::PageOrder;
    use mmulab_tlb::{Design, Placement};

    /// Bits beyond a plain entry's, by hand, for groups of 4: frames of 36 bits, flags of 7.
    #[test]
    fn designs_add_their_own_bits() {
        let level = (1, Placement::Data);
        let plain = ArrayDesc::plain("A", level, (64, Ways::Count(4)), &[PageOrder::P4K, PageOrder::P2M]);
        let bits = |design| entry_bits(&ArrayDesc { design, group: Some(4), ..plain.clone() }, 12);
        // 16 sets, two sizes: 7 flags, a tag of 12 + 36 - 4, a frame of 36, a bit for the size.
        assert_eq!(bits(Design::Plain), 7 + 44 + 36 + 1);
        let more = |design| bits(design) - bits(Design::Plain);
        assert_eq!(more(Design::ColtSa), 4 - 2);
        assert_eq!(more(Design::PartialSubblock), 4 - 2);
        assert_eq!(more(Design::CompleteSubblock), 3 * (36 + 7) - 2);
        // Eight frames, the first of which is always set, and a length.
        assert_eq!(more(Design::GapTolerant), 7 + 2);
        // An anchor or not, and how far it reaches.
        assert_eq!(more(Design::Anchor), 1 + 2);
        let anchor = cost(&ArrayDesc { design: Design::Anchor, group: Some(4), ..plain });
        assert_eq!(anchor.reads, Reads::Sets(3));
    }
}
