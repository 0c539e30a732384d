//! Dictionary entries of native traces: a variant is a code block with the loads and stores of one execution. A
//! dictionary defines each variant once, and executions refer to the variant by a prediction or a number.
//!
//! ```text
//! head      accesses << 2 | has code << 1 | has block           version 2; numbers are LEB128 varints
//! block     start - last start (zigzag), bytes, instructions, then the code bytes, if any
//! access    instruction - last instruction (zigzag) << 4 | log2(bytes) << 1 | store
//! ```

use super::varint;
use crate::{Op, Ref};
use mmulab_addr::{BASE_BYTES, VirtAddr};

/// Most accesses of one variant. An execution with more is written as several.
pub const MAX_OPS: usize = 1024;
/// Most variants of one dictionary; the encoder starts a fresh one before. Below 2^24, so that 3 bytes name any.
pub(super) const MAX_VARIANTS: usize = 1 << 21;
/// Most accesses of all variants of one dictionary. A whole run of clang has 500,000.
pub(super) const MAX_TOTAL_OPS: usize = 1 << 22;
/// Most bytes of code in a block: QEMU ends blocks at page boundaries, other tools at branches.
const MAX_BLOCK_BYTES: u64 = 1 << 16;
/// Most instructions in a block.
const MAX_BLOCK_INSTRUCTIONS: u64 = 1 << 16;

/// A block of code with the accesses one of its executions makes. Without a block: accesses alone.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Variant {
    /// Where the block begins; `None` for accesses alone.
    pub start: Option<VirtAddr>,
    /// Bytes of its code; 0 if unknown, or if the other pages it touches are written as fetches of their own.
    pub bytes: u32,
    /// Its instructions.
    pub instructions: u32,
    /// Its accesses, in order.
    pub ops: Vec<Op>,
    /// Its code, `bytes` long; empty when unknown.
    pub code: Vec<u8>,
}

/// The version whose definitions may have code.
pub(super) const WITH_CODE: u32 = 2;

impl Variant {
    /// The words its fetches are: those of [`crate::Batch::push_block`].
    pub(super) fn fetch_words(&self) -> Vec<Ref> {
        let mut batch = crate::Batch::default();
        if let Some(start) = self.start {
            batch.push_block(start, u64::from(self.bytes), self.instructions);
        }
        batch.refs
    }

    /// The pages it fetches from.
    pub(super) fn fetches(&self) -> u64 {
        let Some(start) = self.start else { return 0 };
        let offset = start.raw() & (BASE_BYTES - 1);
        1 + (offset + u64::from(self.bytes)).saturating_sub(1) / BASE_BYTES
    }

    /// Appends its definition. `last` is the start of the block defined before. `with_code`: its code belongs to it,
    /// rather than being that of the block defined before at the same start.
    pub(super) fn put(&self, out: &mut Vec<u8>, last: &mut u64, with_code: bool) {
        let with_code = with_code && self.start.is_some() && self.code.len() == self.bytes as usize;
        let head = (self.ops.len() as u64) << 2 | u64::from(with_code) << 1 | u64::from(self.start.is_some());
        varint::put(out, head);
        if let Some(start) = self.start {
            varint::put(out, varint::zigzag(start.raw().wrapping_sub(*last) as i64));
            varint::put(out, u64::from(self.bytes));
            varint::put(out, u64::from(self.instructions));
            *last = start.raw();
            if with_code {
                out.extend_from_slice(&self.code);
            }
        }
        let mut before = 0;
        for op in &self.ops {
            let step = varint::zigzag(i64::from(op.instruction) - i64::from(before));
            varint::put(out, step << 4 | u64::from(op.size_shift & 7) << 1 | u64::from(op.store));
            before = op.instruction;
        }
    }

    /// Reads a definition of a file of `version` from the front of `bytes`. Where it is without its code, that is
    /// empty.
    pub(super) fn take(bytes: &mut &[u8], last: &mut u64, version: u32) -> Option<Self> {
        let head = varint::take(bytes)?;
        let (head, with_code) =
            if version < WITH_CODE { (head, false) } else { (head >> 1 & !1 | head & 1, head & 2 != 0) };
        let count = usize::try_from(head >> 1).ok().filter(|&n| n <= MAX_OPS && n <= bytes.len())?;
        let mut variant = Self { ops: Vec::with_capacity(count), ..Self::default() };
        if head & 1 == 1 {
            *last = last.wrapping_add(varint::unzigzag(varint::take(bytes)?) as u64);
            variant.start = Some(VirtAddr::new(*last));
            variant.bytes = varint::take(bytes).filter(|&n| n <= MAX_BLOCK_BYTES)? as u32;
            variant.instructions = varint::take(bytes).filter(|&n| n <= MAX_BLOCK_INSTRUCTIONS)? as u32;
            if with_code {
                let (code, rest) = bytes.split_at_checked(variant.bytes as usize)?;
                variant.code = code.to_vec();
                *bytes = rest;
            }
        } else if count == 0 {
            // Nothing at all: it would let a few bytes stand for millions of executions that do nothing.
            return None;
        }
        let mut before = 0i64;
        for _ in 0..count {
            let word = varint::take(bytes)?;
            before = before.checked_add(varint::unzigzag(word >> 4))?;
            variant.ops.push(Op {
                instruction: u16::try_from(before).ok()?,
                store: word & 1 == 1,
                size_shift: (word >> 1) as u8 & 7,
            });
        }
        Some(variant)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn definitions_survive_and_pages_are_counted_as_they_are_emitted() {
        let op = |instruction, store, size_shift| Op { instruction, store, size_shift };
        let all = [
            Variant { start: None, bytes: 0, instructions: 0, ops: vec![op(0, true, 0)], code: vec![] },
            Variant {
                start: Some(VirtAddr::new(0x40_0ff0)),
                bytes: 0x30,
                instructions: 40,
                ops: vec![],
                code: vec![7; 0x30],
            },
            Variant {
                start: Some(VirtAddr::new(0xffff_ffff_8000_0000)),
                bytes: 4096,
                instructions: 1,
                ops: vec![op(3, false, 7), op(1, true, 2), op(300, true, 3)],
                code: vec![],
            },
        ];
        let (mut bytes, mut last) = (Vec::new(), 0);
        all.iter().for_each(|v| v.put(&mut bytes, &mut last, true));
        let (mut rest, mut last) = (bytes.as_slice(), 0);
        for v in &all {
            assert_eq!(Variant::take(&mut rest, &mut last, WITH_CODE).as_ref(), Some(v));
            let fetched = v.fetch_words().iter().filter(|w| w.is_fetch()).count() as u64;
            assert_eq!(v.fetches(), fetched);
        }
        assert!(rest.is_empty());
    }
}
