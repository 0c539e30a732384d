//! What padding changes: which code segments end where, and what stands behind them then.
//!
//! ```text
//! memory   0x400000                        0x9f4000   0xa00000             0xbf4000      0xc00000
//! before   | code                          |            gap, 2 MB          | data        |
//! after    | code                          | fill     |  gap               | data        |
//!            ^ file pages 0 to 1523          ^ 1524..                        ^ 1524 to 1535: mapped twice
//! ```
//!
//! The fill is the part of the file behind the code: the pages of its data. The loader then maps these twice: privately
//! and writable as data, and executable as a part of the code. So padding needs no memory that the program would not
//! need anyway (paper 2, section VI-A; mechanism S1-M029). Where the file ends before, no-ops are appended.

use super::{
    headers::{Fields, Headers},
    refusal::PadRefusal,
};
use crate::{Residual, SUPERPAGE, Segment, residual_of};
use mmulab_addr::BASE_BYTES;
use mmulab_trace::Isa;
use serde::Serialize;

/// A code segment that is padded.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct PaddedSegment {
    /// The number of its program header.
    pub header: usize,
    /// The segment as it was.
    #[serde(flatten)]
    pub segment: Segment,
    /// Where it ends once padded: the next multiple of 2 MB.
    pub padded_end: u64,
    /// How it stood to superpages.
    pub residual: Residual,
    /// Superpages once padded.
    pub superpages: u64,
    /// Pages of the fill that show the file's next pages, its data.
    pub file_pages: u64,
    /// Pages of the fill that hold no-ops, appended to the file.
    pub no_op_pages: u64,
}

impl PaddedSegment {
    /// Its fields once padded. A loader that is to place it at a multiple of 2 MB reads that from its alignment.
    pub(super) fn fields(&self) -> Fields {
        let bytes = self.padded_end - self.segment.address;
        Fields { file_bytes: bytes, bytes, align: self.segment.align.max(SUPERPAGE.bytes()) }
    }
}

/// What padding a file changes.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct PadPlan {
    /// The code segments that are padded; at least one.
    pub padded: Vec<PaddedSegment>,
    /// Code segments that stay as they are: address, and why.
    pub left: Vec<(u64, String)>,
    /// Bytes of the file as it was.
    pub bytes: u64,
    /// Bytes with the no-ops that follow it, without the record of what was changed.
    pub content_bytes: u64,
}

/// What padding the file with these headers, of `bytes`, changes.
///
/// # Errors
/// None of its code segments can be padded: the reason for the first.
pub fn plan(headers: &Headers, bytes: u64) -> Result<PadPlan, PadRefusal> {
    let segments: Vec<Segment> = headers.loads.iter().map(|&(_, segment)| segment).collect();
    let mut plan = PadPlan { padded: Vec::new(), left: Vec::new(), bytes, content_bytes: bytes };
    let mut first = None;
    for (at, &(header, segment)) in headers.loads.iter().enumerate() {
        if !segment.is_code() || segment.bytes == 0 {
            continue;
        }
        match one(&segments, at, header, bytes) {
            Ok(padded) => {
                plan.content_bytes = plan.content_bytes.max(segment.offset + padded.fields().file_bytes);
                plan.padded.push(padded);
            }
            Err(refusal) => {
                plan.left.push((segment.address, refusal.to_string()));
                first.get_or_insert(refusal);
            }
        }
    }
    if plan.padded.is_empty() { Err(first.unwrap_or(PadRefusal::NoCode)) } else { Ok(plan) }
}

fn one(segments: &[Segment], at: usize, header: usize, bytes: u64) -> Result<PaddedSegment, PadRefusal> {
    let (segment, address) = (segments[at], segments[at].address);
    let residual = residual_of(segments, at);
    let end = address + segment.bytes;
    let large = SUPERPAGE.bytes();
    if segment.file_bytes != segment.bytes {
        return Err(PadRefusal::Zeros { address });
    }
    if residual.pages == 0 && residual.superpages > 0 {
        return Err(PadRefusal::Whole { end });
    }
    let Some(boundary) = end.checked_next_multiple_of(large).filter(|_| residual.pages > 0) else {
        return Err(PadRefusal::Begins { address });
    };
    let shift = address.wrapping_sub(segment.offset) % large;
    if shift != 0 {
        return Err(PadRefusal::Misaligned { address, pages: shift.div_ceil(BASE_BYTES) });
    }
    if let Some(next) = segments.get(at + 1).map(|next| next.address).filter(|&next| next < boundary) {
        return Err(PadRefusal::NoGap { end, next, boundary });
    }
    // The page that the code ends in is one of its own already.
    let from = (segment.offset + segment.file_bytes).next_multiple_of(BASE_BYTES);
    let fill = residual.short_pages;
    let file_pages = bytes.saturating_sub(from).div_ceil(BASE_BYTES).min(fill);
    Ok(PaddedSegment {
        header,
        segment,
        padded_end: boundary,
        residual,
        superpages: residual.superpages + 1,
        file_pages,
        no_op_pages: fill - file_pages,
    })
}

/// No-ops for the bytes of a file from `from` to `to`. The file's offsets are aligned with its addresses, so that
/// instructions begin where the processor wants them.
pub fn no_ops(isa: Isa, from: u64, to: u64) -> impl Iterator<Item = u8> {
    let instruction: &'static [u8] = match isa {
        Isa::X86_64 => &[0x90],
        Isa::Aarch64 => &[0x1f, 0x20, 0x03, 0xd5],
        Isa::Riscv64 => &[0x13, 0x00, 0x00, 0x00],
    };
    (from..to).map(move |at| instruction[at as usize % instruction.len()])
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn segment(address: u64, offset: u64, bytes: u64, flags: u32) -> Segment {
        Segment { address, bytes, offset, file_bytes: bytes, flags, align: 1 << 21 }
    }

    /// PostgreSQL as paper 2's Table V has it: code from 0x400000 to 0x9f4000, data from 0xbf4000 to 0xc00000.
    fn postgresql() -> Vec<Segment> {
        vec![segment(0x40_0000, 0, 0x5f_4000, 5), segment(0xbf_4000, 0x5f_4000, 0xc000, 6)]
    }

    /// S1-042, S1-044, S1-045, S1-046, by the file: to the address.
    #[test]
    fn table_v() {
        let padded = one(&postgresql(), 0, 2, 0x60_0000).unwrap();
        assert_eq!((padded.padded_end, padded.superpages, padded.residual.superpages), (0xa0_0000, 3, 2));
        assert_eq!((padded.residual.pages, padded.residual.short_pages), (500, 12));
        assert_eq!((padded.file_pages, padded.no_op_pages), (12, 0));
        assert_eq!(padded.fields(), Fields { file_bytes: 0x60_0000, bytes: 0x60_0000, align: 2 << 20 });
    }

    #[test]
    fn a_file_that_ends_with_its_code_is_padded_with_no_ops() {
        let padded = one(&postgresql()[..1], 0, 0, 0x5f_4000).unwrap();
        assert_eq!((padded.file_pages, padded.no_op_pages), (0, 12));
        let padded = one(&postgresql(), 0, 0, 0x5f_4001).unwrap();
        assert_eq!((padded.file_pages, padded.no_op_pages), (1, 11));
    }

    #[test]
    fn what_cannot_be_padded_has_a_name() {
        let refused = |change: fn(&mut Vec<Segment>)| {
            let mut segments = postgresql();
            change(&mut segments);
            one(&segments, 0, 0, 0x60_0000).unwrap_err().name()
        };
        assert_eq!(refused(|s| s[1].address = 0x9f_f000), "no-gap");
        assert_eq!(refused(|s| s[0].offset = 0x1000), "misaligned");
        assert_eq!(refused(|s| s[0].bytes += 0x1000), "zeros");
        let cut = |s: &mut Segment, bytes| (s.bytes, s.file_bytes) = (bytes, bytes);
        assert_eq!(refused(|s| (s[0].bytes, s[0].file_bytes) = (0x60_0000, 0x60_0000)), "whole");
        let mut late = segment(0x40_1000, 0x1000, 0, 5);
        cut(&mut late, 0x10_0000);
        assert_eq!(one(&[late], 0, 0, 1 << 20).unwrap_err().name(), "begins");
        // Just enough of a gap.
        let mut segments = postgresql();
        segments[1].address = 0xa0_0000;
        assert!(one(&segments, 0, 0, 0x60_0000).is_ok());
    }

    #[test]
    fn no_ops_are_whole_instructions_of_the_address() {
        assert_eq!(no_ops(Isa::X86_64, 3, 6).collect::<Vec<_>>(), [0x90; 3]);
        assert_eq!(no_ops(Isa::Aarch64, 6, 12).collect::<Vec<_>>(), [0x03, 0xd5, 0x1f, 0x20, 0x03, 0xd5]);
        assert_eq!(no_ops(Isa::Riscv64, 8, 12).collect::<Vec<_>>(), [0x13, 0, 0, 0]);
    }

    proptest! {
        /// The fill ends at the boundary, lies in the gap, and is never a whole superpage.
        #[test]
        fn a_padded_segment_is_whole_superpages(first in 0u64..4, bytes in 1u64..5 << 20, gap in 0u64..4 << 20) {
            let (start, bytes) = (first << 21, bytes);
            let data = segment(start + bytes + gap, bytes, 4096, 6);
            let segments = [segment(start, 0, bytes, 5), data];
            match one(&segments, 0, 0, bytes + 4096) {
                Ok(padded) => {
                    prop_assert_eq!(padded.padded_end % (2 << 20), 0);
                    prop_assert!(padded.padded_end <= data.address);
                    prop_assert!(padded.padded_end - (start + bytes) < 2 << 20);
                    prop_assert_eq!(padded.file_pages + padded.no_op_pages, padded.residual.short_pages);
                    prop_assert_eq!(padded.superpages, (padded.padded_end - start) >> 21);
                }
                Err(PadRefusal::NoGap { boundary, .. }) => prop_assert!(boundary > data.address),
                // Its last page reaches a multiple of 2 MB.
                Err(other) => {
                    prop_assert_eq!(other, PadRefusal::Whole { end: start + bytes });
                    prop_assert_eq!((start + bytes).next_multiple_of(4096) % (2 << 20), 0);
                }
            }
        }
    }
}
