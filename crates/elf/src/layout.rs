//! Segment layout: the addresses and file offsets that a linker gives to segments for a chosen maxpagesize. With a
//! small maxpagesize, memory pages can be misaligned with file pages. TLBs then cannot coalesce them (paper 1,
//! section 2.3).
//!
//! ```text
//! code of paper 1's Figure 1    file pages      memory pages
//! maxpagesize 4 KB              8  9 10 11       9 10 11 12    misaligned by 1 page
//! maxpagesize 16 KB             8  9 10 11      12 13 14 15    an aligned group of 16 KB in both
//! ```

use crate::Segment;
use mmulab_addr::BASE_BYTES;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// How a linker places segments, and its default maxpagesize (paper 1, section 2.3; claim S0-041).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Linker {
    /// LLVM's LLD of today: segments follow each other in the file without padding; 4 KB.
    #[default]
    Lld,
    /// LLD as it was, and GNU ld before `-z separate-code`: the same, with 2 MB.
    Old,
    /// GNU ld with `-z separate-code`, the default on Linux since binutils 2.31: each segment begins on a page of its
    /// own in the file, too. Code and what follows it begin at a multiple of the maxpagesize, 4 KB.
    GnuSeparateCode,
}

impl Linker {
    /// The maxpagesize used when none is asked for, in bytes.
    pub fn default_max_page_size(self) -> u64 {
        match self {
            Self::Lld | Self::GnuSeparateCode => BASE_BYTES,
            Self::Old => 2 << 20,
        }
    }
}

/// Contents of a segment: sections of the same rights, one after the other.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Part {
    /// Bytes in the file.
    pub file_bytes: u64,
    /// Bytes in memory; at least as many.
    pub bytes: u64,
    /// PF_R (4), PF_W (2), PF_X (1).
    pub flags: u32,
    /// Alignment of its first section: a power of two, in bytes. Default: 1.
    #[serde(default = "one")]
    pub align: u64,
}

impl Part {
    /// Whether it holds code.
    fn is_code(&self) -> bool {
        self.flags & 1 != 0
    }
}

fn one() -> u64 {
    1
}

/// The largest alignment that a place is taken to show: sections of programs are rarely aligned to more than a cache
/// line.
const ALIGN_MAX: u64 = 64;

impl From<&Segment> for Part {
    /// What is in `segment`. Program headers do not tell how its sections are aligned; its address does, at most.
    fn from(s: &Segment) -> Self {
        let align = (ALIGN_MAX | s.address) & (ALIGN_MAX | s.address).wrapping_neg();
        Self { file_bytes: s.file_bytes, bytes: s.bytes, flags: s.flags, align }
    }
}

/// A segment where a linker would place it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct PlacedSegment {
    /// The segment.
    #[serde(flatten)]
    pub segment: Segment,
    /// Whether its first file page is also the last of the segment before: it is mapped twice.
    pub shares_page: bool,
}

/// Why there is no layout.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum LayoutError {
    /// Not a power of two of at least 4 KB.
    #[error("maxpagesize is {0} bytes: give a power of two of at least 4096")]
    MaxPageSize(u64),
    /// A part has more bytes in the file than in memory.
    #[error("part {0} has more bytes in the file than in memory")]
    Part(usize),
    /// The alignment of a part is not a power of two.
    #[error("the alignment of part {0} is not a power of two")]
    Align(usize),
    /// Too large to be anywhere.
    #[error("the parts are larger than an address space")]
    TooLarge,
}

/// Where `linker` would place `parts`, the first at address 0 and offset 0. Each segment's address modulo maxpagesize
/// equals its offset modulo maxpagesize (S0-M048). Segments of different rights share no page of memory.
///
/// # Errors
/// A maxpagesize that cannot be, or parts that contradict themselves.
pub fn layout(parts: &[Part], linker: Linker, max_page_size: u64) -> Result<Vec<PlacedSegment>, LayoutError> {
    if !max_page_size.is_power_of_two() || max_page_size < BASE_BYTES {
        return Err(LayoutError::MaxPageSize(max_page_size));
    }
    let up = |at: u64, to: u64| at.checked_next_multiple_of(to).ok_or(LayoutError::TooLarge);
    let (mut offset, mut dot) = (0u64, 0u64);
    let mut placed: Vec<PlacedSegment> = Vec::new();
    for (index, part) in parts.iter().enumerate() {
        if part.file_bytes > part.bytes {
            return Err(LayoutError::Part(index));
        }
        if !part.align.is_power_of_two() {
            return Err(LayoutError::Align(index));
        }
        if linker == Linker::GnuSeparateCode {
            // `. = ALIGN(CONSTANT (MAXPAGESIZE))` before code and behind it (ld's elf.sc, SEPARATE_CODE).
            let is_border = index > 0 && parts[index - 1].is_code() != part.is_code();
            offset = up(offset, if is_border { max_page_size } else { BASE_BYTES })?;
        }
        offset = up(offset, part.align)?;
        // LLD's rule: the next multiple of maxpagesize, and as far into it as the offset is (lld/ELF/Writer.cpp,
        // fixSectionAlignments).
        let address = if index == 0 { 0 } else { up(dot, max_page_size)? + offset % max_page_size };
        let segment = Segment {
            address,
            bytes: part.bytes,
            offset,
            file_bytes: part.file_bytes,
            flags: part.flags,
            align: max_page_size,
        };
        let shares_page = placed.last().is_some_and(|before| {
            let end = before.segment.offset + before.segment.file_bytes;
            before.segment.file_bytes > 0 && part.file_bytes > 0 && (end - 1) / BASE_BYTES == offset / BASE_BYTES
        });
        placed.push(PlacedSegment { segment, shares_page });
        offset = offset.checked_add(part.file_bytes).ok_or(LayoutError::TooLarge)?;
        dot = address.checked_add(part.bytes).ok_or(LayoutError::TooLarge)?;
    }
    Ok(placed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{GROUPS, phase_of};
    use proptest::prelude::*;

    /// Figure 1 of paper 1: read-only data that ends within page 6, then code.
    fn figure_1() -> [Part; 2] {
        let data = 6 * 4096 + 2000;
        let code = 12 * 4096 - data;
        [
            Part { file_bytes: data, bytes: data, flags: 4, align: 1 },
            Part { file_bytes: code, bytes: code, flags: 5, align: 1 },
        ]
    }

    fn page_of_file_page(segment: &Segment, page: u64) -> u64 {
        segment.address / 4096 + page - segment.offset / 4096
    }

    /// S0-036.
    #[test]
    fn with_4_kb_the_code_of_figure_1_is_shifted_by_a_page() {
        let placed = layout(&figure_1(), Linker::Lld, 4096).unwrap();
        let code = placed[1];
        assert!(code.shares_page);
        assert_eq!(page_of_file_page(&placed[0].segment, 6), 6);
        assert_eq!(page_of_file_page(&code.segment, 6), 7);
        assert_eq!((8..12).map(|p| page_of_file_page(&code.segment, p)).collect::<Vec<_>>(), [9, 10, 11, 12]);
        assert!(phase_of(&code.segment).groups.iter().all(|g| g.shift == 1 && g.coalescible == 0));
    }

    /// S0-037.
    #[test]
    fn with_16_kb_it_is_in_step() {
        let code = layout(&figure_1(), Linker::Lld, 16 << 10).unwrap()[1].segment;
        assert_eq!(page_of_file_page(&code, 6), 10);
        assert_eq!((8..12).map(|p| page_of_file_page(&code, p)).collect::<Vec<_>>(), [12, 13, 14, 15]);
        let sixteen = phase_of(&code).groups[0];
        // Pages 12 to 15 of memory, virtual superpage 3, are pages 8 to 11 of the file, physical superpage 2.
        assert_eq!((sixteen.shift, sixteen.coalescible), (0, 1));
    }

    /// A program linked by GNU ld 2.40 with `-z separate-code -z max-page-size=0x200000`: the places that `readelf -l`
    /// showed of its first three segments.
    #[test]
    fn gnu_ld_begins_code_and_what_follows_it_at_a_maxpagesize() {
        let part = |bytes, flags| Part { file_bytes: bytes, bytes, flags, align: 1 };
        let parts = [part(0x5e0, 4), part(0x139, 5), part(0x2418, 4)];
        let placed = layout(&parts, Linker::GnuSeparateCode, 2 << 20).unwrap();
        let places: Vec<(u64, u64)> = placed.iter().map(|p| (p.segment.offset, p.segment.address)).collect();
        assert_eq!(places, [(0, 0), (0x20_0000, 0x20_0000), (0x40_0000, 0x40_0000)]);
        let usual = layout(&parts, Linker::GnuSeparateCode, 4096).unwrap();
        let places: Vec<u64> = usual.iter().map(|p| p.segment.offset).collect();
        assert_eq!(places, [0, 0x1000, 0x2000], "and at a page without the option");
    }

    fn parts() -> impl Strategy<Value = Vec<Part>> {
        let part = (0u64..3 << 20, 0u64..1 << 16, 4u32..8, 0u32..7).prop_map(|(file_bytes, zero, flags, align)| Part {
            file_bytes,
            bytes: file_bytes + zero,
            flags,
            align: 1 << align,
        });
        prop::collection::vec(part, 1..6)
    }

    fn linker() -> impl Strategy<Value = Linker> {
        prop_oneof![Just(Linker::Lld), Just(Linker::Old), Just(Linker::GnuSeparateCode)]
    }

    proptest! {
        /// S0-038, S0-M048.
        #[test]
        fn a_max_page_size_as_large_as_the_group_removes_the_shift(
            parts in parts(), linker in linker(), order in 0u32..10
        ) {
            let max = 4096u64 << order;
            let placed = layout(&parts, linker, max).unwrap();
            for PlacedSegment { segment, .. } in &placed {
                prop_assert_eq!(segment.address % max, segment.offset % max);
                for groups in phase_of(segment).groups {
                    prop_assert!(groups.size.bytes() > max || groups.shift == 0);
                }
            }
            for pair in placed.windows(2) {
                let end = pair[0].segment.address + pair[0].segment.bytes;
                prop_assert!(pair[1].segment.address / 4096 >= end.div_ceil(4096));
            }
        }

        /// What was linked by the rule is linked alike again, whatever gaps the sections' alignments left.
        #[test]
        fn what_was_placed_by_the_rule_stays(parts in parts(), linker in linker(), order in 0u32..10) {
            let placed = layout(&parts, linker, 4096 << order).unwrap();
            let again: Vec<Part> = placed.iter().map(|p| Part::from(&p.segment)).collect();
            prop_assert_eq!(layout(&again, linker, 4096 << order).unwrap(), placed);
        }

        /// S0-040: LLD's files do not grow with maxpagesize.
        #[test]
        fn the_file_is_no_larger(parts in parts(), order in 0u32..10) {
            let bytes = |max| {
                let placed = layout(&parts, Linker::Lld, max).unwrap();
                placed.last().map(|p| p.segment.offset + p.segment.file_bytes)
            };
            prop_assert_eq!(bytes(4096 << order), bytes(4096));
        }
    }

    #[test]
    fn impossible_requests_are_refused() {
        assert_eq!(layout(&figure_1(), Linker::Lld, 5000), Err(LayoutError::MaxPageSize(5000)));
        assert_eq!(layout(&figure_1(), Linker::Lld, 2048), Err(LayoutError::MaxPageSize(2048)));
        let broken = Part { file_bytes: 2, bytes: 1, flags: 4, align: 1 };
        assert_eq!(layout(&[broken], Linker::Lld, 4096), Err(LayoutError::Part(0)));
        let odd = Part { file_bytes: 1, align: 3, ..broken };
        assert_eq!(layout(&[odd], Linker::Lld, 4096), Err(LayoutError::Align(0)));
    }

    #[test]
    fn every_group_size_can_be_a_max_page_size() {
        assert!(GROUPS.iter().all(|g| layout(&figure_1(), Linker::Lld, g.bytes()).is_ok()));
        assert_eq!((Linker::Lld.default_max_page_size(), Linker::Old.default_max_page_size()), (4096, 2 << 20));
    }
}
