//! Instructions that do not wait for each other, of one kind or of several: how many begin in a cycle?
//!
//! Another hardware thread of the core takes its share of the units, of some kinds more than of others.

use crate::clock::{Took, timed};
use serde::{Deserialize, Serialize};

/// A kind of instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Adds of general registers.
    Adds,
    /// Loads of lines that the first-level cache has.
    Loads,
    /// Stores to one such line.
    Stores,
    /// Adds of vector registers.
    Vectors,
    /// Two adds, a vector add, two loads and three zeroed registers in turn: only the width of the core bounds them.
    /// Renaming zeroes a register without a unit. With three adds, two vector adds and three loads, an Ice Lake
    /// that is 5 wide begins 4.6 in a cycle, and sometimes 3.0.
    Mixed,
}

/// Instructions of a round.
const ROUND: u64 = 64;

/// Four lines, which loads and stores go to.
#[repr(align(64))]
struct Lines([u64; 32]);

/// Cycles of one among independent instructions of a kind, over about `us` microseconds at 3 GHz.
pub fn among_others(kind: Kind, us: u64) -> Took {
    let rounds = (us * 3000 / ROUND).max(16);
    let mut lines = Lines([0; 32]);
    let took = timed(|| match kind {
        Kind::Adds => adds(rounds),
        Kind::Loads => loads(&mut lines, rounds),
        Kind::Stores => stores(&mut lines, rounds),
        Kind::Vectors => vectors(rounds),
        Kind::Mixed => mixed(&mut lines, rounds),
    });
    let all = (rounds * ROUND) as f64;
    Took { ns: took.ns / all, cycles: took.cycles / all }
}

#[cfg(target_arch = "x86_64")]
fn adds(rounds: u64) {
    // SAFETY: registers only.
    unsafe {
        std::arch::asm!(
            ".p2align 6",
            "2:",
            ".rept 8",
            "add {a}, {step}",
            "add {b}, {step}",
            "add {c}, {step}",
            "add {d}, {step}",
            "add {e}, {step}",
            "add {f}, {step}",
            "add {g}, {step}",
            "add {h}, {step}",
            ".endr",
            "dec {left}",
            "jnz 2b",
            a = out(reg) _, b = out(reg) _, c = out(reg) _, d = out(reg) _,
            e = out(reg) _, f = out(reg) _, g = out(reg) _, h = out(reg) _,
            step = in(reg) 3u64,
            left = inout(reg) rounds => _,
            options(nomem, nostack),
        );
    }
}

#[cfg(target_arch = "aarch64")]
fn adds(rounds: u64) {
    // SAFETY: registers only.
    unsafe {
        std::arch::asm!(
            ".p2align 6",
            "2:",
            ".rept 8",
            "add {a}, {a}, {step}",
            "add {b}, {b}, {step}",
            "add {c}, {c}, {step}",
            "add {d}, {d}, {step}",
            "add {e}, {e}, {step}",
            "add {f}, {f}, {step}",
            "add {g}, {g}, {step}",
            "add {h}, {h}, {step}",
            ".endr",
            "subs {left}, {left}, #1",
            "b.ne 2b",
            a = out(reg) _, b = out(reg) _, c = out(reg) _, d = out(reg) _,
            e = out(reg) _, f = out(reg) _, g = out(reg) _, h = out(reg) _,
            step = in(reg) 3u64,
            left = inout(reg) rounds => _,
            options(nomem, nostack),
        );
    }
}

#[cfg(target_arch = "x86_64")]
fn loads(lines: &mut Lines, rounds: u64) {
    // SAFETY: reads within the lines, and registers.
    unsafe {
        std::arch::asm!(
            ".p2align 6",
            "2:",
            ".rept 8",
            "mov {a}, [{at}]",
            "mov {b}, [{at} + 8]",
            "mov {c}, [{at} + 64]",
            "mov {d}, [{at} + 72]",
            "mov {a}, [{at} + 128]",
            "mov {b}, [{at} + 136]",
            "mov {c}, [{at} + 192]",
            "mov {d}, [{at} + 200]",
            ".endr",
            "dec {left}",
            "jnz 2b",
            a = out(reg) _, b = out(reg) _, c = out(reg) _, d = out(reg) _,
            at = in(reg) lines.0.as_ptr(),
            left = inout(reg) rounds => _,
            options(readonly, nostack),
        );
    }
}

#[cfg(target_arch = "x86_64")]
fn stores(lines: &mut Lines, rounds: u64) {
    // SAFETY: writes within the lines, and registers.
    unsafe {
        std::arch::asm!(
            ".p2align 6",
            "2:",
            ".rept 8",
            "mov [{at}], {left}",
            "mov [{at} + 8], {left}",
            "mov [{at} + 16], {left}",
            "mov [{at} + 24], {left}",
            "mov [{at} + 32], {left}",
            "mov [{at} + 40], {left}",
            "mov [{at} + 48], {left}",
            "mov [{at} + 56], {left}",
            ".endr",
            "dec {left}",
            "jnz 2b",
            at = in(reg) lines.0.as_mut_ptr(),
            left = inout(reg) rounds => _,
            options(nostack),
        );
    }
}

#[cfg(target_arch = "x86_64")]
fn vectors(rounds: u64) {
    // SAFETY: registers only.
    unsafe {
        std::arch::asm!(
            ".p2align 6",
            "2:",
            ".rept 8",
            "paddd {a}, {z}",
            "paddd {b}, {z}",
            "paddd {c}, {z}",
            "paddd {d}, {z}",
            "paddd {e}, {z}",
            "paddd {f}, {z}",
            "paddd {g}, {z}",
            "paddd {h}, {z}",
            ".endr",
            "dec {left}",
            "jnz 2b",
            a = out(xmm_reg) _, b = out(xmm_reg) _, c = out(xmm_reg) _, d = out(xmm_reg) _,
            e = out(xmm_reg) _, f = out(xmm_reg) _, g = out(xmm_reg) _, h = out(xmm_reg) _,
            z = out(xmm_reg) _,
            left = inout(reg) rounds => _,
            options(nomem, nostack),
        );
    }
}

#[cfg(target_arch = "x86_64")]
fn mixed(lines: &mut Lines, rounds: u64) {
    // SAFETY: reads within the lines, and registers.
    unsafe {
        std::arch::asm!(
            ".p2align 6",
            "2:",
            ".rept 8",
            "add {a}, {step}",
            "xorps {u}, {u}",
            "mov {c}, [{at}]",
            "xorps {v}, {v}",
            "paddd {x}, {z}",
            "add {b}, {step}",
            "xorps {w}, {w}",
            "mov {d}, [{at} + 64]",
            ".endr",
            "dec {left}",
            "jnz 2b",
            a = out(reg) _, b = out(reg) _, c = out(reg) _, d = out(reg) _,
            u = out(xmm_reg) _, v = out(xmm_reg) _, w = out(xmm_reg) _, x = out(xmm_reg) _, z = out(xmm_reg) _,
            step = in(reg) 3u64,
            at = in(reg) lines.0.as_ptr(),
            left = inout(reg) rounds => _,
            options(readonly, nostack),
        );
    }
}

#[cfg(target_arch = "aarch64")]
fn mixed(lines: &mut Lines, rounds: u64) {
    // SAFETY: reads within the lines, and registers.
    unsafe {
        std::arch::asm!(
            ".p2align 6",
            "2:",
            ".rept 8",
            "add {a}, {a}, {step}",
            "movi {u:v}.2d, #0",
            "ldr {c}, [{at}]",
            "movi {v:v}.2d, #0",
            "add {x:v}.4s, {x:v}.4s, {z:v}.4s",
            "add {b}, {b}, {step}",
            "movi {w:v}.2d, #0",
            "ldr {d}, [{at}, #64]",
            ".endr",
            "subs {left}, {left}, #1",
            "b.ne 2b",
            a = out(reg) _, b = out(reg) _, c = out(reg) _, d = out(reg) _,
            u = out(vreg) _, v = out(vreg) _, w = out(vreg) _, x = out(vreg) _, z = out(vreg) _,
            step = in(reg) 3u64,
            at = in(reg) lines.0.as_ptr(),
            left = inout(reg) rounds => _,
            options(readonly, nostack),
        );
    }
}

#[cfg(target_arch = "aarch64")]
fn loads(lines: &mut Lines, rounds: u64) {
    // SAFETY: reads within the lines, and registers.
    unsafe {
        std::arch::asm!(
            ".p2align 6",
            "2:",
            ".rept 8",
            "ldr {a}, [{at}]",
            "ldr {b}, [{at}, #8]",
            "ldr {c}, [{at}, #64]",
            "ldr {d}, [{at}, #72]",
            "ldr {a}, [{at}, #128]",
            "ldr {b}, [{at}, #136]",
            "ldr {c}, [{at}, #192]",
            "ldr {d}, [{at}, #200]",
            ".endr",
            "subs {left}, {left}, #1",
            "b.ne 2b",
            a = out(reg) _, b = out(reg) _, c = out(reg) _, d = out(reg) _,
            at = in(reg) lines.0.as_ptr(),
            left = inout(reg) rounds => _,
            options(readonly, nostack),
        );
    }
}

#[cfg(target_arch = "aarch64")]
fn stores(lines: &mut Lines, rounds: u64) {
    // SAFETY: writes within the lines, and registers.
    unsafe {
        std::arch::asm!(
            ".p2align 6",
            "2:",
            ".rept 8",
            "str {left}, [{at}]",
            "str {left}, [{at}, #8]",
            "str {left}, [{at}, #16]",
            "str {left}, [{at}, #24]",
            "str {left}, [{at}, #32]",
            "str {left}, [{at}, #40]",
            "str {left}, [{at}, #48]",
            "str {left}, [{at}, #56]",
            ".endr",
            "subs {left}, {left}, #1",
            "b.ne 2b",
            at = in(reg) lines.0.as_mut_ptr(),
            left = inout(reg) rounds => _,
            options(nostack),
        );
    }
}

#[cfg(target_arch = "aarch64")]
fn vectors(rounds: u64) {
    // SAFETY: registers only.
    unsafe {
        std::arch::asm!(
            ".p2align 6",
            "2:",
            ".rept 8",
            "add {a:v}.4s, {a:v}.4s, {z:v}.4s",
            "add {b:v}.4s, {b:v}.4s, {z:v}.4s",
            "add {c:v}.4s, {c:v}.4s, {z:v}.4s",
            "add {d:v}.4s, {d:v}.4s, {z:v}.4s",
            "add {e:v}.4s, {e:v}.4s, {z:v}.4s",
            "add {f:v}.4s, {f:v}.4s, {z:v}.4s",
            "add {g:v}.4s, {g:v}.4s, {z:v}.4s",
            "add {h:v}.4s, {h:v}.4s, {z:v}.4s",
            ".endr",
            "subs {left}, {left}, #1",
            "b.ne 2b",
            a = out(vreg) _, b = out(vreg) _, c = out(vreg) _, d = out(vreg) _,
            e = out(vreg) _, f = out(vreg) _, g = out(vreg) _, h = out(vreg) _,
            z = out(vreg) _,
            left = inout(reg) rounds => _,
            options(nomem, nostack),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_takes_less_than_a_chain_and_more_than_nothing() {
        for kind in [Kind::Adds, Kind::Loads, Kind::Stores, Kind::Vectors, Kind::Mixed] {
            let took = among_others(kind, 50);
            assert!((0.05..20.0).contains(&took.cycles), "{kind:?}: {took:?}");
        }
    }
}
