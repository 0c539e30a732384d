//! The code of a block that QEMU translates, without the instruction that QEMU 7.2 names and does not run.
//!
//! On x86-64, QEMU ends a block before an instruction that crosses a page boundary. It notices the boundary when it has
//! read a part of the instruction. QEMU 7.2 takes back what it translated of it, but still counts it among the block's
//! instructions for plugins. The next block is the whole instruction, so a recording would have it twice.
//!
//! ```text
//!     0xffc          0x1000
//!       | nop | 48 b8 | 88 77 66 55 44 33 22 11 |     movabs $0x1122334455667788, %rax
//!               -----   what QEMU 7.2 read: the last "instruction" of the block that begins with nop
//! ```

use crate::{
    api::{Insn, Tb},
    session::Session,
};
use iced_x86::{Decoder, DecoderError, DecoderOptions};
use mmulab_addr::BASE_BYTES;
use mmulab_trace::Isa;

/// No instruction of x86-64 is longer (AMD64 Architecture Programmer's Manual, volume 3, section 1.1).
const LONGEST: u64 = 15;

/// A block's instructions and their bytes; kept between blocks for its memory.
#[derive(Default)]
pub struct Code {
    pub instructions: Vec<Insn>,
    pub bytes: Vec<u8>,
    /// Where in `bytes` each instruction ends.
    ends: Vec<usize>,
}

impl Code {
    /// Holds the code of `tb`, which is being translated.
    pub fn read(&mut self, session: &Session, tb: Tb) {
        let api = &session.api;
        self.bytes.clear();
        self.ends.clear();
        self.instructions.clear();
        self.instructions.extend(api.instructions(tb));
        for &instruction in &self.instructions {
            api.bytes(instruction, &mut self.bytes);
            self.ends.push(self.bytes.len());
        }
        if session.isa == Isa::X86_64 && self.ends_in_part(api.start(tb)) {
            self.instructions.pop();
            self.ends.pop();
            self.bytes.truncate(self.ends.last().copied().unwrap_or(0));
        }
    }

    /// The bytes of each instruction.
    pub fn slices(&self) -> impl Iterator<Item = &[u8]> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts.zip(&self.ends).map(|(from, &to)| &self.bytes[from..to])
    }

    /// Whether the last of several instructions is but the part that lies before a page boundary. `start`: the block's
    /// first address.
    fn ends_in_part(&self, start: u64) -> bool {
        let &[.., before, _] = &self.ends[..] else { return false };
        let last = start.wrapping_add(before as u64);
        last % BASE_BYTES + LONGEST > BASE_BYTES && is_part(&self.bytes[before..])
    }
}

/// Whether more bytes would have to follow for an instruction. No instruction is the beginning of another.
fn is_part(bytes: &[u8]) -> bool {
    let mut decoder = Decoder::new(64, bytes, DecoderOptions::NONE);
    decoder.decode().is_invalid() && decoder.last_error() == DecoderError::NoMoreBytes
}

#[cfg(test)]
mod tests {
    use super::{Code, is_part};

    const MOVABS: [u8; 10] = [0x48, 0xb8, 0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11];

    /// A nop and a part of `MOVABS`.
    fn nop_and(bytes: usize) -> Code {
        let code = [&[0x90], &MOVABS[..bytes]].concat();
        Code { ends: vec![1, code.len()], bytes: code, ..Code::default() }
    }

    #[test]
    fn only_a_whole_instruction_is_one() {
        for cut in 0..MOVABS.len() {
            assert!(is_part(&MOVABS[..cut]), "{cut} bytes");
        }
        assert!(!is_part(&MOVABS));
        // No byte that follows makes an instruction of these.
        assert!(!is_part(&[0xff, 0xff]));
    }

    #[test]
    fn a_part_is_looked_for_before_a_page_boundary_only() {
        assert!(nop_and(3).ends_in_part(0x1ffc));
        assert!(!nop_and(10).ends_in_part(0x1ffc), "whole");
        assert!(!nop_and(3).ends_in_part(0x1000), "far from a boundary");
        let alone = Code { ends: vec![3], bytes: MOVABS[..3].to_vec(), ..Code::default() };
        assert!(!alone.ends_in_part(0x1ffd), "the first instruction is always run");
    }
}
