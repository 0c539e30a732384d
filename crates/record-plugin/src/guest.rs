//! Reads the program's memory. Its pointers may be anything, so it is read through the system, which refuses what is not
//! there.

use crate::session;
use std::{fs::File, os::unix::fs::FileExt};

/// Longest string, and longest list, of a program start (Linux's MAX_ARG_STRLEN, and enough for its argument limit).
const MOST_BYTES: usize = 128 * 1024;
const MOST_STRINGS: usize = 128 * 1024;

fn read(address: u64, into: &mut [u8]) -> Option<usize> {
    let at = session::base()?.wrapping_add(address);
    File::open("/proc/self/mem").ok()?.read_at(into, at).ok()
}

/// The string at `address`, without the zero byte at its end.
pub fn string(address: u64) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    while out.len() < MOST_BYTES {
        // Up to the next page's start: what follows may not be there.
        let mut page = [0; 4096];
        let here = address + out.len() as u64;
        let room = 4096 - (here % 4096) as usize;
        let got = read(here, &mut page[..room])?;
        let piece = &page[..got];
        match piece.iter().position(|&b| b == 0) {
            Some(end) => {
                out.extend_from_slice(&piece[..end]);
                return Some(out);
            }
            None if got == 0 => return None,
            None => out.extend_from_slice(piece),
        }
    }
    None
}

/// The strings of the list of pointers at `address`, which ends with a null pointer. No list is an empty one.
pub fn strings(address: u64) -> Option<Vec<Vec<u8>>> {
    let mut out = Vec::new();
    while address != 0 && out.len() < MOST_STRINGS {
        let mut pointer = [0; 8];
        (read(address + 8 * out.len() as u64, &mut pointer)? == 8).then_some(())?;
        match u64::from_le_bytes(pointer) {
            0 => break,
            at => out.push(string(at)?),
        }
    }
    Some(out)
}
