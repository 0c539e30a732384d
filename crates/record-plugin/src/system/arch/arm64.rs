//! 64-bit Arm: the instructions by which a Linux kernel can be followed from outside, found by their bits (Arm
//! Architecture Reference Manual, C6.2). Also the places where its kernel keeps registers (arch/arm64/kernel/entry.S).

use super::{Found, Load};

/// msr ttbr0_el1 and ttbr1_el1; the register in the low bits.
const LOAD_ROOT: u32 = 0xd518_2000;
const LOAD_KERNEL_ROOT: u32 = 0xd518_2020;
const REGISTER: u32 = 0x1f;
/// The register that reads as zero.
const ZERO: u32 = 31;
/// tlbi: SYS with op1 of 0 (EL1's) and CRn of 8 or 9.
const TLBI: u32 = 0xd508_8000;
const TLBI_MASK: u32 = 0xffff_e000;
/// ldp x29, x9, [x8], #16 and ldr lr, [x8], in `cpu_switch_to`: the next task's stack pointer, and its program counter
/// after it.
const SWITCH: [u32; 2] = [0xa8c1_251d, 0xf940_011e];
/// From the latter's address to the stack pointer.
pub const POINTER_BEFORE: u64 = 8;
/// stp x22, x23, [sp, #S_PC]: `kernel_entry`, when registers have been saved.
const ENTERED: u32 = 0xa910_5ff6;
/// ldp x21, x22, [sp, #S_PC]: `kernel_exit`.
const LEAVES: u32 = 0xa950_5bf5;
/// movz xzr, #0x6d75: the agent's no-operation.
const BELL: u32 = 0xd28d_aebf;
/// svc #0.
pub const SVC: u32 = 0xd400_0001;

/// Where registers lie (arch/arm64/include/asm/ptrace.h, pt_regs), in bytes from x0.
pub mod at {
    pub const X8: u64 = 64;
    pub const PC: u64 = 256;
}
/// pt_regs lie at multiples of this, as the stack pointer does.
pub const ALIGNED: u64 = 16;

/// Numbers of system calls (include/uapi/asm-generic/unistd.h), and x86-64's of the same.
const CALLS: [(u64, u64); 22] = [
    (23, 32),   // dup
    (24, 292),  // dup3
    (25, 72),   // fcntl
    (56, 257),  // openat
    (93, 60),   // exit
    (94, 231),  // exit_group
    (194, 29),  // shmget
    (196, 30),  // shmat
    (197, 67),  // shmdt
    (214, 12),  // brk
    (215, 11),  // munmap
    (216, 25),  // mremap
    (220, 56),  // clone
    (221, 59),  // execve
    (222, 9),   // mmap
    (226, 10),  // mprotect
    (233, 28),  // madvise
    (279, 319), // memfd_create
    (281, 322), // execveat
    (288, 329), // pkey_mprotect
    (435, 435), // clone3
    (437, 437), // openat2
];

/// x86-64's number of a call, if it is one that is followed.
pub fn call(number: u64) -> Option<u64> {
    CALLS.iter().find(|&&(mine, _)| mine == number).map(|&(_, theirs)| theirs)
}

/// Looks at a block's instructions.
pub fn look(instructions: &[&[u8]]) -> Found {
    let mut found = Found::default();
    let word = |i: usize| instructions.get(i).and_then(|b| Some(u32::from_le_bytes((*b).try_into().ok()?)));
    for i in 0..instructions.len() {
        let Some(bits) = word(i) else { continue };
        let register = Some(bits & REGISTER).filter(|&r| r != ZERO).map(|r| r as u8);
        match bits {
            _ if bits & !REGISTER == LOAD_ROOT => found.loads = Some(Load::Root(register)),
            _ if bits & !REGISTER == LOAD_KERNEL_ROOT => found.loads = Some(Load::KernelRoot(register)),
            _ if bits & TLBI_MASK == TLBI => found.drops = true,
            ENTERED => found.entered = Some(i),
            LEAVES => found.leaves = Some(i),
            BELL if i + 1 < instructions.len() => found.rings = Some(i + 1),
            _ if bits == SWITCH[0] && word(i + 1) == Some(SWITCH[1]) => found.switches = Some(i + 1),
            _ => {}
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(words: &[u32]) -> Found {
        let bytes: Vec<[u8; 4]> = words.iter().map(|w| w.to_le_bytes()).collect();
        look(&bytes.iter().map(|b| &b[..]).collect::<Vec<_>>())
    }

    #[test]
    fn what_tells_of_the_kernel_is_found() {
        const NOP: u32 = 0xd503_201f;
        assert_eq!(found(&[NOP, LOAD_ROOT | 2]).loads, Some(Load::Root(Some(2))));
        assert_eq!(found(&[LOAD_KERNEL_ROOT | 1]).loads, Some(Load::KernelRoot(Some(1))));
        assert_eq!(found(&[LOAD_ROOT | 31]).loads, Some(Load::Root(None)), "nothing");
        // tlbi vmalle1is; mrs x0, ttbr0_el1.
        assert!(found(&[0xd508_831f]).drops && found(&[0xd538_2000]) == Found::default());
        assert_eq!(found(&[NOP, SWITCH[0], SWITCH[1]]).switches, Some(2));
        assert_eq!((found(&[ENTERED]).entered, found(&[NOP, LEAVES]).leaves), (Some(0), Some(1)));
        assert_eq!((found(&[BELL, NOP]).rings, found(&[BELL]).rings), (Some(1), None));
        assert_eq!((call(222), call(172)), (Some(9), None), "mmap, getpid");
    }
}
