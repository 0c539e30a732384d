//! Preloaded into a program under the stopwatch (`mmulab try`), this library gives the program's memory other page
//! sizes.
//!
//! It does so as a program of this user could do itself, by madvise and mremap, and nothing of it reaches other
//! programs. `MMULAB_TRY` is a list of these words, separated by commas:
//!
//! - `anon` advises huge pages for anonymous memory that the program maps;
//! - `hugetlb` takes these mappings from the pool of huge pages while it has some;
//! - `code` moves the program's code onto anonymous huge pages, `code-hugetlb` onto pages of the pool, and `code-tmpfs`
//!   onto huge pages of a file in memory;
//! - `mosaic` lays out all anonymous memory as `MMULAB_TRY_HUGE` says;
//! - `pool` only reports where that memory is.
//!
//! Memory of glibc's malloc is glibc's to advise: the stopwatch sets its tunable. `MMULAB_TRY_REPORT` names a directory
//! in which a file per process says that the library was there, and what it did.

mod advice;
mod code;
mod copy;
mod mosaic;

use advice::{HUGE, LEAST, advise};
use copy::Memory;
use libc::{c_int, c_void, off64_t, size_t};
use std::{
    ffi::CString,
    fmt::Write as _,
    sync::atomic::{AtomicU8, Ordering},
};

/// Advise huge pages for anonymous mappings.
const ANON: u8 = 1;
/// Take anonymous mappings from the pool.
const HUGETLB: u8 = 2;
/// Take anonymous mappings into the pool of a mosaic.
const MOSAIC: u8 = 4;
/// Set once by [`begin`], before the program runs; a mapping made earlier is left alone.
static DO: AtomicU8 = AtomicU8::new(0);

/// A mapping as the program asks for it, with the advice or the pool added.
///
/// # Safety
/// As mmap(2).
unsafe fn map(
    at: *mut c_void,
    bytes: size_t,
    rights: c_int,
    flags: c_int,
    file: c_int,
    offset: off64_t,
) -> *mut c_void {
    let what = DO.load(Ordering::Relaxed);
    let plain = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // Stacks keep their pages: one 2 MB page for each thread is what nobody asked for. Memory without rights is
    // advised, for allocators reserve it so and give it rights later; pages of the pool would be taken for good.
    let ours = flags & plain == plain && flags & (libc::MAP_STACK | libc::MAP_GROWSDOWN) == 0;
    // SAFETY: the caller's.
    let call =
        |flags: c_int| unsafe { libc::syscall(libc::SYS_mmap, at, bytes, rights, flags, file, offset) } as *mut c_void;
    let whole = bytes >= HUGE && bytes.is_multiple_of(HUGE) && rights != libc::PROT_NONE;
    if ours && whole && what & HUGETLB != 0 && flags & libc::MAP_FIXED == 0 {
        let pooled = call(flags | libc::MAP_HUGETLB);
        if pooled != libc::MAP_FAILED {
            return pooled;
        }
    }
    let mapped = call(flags);
    if ours && mapped != libc::MAP_FAILED {
        if what & MOSAIC != 0 {
            mosaic::place(mapped, bytes);
        } else if bytes >= LEAST && what & ANON != 0 {
            advise(mapped, bytes, libc::MADV_HUGEPAGE);
        }
    }
    mapped
}

/// mmap(2).
///
/// # Safety
/// As mmap(2).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mmap(
    at: *mut c_void,
    bytes: size_t,
    rights: c_int,
    flags: c_int,
    file: c_int,
    offset: off64_t,
) -> *mut c_void {
    // SAFETY: the caller's.
    unsafe { map(at, bytes, rights, flags, file, offset) }
}

/// mmap64(3).
///
/// # Safety
/// As mmap(2).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mmap64(
    at: *mut c_void,
    bytes: size_t,
    rights: c_int,
    flags: c_int,
    file: c_int,
    offset: off64_t,
) -> *mut c_void {
    // SAFETY: the caller's.
    unsafe { map(at, bytes, rights, flags, file, offset) }
}

#[used]
#[unsafe(link_section = ".init_array")]
static BEGIN: extern "C" fn() = begin;

#[used]
#[unsafe(link_section = ".fini_array")]
static END: extern "C" fn() = end;

/// Runs when the program ends by itself.
extern "C" fn end() {
    if DO.load(Ordering::Relaxed) & MOSAIC != 0 {
        mosaic::end();
    }
}

/// Runs before the program's own code.
extern "C" fn begin() {
    let words = std::env::var("MMULAB_TRY").unwrap_or_default();
    let what = words.split(',').fold(0, |all, word| {
        all | match word {
            "anon" => ANON,
            "hugetlb" => HUGETLB,
            "mosaic" | "pool" => MOSAIC,
            _ => 0,
        }
    });
    let kind = words.split(',').find_map(|word| match word {
        "code" => Some(Memory::Anonymous),
        "code-hugetlb" => Some(Memory::Pool),
        "code-tmpfs" => Some(Memory::Tmpfs),
        _ => None,
    });
    let moved = kind.map(code::move_code).unwrap_or_default();
    if what & ANON != 0 {
        for one in code::mappings().iter().filter(|m| m.name == "[heap]") {
            advise(one.start as *mut c_void, one.bytes(), libc::MADV_HUGEPAGE);
        }
    }
    let report = std::env::var("MMULAB_TRY_REPORT").ok().map(|path| format!("{path}/{}", std::process::id()));
    if let Some(report) = &report {
        let mut text = String::new();
        let program = std::fs::read_link("/proc/self/exe").unwrap_or_default();
        let _ = writeln!(text, "program {}", program.display());
        let _ = writeln!(text, "code_bytes {}\ncode_moved {}\ncode_huge {}", moved.code, moved.moved, moved.huge);
        for one in &moved.texts {
            let _ = writeln!(text, "{}", one.line());
        }
        // A directory that is gone is the stopwatch's loss, not the program's.
        let _ = std::fs::write(report, text);
    }
    if what & MOSAIC != 0 {
        let parts = std::env::var("MMULAB_TRY_HUGE").ok();
        mosaic::begin(parts.as_deref(), report.and_then(|path| CString::new(path).ok()));
    }
    DO.store(what, Ordering::Relaxed);
}
