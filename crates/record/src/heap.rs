//! Heap messages: system calls with an unused number, by which the preloaded heap library passes every malloc and
//! free to the QEMU plugin. The plugin sees the call first; QEMU then answers that the call does not exist, without
//! other effect. The library and the plugin are built from these same constants.

/// The number of the call, below those that x86-64 sets apart (`__X32_SYSCALL_BIT`), far above any there are.
pub const CALL: i64 = 0x0d6d_6c68;
/// First argument: the allocator gave memory. The others: its address, the bytes asked for, its alignment.
pub const MALLOC: u64 = 1;
/// First argument: memory is given back. The other: its address.
pub const FREE: u64 = 2;
