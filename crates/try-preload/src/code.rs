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
    /// Where in its file it begins.
    pub offset: usize,
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
        let offset = words.next()?;
        let name = words.skip(2).collect::<Vec<_>>().join(" ");
        let number = |text| usize::from_str_radix(text, 16).ok();
        Some(Self { start: number(start)?, end: number(end)?, rights, offset: number(offset)?, name })
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
    /// Each mapping of code, as it was before.
    pub texts: Vec<Text>,
}

/// A mapping of code, and what was moved of it.
pub struct Text {
    pub mapping: Mapping,
    /// The first address that was moved.
    pub from: usize,
    /// For each 2 MB that were moved, whether one huge page maps them.
    pub huge: Vec<bool>,
}

impl Text {
    /// For the report: addresses, offset in the file, first address moved, pages, and the file. Pages are `H` (huge
    /// page) or `b` (base pages) for each 2 MB moved, or `-` where none was.
    pub fn line(&self) -> String {
        let Mapping { start, end, offset, name, .. } = &self.mapping;
        let mut pages: String = self.huge.iter().map(|&huge| if huge { 'H' } else { 'b' }).collect();
        if pages.is_empty() {
            pages.push('-');
        }
        format!("text_{start:x} {start:x}-{end:x} {offset:x} {:x} {pages} {name}", self.from)
    }
}

/// Moves all code of the program and its libraries.
pub fn move_code() -> Moved {
    let mut all = Moved::default();
    let mut places = Vec::new();
    for mapping in mappings().into_iter().filter(|m| m.rights == "r-xp" && m.name.starts_with('/')) {
        all.code += mapping.bytes();
        let (start, end) = (mapping.start.next_multiple_of(HUGE), mapping.end / HUGE * HUGE);
        let huge = if start < end { replace(start, end - start) } else { None };
        if huge.is_some() {
            all.moved += end - start;
            places.push((start, end));
        }
        all.texts.push(Text { mapping, from: start, huge: huge.unwrap_or_default() });
    }
    all.huge = huge_bytes(&places);
    all
}

/// Replaces aligned code by a copy on huge pages, and says of each 2 MB whether one huge page maps them. None where the
/// system refuses: the code is then as it was.
fn replace(start: usize, bytes: usize) -> Option<Vec<bool>> {
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
        let blocks = (0..bytes / HUGE).map(|at| copy.cast::<u8>().add(at * HUGE));
        let at_once: Vec<bool> = blocks.clone().map(|block| comes_whole(block)).collect();
        std::ptr::copy_nonoverlapping(start as *const u8, copy.cast::<u8>(), bytes);
        // Where the system's setting gives no huge page at the fault, this still may.
        let collapsed = |block: *mut u8| libc::madvise(block.cast(), HUGE, MADV_COLLAPSE) == 0;
        let huge = blocks.zip(at_once).map(|(block, whole)| collapsed(block) || whole).collect();
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
        done.then_some(huge)
    }
}

/// Whether the first store to new memory of 2 MB maps all of it: then a store to its end makes no fault.
///
/// # Safety
/// The 2 MB may be stored to, and were not touched yet.
unsafe fn comes_whole(block: *mut u8) -> bool {
    // SAFETY: the caller's.
    unsafe {
        block.write_volatile(0);
        let before = faults();
        block.add(HUGE - 1).write_volatile(0);
        faults() == before
    }
}

/// Page faults of this thread that read no file.
fn faults() -> i64 {
    // SAFETY: a structure of numbers, which the call fills.
    unsafe {
        let mut used: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_THREAD, &raw mut used);
        used.ru_minflt
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
