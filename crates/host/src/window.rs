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
    for _ in 0..steps {
        // SAFETY: `chase::link` closed the chases over lines of a region that is still mapped.
        a = unsafe { a.read_volatile() } as *const usize;
        fill::<EIGHTS>();
        // SAFETY: as above.
        b = unsafe { b.read_volatile() } as *const usize;
        fill::<EIGHTS>();
    }
    *heads = [a, b];
}

/// Eights of adds that wait for no load. Half use general registers, half vector registers, so that neither file of
/// physical registers is full before the window is.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn fill<const EIGHTS: usize>() {
    // SAFETY: registers only.
    unsafe {
        std::arch::asm!(
            ".rept {eights}",
            "add {a}, {s}",
            "paddd {v}, {z}",
            "add {b}, {s}",
            "paddd {w}, {z}",
            "add {c}, {s}",
            "paddd {x}, {z}",
            "add {d}, {s}",
            "paddd {y}, {z}",
            ".endr",
            eights = const EIGHTS,
            a = out(reg) _, b = out(reg) _, c = out(reg) _, d = out(reg) _,
            s = in(reg) 3u64,
            v = out(xmm_reg) _, w = out(xmm_reg) _, x = out(xmm_reg) _, y = out(xmm_reg) _, z = out(xmm_reg) _,
            options(nomem, nostack),
        );
    }
}

/// Eights of adds that wait for no load.
#[cfg(target_arch = "aarch64")]
#[inline(always)]
fn fill<const EIGHTS: usize>() {
    // SAFETY: registers only.
    unsafe {
        std::arch::asm!(
            ".rept {eights}",
            "add {a}, {a}, {s}",
            "add {v:v}.4s, {v:v}.4s, {z:v}.4s",
            "add {b}, {b}, {s}",
            "add {w:v}.4s, {w:v}.4s, {z:v}.4s",
            "add {c}, {c}, {s}",
            "add {x:v}.4s, {x:v}.4s, {z:v}.4s",
            "add {d}, {d}, {s}",
            "add {y:v}.4s, {y:v}.4s, {z:v}.4s",
            ".endr",
            eights = const EIGHTS,
            a = out(reg) _, b = out(reg) _, c = out(reg) _, d = out(reg) _,
            s = in(reg) 3u64,
            v = out(vreg) _, w = out(vreg) _, x = out(vreg) _, y = out(vreg) _, z = out(vreg) _,
            options(nomem, nostack),
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
