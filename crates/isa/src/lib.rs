//! Machine code to data flow: what each instruction of a block reads, writes and is.
//!
//! A block is decoded once, not at each execution. Decoding never fails: an instruction that the decoder does not
//! know depends on nothing and takes one cycle, and [`Decoded::unknown`] counts it.

mod capstones;
mod x86;

use mmulab_dataflow::Inst;
use mmulab_trace::Isa;

/// A block of code, decoded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Decoded {
    /// Its instructions, in order: as many as were asked for.
    pub insts: Vec<Inst>,
    /// Length of each instruction in bytes; 0 for one that was not decoded.
    pub lengths: Vec<u8>,
    /// Instructions that the decoder does not know, or whose bytes are missing.
    pub unknown: u32,
}

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

/// What stands for an instruction that is not known.
fn unknown() -> Inst {
    Inst { class: mmulab_dataflow::Class::Int, ..Inst::default() }
}
