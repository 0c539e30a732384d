//! Sections: the contents of the tables for each section of memory. The kernel counts them; cuckoo walk tables state
//! them to hardware.
//!
//! A section of a size is what one line of that size's table maps: 32 KiB, 16 MiB or 8 GiB. A cuckoo walk table has a
//! byte for each.

use super::layout::{LINE_BITS, SIZE_BITS, SIZES, WALK_TABLE_BITS, order_of};
use mmulab_addr::{PageOrder, Vpn};
use rustc_hash::FxHashMap;

/// Sections larger than those of 1 GiB pages, only for holes.
const SPANS: usize = SIZES + 1;

/// Byte `section` of a cuckoo walk table's line.
#[inline(always)]
pub const fn byte(line: &[u64; super::line::WORDS], section: u64) -> u8 {
    let at = section & ((1 << WALK_TABLE_BITS) - 1);
    (line[at as usize / 8] >> (8 * (at % 8))) as u8
}

/// Whether a section's byte says that it has pages of `size`: bit 0 stands for 1 GiB, bit 1 for 2 MiB, bit 2 for 4 KiB.
#[inline(always)]
pub const fn has(byte: u8, size: usize) -> bool {
    byte >> (SIZES - 1 - size) & 1 == 1
}

/// The way in which its own line is: bits 3 and 4.
#[inline(always)]
pub const fn way(byte: u8) -> u8 {
    byte >> 3 & 3
}

/// A section's byte.
pub fn encode(lines: [u32; SIZES], way: Option<usize>) -> u8 {
    let bits = (0..SIZES).fold(0, |bits, size| bits | u8::from(lines[size] > 0) << (SIZES - 1 - size));
    bits | (way.unwrap_or(0) as u8) << 3
}

/// Numbers of lines, by size, in each section of the sizes from 2 MiB on. Then numbers of lines of smaller pages in
/// each page of those sizes.
#[derive(Debug, Default)]
pub struct Sections {
    lines: [FxHashMap<u64, [u32; SIZES]>; SPANS],
    smaller: [FxHashMap<u64, u32>; SIZES],
}

/// The section of `span` in which line `key` of `size` is.
pub const fn section_of(key: u64, size: usize, span: usize) -> u64 {
    key >> (SIZE_BITS as usize * (span - size))
}

impl Sections {
    /// Lines in a section of a size; of the smallest nothing is kept.
    pub fn of(&self, span: usize, section: u64) -> [u32; SIZES] {
        self.lines[span].get(&section).copied().unwrap_or_default()
    }

    /// A line came, or went.
    pub fn count(&mut self, size: usize, key: u64, comes: bool) {
        for span in size.max(1)..SPANS {
            let section = section_of(key, size, span);
            let lines = self.lines[span].entry(section).or_default();
            if comes {
                lines[size] += 1;
            } else {
                lines[size] -= 1;
                if *lines == [0; SIZES] {
                    self.lines[span].remove(&section);
                }
            }
        }
        for page in size + 1..SIZES {
            let number = key >> (SIZE_BITS as usize * (page - size) - LINE_BITS as usize);
            let lines = self.smaller[page].entry(number).or_default();
            if comes {
                *lines += 1;
            } else {
                *lines -= 1;
                if *lines == 0 {
                    self.smaller[page].remove(&number);
                }
            }
        }
    }

    /// How much around `vpn`, which no page holds, has no pages; none if that is less than a line of base pages.
    pub fn hole(&self, vpn: Vpn) -> Option<PageOrder> {
        let sections = (1..SPANS).map(|span| (span, SIZE_BITS * span as u8 + LINE_BITS));
        let pages = (1..SIZES).map(|size| (size, order_of(size).get()));
        let empty = sections.filter(|&(span, order)| !self.lines[span].contains_key(&(vpn.0 >> order)));
        let empty = empty.chain(pages.filter(|&(size, order)| !self.smaller[size].contains_key(&(vpn.0 >> order))));
        empty.map(|(_, order)| order).max().map(PageOrder::new)
    }

    /// Whether a page of `size` at `vpn` has smaller ones in it.
    pub fn has_smaller(&self, vpn: Vpn, size: usize) -> bool {
        self.smaller[size].contains_key(&(vpn.0 >> order_of(size).get()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_tell_sizes_and_the_way() {
        let byte = encode([3, 0, 1], Some(2));
        assert_eq!(byte, 0b10_101);
        assert_eq!([has(byte, 0), has(byte, 1), has(byte, 2)], [true, false, true]);
        assert_eq!(way(byte), 2);
    }

    #[test]
    fn holes_are_as_large_as_they_are() {
        let mut s = Sections::default();
        // A line of 4 KiB pages at 0: 32 KiB.
        s.count(0, 0, true);
        assert_eq!(s.hole(Vpn(8)), None);
        assert_eq!(s.hole(Vpn(512)), Some(PageOrder::P2M));
        assert_eq!(s.hole(Vpn(1 << 12)), Some(PageOrder::new(12)));
        assert_eq!(s.hole(Vpn(1 << 21)), Some(PageOrder::new(21)));
        assert_eq!(s.hole(Vpn(1 << 30)), Some(PageOrder::new(30)));
        assert!(s.has_smaller(Vpn(0), 1) && !s.has_smaller(Vpn(512), 1) && !s.has_smaller(Vpn(0), 0));
        assert!(s.has_smaller(Vpn(0), 2) && !s.has_smaller(Vpn(1 << 18), 2));
        s.count(0, 0, false);
        assert_eq!(s.hole(Vpn(0)), Some(PageOrder::new(30)));
    }
}
