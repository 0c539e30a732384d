//! A line: eight entries, and the number of their group in bits of them that have no other meaning.
//!
//! ```text
//! Kind::Pages      bit   63     62..58       57..52        51..0
//!                word i [ NX | (unused) | number: part i | frame and flags of page i ]
//!
//! Kind::Sections   bit   63..16                        15..13       12..8         7..5        4..0
//!                word i [ sections 8i + 7 .. 8i + 2 | part, upper | section 8i+1 | part, lower | section 8i ]
//!
//! number of the group    [ part 7 | part 6 | .. | part 1 | part 0 ]     eight parts of six bits: 48 bits
//! ```

use crate::x86;
use mmulab_addr::{GOLDEN, LINE_BYTES, mix};

/// Words of a line.
pub const WORDS: usize = LINE_BYTES as usize / 8;
/// Bits of the number that a word holds: 48 in all, of which 57-bit addresses need 42.
const PART_BITS: u32 = 6;
const PART: u64 = (1 << PART_BITS) - 1;
/// Where they are in a page's entry: the lowest of bits 62..52, which x86-64 ignores (Intel SDM vol. 3A, table 4-20),
/// below the protection key.
const PAGE_SHIFT: u32 = 52;
/// The bits of a section's byte that hold information; the rest belongs to the number.
pub const SECTION: u8 = 0x1f;

/// Meaning of the words of a line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Eight entries that map pages.
    Pages,
    /// 64 bytes, one for each section.
    Sections,
}

impl Kind {
    /// The number's bits in word `at` of line number `key`.
    #[inline(always)]
    pub const fn stamp(self, key: u64, at: usize) -> u64 {
        let part = key >> (PART_BITS * at as u32) & PART;
        match self {
            Self::Pages => part << PAGE_SHIFT,
            // The upper three bits of the first two bytes.
            Self::Sections => (part & 7) << 5 | (part >> 3) << 13,
        }
    }

    /// The number of a line.
    #[inline(always)]
    pub fn key(self, line: &[u64; WORDS]) -> u64 {
        let part = |word: u64| match self {
            Self::Pages => word >> PAGE_SHIFT & PART,
            Self::Sections => (word >> 5 & 7) | (word >> 13 & 7) << 3,
        };
        line.iter().rev().fold(0, |key, &word| key << PART_BITS | part(word))
    }

    /// Whether anything is in a line.
    #[inline(always)]
    pub fn is_used(self, line: &[u64; WORDS]) -> bool {
        match self {
            Self::Pages => line.iter().any(|word| word & x86::P != 0),
            Self::Sections => line.iter().any(|word| word & u64::from_ne_bytes([SECTION; 8]) != 0),
        }
    }

    /// Whether this is line number `key`.
    #[inline(always)]
    pub fn is(self, line: &[u64; WORDS], key: u64) -> bool {
        self.is_used(line) && self.key(line) == key
    }
}

/// A hash of a line's number.
pub type Hash = u64;

/// The hash of line number `key` for `way`. It is SplitMix64's output function over a sequence that begins at the
/// number (Steele, Lea and Flood, *Fast Splittable Pseudorandom Number Generators*, OOPSLA 2014). Its low bits choose
/// the slot.
#[inline(always)]
pub const fn hash(key: u64, way: usize) -> Hash {
    mix(key.wrapping_add((way as u64 + 1).wrapping_mul(GOLDEN)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_back_from_lines_of_both_kinds() {
        for kind in [Kind::Pages, Kind::Sections] {
            for key in [0, 1, 0x3f, 0x40, 0x1234_5678_9abc, (1 << 42) - 1] {
                let line: [u64; WORDS] = std::array::from_fn(|at| kind.stamp(key, at));
                assert_eq!(kind.key(&line), key);
                assert!(!kind.is_used(&line), "the number alone is nothing");
                let mut used = line;
                used[3] |= 1;
                assert!(kind.is(&used, key) && !kind.is(&used, key + 1));
            }
        }
    }

    #[test]
    fn the_hash_is_splitmix64() {
        // The first two outputs of the generator with seed 0.
        assert_eq!((hash(0, 0), hash(0, 1)), (0xe220_a839_7b1d_cdaf, 0x6e78_9e6a_a1b9_65f4));
    }
}
