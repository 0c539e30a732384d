//! Time of this thread in nanoseconds, and in cycles.
//!
//! The clock is the thread's CPU time, which leaves out the time in which another program of this system had the CPU.
//! What a hypervisor takes away stays in it. Cycles come from a chain of dependent adds, one a cycle on every processor
//! of the two instruction sets. It runs before and after each burst, so that a frequency that moves between bursts
//! cancels out.

use crate::HostError;
use std::time::Instant;

/// Nanoseconds of CPU time that this thread has had.
pub fn thread_ns() -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the structure is writable. The clock exists on every Linux.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut now) };
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// Adds of one round of the chain.
const ADDS: u64 = 64;

/// `rounds` times [`ADDS`] adds, each waiting for the one before. The second operand is a register: some processors
/// carry out adds of small constants without a cycle (Intel, from Golden Cove on).
#[cfg(target_arch = "x86_64")]
fn add_chain(rounds: u64) {
    // SAFETY: registers only.
    unsafe {
        std::arch::asm!(
            "2:",
            ".rept 64",
            "add {sum}, {step}",
            ".endr",
            "dec {left}",
            "jnz 2b",
            sum = inout(reg) 1u64 => _,
            step = in(reg) 3u64,
            left = inout(reg) rounds => _,
            options(nomem, nostack),
        );
    }
}

/// `rounds` times [`ADDS`] adds, each waiting for the one before.
#[cfg(target_arch = "aarch64")]
fn add_chain(rounds: u64) {
    // SAFETY: registers only.
    unsafe {
        std::arch::asm!(
            "2:",
            ".rept 64",
            "add {sum}, {sum}, {step}",
            ".endr",
            "subs {left}, {left}, #1",
            "b.ne 2b",
            sum = inout(reg) 1u64 => _,
            step = in(reg) 3u64,
            left = inout(reg) rounds => _,
            options(nomem, nostack),
        );
    }
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
compile_error!("mmulab-host times x86-64 and aarch64 processors: add the chain of adds of this instruction set");

/// Cycles a nanosecond, over about `us` microseconds at 3 GHz.
pub fn frequency(us: u64) -> f64 {
    let rounds = (us * 3000 / ADDS).max(16);
    let begun = thread_ns();
    add_chain(rounds);
    let spent = (thread_ns() - begun).max(1);
    (rounds * ADDS) as f64 / spent as f64
}

/// What one burst of work took.
#[derive(Clone, Copy, Debug)]
pub struct Took {
    /// Nanoseconds.
    pub ns: f64,
    /// Cycles, by the frequency just before and after.
    pub cycles: f64,
}

impl Took {
    /// The mean of each of `count` parts of the work.
    pub fn each(self, count: f64) -> Self {
        Self { ns: self.ns / count, cycles: self.cycles / count }
    }
}

/// Length of the chain before and after a burst, in microseconds.
const CALIBRATION_US: u64 = 15;

/// Times `work`.
pub fn timed(work: impl FnOnce()) -> Took {
    let before = frequency(CALIBRATION_US);
    let begun = thread_ns();
    work();
    let ns = (thread_ns() - begun) as f64;
    let after = frequency(CALIBRATION_US);
    // The chain can only seem slower than it is, when something interrupts it.
    Took { ns, cycles: ns * before.max(after) }
}

/// Runs `work` `bursts` times: the fastest run, in cycles of the fastest clock seen between runs. A disturbance makes
/// either seem slower than it is. So the run of the fewest cycles would often be one whose clock was disturbed.
pub fn fastest(bursts: u32, mut work: impl FnMut()) -> Took {
    let mut clock = frequency(CALIBRATION_US);
    let mut ns = f64::INFINITY;
    for _ in 0..bursts {
        let begun = thread_ns();
        work();
        ns = ns.min((thread_ns() - begun) as f64);
        clock = clock.max(frequency(CALIBRATION_US));
    }
    Took { ns, cycles: ns * clock }
}

/// Times `work` without anything before it, for work that must begin now. The clock is the wall's: a question about
/// this thread's own time takes longer than short work.
pub fn timed_at_once(work: impl FnOnce()) -> Took {
    let begun = Instant::now();
    work();
    let ns = begun.elapsed().as_nanos() as f64;
    let after = frequency(CALIBRATION_US).max(frequency(CALIBRATION_US));
    Took { ns, cycles: ns * after }
}

/// Keeps this thread on one CPU; on the one it is on if none is named. The CPU.
///
/// # Errors
/// The CPU does not exist, or is not allowed to this process.
pub fn pin_to(cpu: Option<usize>) -> Result<usize, HostError> {
    // SAFETY: no arguments.
    let current = unsafe { libc::sched_getcpu() };
    let cpu = cpu.unwrap_or(current.max(0) as usize);
    if cpu >= libc::CPU_SETSIZE as usize {
        return Err(HostError::Asked(format!("--cpu {cpu}: there are at most {} CPUs", libc::CPU_SETSIZE)));
    }
    // SAFETY: a set of zeros is a set; the number was checked.
    let done = unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(cpu, &mut set);
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const set)
    };
    if done != 0 {
        return Err(HostError::Asked(format!(
            "--cpu {cpu}: {}: give a CPU that /proc/self/status lists at Cpus_allowed_list",
            std::io::Error::last_os_error()
        )));
    }
    Ok(cpu)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_has_a_plausible_frequency_and_length() {
        let took = timed(|| add_chain(100_000));
        // 6.4 M cycles; between 0.2 and 10 GHz, whatever else runs here.
        assert!(took.ns > 600_000.0, "{took:?}");
        assert!((0.2..10.0).contains(&frequency(100)), "{}", frequency(100));
    }

    #[test]
    fn the_fastest_of_some_bursts_is_not_longer_than_any() {
        let mut each = Vec::new();
        let took = fastest(5, || {
            let begun = thread_ns();
            // The first burst is ten times as long.
            add_chain(if each.is_empty() { 20_000 } else { 2_000 });
            each.push((thread_ns() - begun) as f64);
        });
        assert_eq!(each.len(), 5);
        let least = each.iter().copied().fold(f64::INFINITY, f64::min);
        // The outer clock holds the inner one and its readings, and the first burst never counts.
        assert!((least..each[0] / 2.0).contains(&took.ns), "{took:?} {each:?}");
        // A chain of adds takes one cycle for each. Clock readings are part of the short chains between bursts.
        assert!((0.5 * 128_000.0..).contains(&took.cycles), "{took:?}");
    }

    #[test]
    fn a_cpu_that_does_not_exist_is_refused_by_its_number() {
        let error = std::thread::spawn(|| pin_to(Some(1_000_000)).unwrap_err().to_string()).join().unwrap();
        assert!(error.starts_with("--cpu 1000000: "), "{error}");
    }
}
