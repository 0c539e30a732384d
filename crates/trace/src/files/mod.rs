//! Traces as files: which format a file has, how it is packed, and how a trace is written to one.

mod copy;
mod format;
mod open;
mod packed;
mod slice;
mod warm;
mod write;

pub(crate) use copy::Beat;
pub use copy::{Copied, Progress, Sink, Span, Stopped, copy};
pub use format::Format;
pub use open::{open_file, open_warps};
pub(crate) use packed::open_unpacked;
pub use slice::slice;
pub use warm::warm_up;
pub use write::{Written, write_file};
