//! A mosaic: chosen parts of a program's anonymous memory in 2 MB pages, all other anonymous memory in base pages.
//!
//! Parts are offsets in a *pool*. The pool is the memory of all these mappings, one behind the other in the order in
//! which the program makes them. Each counts in whole blocks of 2 MB from its first 2 MB boundary.
//!
//! ```text
//! mappings   |  heap          |      | first mapping of 5 MB |        | second |
//! blocks       |  0  |  1  |           |  2  |  3  |(4)               |  5  |
//! ```
//!
//! A mapping takes as many blocks as its length rounded up, so that the pool is the same whatever addresses the
//! mappings get. A last block that does not fit (4 above) has no page. The stopwatch has glibc's malloc take its whole
//! heap at its first allocation (tunable `top_pad`). So the heap can be advised before the program stores to it.

use crate::{
    advice::{HUGE, LEAST, advise},
    code::mappings,
};
use libc::{c_int, c_void};
use std::{
    ffi::CString,
    io::{Cursor, Write},
    sync::OnceLock,
    sync::atomic::{AtomicUsize, Ordering},
};

/// Parts with 2 MB pages, as offsets in the pool; None where the pool is only reported.
static PARTS: OnceLock<Option<Vec<(usize, usize)>>> = OnceLock::new();
/// Where the next mapping begins in the pool, in bytes.
static NEXT: AtomicUsize = AtomicUsize::new(0);
/// Where the heap begins; 0 where there is none.
static HEAP: AtomicUsize = AtomicUsize::new(0);
/// The file that mappings are reported in, and the process whose they are.
static REPORT: OnceLock<(CString, u32)> = OnceLock::new();

/// Lays out the heap, and all that is mapped after. `parts` is a list like `0-200000,400000-800000`, in hexadecimal
/// bytes; None leaves the pages as they are. Mappings are added to the file `report`.
pub fn begin(parts: Option<&str>, report: Option<CString>) {
    let number = |text: &str| usize::from_str_radix(text, 16).ok().filter(|n| n.is_multiple_of(HUGE));
    let part = |text: &str| {
        let (from, to) = text.split_once('-')?;
        Some((number(from)?, number(to)?))
    };
    let _ = PARTS.set(parts.map(|parts| parts.split(',').filter_map(part).collect()));
    if let Some(report) = report {
        let _ = REPORT.set((report, std::process::id()));
    }
    if let Some((start, end)) = heap() {
        HEAP.store(start, Ordering::Relaxed);
        place(start as *mut c_void, end - start);
    }
}

/// The mapping that malloc's first memory lies in: glibc's heap. A recorded program may have no room for a large heap
/// at its program break. Then glibc maps the heap elsewhere by a call that this library does not see.
fn heap() -> Option<(usize, usize)> {
    // Malloc takes its heap when it is first asked for memory.
    // SAFETY: an object that is given back.
    let first = unsafe {
        let object = libc::malloc(1);
        libc::free(object);
        object as usize
    };
    mappings().into_iter().find(|m| m.start <= first && first < m.end).map(|m| (m.start, m.end))
}

/// A mapping of the program's own is the next of the pool. Takes no memory: an allocator may be the one who maps.
pub fn place(mapped: *mut c_void, bytes: usize) {
    let parts = PARTS.get().and_then(Option::as_ref);
    if parts.is_some() && bytes >= LEAST {
        advise(mapped, bytes, libc::MADV_NOHUGEPAGE);
    }
    if bytes < HUGE {
        return;
    }
    let start = mapped as usize;
    let first = start.next_multiple_of(HUGE);
    let whole = (start + bytes).saturating_sub(first) / HUGE * HUGE;
    let offset = NEXT.fetch_add(bytes.next_multiple_of(HUGE), Ordering::Relaxed);
    for &(from, to) in parts.into_iter().flatten() {
        let from = from.saturating_sub(offset).min(whole);
        let to = to.saturating_sub(offset).min(whole);
        if from < to {
            advise((first + from) as *mut c_void, to - from, libc::MADV_HUGEPAGE);
        }
    }
    tell(offset, first, whole);
}

/// The program ends: its heap was as large as it is now, for malloc was told to give none of it back.
pub fn end() {
    let start = HEAP.load(Ordering::Relaxed);
    // SAFETY: a question.
    let end = unsafe { libc::sbrk(0) } as usize;
    if start != 0 && start < end {
        write(format_args!("heap_bytes {}", end - start));
    }
}

fn tell(offset: usize, first: usize, whole: usize) {
    write(format_args!("segment_{offset:x} {first:x}-{:x}", first + whole));
}

/// Adds a line to the report. A report that cannot be written is the stopwatch's loss, not the program's.
fn write(text: std::fmt::Arguments) {
    let Some((path, _)) = REPORT.get().filter(|(_, of)| *of == std::process::id()) else { return };
    let mut line = Cursor::new([0u8; 96]);
    if writeln!(line, "{text}").is_err() {
        return;
    }
    let flags: c_int = libc::O_WRONLY | libc::O_APPEND | libc::O_CREAT | libc::O_CLOEXEC;
    // SAFETY: errno is this thread's; a path and a buffer of ours, and a descriptor that is closed again.
    unsafe {
        let before = *libc::__errno_location();
        let file = libc::open(path.as_ptr(), flags, 0o600);
        if file >= 0 {
            libc::write(file, line.get_ref().as_ptr().cast(), line.position() as usize);
            libc::close(file);
        }
        *libc::__errno_location() = before;
    }
}
