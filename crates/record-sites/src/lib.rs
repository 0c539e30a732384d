//! Preloaded into a program that is recorded, this library stands before the program's allocator and before mmap. It
//! reports each request for a large block of memory, with the registers at that moment. So the recorder's plugin can
//! walk the program's stack, outside of the program, and name the memory by the function that asked. Smaller requests
//! are passed on at once. It keeps nothing and allocates nothing.

#[path = "../../record-heap/src/next.rs"]
mod next;
mod report;

use libc::{c_int, c_void, off_t, size_t};
use next::{NEXT, early};
use report::{LARGE, asked, freed, given};
use std::{
    mem::transmute,
    ptr::null_mut,
    sync::atomic::{AtomicPtr, Ordering},
};

/// Does a request for `bytes` by `get`, which returns an object, and reports it if it is large.
macro_rules! reported {
    ($bytes:expr, $get:expr) => {{
        let bytes = $bytes;
        if bytes < LARGE {
            $get
        } else {
            asked(bytes);
            let object = $get;
            given(object, bytes);
            object
        }
    }};
}

/// malloc(3).
///
/// # Safety
/// As malloc(3).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn malloc(bytes: size_t) -> *mut c_void {
    let Some(next) = NEXT.get() else { return early::malloc(bytes) };
    // SAFETY: the caller's.
    unsafe { reported!(bytes, (next.malloc)(bytes)) }
}

/// calloc(3).
///
/// # Safety
/// As calloc(3).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn calloc(count: size_t, each: size_t) -> *mut c_void {
    let bytes = count.saturating_mul(each);
    // Early memory is zero.
    let Some(next) = NEXT.get() else { return early::malloc(bytes) };
    // SAFETY: the caller's.
    unsafe { reported!(bytes, (next.calloc)(count, each)) }
}

/// realloc(3).
///
/// # Safety
/// As realloc(3).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn realloc(old: *mut c_void, bytes: size_t) -> *mut c_void {
    let Some(next) = NEXT.get() else { return early::realloc(old, bytes) };
    if early::holds(old) {
        // SAFETY: malloc takes any size.
        return early::carried(old, unsafe { malloc(bytes) }, bytes);
    }
    // SAFETY: the caller's; it is an object of the next allocator's.
    unsafe {
        let had = if old.is_null() { 0 } else { (next.usable)(old) };
        if had < LARGE && bytes < LARGE {
            return (next.realloc)(old, bytes);
        }
        // Before it is freed: another thread may be given the same memory right after.
        if had >= LARGE {
            freed(old, had);
        }
        if bytes < LARGE {
            return (next.realloc)(old, bytes);
        }
        asked(bytes);
        let object = (next.realloc)(old, bytes);
        if object.is_null() && had >= LARGE {
            // The old block is there still: it has its name again, now of the function that asked for more.
            given(old, had);
        } else {
            given(object, bytes);
        }
        object
    }
}

/// free(3).
///
/// # Safety
/// As free(3).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn free(object: *mut c_void) {
    if object.is_null() || early::holds(object) {
        return;
    }
    if let Some(next) = NEXT.get() {
        // SAFETY: the caller's.
        unsafe {
            let had = (next.usable)(object);
            if had >= LARGE {
                freed(object, had);
            }
            (next.free)(object);
        }
    }
}

/// posix_memalign(3).
///
/// # Safety
/// As posix_memalign(3).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn posix_memalign(into: *mut *mut c_void, align: size_t, bytes: size_t) -> c_int {
    let Some(next) = NEXT.get() else { return libc::ENOMEM };
    if bytes >= LARGE {
        asked(bytes);
    }
    // SAFETY: the caller's.
    let failed = unsafe { (next.posix_memalign)(into, align, bytes) };
    if bytes >= LARGE {
        // SAFETY: without an error it was written.
        given(if failed == 0 { unsafe { *into } } else { null_mut() }, bytes);
    }
    failed
}

/// aligned_alloc(3).
///
/// # Safety
/// As aligned_alloc(3).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aligned_alloc(align: size_t, bytes: size_t) -> *mut c_void {
    let Some(next) = NEXT.get() else { return null_mut() };
    // SAFETY: the caller's.
    unsafe { reported!(bytes, (next.aligned_alloc)(align, bytes)) }
}

/// memalign(3).
///
/// # Safety
/// As memalign(3).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn memalign(align: size_t, bytes: size_t) -> *mut c_void {
    let Some(next) = NEXT.get() else { return null_mut() };
    // SAFETY: the caller's.
    unsafe { reported!(bytes, (next.memalign)(align, bytes)) }
}

type Map = unsafe extern "C" fn(*mut c_void, size_t, c_int, c_int, c_int, off_t) -> *mut c_void;

/// The mmap behind this library, once it was looked for.
static MAP: AtomicPtr<c_void> = AtomicPtr::new(null_mut());

/// mmap(2). Files have names.
///
/// # Safety
/// As mmap(2).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mmap(
    address: *mut c_void,
    bytes: size_t,
    prot: c_int,
    flags: c_int,
    file: c_int,
    offset: off_t,
) -> *mut c_void {
    let mut map = MAP.load(Ordering::Relaxed);
    if map.is_null() {
        // SAFETY: a name that ends with a zero byte.
        map = unsafe { libc::dlsym(libc::RTLD_NEXT, c"mmap".as_ptr()) };
        if map.is_null() {
            // Every C library has one: nothing could be done.
            // SAFETY: it does not return.
            unsafe { libc::abort() };
        }
        MAP.store(map, Ordering::Relaxed);
    }
    let is_anonymous = flags & libc::MAP_ANONYMOUS != 0;
    if is_anonymous {
        asked(bytes);
    }
    // SAFETY: it is what its name says; the caller's.
    let got = unsafe { transmute::<*mut c_void, Map>(map)(address, bytes, prot, flags, file, offset) };
    if is_anonymous {
        given(null_mut(), 0);
    }
    got
}

/// mmap(2) of programs built for large files: the same, with 64-bit addresses.
///
/// # Safety
/// As mmap(2).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mmap64(
    address: *mut c_void,
    bytes: size_t,
    prot: c_int,
    flags: c_int,
    file: c_int,
    offset: off_t,
) -> *mut c_void {
    // SAFETY: the caller's.
    unsafe { mmap(address, bytes, prot, flags, file, offset) }
}
