//! What decoders of all instruction sets make: a decoded block, and what stands in it for an instruction that none
//! knows.

use mmulab_dataflow::{Class, Inst};

/// A block of code, decoded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Decoded {
    /// Its instructions, in order: as many as were asked for.
    pub insts: Vec<Inst>,
    /// Length of each instruction in bytes; 0 for one that was not decoded.
    pub lengths: Vec<u8>,
    /// Instructions that the decoder does not know, or whose bytes are missing.
    pub unknown: u32,
    /// Instructions by which the program asks for a line that it will use: software prefetches.
    pub prefetches: u32,
}

/// What stands for an instruction that is not known.
pub(crate) fn unknown() -> Inst {
    Inst { class: Class::Int, ..Inst::default() }
}
