//! Machine code to data flow: what each instruction of a block reads, writes and is.
//!
//! A block is decoded once, not at each execution. Decoding never fails: an instruction that the decoder does not
//! know depends on nothing and takes one cycle, and [`Decoded::unknown`] counts it.

mod capstones;
mod decoded;
mod x86;

pub use decoded::Decoded;

use decoded::unknown;
use mmulab_trace::Isa;

/// Decoders of one instruction set.
pub struct Decoder(Kind);

enum Kind {
    X86(Box<x86::X86>),
    Capstone(Box<capstones::Capstones>),
}

impl Decoder {
    /// A decoder for `isa`.
    pub fn new(isa: Isa) -> Self {
        Self(match isa {
            Isa::X86_64 => Kind::X86(Box::default()),
            Isa::Aarch64 | Isa::Riscv64 => Kind::Capstone(Box::new(capstones::Capstones::new(isa))),
        })
    }

    /// Decodes the block of `instructions` instructions whose code `bytes` lie at `start`.
    pub fn decode(&mut self, start: u64, bytes: &[u8], instructions: u32) -> Decoded {
        let wanted = instructions as usize;
        let mut decoded = Decoded { insts: Vec::with_capacity(wanted), ..Decoded::default() };
        match &mut self.0 {
            Kind::X86(x86) => x86.decode(start, bytes, wanted, &mut decoded),
            Kind::Capstone(other) => other.decode(start, bytes, wanted, &mut decoded),
        }
        let missing = wanted - decoded.insts.len();
        decoded.unknown += missing as u32;
        decoded.insts.resize(wanted, unknown());
        decoded.lengths.resize(wanted, 0);
        decoded
    }
}
