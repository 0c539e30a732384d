//! x86-64: instructions by which a Linux kernel for x86-64 can be followed from outside, found by their bytes. None of
//! it depends on where a kernel has its code or how it lays out its structures.

use super::{Found, Load};

/// The agent's no-operation before that store.
const BELL: [u8; 8] = [0x0f, 0x1f, 0x84, 0, 0x31, 0x75, 0x6d, 0x6d];
/// Where registers lie (arch/x86/include/uapi/asm/ptrace.h, pt_regs), in bytes from %r15's.
pub mod at {
    pub const R10: u64 = 56;
    pub const R9: u64 = 64;
    pub const R8: u64 = 72;
    pub const RAX: u64 = 80;
    pub const RDX: u64 = 96;
    pub const RSI: u64 = 104;
    pub const RDI: u64 = 112;
    pub const ORIG_RAX: u64 = 120;
    pub const CS: u64 = 136;
}
/// The privilege level that a code segment says: 3 is a program's.
pub const PROGRAMS: u64 = 3;

/// push %rax, %rdi, %rsi, %rdx, %rcx, -ENOSYS: arch/x86/entry/calling.h, PUSH_AND_CLEAR_REGS of a system call.
const PUSHES: [&[u8]; 6] = [&[0x50], &[0x57], &[0x56], &[0x52], &[0x51], &[0x6a, 0xda]];
/// push %r15.
const LAST_PUSH: &[u8] = &[0x41, 0x57];
/// pop %r15, %r14, %r13, %r12, %rbp, %rbx: POP_REGS. Functions pop them in the opposite order.
const POPS: [&[u8]; 6] = [&[0x41, 0x5f], &[0x41, 0x5e], &[0x41, 0x5d], &[0x41, 0x5c], &[0x5d], &[0x5b]];

/// Looks at a block's instructions.
pub fn look(instructions: &[&[u8]]) -> Found {
    let mut found = Found::default();
    for (i, bytes) in instructions.iter().enumerate() {
        let rest = &instructions[i..];
        match without_rex(bytes) {
            // mov %reg, %cr3 and %cr4.
            [0x0f, 0x22, modrm] => {
                if modrm & 0xf8 == 0xd8 {
                    found.loads = Some(Load::Root(None));
                }
                found.drops |= modrm & 0xf8 == 0xe0;
            }
            // invlpg: 0f 01 /7 with a memory operand.
            [0x0f, 0x01, modrm, ..] => found.drops |= modrm >> 3 & 7 == 7 && modrm >> 6 != 3,
            _ => {}
        }
        if let [[0x48, 0x89, 0xa7, from @ ..], [0x48, 0x8b, 0xa6, to @ ..], ..] = rest
            && from == to
        {
            found.switches = Some(i + 1);
        }
        if begins_with(rest, &PUSHES) {
            found.entered = rest.iter().position(|b| *b == LAST_PUSH).map(|at| i + at);
        }
        if begins_with(rest, &POPS) {
            found.leaves = Some(i);
        }
        if **bytes == BELL && rest.len() > 1 {
            found.rings = Some(i + 1);
        }
    }
    found
}

fn without_rex(bytes: &[u8]) -> &[u8] {
    match bytes {
        [0x40..=0x4f, rest @ ..] => rest,
        _ => bytes,
    }
}

fn begins_with(instructions: &[&[u8]], wanted: &[&[u8]]) -> bool {
    instructions.len() >= wanted.len() && instructions.iter().zip(wanted).all(|(a, b)| a == b)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_tells_of_the_kernel_is_found() {
        let switch: [&[u8]; 3] = [&[0x55], &[0x48, 0x89, 0xa7, 1, 2, 0, 0], &[0x48, 0x8b, 0xa6, 1, 2, 0, 0]];
        assert_eq!(look(&switch).switches, Some(2));
        let other: [&[u8]; 2] = [&[0x48, 0x89, 0xa7, 1, 2, 0, 0], &[0x48, 0x8b, 0xa6, 9, 2, 0, 0]];
        assert_eq!(look(&other), Found::default());
        let mut entry = vec![&[0x90u8][..]];
        entry.extend(PUSHES);
        entry.extend([&[0x41, 0x50][..], LAST_PUSH, &[0x31, 0xf6]]);
        assert_eq!(look(&entry).entered, Some(8));
        assert_eq!(look(&POPS).leaves, Some(0));
        assert_eq!(look(&[&[0x0f, 0x22, 0xdf]]).loads, Some(Load::Root(None)));
        assert_eq!(look(&[&[0x41, 0x0f, 0x22, 0xdc]]).loads, Some(Load::Root(None)));
        assert!(look(&[&[0x0f, 0x01, 0x3f]]).drops && !look(&[&[0x0f, 0x01, 0xf8]]).drops, "the latter is swapgs");
        assert_eq!(look(&[&BELL, &[0x48, 0x89, 0x00]]).rings, Some(1));
    }
}
