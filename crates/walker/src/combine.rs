//! One translation out of two: the guest's leaf, and the host's page that the guest's page lies in.

use mmulab_addr::{PageOrder, Pfn, PhysAddr, Prot, VirtAddr};
use mmulab_pagetable::{Format, Leaf, Walked};

/// What is known of the host's page: its leaf, and the line it was read from if it was read now.
#[derive(Clone, Copy, Debug)]
pub struct HostPage {
    /// The translation.
    pub leaf: Leaf,
    /// The level of its entry.
    pub level: u8,
    /// How the host's table is read.
    pub format: Format,
    /// The line of its entry, and which of the eight it was.
    pub line: Option<([u64; LINE], u8)>,
}

/// Entries of a line.
const LINE: usize = 8;

/// What TLBs are given of `va`, which the guest's walk found at `gpa`: the smaller of both sizes, the rights that both
/// grant, dirty if both are (or else the next store must walk again, to set the bits in both), and never global, for it
/// is one address space's of one machine.
///
/// The line for designs that look at neighbours is what hardware could see: the guest's entries, each with the host's
/// frame as far as the same page of the host reaches, or the line of the host's entries that was read with it; the
/// others are cleared. Where the guest's page is larger than the host's, neighbours in the host's line are neighbours
/// of the program. Where nobody looks at neighbours, all but the page itself is cleared.
pub fn combine(guest: &Walked, host: &HostPage, va: VirtAddr, gpa: PhysAddr, neighbours: bool) -> Walked {
    let order = guest.leaf.order.min(host.leaf.order);
    let pa = host.leaf.translate(VirtAddr::new(gpa.0));
    let leaf = Leaf { pfn: pa.pfn().align_down(order), order, ..both(&guest.leaf, &host.leaf) };
    debug_assert_eq!(leaf.translate(va), pa, "pages of both dimensions are aligned to the smaller size");
    let mut line = [0; LINE];
    if !neighbours {
        let (slot, level, format) = match host.line {
            Some((_, slot)) if guest.leaf.order > host.leaf.order => (slot, host.level, host.format),
            None if guest.leaf.order > host.leaf.order => (0, host.level, host.format),
            _ => (guest.slot, guest.level, guest.format),
        };
        line[usize::from(slot)] = format.encode_leaf(&leaf);
        return Walked { leaf, line, slot, level, format };
    }
    if guest.leaf.order > host.leaf.order {
        let (theirs, slot) = host.line.unwrap_or(([0; LINE], 0));
        for (mine, bits) in line.iter_mut().zip(theirs) {
            if let Some(neighbour) = host.format.decode_leaf(bits, host.level) {
                *mine = host.format.encode_leaf(&both(&guest.leaf, &neighbour));
            }
        }
        line[usize::from(slot)] = host.format.encode_leaf(&leaf);
        return Walked { leaf, line, slot, level: host.level, format: host.format };
    }
    for (mine, bits) in line.iter_mut().zip(guest.line) {
        if let Some(neighbour) = guest.format.decode_leaf(bits, guest.level)
            && let Some(found) = host.of(gpa, neighbour.pfn, neighbour.order)
        {
            *mine = guest.format.encode_leaf(&Leaf { order: neighbour.order, ..both(&neighbour, &found) });
        }
    }
    line[usize::from(guest.slot)] = guest.format.encode_leaf(&leaf);
    Walked { leaf, line, ..*guest }
}

/// The host's page, with what both grant.
fn both(guest: &Leaf, host: &Leaf) -> Leaf {
    Leaf {
        pfn: host.pfn,
        order: host.order,
        prot: Prot::from_bits(guest.prot.bits() & host.prot.bits()),
        user: guest.user,
        accessed: guest.accessed && host.accessed,
        dirty: guest.dirty && host.dirty,
        global: false,
    }
}

impl HostPage {
    /// Where the `order` frames from the guest's `pfn` on are, if this page, found for `gpa`, or its line shows.
    fn of(&self, gpa: PhysAddr, pfn: Pfn, order: PageOrder) -> Option<Leaf> {
        let size = self.leaf.order;
        if order <= size && pfn.align_down(size) == gpa.pfn().align_down(size) {
            let within = pfn.0 & (size.base_pages() - 1);
            return Some(Leaf { pfn: Pfn(self.leaf.pfn.0 + within), ..self.leaf });
        }
        let (line, slot) = self.line.filter(|_| order == size)?;
        // Entries of a line are neighbours in the host's table too.
        let here = (gpa.pfn().0 >> size.get()) - u64::from(slot);
        let there = (pfn.0 >> size.get()).checked_sub(here)?;
        self.format.decode_leaf(*line.get(there as usize)?, self.level)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FORMAT: Format = Format::x86(4);

    fn leaf(pfn: u64, order: PageOrder) -> Leaf {
        Leaf { pfn: Pfn(pfn), order, prot: Prot::RW, user: true, accessed: true, dirty: true, global: false }
    }

    /// The guest's line for eight pages from `pfn` on, the walk for the one in `slot`.
    fn guest(pfn: u64, slot: u8, order: PageOrder) -> Walked {
        let entry = |n: u64| FORMAT.encode_leaf(&leaf(pfn + (n << order.get()), order));
        let line = std::array::from_fn(|n| entry(n as u64));
        let own = leaf(pfn + (u64::from(slot) << order.get()), order);
        Walked { leaf: own, line, slot, level: if order == PageOrder::P4K { 1 } else { 2 }, format: FORMAT }
    }

    fn host(pfn: u64, order: PageOrder, line: Option<([u64; 8], u8)>) -> HostPage {
        HostPage { leaf: leaf(pfn, order), level: if order == PageOrder::P4K { 1 } else { 2 }, format: FORMAT, line }
    }

    fn frames(walked: &Walked) -> Vec<Option<u64>> {
        walked.line.iter().map(|&bits| walked.format.decode_leaf(bits, walked.level).map(|l| l.pfn.0)).collect()
    }

    #[test]
    fn small_pages_in_a_huge_page_of_the_host_keep_their_neighbours() {
        // Guest pages 0x100..0x108 of the program's 0x10..0x18; the host has 2 MiB at 0x400.
        let g = guest(0x100, 3, PageOrder::P4K);
        let w = combine(&g, &host(0x400, PageOrder::P2M, None), VirtAddr::new(0x13_000), PhysAddr(0x10_3000), true);
        assert_eq!((w.leaf.pfn.0, w.leaf.order), (0x503, PageOrder::P4K));
        assert_eq!(frames(&w), (0..8).map(|n| Some(0x500 + n)).collect::<Vec<_>>());
    }

    #[test]
    fn small_pages_of_both_are_neighbours_where_the_line_of_the_host_says_so() {
        let g = guest(0x104, 0, PageOrder::P4K);
        // The host's line holds guest frames 0x100..0x108, at frames 70, 71, ...; the guest's line reaches beyond it.
        let line = std::array::from_fn(|n| FORMAT.encode_leaf(&leaf(70 + n as u64, PageOrder::P4K)));
        let w =
            combine(&g, &host(74, PageOrder::P4K, Some((line, 4))), VirtAddr::new(0x8000), PhysAddr(0x10_4000), true);
        assert_eq!(frames(&w), [Some(74), Some(75), Some(76), Some(77), None, None, None, None]);
        // The nested TLB had it: the page alone is known.
        let w = combine(&g, &host(74, PageOrder::P4K, None), VirtAddr::new(0x8000), PhysAddr(0x10_4000), true);
        assert_eq!(frames(&w), [Some(74), None, None, None, None, None, None, None]);
    }

    #[test]
    fn a_huge_page_over_small_ones_of_the_host_is_small() {
        let mut g = guest(0x200, 0, PageOrder::P2M);
        g.leaf.prot = Prot::R;
        g.leaf.dirty = false;
        let line = std::array::from_fn(|n| FORMAT.encode_leaf(&leaf(70 + n as u64, PageOrder::P4K)));
        let page = host(75, PageOrder::P4K, Some((line, 5)));
        let w = combine(&g, &page, VirtAddr::new(0x40_5000), PhysAddr(0x20_5000), true);
        assert_eq!((w.leaf.pfn.0, w.leaf.order, w.leaf.prot, w.leaf.dirty), (75, PageOrder::P4K, Prot::R, false));
        assert_eq!((w.level, w.slot), (1, 5));
        assert_eq!(frames(&w), (0..8).map(|n| Some(70 + n)).collect::<Vec<_>>());
        assert!(w.line.iter().all(|&bits| FORMAT.decode_leaf(bits, 1).is_some_and(|l| !l.dirty && l.prot == Prot::R)));
    }

    #[test]
    fn every_pair_of_sizes_gives_the_smaller_at_the_right_frame() {
        for g in [PageOrder::P4K, PageOrder::P2M] {
            for h in [PageOrder::P4K, PageOrder::P2M] {
                let gpa = PhysAddr(0x20_5000);
                let walked = guest(if g == PageOrder::P4K { 0x205 } else { 0x200 }, 0, g);
                let pfn = if h == PageOrder::P4K { 0x1205 } else { 0x1200 };
                let w = combine(&walked, &host(pfn, h, None), VirtAddr::new(0x4020_5000), gpa, true);
                assert_eq!(w.leaf.order, g.min(h));
                assert_eq!(w.leaf.translate(VirtAddr::new(0x4020_5123)), PhysAddr(0x120_5123));
            }
        }
    }
}
