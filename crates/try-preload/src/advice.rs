//! Advice to the kernel of which pages a mapping is to have, and from which length on one is advised or moved.

use libc::{c_int, c_void, size_t};

/// Bytes of a huge page: mappings that have none keep their base pages.
pub const HUGE: usize = 2 << 20;
/// Least length of a mapping that is advised: mTHP sizes begin below 2 MB.
pub const LEAST: size_t = 64 << 10;

/// Advises huge pages or base pages, and leaves errno as it was: the program does not know of this call.
pub fn advise(at: *mut c_void, bytes: size_t, advice: c_int) {
    // SAFETY: errno is this thread's; the range is a mapping that was just made, and advice does not change its
    // contents.
    unsafe {
        let before = *libc::__errno_location();
        libc::madvise(at, bytes, advice);
        *libc::__errno_location() = before;
    }
}
