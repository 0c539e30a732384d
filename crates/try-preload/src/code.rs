//! The program's code, moved onto anonymous huge pages at its own addresses.
//!
//! The kernel gives file pages of most file systems base pages. A copy of the code in anonymous memory can have huge
//! ones. It is made beside the code, and mremap then puts it in the code's place in one step. The bytes at each address
//! stay the same, so that code may even be running there. Only whole aligned 2 MB of a mapping are moved.

use crate::advice::HUGE;
use libc::c_void;
use std::ptr::null_mut;

/// `MADV_COLLAPSE` (linux/mman.h, from Linux 6.1 on).
const MADV_COLLAPSE: i32 = 25;

/// One line of /proc/self/maps.
pub struct Mapping {
    pub start: usize,
    pub end: usize,
    pub rights: String,
    pub name: String,
}

impl Mapping {
    /// Its length.
    pub fn bytes(&self) -> usize {
        self.end - self.start
    }

    fn read(line: &str) -> Option<Self> {
        let mut words = line.split_whitespace();
        let (start, end) = words.next()?.split_once('-')?;
        let rights = words.next()?.to_owned();
        let name = words.skip(3).collect::<Vec<_>>().join(" ");
        let number = |text| usize::from_str_radix(text, 16).ok();
        Some(Self { start: number(start)?, end: number(end)?, rights, name })
    }
}

/// The mappings of this process.
pub fn mappings() -> Vec<Mapping> {
    let text = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    text.lines().filter_map(Mapping::read).collect()
}

/// What became of the code, in bytes.
#[derive(Default)]
pub struct Moved {
    /// All code mapped from files.
    pub code: usize,
    /// Code in whole aligned 2 MB, now in anonymous memory.
    pub moved: usize,
    /// Of that, mapped by huge pages.
    pub huge: usize,
}

/// Moves all code of the program and its libraries.
pub fn move_code() -> Moved {
    let mut all = Moved::default();
    let mut places = Vec::new();
    for one in mappings().into_iter().filter(|m| m.rights == "r-xp" && m.name.starts_with('/')) {
        all.code += one.bytes();
        let (start, end) = (one.start.next_multiple_of(HUGE), one.end / HUGE * HUGE);
        if start < end && replace(start, end - start).is_some() {
            all.moved += end - start;
            places.push((start, end));
        }
    }
    all.huge = huge_bytes(&places);
    all
}

/// Replaces aligned code by a copy on huge pages. None where the system refuses: the code is then as it was.
fn replace(start: usize, bytes: usize) -> Option<()> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    let rights = libc::PROT_READ | libc::PROT_WRITE;
    let room = bytes + HUGE;
    // SAFETY: new memory; the code is readable for `bytes`; the copy replaces it at once and with the same bytes.
    unsafe {
        let raw = libc::syscall(libc::SYS_mmap, null_mut::<c_void>(), room, rights, flags, -1, 0) as *mut c_void;
        if raw == libc::MAP_FAILED {
            return None;
        }
        let copy = (raw as usize).next_multiple_of(HUGE) as *mut c_void;
        libc::madvise(copy, bytes, libc::MADV_HUGEPAGE);
        std::ptr::copy_nonoverlapping(start as *const u8, copy.cast::<u8>(), bytes);
        // Where the system's setting gives no huge page at the fault, this still may.
        libc::madvise(copy, bytes, MADV_COLLAPSE);
        let ready = libc::mprotect(copy, bytes, libc::PROT_READ | libc::PROT_EXEC) == 0;
        let to = start as *mut c_void;
        let done = ready
            && libc::mremap(copy, bytes, bytes, libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED, to) != libc::MAP_FAILED;
        // What is left of the room: the ends around the copy, or all of it.
        let (head, tail) = (copy as usize - raw as usize, raw as usize + room - (copy as usize + bytes));
        if head > 0 {
            libc::munmap(raw, head);
        }
        if !done {
            libc::munmap(copy, bytes);
        }
        if tail > 0 {
            libc::munmap((copy as usize + bytes) as *mut c_void, tail);
        }
        done.then_some(())
    }
}

/// `AnonHugePages` of the mappings that begin within these places.
fn huge_bytes(places: &[(usize, usize)]) -> usize {
    let text = std::fs::read_to_string("/proc/self/smaps").unwrap_or_default();
    let (mut inside, mut total) = (false, 0);
    for line in text.lines() {
        if let Some(mapping) = Mapping::read(line) {
            inside = places.iter().any(|&(start, end)| mapping.start < end && mapping.end > start);
        } else if inside && line.starts_with("AnonHugePages:") {
            let kilobytes: usize = line.split_whitespace().nth(1).and_then(|n| n.parse().ok()).unwrap_or(0);
            total += kilobytes << 10;
        }
    }
    total
}
