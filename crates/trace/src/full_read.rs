//! Reads that fill a buffer: inputs give what they have at hand, and records and headers are needed whole. Every reader
//! needs this, so that it stands below all of them.

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
