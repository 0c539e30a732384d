//! The native format, `.mmt`: chunked, compressed, seekable. `docs/formats/trace-format.md` describes it for other
//! readers.
//!
//! A chunk holds the executions of one process's *variants*: a translation block together with the loads and stores one
//! of its executions made. A block whose executions differ (a conditional access, a fault half-way) has several. So an
//! execution is one small number and, for each access, a difference from what its place in the code accessed before.

mod decode;
mod dictionary;
mod encode;
mod execute;
mod index;
mod layout;
mod predict;
mod reader;
mod varint;
mod verify;
mod writer;

pub(crate) use layout::MAX_INSTRUCTIONS;

pub use decode::MAX_STATES;
pub use dictionary::{MAX_OPS, Variant};
pub use encode::{Encoder, VariantId, sealed_chunk};
pub use index::{IndexEntry, sealed_index, write_index};
pub use layout::{ChunkHeader, MAGIC};
pub use reader::{NativeReader, Sought};
pub use writer::NativeWriter;
