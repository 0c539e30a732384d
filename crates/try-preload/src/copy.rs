//! A copy of code on huge pages, put in the code's place.
//!
//! ```text
//! Anonymous   new memory, advised or collapsed --copy--> mremap over the code
//! Pool        new memory of the hugetlb pool   --copy--> mremap over the code   (Linux 5.16 and later)
//! Tmpfs       a file without a name, collapsed --copy--> mmap of it over the code
//! ```
//!
//! Each takes the code's place in one step. The bytes at each address stay the same, so that code may even be running
//! there.

use crate::advice::HUGE;
use libc::{c_int, c_void};

/// `MADV_COLLAPSE` (linux/mman.h, from Linux 6.1 on).
const MADV_COLLAPSE: c_int = 25;

/// The kind of memory that code is copied to.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Memory {
    /// Anonymous memory, with transparent huge pages.
    Anonymous,
    /// Anonymous memory of the hugetlb pool.
    Pool,
    /// A file of the kernel's own tmpfs.
    Tmpfs,
}

/// Replaces aligned code by a copy on huge pages, and says of each 2 MB whether one huge page maps them. None where the
/// system refuses: the code is then as it was.
pub fn replace(start: usize, bytes: usize, to: Memory) -> Option<Vec<bool>> {
    match to {
        Memory::Anonymous => replace_by_anonymous(start, bytes),
        Memory::Pool => replace_by_pool(start, bytes),
        Memory::Tmpfs => replace_by_file(start, bytes),
    }
}

fn replace_by_anonymous(start: usize, bytes: usize) -> Option<Vec<bool>> {
    let mut room = Room::map(bytes + HUGE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1)?;
    let copy = room.start.next_multiple_of(HUGE) as *mut c_void;
    // SAFETY: the copy lies within the room, which is new; the code is readable for `bytes`.
    let huge = unsafe {
        libc::madvise(copy, bytes, libc::MADV_HUGEPAGE);
        let blocks = (0..bytes / HUGE).map(|at| copy.cast::<u8>().add(at * HUGE));
        let at_once: Vec<bool> = blocks.clone().map(|block| comes_whole(block)).collect();
        std::ptr::copy_nonoverlapping(start as *const u8, copy.cast::<u8>(), bytes);
        // Where the system's setting gives no huge page at the fault, this still may.
        blocks.zip(at_once).map(|(block, whole)| collapse(block) || whole).collect()
    };
    room.put(copy, start, bytes).then_some(huge)
}

fn replace_by_pool(start: usize, bytes: usize) -> Option<Vec<bool>> {
    // The pool sets these pages aside at once, or refuses.
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_HUGETLB | libc::MAP_HUGE_2MB;
    let mut room = Room::map(bytes, flags, -1)?;
    let copy = room.start as *mut c_void;
    // SAFETY: the room is new; the code is readable for `bytes`.
    unsafe { std::ptr::copy_nonoverlapping(start as *const u8, copy.cast::<u8>(), bytes) };
    room.put(copy, start, bytes).then(|| vec![true; bytes / HUGE])
}

fn replace_by_file(start: usize, bytes: usize) -> Option<Vec<bool>> {
    // SAFETY: the name is a string; the file is ours until it is closed, and its mappings keep what they need of it.
    let file = unsafe { libc::memfd_create(c"mmulab-code".as_ptr(), libc::MFD_CLOEXEC) };
    if file < 0 {
        return None;
    }
    // SAFETY: as above.
    let found =
        (unsafe { libc::ftruncate(file, bytes as libc::off_t) } == 0).then(|| replace_by(file, start, bytes)).flatten();
    // SAFETY: as above.
    unsafe { libc::close(file) };
    found
}

/// Fills an empty file with the code, and maps it in the code's place.
fn replace_by(file: c_int, start: usize, bytes: usize) -> Option<Vec<bool>> {
    let room = Room::map(bytes, libc::MAP_SHARED, file)?;
    let copy = room.start as *mut u8;
    // SAFETY: the room is new; the code is readable for `bytes`.
    unsafe {
        libc::madvise(copy.cast(), bytes, libc::MADV_HUGEPAGE);
        std::ptr::copy_nonoverlapping(start as *const u8, copy, bytes);
    }
    drop(room);
    let rights = libc::PROT_READ | libc::PROT_EXEC;
    let flags = libc::MAP_PRIVATE | libc::MAP_FIXED;
    // SAFETY: the file has the code's bytes, and replaces it at once.
    unsafe { map(start, bytes, rights, flags, file) }?;
    // The place is aligned to 2 MB in memory and in the file, so that a huge page can be mapped whole.
    let blocks = (0..bytes / HUGE).map(|at| (start + at * HUGE) as *mut u8);
    // SAFETY: the range is mapped and readable.
    Some(blocks.map(|block| unsafe { collapse(block) }).collect())
}

/// mmap(2) from the file's beginning, past this library's own. Where the mapping is.
///
/// # Safety
/// As mmap(2).
unsafe fn map(at: usize, bytes: usize, rights: c_int, flags: c_int, file: c_int) -> Option<usize> {
    // The function takes any arguments: what the kernel reads as 64 bits must be as many.
    // SAFETY: the caller's.
    let mapped = unsafe { libc::syscall(libc::SYS_mmap, at, bytes, rights, flags, file, 0usize) };
    (mapped as *mut c_void != libc::MAP_FAILED).then_some(mapped as usize)
}

/// New memory. What was not moved away from it is given back at the end.
struct Room {
    start: usize,
    bytes: usize,
    /// The part that was moved away: first address and length.
    moved: (usize, usize),
}

impl Room {
    /// Maps `bytes` that may be stored to.
    fn map(bytes: usize, flags: c_int, file: c_int) -> Option<Self> {
        // SAFETY: a new mapping wherever the kernel likes.
        let start = unsafe { map(0, bytes, libc::PROT_READ | libc::PROT_WRITE, flags, file) }?;
        Some(Self { start, bytes, moved: (start, 0) })
    }

    /// Puts a finished copy, a part of this memory, in the code's place. False where the system refuses: all is then as
    /// it was.
    fn put(&mut self, copy: *mut c_void, start: usize, bytes: usize) -> bool {
        let flags = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
        // SAFETY: the copy has the code's bytes, and replaces it at once.
        let done = unsafe {
            libc::mprotect(copy, bytes, libc::PROT_READ | libc::PROT_EXEC) == 0
                && libc::mremap(copy, bytes, bytes, flags, start as *mut c_void) != libc::MAP_FAILED
        };
        if done {
            self.moved = (copy as usize, bytes);
        }
        done
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        let (from, bytes) = self.moved;
        let to = from + bytes;
        for (start, end) in [(self.start, from), (to, self.start + self.bytes)] {
            if start < end {
                // SAFETY: this part was mapped by us, and nothing refers to it any more.
                unsafe { libc::munmap(start as *mut c_void, end - start) };
            }
        }
    }
}

/// Whether the kernel has made one huge page of 2 MB of memory.
///
/// # Safety
/// The 2 MB are mapped.
unsafe fn collapse(block: *mut u8) -> bool {
    // SAFETY: the caller's; contents do not change.
    unsafe { libc::madvise(block.cast(), HUGE, MADV_COLLAPSE) == 0 }
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
