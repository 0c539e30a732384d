//! Reads the program's memory. Its pointers may be anything, so it is read through the system, which refuses what is
//! not there. No descriptor is needed, and no right that a change of user takes away: a process may always read itself.

use crate::session;
use std::{fs::File, io, os::unix::fs::FileExt};

/// Longest string, and longest list, of a program start (Linux's MAX_ARG_STRLEN, and enough for its argument limit).
const MOST_BYTES: usize = 128 * 1024;
const MOST_STRINGS: usize = 128 * 1024;

/// Fills `into` with the bytes at `address`. An error says why not.
pub fn read(address: u64, into: &mut [u8]) -> Result<(), String> {
    let base = session::base().ok_or("the program has not begun")?;
    let at = base.wrapping_add(address);
    let to = libc::iovec { iov_base: into.as_mut_ptr().cast(), iov_len: into.len() };
    let from = libc::iovec { iov_base: at as *mut _, iov_len: into.len() };
    // SAFETY: it writes to the buffer alone; what it reads is checked by the system.
    let got = unsafe { libc::process_vm_readv(libc::getpid(), &raw const to, 1, &raw const from, 1, 0) };
    if got == into.len() as isize {
        return Ok(());
    }
    let refused = io::Error::last_os_error();
    match refused.raw_os_error() {
        // A system that filters this call has the memory as a file.
        Some(libc::EPERM | libc::ENOSYS) if got < 0 => {
            let file = File::open("/proc/self/mem").map_err(|e| format!("/proc/self/mem: {e}"))?;
            file.read_exact_at(into, at).map_err(|e| format!("memory at {address:#x}: {e}"))
        }
        _ => Err(format!("memory at {address:#x}: {refused}")),
    }
}

/// The string at `address`, without the zero byte at its end.
pub fn string(address: u64) -> Result<Vec<u8>, String> {
    let mut out = Vec::new();
    while out.len() < MOST_BYTES {
        // Up to the next page's start: what follows may not be there.
        let mut page = [0; 4096];
        let here = address + out.len() as u64;
        let piece = &mut page[..4096 - (here % 4096) as usize];
        read(here, piece)?;
        match piece.iter().position(|&b| b == 0) {
            Some(end) => {
                out.extend_from_slice(&piece[..end]);
                return Ok(out);
            }
            None => out.extend_from_slice(piece),
        }
    }
    Err(format!("the string at {address:#x} is longer than {MOST_BYTES} bytes"))
}

/// The strings of the list of pointers at `address`, which ends with a null pointer. No list is an empty one.
pub fn strings(address: u64) -> Result<Vec<Vec<u8>>, String> {
    let mut out = Vec::new();
    if address == 0 {
        return Ok(out);
    }
    loop {
        if out.len() == MOST_STRINGS {
            return Err(format!("the list at {address:#x} has more than {MOST_STRINGS} strings"));
        }
        let mut pointer = [0; 8];
        read(address + 8 * out.len() as u64, &mut pointer)?;
        match u64::from_le_bytes(pointer) {
            0 => return Ok(out),
            at => out.push(string(at)?),
        }
    }
}
