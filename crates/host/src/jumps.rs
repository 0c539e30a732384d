//! Jumps from one to the next in an order at random: how many does the front end know?
//!
//! ```text
//!   slot 0     slot 1     slot 2     slot 3            16 bytes each
//!   jmp 2      jmp 3      jmp 1      repeat
//!     '--------------------^ '--- ...
//! ```
//!
//! A front end fetches along jumps that are in its branch target buffers. Where a jump is in none, it waits for the
//! jump's code and decodes it first. So a jump takes more cycles where their number outgrows a buffer.

use crate::{
    HostError,
    clock::{Took, fastest, timed},
    random::Random,
};
use std::ptr::NonNull;

/// Bytes from one jump to the next: four of them lie in a line of the cache.
pub const SLOT: usize = 16;
/// Most jumps: their code shall fit the second-level cache of any processor of today.
pub const MOST: u64 = 1 << 14;
/// Rounds before the clock starts.
const WARM: u64 = 4;
/// Bursts of a measurement, of which the fastest counts.
const BURSTS: u32 = 3;

/// Whether this processor's jumps can be made.
pub const MADE: bool = cfg!(target_arch = "x86_64");

/// Whether jumps can be timed here: on this processor, and by a program that this system lets make code. Hardened
/// systems do not (Linux: `prctl(PR_SET_MDWE)`, SELinux).
pub fn possible() -> bool {
    MADE && Jumps::new(1, &mut Random::new(1)).is_ok()
}

/// Code in memory of its own.
pub struct Jumps {
    code: NonNull<u8>,
    bytes: usize,
    count: u64,
}

impl Drop for Jumps {
    fn drop(&mut self) {
        // SAFETY: this was mapped, and nothing refers to it any more.
        unsafe { libc::munmap(self.code.as_ptr().cast(), self.bytes) };
    }
}

impl Jumps {
    /// Code of `count` jumps. The first slot is the first and the last one goes back to it.
    ///
    /// # Errors
    /// The system gives no memory, or does not let a program make code.
    pub fn new(count: u64, random: &mut Random) -> Result<Self, HostError> {
        let bytes = (count as usize * SLOT).next_multiple_of(4096);
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: a new mapping wherever the kernel likes.
        let code = unsafe { libc::mmap(std::ptr::null_mut(), bytes, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0) };
        let code = match NonNull::new(code.cast::<u8>()) {
            Some(code) if code.as_ptr().cast() != libc::MAP_FAILED => code,
            _ => return Err(HostError::last("mmap of code")),
        };
        let jumps = Self { code, bytes, count };
        let mut order: Vec<usize> = (1..count as usize).collect();
        random.shuffle(&mut order);
        let mut from = 0;
        for to in order {
            jumps.write(from * SLOT, &jump(0, from * SLOT, to * SLOT));
            from = to;
        }
        jumps.write(from * SLOT, &again(from * SLOT));
        // SAFETY: the mapping is ours.
        let done = unsafe { libc::mprotect(code.as_ptr().cast(), bytes, libc::PROT_READ | libc::PROT_EXEC) };
        if done != 0 {
            return Err(HostError::last("mprotect of code, which makes it executable"));
        }
        Ok(jumps)
    }

    fn write(&self, at: usize, code: &[u8]) {
        assert!(at + code.len() <= self.bytes);
        // SAFETY: just checked; nothing runs it yet.
        unsafe { std::ptr::copy_nonoverlapping(code.as_ptr(), self.code.as_ptr().add(at), code.len()) };
    }

    /// Follows all jumps `rounds` times, at least once.
    #[cfg(target_arch = "x86_64")]
    fn run(&self, rounds: u64) {
        // SAFETY: the code counts the register down, jumps within itself and returns.
        unsafe {
            std::arch::asm!(
                "call {code}",
                code = in(reg) self.code.as_ptr(),
                inout("r8") rounds.max(1) => _,
                clobber_abi("C"),
            );
        }
    }

    /// No jumps are made here.
    #[cfg(not(target_arch = "x86_64"))]
    fn run(&self, _: u64) {
        unreachable!("a specification with jumps is refused where none are made")
    }

    /// A jump's time, over bursts of about `burst_us` microseconds.
    pub fn time(&self, burst_us: u64) -> Took {
        self.run(WARM);
        let tried = timed(|| self.run(WARM));
        let rounds = ((burst_us * 1000) as f64 / (tried.ns / WARM as f64).max(1.0)).max(1.0) as u64;
        let best = fastest(BURSTS, || self.run(rounds));
        let jumps = (rounds.max(1) * self.count) as f64;
        Took { ns: best.ns / jumps, cycles: best.cycles / jumps }
    }
}

/// `jmp` from offset `from`, which `before` bytes of code lie before, to offset `to`.
fn jump(before: usize, from: usize, to: usize) -> [u8; 5] {
    let distance = (to as i64 - (from + before + 5) as i64) as i32;
    let mut code = [0xe9, 0, 0, 0, 0];
    code[1..].copy_from_slice(&distance.to_le_bytes());
    code
}

/// `dec r8`, `jnz` to offset 0, `ret`, at offset `from`.
fn again(from: usize) -> [u8; 10] {
    let distance = -(from as i64 + 9) as i32;
    let mut code = [0x49, 0xff, 0xc8, 0x0f, 0x85, 0, 0, 0, 0, 0xc3];
    code[5..9].copy_from_slice(&distance.to_le_bytes());
    code
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;

    #[test]
    fn all_jumps_are_followed_and_come_back() {
        for count in [1, 2, 300, 5000] {
            let jumps = Jumps::new(count, &mut Random::new(count)).unwrap();
            jumps.run(3);
            let took = jumps.time(5);
            // Two taken branches in a cycle are the most that any front end predicts.
            assert!((0.4..10_000.0).contains(&took.cycles), "{count}: {took:?}");
        }
    }
}
