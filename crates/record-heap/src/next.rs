//! The allocator behind this library, and what serves the program while that is looked for.

use libc::{c_int, c_void, size_t};
use std::{
    ffi::CStr,
    ptr::null_mut,
    sync::atomic::{AtomicBool, AtomicPtr, Ordering},
};

type Alloc = unsafe extern "C" fn(size_t) -> *mut c_void;
type Aligned = unsafe extern "C" fn(size_t, size_t) -> *mut c_void;

/// The functions of the allocator that the program would have had.
#[derive(Clone, Copy)]
pub struct Functions {
    pub malloc: Alloc,
    pub calloc: Aligned,
    pub realloc: unsafe extern "C" fn(*mut c_void, size_t) -> *mut c_void,
    pub free: unsafe extern "C" fn(*mut c_void),
    pub posix_memalign: unsafe extern "C" fn(*mut *mut c_void, size_t, size_t) -> c_int,
    pub aligned_alloc: Aligned,
    pub memalign: Aligned,
    pub usable: unsafe extern "C" fn(*mut c_void) -> size_t,
}

const COUNT: usize = 8;
const NAMES: [&CStr; COUNT] = [
    c"malloc",
    c"calloc",
    c"realloc",
    c"free",
    c"posix_memalign",
    c"aligned_alloc",
    c"memalign",
    c"malloc_usable_size",
];

/// The functions by [`NAMES`], once [`Next::found`].
pub struct Next {
    functions: [AtomicPtr<c_void>; COUNT],
    found: AtomicBool,
    looking: AtomicBool,
}

/// The next allocator.
pub static NEXT: Next = Next {
    functions: [const { AtomicPtr::new(null_mut()) }; COUNT],
    found: AtomicBool::new(false),
    looking: AtomicBool::new(false),
};

impl Next {
    /// The functions; none while they are looked for, which may itself need memory. A program allocates before it has a
    /// second thread, so nobody else waits.
    #[inline]
    pub fn get(&self) -> Option<Functions> {
        if !self.found.load(Ordering::Acquire) && !self.find() {
            return None;
        }
        let at = |index: usize| self.functions[index].load(Ordering::Relaxed);
        // SAFETY: all are there, and are what their names say.
        Some(unsafe {
            Functions {
                malloc: std::mem::transmute::<*mut c_void, Alloc>(at(0)),
                calloc: std::mem::transmute::<*mut c_void, Aligned>(at(1)),
                realloc: std::mem::transmute::<*mut c_void, unsafe extern "C" fn(*mut c_void, size_t) -> *mut c_void>(
                    at(2),
                ),
                free: std::mem::transmute::<*mut c_void, unsafe extern "C" fn(*mut c_void)>(at(3)),
                posix_memalign: std::mem::transmute::<
                    *mut c_void,
                    unsafe extern "C" fn(*mut *mut c_void, size_t, size_t) -> c_int,
                >(at(4)),
                aligned_alloc: std::mem::transmute::<*mut c_void, Aligned>(at(5)),
                memalign: std::mem::transmute::<*mut c_void, Aligned>(at(6)),
                usable: std::mem::transmute::<*mut c_void, unsafe extern "C" fn(*mut c_void) -> size_t>(at(7)),
            }
        })
    }

    #[cold]
    fn find(&self) -> bool {
        if self.looking.swap(true, Ordering::AcqRel) {
            return self.found.load(Ordering::Acquire);
        }
        for (name, function) in NAMES.iter().zip(&self.functions) {
            // SAFETY: a name that ends with a zero byte.
            let at = unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) };
            if at.is_null() {
                // No allocator has all but one of these: there is none, and nothing that could be done.
                // SAFETY: it does not return.
                unsafe { libc::abort() };
            }
            function.store(at, Ordering::Relaxed);
        }
        self.found.store(true, Ordering::Release);
        true
    }
}

/// Memory for those who look for the allocator: glibc before 2.34 makes room for an error message. It is never given
/// back.
pub mod early {
    use super::*;
    use std::{cell::UnsafeCell, sync::atomic::AtomicUsize};

    const BYTES: usize = 16 * 1024;

    #[repr(align(16))]
    struct Room(UnsafeCell<[u8; BYTES]>);
    // SAFETY: parts of it are given out once.
    unsafe impl Sync for Room {}

    static ROOM: Room = Room(UnsafeCell::new([0; BYTES]));
    static USED: AtomicUsize = AtomicUsize::new(0);

    fn start() -> usize {
        ROOM.0.get() as usize
    }

    /// Zeroed memory, as long as there is some.
    pub fn malloc(bytes: size_t) -> *mut c_void {
        let rounded = bytes.saturating_add(15) & !15;
        let at = USED.fetch_add(rounded.min(BYTES), Ordering::Relaxed);
        if at + rounded.min(BYTES) > BYTES || rounded > BYTES {
            return null_mut();
        }
        // SAFETY: inside the room.
        unsafe { ROOM.0.get().cast::<u8>().add(at).cast() }
    }

    /// Whether it was given out here.
    pub fn holds(object: *mut c_void) -> bool {
        (object as usize).wrapping_sub(start()) < BYTES
    }

    /// A larger one.
    pub fn realloc(old: *mut c_void, bytes: size_t) -> *mut c_void {
        carried(old, malloc(bytes), bytes)
    }

    /// A new object of `bytes`, with the contents that an old one may hold: up to the end of the room at most.
    pub fn carried(old: *mut c_void, object: *mut c_void, bytes: size_t) -> *mut c_void {
        if holds(old) && !object.is_null() {
            let most = BYTES - (old as usize - start());
            // SAFETY: inside the room, and inside the new one.
            unsafe { std::ptr::copy(old.cast::<u8>(), object.cast::<u8>(), bytes.min(most)) };
        }
        object
    }
}
