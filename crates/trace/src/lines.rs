//! Line input of text traces: each line with its number and byte offset, for error messages. A limit on the line
//! length bounds the memory that a file without line feeds can take.

use std::io::{self, BufRead, Read};

/// Longest line taken: a path of PATH_MAX bytes, every one escaped, and room for the rest.
pub(crate) const LINE_MAX: usize = 16 * 1024;

/// The lines of a text, none longer than [`LINE_MAX`], with their places.
pub(crate) struct Lines<R> {
    input: R,
    line: Vec<u8>,
    number: u64,
    begins: u64,
    next: u64,
}

/// Result of [`Lines::advance`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Line {
    /// A line that a line feed ends.
    Whole,
    /// The last line, which nothing ends.
    Last,
    /// More than [`LINE_MAX`] bytes without a line feed.
    TooLong,
    /// Nothing was left.
    End,
}

impl<R: BufRead> Lines<R> {
    pub fn new(input: R) -> Self {
        Self { input, line: Vec::new(), number: 0, begins: 0, next: 0 }
    }

    /// Goes to the next line.
    pub fn advance(&mut self) -> io::Result<Line> {
        self.line.clear();
        self.number += 1;
        self.begins = self.next;
        let read = Read::take(&mut self.input, LINE_MAX as u64 + 1).read_until(b'\n', &mut self.line)?;
        self.next += read as u64;
        if read > LINE_MAX {
            return Ok(Line::TooLong);
        }
        let whole = self.line.last() == Some(&b'\n');
        while matches!(self.line.last(), Some(b'\n' | b'\r')) {
            self.line.pop();
        }
        Ok(match (read, whole) {
            (0, _) => Line::End,
            (_, true) => Line::Whole,
            (_, false) => Line::Last,
        })
    }

    /// Whether the next line begins with `start`, as far as the bytes read so far show it.
    pub fn next_begins_with(&mut self, start: &[u8]) -> io::Result<bool> {
        Ok(self.input.fill_buf()?.starts_with(start))
    }

    /// The line, without what ended it.
    pub fn line(&self) -> &[u8] {
        &self.line
    }

    /// Where `column` (from 1) of the line is.
    pub fn place(&self, column: usize) -> String {
        format!("line {}, column {column}", self.number)
    }

    /// Where the line is, counted in bytes too.
    pub fn place_in_bytes(&self) -> String {
        format!("line {} (byte {})", self.number, self.begins)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_have_numbers_and_a_longest_length() {
        let text = [b"a\r\n\nlast".as_slice()].concat();
        let mut lines = Lines::new(text.as_slice());
        assert_eq!((lines.advance().unwrap(), lines.line()), (Line::Whole, &b"a"[..]));
        assert_eq!((lines.advance().unwrap(), lines.line()), (Line::Whole, &b""[..]));
        assert_eq!((lines.advance().unwrap(), lines.line()), (Line::Last, &b"last"[..]));
        assert_eq!(lines.place_in_bytes(), "line 3 (byte 4)");
        assert_eq!(lines.advance().unwrap(), Line::End);
        let long = vec![b'x'; LINE_MAX + 1];
        assert_eq!(Lines::new(long.as_slice()).advance().unwrap(), Line::TooLong);
    }
}
