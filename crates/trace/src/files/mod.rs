//! Traces as files: which format a file has, how it is packed, and how a trace is written to one.

mod copy;
mod format;
mod open;
mod packed;
mod stretch;
mod warm;
mod write;

pub(crate) use copy::Beat;
pub use copy::{Copied, Progress, Sink, Span, Stopped, copy};
pub use format::Format;
pub(crate) use open::open_unpacked;
pub use open::{open_file, open_warps};
pub use stretch::stretch;
pub use warm::warm_up;
pub use write::{Written, write_file};

use std::io::{self, Read};

/// Reads until `into` is full or nothing is left; how much was read.
pub(crate) fn read_up_to(input: &mut impl Read, into: &mut [u8]) -> io::Result<usize> {
    let mut got = 0;
    while got < into.len() {
        match input.read(&mut into[got..]) {
            Ok(0) => break,
            Ok(n) => got += n,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(got)
}
