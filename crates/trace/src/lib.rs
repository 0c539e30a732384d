//! Traces: a program's references and the changes of its address spaces, in order.
//!
//! Everything that produces references (a recording, another tool's trace, a generator) is a [`Source`]; everything
//! that consumes them takes [`Batch`]es. A batch is a flat array of packed [`Ref`]s with the rare address-space
//! [`Event`]s beside it. So the simulator's loop reads one word per reference.

mod batch;
mod code;
mod description;
mod error;
mod event;
#[cfg(feature = "files")]
mod files;
#[cfg(feature = "files")]
mod foreign;
#[cfg(feature = "files")]
mod full_read;
mod isa;
#[cfg(feature = "files")]
mod lines;
#[cfg(feature = "files")]
mod native;
mod refs;
mod residency;
mod source;
#[cfg(feature = "files")]
mod summary;
#[cfg(feature = "files")]
mod text;

pub use batch::Batch;
pub use code::{Body, Code, Op};
pub use description::{Description, EndInfo};
pub use error::{TraceError, TraceErrorKind};
pub use event::{Advice, Backing, Event, ImageSegment, MALLOC_ALIGN, MapFlags};
#[cfg(feature = "files")]
pub use files::{
    Copied, Format, Progress, Sink, Span, Stopped, Written, copy, open_file, open_warps, slice, warm_up, write_file,
};
#[cfg(feature = "files")]
pub use foreign::{AccelSimReader, ChampSimReader, ChampSimWriter, DrmemtraceReader, LackeyReader, WarpShape};
pub use isa::Isa;
#[cfg(feature = "files")]
pub use native::{
    ChunkHeader, Encoder, IndexEntry, MAGIC, MAX_OPS, MAX_STATES, NativeReader, NativeWriter, Sought, Variant,
    VariantId, sealed_chunk, sealed_index, write_index,
};
pub use refs::{Item, Ref};
pub use residency::Residency;
pub use source::{AccessFlow, BlockFlow, Loads, Member, Mixed, Source, TraceInfo, Verified};
#[cfg(feature = "files")]
pub use summary::{MappingSummary, Summary, summarize};
#[cfg(feature = "files")]
pub use text::{TextReader, TextWriter, line_of_event, write_batch, write_description};
