//! Messages about allocation sites: system calls with an unused number, by which the preloaded library says who asks
//! for a large block of memory. The plugin sees the call first; QEMU then answers that the call does not exist, without
//! other effect. The library and the plugin are built from these same constants.

/// The number of the call: the one above that of [`crate::heap`].
pub const CALL: i64 = 0x0d6d_6c69;
/// First argument: the program asks for memory. The others: the address of the registers that its stack is walked from,
/// and the bytes asked for.
pub const ASKED: u64 = 1;
/// First argument: the program has what it asked for last. The others: its address and its bytes; 0 if a mapping was
/// asked for, or if there is none.
pub const GIVEN: u64 = 2;
/// First argument: a large block is freed. The others: its address and its bytes.
pub const FREED: u64 = 3;
/// Blocks of fewer bytes are left alone: glibc's malloc maps larger ones (DEFAULT_MMAP_THRESHOLD, malloc/malloc.c).
pub const LARGE: usize = 128 * 1024;
/// Registers that the library hands over: the place in its code, the stack pointer, and those that functions keep.
pub const REGISTERS: usize = 14;
