// How the library that is preloaded into a program tells the plugin of the program's heap: by system calls that no system
// has. The plugin sees every call before QEMU does; QEMU answers that there is no such call, and nothing else happens.
// This file is part of both.

/// The number of the call, below those that x86-64 sets apart (`__X32_SYSCALL_BIT`), far above any there are.
pub const CALL: i64 = 0x0d6d_6c68;
/// First argument: the allocator gave memory. The others: its address, the bytes asked for, its alignment.
pub const MALLOC: u64 = 1;
/// First argument: memory is given back. The other: its address.
pub const FREE: u64 = 2;
