//! A mosaic: chosen parts of malloc's memory in 2 MB pages, all other anonymous memory in base pages.
//!
//! The stopwatch has glibc's malloc take its whole pool from the heap at its first allocation (tunable `top_pad`), so
//! that the parts can be advised before the program stores to them. Parts are offsets from the first 2 MB boundary in
//! the heap.

use crate::{HUGE, code::mappings};
use libc::c_void;

/// The heap as it was laid out, in bytes and addresses.
#[derive(Default)]
pub struct Pool {
    /// First 2 MB boundary in the heap: what the parts count from.
    pub start: usize,
    /// Whole 2 MB behind it.
    pub bytes: usize,
}

/// Advises the heap: `parts` is a list like `0-200000,400000-800000`, in hexadecimal bytes.
pub fn lay(parts: &str) -> Pool {
    // Malloc takes its pool when it is first asked for memory.
    // SAFETY: an object that is given back.
    unsafe { libc::free(libc::malloc(1)) };
    let Some(heap) = mappings().into_iter().find(|m| m.name == "[heap]") else { return Pool::default() };
    advise(heap.start, heap.end, libc::MADV_NOHUGEPAGE);
    let start = heap.start.next_multiple_of(HUGE);
    let bytes = heap.end.saturating_sub(start) / HUGE * HUGE;
    for part in parts.split(',') {
        let number = |text: &str| usize::from_str_radix(text, 16).ok().filter(|n| n.is_multiple_of(HUGE));
        if let Some((Some(from), Some(to))) = part.split_once('-').map(|(from, to)| (number(from), number(to))) {
            let (from, to) = (from.min(bytes), to.min(bytes));
            advise(start + from, start + to, libc::MADV_HUGEPAGE);
        }
    }
    Pool { start, bytes }
}

fn advise(from: usize, to: usize, advice: i32) {
    if from < to {
        // SAFETY: a part of the heap; this advice does not change its contents.
        unsafe { libc::madvise(from as *mut c_void, to - from, advice) };
    }
}
