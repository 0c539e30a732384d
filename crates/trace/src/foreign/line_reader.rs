//! Shared parts of the readers for other tools' traces: batches filled line by line, errors with line and byte, and
//! parsers of numbers and accesses. A reader of text lines adds only the meaning of one line (`Tool`).

use crate::{
    Batch, TraceError, TraceErrorKind,
    lines::{LINE_MAX, Line, Lines},
};
use mmulab_addr::VirtAddr;
use std::io::{self, BufRead};

/// Meaning of a tool's lines.
pub(super) trait Tool {
    /// Appends the items of `line`.
    ///
    /// # Errors
    /// The fault of the line.
    fn take(&mut self, line: &[u8], batch: &mut Batch) -> Result<(), String>;

    /// The text is over; an error if the tool would have written more.
    ///
    /// # Errors
    /// The missing part.
    fn end(&self) -> Result<(), String>;
}

/// Clears `batch` and fills it by `fill`, which returns whether more may come; not again after an end or an error.
/// Returns whether the batch holds anything, or more may come.
pub(super) fn until_ended(
    ended: &mut bool,
    batch: &mut Batch,
    fill: impl FnOnce(&mut Batch) -> Result<bool, TraceError>,
) -> Result<bool, TraceError> {
    batch.clear();
    if *ended {
        return Ok(false);
    }
    let more = fill(batch);
    *ended = !matches!(more, Ok(true));
    Ok(more? || !batch.refs.is_empty())
}

/// Fills `batch` from lines; false when they are over.
pub(super) fn fill<R: BufRead>(
    lines: &mut Lines<R>,
    tool: &mut impl Tool,
    name: &str,
    batch: &mut Batch,
) -> Result<bool, TraceError> {
    let damaged =
        |lines: &Lines<R>, what: String| TraceError::new(name, lines.place_in_bytes(), TraceErrorKind::Damaged(what));
    while !batch.is_full() {
        match lines.advance().map_err(|e| unpacking_error(name, lines.place_in_bytes(), e))? {
            Line::End => {
                let cut = |what| TraceError::new(name, lines.place_in_bytes(), TraceErrorKind::Cut(what));
                return tool.end().map(|()| false).map_err(cut);
            }
            Line::TooLong => return Err(damaged(lines, format!("the line is longer than {LINE_MAX} bytes"))),
            Line::Whole => tool.take(lines.line(), batch).map_err(|e| damaged(lines, e))?,
            // A half line may look whole: an address may lack its last digits.
            Line::Last => {
                let what = "the last line has no end".to_owned();
                return Err(TraceError::new(name, lines.place_in_bytes(), TraceErrorKind::Cut(what)));
            }
        }
    }
    Ok(true)
}

/// An error of reading, as what it says of the file: a packed one that is cut or damaged is known by its unpacking.
pub(crate) fn unpacking_error(name: &str, at: String, error: io::Error) -> TraceError {
    let kind = match error.kind() {
        io::ErrorKind::UnexpectedEof => TraceErrorKind::Cut("the packed file ends too early".into()),
        io::ErrorKind::InvalidData | io::ErrorKind::InvalidInput => {
            TraceErrorKind::Damaged(format!("it cannot be unpacked: {error}"))
        }
        // liblzma and zstd tell their errors so.
        io::ErrorKind::Other => TraceErrorKind::Damaged(format!("it cannot be unpacked: {error}")),
        _ => TraceErrorKind::Io(error),
    };
    TraceError::new(name, at, kind)
}

/// The number of hexadecimal digits at the front of `bytes`, which then begins after them.
pub(super) fn hex(bytes: &mut &[u8]) -> Option<u64> {
    let digits = bytes.iter().take_while(|b| b.is_ascii_hexdigit()).count();
    if !(1..=16).contains(&digits) {
        return None;
    }
    let (number, rest) = bytes.split_at(digits);
    *bytes = rest;
    number.iter().try_fold(0u64, |n, &b| Some(n << 4 | u64::from((b as char).to_digit(16)?)))
}

/// The number of decimal digits at the front of `bytes`, which then begins after them.
pub(super) fn decimal(bytes: &mut &[u8]) -> Option<u64> {
    let digits = bytes.iter().take_while(|b| b.is_ascii_digit()).count();
    if digits == 0 {
        return None;
    }
    let (number, rest) = bytes.split_at(digits);
    *bytes = rest;
    number.iter().try_fold(0u64, |n, &b| n.checked_mul(10)?.checked_add(u64::from(b - b'0')))
}

/// Skips blanks.
pub(super) fn blanks(bytes: &mut &[u8]) {
    let count = bytes.iter().take_while(|&&b| b == b' ' || b == b'\t').count();
    *bytes = &bytes[count..];
}

/// Skips `what`, if it is there.
pub(super) fn skip(bytes: &mut &[u8], what: &[u8]) -> Option<()> {
    *bytes = bytes.strip_prefix(what)?;
    Some(())
}

/// Most bytes one access may have: the longest of any instruction set, an XSAVE area with AMX tiles, has 11 KiB.
const MAX_ACCESS: u64 = 1 << 16;

/// An address and a size that can be.
pub(super) fn access(raw: u64, size: u64) -> Result<(VirtAddr, u64), String> {
    let va = VirtAddr::new(raw);
    if va.raw() != raw {
        return Err(format!("{raw:#x} is not a canonical address of 57 bits"));
    }
    if size > MAX_ACCESS {
        return Err(format!("an access of {size} bytes is longer than any"));
    }
    Ok((va, size.max(1)))
}
