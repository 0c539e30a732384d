//! Two chases with other instructions between their loads: do both loads run at once?
//!
//! ```text
//!   load a   N instructions   load b   N instructions   load a ...
//! ```
//!
//! While a load waits for memory, a core goes on until its window (the reorder buffer) is full. Load `b` runs beside
//! load `a` if both are in the window. So the time of a pair doubles where N outgrows the window (Henry Wong,
//! "Measuring Reorder Buffer Capacity", 2013). A window that another hardware thread shares is smaller at some times
//! than at others.

use serde::{Deserialize, Serialize};

/// The kind of instructions between the loads.
///
/// Instructions of several kinds fill the window. Those of one kind alone fill something smaller first: registers for
/// renaming, or the queue of loads or stores.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Between {
    /// In turn two additions, two of vectors, two loads, a store, and a branch that is not taken.
    #[default]
    Mixed,
    /// Additions that set no flags.
    Ints,
    /// Additions of vectors.
    Vectors,
    /// Loads of one line.
    Loads,
    /// Stores to one line.
    Stores,
}

macro_rules! between {
    ($($n:literal)*) => {
        /// The numbers of instructions between loads that can be asked for.
        pub const BETWEEN: &[u64] = &[$($n),*];

        fn follow_with<F: Fill>(heads: &mut [*const usize; 2], steps: u64, between: u64) {
            match between {
                $($n => follow::<F, { $n / 8 }>(heads, steps),)*
                other => unreachable!("{other} instructions: the specification was checked against BETWEEN"),
            }
        }
    };
}

between!(
    16 24 32 40 48 56 64 72 80 88 96 112 128 144 160 176 192 208 224 240 256 272 288 304 320 336 352 368 384 416 448
    512 576 640
);

/// Follows two chases for `steps` loads each, with `between` instructions `of` a kind between loads; they end further
/// on.
pub fn run(heads: &mut [*const usize; 2], steps: u64, of: Between, between: u64) {
    match of {
        Between::Mixed => follow_with::<Mixed>(heads, steps, between),
        Between::Ints => follow_with::<Ints>(heads, steps, between),
        Between::Vectors => follow_with::<Vectors>(heads, steps, between),
        Between::Loads => follow_with::<Loads>(heads, steps, between),
        Between::Stores => follow_with::<Stores>(heads, steps, between),
    }
    std::hint::black_box(heads);
}

#[inline(never)]
fn follow<F: Fill, const EIGHTS: usize>(heads: &mut [*const usize; 2], steps: u64) {
    let [mut a, mut b] = *heads;
    let mut lines = Lines([0; 16]);
    for _ in 0..steps {
        // SAFETY: `chase::link` closed the chases over lines of a region that is still mapped.
        a = unsafe { a.read_volatile() } as *const usize;
        F::fill::<EIGHTS>(&mut lines);
        // SAFETY: as above.
        b = unsafe { b.read_volatile() } as *const usize;
        F::fill::<EIGHTS>(&mut lines);
    }
    *heads = [a, b];
}

/// Memory for the instructions between: one line is loaded, another one stored to.
#[repr(align(128))]
struct Lines([u64; 16]);

/// Eights of instructions that wait for no load of memory.
trait Fill {
    fn fill<const EIGHTS: usize>(lines: &mut Lines);
}

/// A kind of filling: eight instructions, which `assembled!` allows.
macro_rules! eights {
    ($name:ident: $($instruction:literal),* $(,)?) => {
        struct $name;

        impl Fill for $name {
            #[inline(always)]
            fn fill<const EIGHTS: usize>(lines: &mut Lines) {
                // SAFETY: registers, and the lines.
                unsafe { assembled!(EIGHTS, lines, $($instruction),*) }
            }
        }
    };
}

/// Instructions may use rsi (a number above 0), rdi (the lines), rax, rcx, rdx, r8 to r11, and xmm0 to xmm7. Flags say
/// that rsi is above 0.
#[cfg(target_arch = "x86_64")]
macro_rules! assembled {
    ($eights:ident, $lines:ident, $($instruction:literal),*) => {
        std::arch::asm!(
            "test rsi, rsi",
            ".rept {eights}",
            $($instruction,)*
            ".endr",
            eights = const $eights,
            in("rsi") 3u64, in("rdi") $lines.0.as_mut_ptr(),
            out("rax") _, out("rcx") _, out("rdx") _, out("r8") _, out("r9") _, out("r10") _, out("r11") _,
            out("xmm0") _, out("xmm1") _, out("xmm2") _, out("xmm3") _, out("xmm4") _, out("xmm5") _,
            out("xmm6") _, out("xmm7") _,
            options(nostack),
        )
    };
}

/// Instructions may use x1 (a number above 0), x2 (the lines), x9 to x15, and v0 to v7. Flags say that x1 is above 0.
#[cfg(target_arch = "aarch64")]
macro_rules! assembled {
    ($eights:ident, $lines:ident, $($instruction:literal),*) => {
        std::arch::asm!(
            "cmp x1, #0",
            ".rept {eights}",
            $($instruction,)*
            ".endr",
            eights = const $eights,
            in("x1") 3u64, in("x2") $lines.0.as_mut_ptr(),
            out("x9") _, out("x10") _, out("x11") _, out("x12") _, out("x13") _, out("x14") _, out("x15") _,
            out("v0") _, out("v1") _, out("v2") _, out("v3") _, out("v4") _, out("v5") _, out("v6") _, out("v7") _,
            options(nostack),
        )
    };
}

#[cfg(target_arch = "x86_64")]
eights!(Mixed:
    "lea rax, [rsi + 3]",
    "paddd xmm0, xmm7",
    "mov rcx, [rdi]",
    "lea rdx, [rsi + 3]",
    "paddd xmm1, xmm7",
    "movaps xmm2, [rdi]",
    "mov [rdi + 64], rsi",
    "js 2f",
    "2:",
);

// Some processors add small constants where they rename, without a register. So these add two registers.
#[cfg(target_arch = "x86_64")]
eights!(Ints:
    "lea rax, [rsi + rdi]",
    "lea rcx, [rsi + rdi]",
    "lea rdx, [rsi + rdi]",
    "lea r8, [rsi + rdi]",
    "lea r9, [rsi + rdi]",
    "lea r10, [rsi + rdi]",
    "lea r11, [rsi + rdi]",
    "lea rax, [rsi + rdi]",
);

#[cfg(target_arch = "x86_64")]
eights!(Vectors:
    "paddd xmm0, xmm7",
    "paddd xmm1, xmm7",
    "paddd xmm2, xmm7",
    "paddd xmm3, xmm7",
    "paddd xmm4, xmm7",
    "paddd xmm5, xmm7",
    "paddd xmm6, xmm7",
    "paddd xmm0, xmm7",
);

#[cfg(target_arch = "x86_64")]
eights!(Loads:
    "mov rax, [rdi]",
    "mov rcx, [rdi + 8]",
    "mov rdx, [rdi + 16]",
    "mov r8, [rdi + 24]",
    "mov r9, [rdi + 32]",
    "mov r10, [rdi + 40]",
    "mov r11, [rdi + 48]",
    "mov rax, [rdi + 56]",
);

#[cfg(target_arch = "x86_64")]
eights!(Stores:
    "mov [rdi + 64], rsi",
    "mov [rdi + 72], rsi",
    "mov [rdi + 80], rsi",
    "mov [rdi + 88], rsi",
    "mov [rdi + 96], rsi",
    "mov [rdi + 104], rsi",
    "mov [rdi + 112], rsi",
    "mov [rdi + 120], rsi",
);

#[cfg(target_arch = "aarch64")]
eights!(Mixed:
    "add x9, x1, #3",
    "add v0.4s, v0.4s, v7.4s",
    "ldr x10, [x2]",
    "add x11, x1, #3",
    "add v1.4s, v1.4s, v7.4s",
    "ldr q2, [x2]",
    "str x1, [x2, #64]",
    "b.mi 2f",
    "2:",
);

#[cfg(target_arch = "aarch64")]
eights!(Ints:
    "add x9, x1, x2",
    "add x10, x1, x2",
    "add x11, x1, x2",
    "add x12, x1, x2",
    "add x13, x1, x2",
    "add x14, x1, x2",
    "add x15, x1, x2",
    "add x9, x1, x2",
);

#[cfg(target_arch = "aarch64")]
eights!(Vectors:
    "add v0.4s, v0.4s, v7.4s",
    "add v1.4s, v1.4s, v7.4s",
    "add v2.4s, v2.4s, v7.4s",
    "add v3.4s, v3.4s, v7.4s",
    "add v4.4s, v4.4s, v7.4s",
    "add v5.4s, v5.4s, v7.4s",
    "add v6.4s, v6.4s, v7.4s",
    "add v0.4s, v0.4s, v7.4s",
);

#[cfg(target_arch = "aarch64")]
eights!(Loads:
    "ldr x9, [x2]",
    "ldr x10, [x2, #8]",
    "ldr x11, [x2, #16]",
    "ldr x12, [x2, #24]",
    "ldr x13, [x2, #32]",
    "ldr x14, [x2, #40]",
    "ldr x15, [x2, #48]",
    "ldr x9, [x2, #56]",
);

#[cfg(target_arch = "aarch64")]
eights!(Stores:
    "str x1, [x2, #64]",
    "str x1, [x2, #72]",
    "str x1, [x2, #80]",
    "str x1, [x2, #88]",
    "str x1, [x2, #96]",
    "str x1, [x2, #104]",
    "str x1, [x2, #112]",
    "str x1, [x2, #120]",
);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Backing, chase::link, region::Region};

    #[test]
    fn both_chases_move_by_their_steps_whatever_is_between() {
        let region = Region::map(1 << 20, Backing::Small).unwrap();
        let lines: Vec<u64> = (0..2048).map(|i| i * 64).collect();
        let begun = link(&region, &lines, 2);
        for of in [Between::Mixed, Between::Ints, Between::Vectors, Between::Loads, Between::Stores] {
            for &between in BETWEEN {
                let mut heads = [begun[0], begun[1]];
                run(&mut heads, 5, of, between);
                assert_eq!(heads.map(|h| h as usize), [begun[0], begun[1]].map(|h| h as usize + 5 * 64), "{between}");
            }
        }
    }
}
