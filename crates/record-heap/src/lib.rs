//! This library is preloaded into a program that is recorded. It stands before the program's allocator, whichever that
//! is, and reports to the recorder each object that is given out or back. It keeps nothing and allocates nothing.
//!
//! An object is reported when the allocator has returned, and its end before the allocator is called. So if two threads
//! have the same memory one after the other, the end of the first object is reported first. What the allocator itself
//! does in between (zeroing for calloc, copying for realloc, its own records) is outside of any object.

mod next;
mod tell;

use libc::{c_int, c_void, size_t};
use next::{NEXT, early};
use std::ptr::null_mut;
use tell::{free as gone, malloc as given};

/// What malloc's memory is aligned to.
const USUAL: size_t = 16;

/// malloc(3).
///
/// # Safety
/// As malloc(3).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn malloc(bytes: size_t) -> *mut c_void {
    let Some(next) = NEXT.get() else { return early::malloc(bytes) };
    // SAFETY: the caller's.
    let object = unsafe { (next.malloc)(bytes) };
    given(object, bytes, USUAL);
    object
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
    let object = unsafe { (next.calloc)(count, each) };
    given(object, bytes, USUAL);
    object
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
    gone(old);
    // SAFETY: the caller's.
    let object = unsafe { (next.realloc)(old, bytes) };
    given(object, bytes, USUAL);
    if object.is_null() && !old.is_null() && bytes > 0 {
        // It could not be had, and the old one is still there.
        // SAFETY: it is an object of the next allocator's.
        given(old, unsafe { (next.usable)(old) }, USUAL);
    }
    object
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
        gone(object);
        // SAFETY: the caller's.
        unsafe { (next.free)(object) };
    }
}

/// posix_memalign(3).
///
/// # Safety
/// As posix_memalign(3).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn posix_memalign(into: *mut *mut c_void, align: size_t, bytes: size_t) -> c_int {
    let Some(next) = NEXT.get() else { return libc::ENOMEM };
    // SAFETY: the caller's.
    let failed = unsafe { (next.posix_memalign)(into, align, bytes) };
    if failed == 0 {
        // SAFETY: it was written.
        given(unsafe { *into }, bytes, align);
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
    let object = unsafe { (next.aligned_alloc)(align, bytes) };
    given(object, bytes, align);
    object
}

/// memalign(3).
///
/// # Safety
/// As memalign(3).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn memalign(align: size_t, bytes: size_t) -> *mut c_void {
    let Some(next) = NEXT.get() else { return null_mut() };
    // SAFETY: the caller's.
    let object = unsafe { (next.memalign)(align, bytes) };
    given(object, bytes, align);
    object
}
