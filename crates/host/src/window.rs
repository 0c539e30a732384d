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

macro_rules! between {
    ($($n:literal)*) => {
        /// The numbers of instructions between loads that can be asked for.
        pub const BETWEEN: &[u64] = &[$($n),*];

        /// Follows two chases for `steps` loads each, with `between` instructions between loads; they end further on.
        pub fn run(heads: &mut [*const usize; 2], steps: u64, between: u64) {
            match between {
                $($n => follow::<{ $n / 8 }>(heads, steps),)*
                other => unreachable!("{other} instructions: the specification was checked against BETWEEN"),
            }
            std::hint::black_box(heads);
        }
    };
}

between!(32 64 96 112 128 144 160 176 192 208 224 240 256 272 288 304 320 352 384 416 448 512 576 640);

#[inline(never)]
fn follow<const EIGHTS: usize>(heads: &mut [*const usize; 2], steps: u64) {
    let [mut a, mut b] = *heads;
    let mut lines = Lines([0; 16]);
    for _ in 0..steps {
        // SAFETY: `chase::link` closed the chases over lines of a region that is still mapped.
        a = unsafe { a.read_volatile() } as *const usize;
        fill::<EIGHTS>(&mut lines);
        // SAFETY: as above.
        b = unsafe { b.read_volatile() } as *const usize;
        fill::<EIGHTS>(&mut lines);
    }
    *heads = [a, b];
}

/// Memory for the instructions between: one line is loaded, another one stored to.
#[repr(align(128))]
struct Lines([u64; 16]);

/// Eights of instructions that wait for no load of memory: two additions, two of vectors, two loads, a store, and a
/// branch that is not taken. Instructions of one kind alone fill less than a window: registers for renaming, flags and
/// queues are fewer.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn fill<const EIGHTS: usize>(lines: &mut Lines) {
    // SAFETY: registers, and the lines.
    unsafe {
        std::arch::asm!(
            "test {s}, {s}",
            ".rept {eights}",
            "lea {a}, [{s} + 3]",
            "paddd {v}, {z}",
            "mov {b}, [{m}]",
            "lea {c}, [{s} + 3]",
            "paddd {w}, {z}",
            "movaps {x}, [{m}]",
            "mov [{m} + 64], {s}",
            "js 2f",
            "2:",
            ".endr",
            eights = const EIGHTS,
            a = out(reg) _, b = out(reg) _, c = out(reg) _,
            s = in(reg) 3u64, m = in(reg) lines.0.as_mut_ptr(),
            v = out(xmm_reg) _, w = out(xmm_reg) _, x = out(xmm_reg) _, z = out(xmm_reg) _,
            options(nostack),
        );
    }
}

/// The same: `b.mi` is not taken.
#[cfg(target_arch = "aarch64")]
#[inline(always)]
fn fill<const EIGHTS: usize>(lines: &mut Lines) {
    // SAFETY: registers, and the lines.
    unsafe {
        std::arch::asm!(
            "cmp {s}, #0",
            ".rept {eights}",
            "add {a}, {s}, #3",
            "add {v:v}.4s, {v:v}.4s, {z:v}.4s",
            "ldr {b}, [{m}]",
            "add {c}, {s}, #3",
            "add {w:v}.4s, {w:v}.4s, {z:v}.4s",
            "ldr {x:q}, [{m}]",
            "str {s}, [{m}, #64]",
            "b.mi 2f",
            "2:",
            ".endr",
            eights = const EIGHTS,
            a = out(reg) _, b = out(reg) _, c = out(reg) _,
            s = in(reg) 3u64, m = in(reg) lines.0.as_mut_ptr(),
            v = out(vreg) _, w = out(vreg) _, x = out(vreg) _, z = out(vreg) _,
            options(nostack),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Backing, chase::link, region::Region};

    #[test]
    fn both_chases_move_by_their_steps_whatever_is_between() {
        let region = Region::map(1 << 20, Backing::Small).unwrap();
        let lines: Vec<u64> = (0..2048).map(|i| i * 64).collect();
        let begun = link(&region, &lines, 2);
        for &between in BETWEEN {
            let mut heads = [begun[0], begun[1]];
            run(&mut heads, 5, between);
            assert_eq!(heads.map(|h| h as usize), [begun[0], begun[1]].map(|h| h as usize + 5 * 64), "{between}");
        }
    }
}
