//! Reports to the recorder, by a system call that does not exist. No registers change but those the calling convention
//! gives up, errno stays as it is, and no memory is touched but the registers' copy on the stack.

#[path = "../../record/src/sites.rs"]
mod sites;

pub use sites::LARGE;

use libc::{c_void, size_t};
use sites::{ASKED, CALL, FREED, GIVEN, REGISTERS};
use std::arch::asm;

/// Reports that `bytes` are asked for here. Always part of its caller: the registers are those of that function.
#[inline(always)]
pub fn asked(bytes: size_t) {
    let mut registers = [0u64; REGISTERS];
    copy(&mut registers);
    call(ASKED, registers.as_ptr() as u64, bytes as u64);
}

/// Reports what the program has been given.
#[inline(always)]
pub fn given(object: *mut c_void, bytes: size_t) {
    call(GIVEN, object as u64, bytes as u64);
}

/// Reports that a large block is freed.
#[inline(always)]
pub fn freed(object: *mut c_void, bytes: size_t) {
    call(FREED, object as u64, bytes as u64);
}

/// rip, rsp, rbp, rbx, r12 to r15.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn copy(into: &mut [u64; REGISTERS]) {
    // SAFETY: it writes eight of them.
    unsafe {
        asm!("lea {here}, [rip]",
            "mov [{into}], {here}", "mov [{into} + 8], rsp", "mov [{into} + 16], rbp", "mov [{into} + 24], rbx",
            "mov [{into} + 32], r12", "mov [{into} + 40], r13", "mov [{into} + 48], r14", "mov [{into} + 56], r15",
            here = out(reg) _, into = in(reg) into.as_mut_ptr(), options(nostack, preserves_flags));
    }
}

/// pc, sp, x19 to x30.
#[cfg(target_arch = "aarch64")]
#[inline(always)]
fn copy(into: &mut [u64; REGISTERS]) {
    // SAFETY: it writes all of them.
    unsafe {
        asm!("adr {here}, .", "mov {sp}, sp", "stp {here}, {sp}, [{into}]",
            "stp x19, x20, [{into}, 16]", "stp x21, x22, [{into}, 32]", "stp x23, x24, [{into}, 48]",
            "stp x25, x26, [{into}, 64]", "stp x27, x28, [{into}, 80]", "stp x29, x30, [{into}, 96]",
            here = out(reg) _, sp = out(reg) _, into = in(reg) into.as_mut_ptr(), options(nostack, preserves_flags));
    }
}

/// pc, sp, s0 to s11.
#[cfg(target_arch = "riscv64")]
#[inline(always)]
fn copy(into: &mut [u64; REGISTERS]) {
    // SAFETY: it writes all of them.
    unsafe {
        asm!("auipc {here}, 0", "sd {here}, 0({into})", "sd sp, 8({into})", "sd s0, 16({into})", "sd s1, 24({into})",
            "sd s2, 32({into})", "sd s3, 40({into})", "sd s4, 48({into})", "sd s5, 56({into})", "sd s6, 64({into})",
            "sd s7, 72({into})", "sd s8, 80({into})", "sd s9, 88({into})", "sd s10, 96({into})", "sd s11, 104({into})",
            here = out(reg) _, into = in(reg) into.as_mut_ptr(), options(nostack, preserves_flags));
    }
}

// No `nomem`: the plugin reads the registers' copy.

#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn call(kind: u64, a: u64, b: u64) {
    // SAFETY: Linux's convention; there is no such call.
    unsafe {
        asm!("syscall", inlateout("rax") CALL => _, in("rdi") kind, in("rsi") a, in("rdx") b,
            lateout("rcx") _, lateout("r11") _, options(nostack));
    }
}

#[cfg(target_arch = "aarch64")]
#[inline(always)]
fn call(kind: u64, a: u64, b: u64) {
    // SAFETY: Linux's convention; there is no such call.
    unsafe {
        asm!("svc 0", in("x8") CALL, inlateout("x0") kind => _, in("x1") a, in("x2") b, options(nostack));
    }
}

#[cfg(target_arch = "riscv64")]
#[inline(always)]
fn call(kind: u64, a: u64, b: u64) {
    // SAFETY: Linux's convention; there is no such call.
    unsafe {
        asm!("ecall", in("a7") CALL, inlateout("a0") kind => _, in("a1") a, in("a2") b, options(nostack));
    }
}
