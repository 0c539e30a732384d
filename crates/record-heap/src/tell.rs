//! Reports to the recorder by a system call with a number that no system call has. Only the registers that the calling
//! convention gives up change, errno stays as it is, and no memory is touched.

#[path = "../../record/src/heap.rs"]
mod heap;

use heap::{CALL, FREE, MALLOC};
use libc::{c_void, size_t};
use std::arch::asm;

/// Tells of a new object; of none if it could not be had.
#[inline]
pub fn malloc(object: *mut c_void, bytes: size_t, align: size_t) {
    if !object.is_null() {
        call(MALLOC, object as u64, bytes as u64, align as u64);
    }
}

/// Tells that an object is given back.
#[inline]
pub fn free(object: *mut c_void) {
    if !object.is_null() {
        call(FREE, object as u64, 0, 0);
    }
}

#[cfg(target_arch = "x86_64")]
#[inline]
fn call(kind: u64, a: u64, b: u64, c: u64) {
    // SAFETY: Linux's convention; there is no such call.
    unsafe {
        asm!("syscall", inlateout("rax") CALL => _, in("rdi") kind, in("rsi") a, in("rdx") b, in("r10") c,
            lateout("rcx") _, lateout("r11") _, options(nostack));
    }
}

#[cfg(target_arch = "aarch64")]
#[inline]
fn call(kind: u64, a: u64, b: u64, c: u64) {
    // SAFETY: Linux's convention; there is no such call.
    unsafe {
        asm!("svc 0", in("x8") CALL, inlateout("x0") kind => _, in("x1") a, in("x2") b, in("x3") c, options(nostack));
    }
}

#[cfg(target_arch = "riscv64")]
#[inline]
fn call(kind: u64, a: u64, b: u64, c: u64) {
    // SAFETY: Linux's convention; there is no such call.
    unsafe {
        asm!("ecall", in("a7") CALL, inlateout("a0") kind => _, in("a1") a, in("a2") b, in("a3") c, options(nostack));
    }
}
