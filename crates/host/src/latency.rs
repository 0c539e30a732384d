//! Loads that are timed one by one: how much the latency of memory differs between them.
//!
//! A chase shows the mean alone. The processor's time-stamp counter is read before and after each load, with fences
//! around, so that nothing else runs meanwhile. A load of another line of the same page comes before, and brings the
//! translation: walks are no part of these times.
//!
//! ```text
//! load of the page's other line   fence counter fence   load   fence counter
//! ```

use crate::{
    clock::{Took, timed_at_once},
    region::{PAGE, Region},
};

/// Loads of the near line, for the cycles of the counter itself.
const NEAR: usize = 512;
/// Nanoseconds that no load of memory takes. A refresh keeps memory busy for 550 ns at most (JEDEC DDR4, JESD79-4,
/// tRFC1 of 16 Gbit; 410 ns in DDR5). A load that takes several times as long met an interrupt.
const INTERRUPTED_NS: f64 = 2000.0;
/// Steps of the counter that a load of memory must take at least, for differences between loads to be seen.
const STEPS: u64 = 4;

/// The counter, once all instructions before are done, and before any instruction after begins.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn counter() -> u64 {
    // SAFETY: every x86-64 processor has these instructions.
    unsafe {
        std::arch::x86_64::_mm_lfence();
        let now = std::arch::x86_64::_rdtsc();
        std::arch::x86_64::_mm_lfence();
        now
    }
}

/// The counter, once all instructions before are done, and before any instruction after begins.
#[cfg(target_arch = "aarch64")]
#[inline(always)]
fn counter() -> u64 {
    let now: u64;
    // SAFETY: Linux lets programs read the virtual counter.
    unsafe {
        std::arch::asm!("dsb ld", "isb", "mrs {now}, cntvct_el0", "isb", now = out(reg) now, options(nostack));
    }
    now
}

/// Counts of a load of each of `lines`, whose translation is there.
fn counts(region: &Region, lines: &[u64]) -> Vec<u64> {
    let other = (PAGE / 2) as u64;
    lines
        .iter()
        .map(|&line| {
            // SAFETY: `at` gives addresses within the region, and a page's other half is in it, too.
            unsafe { region.at(line ^ other).read_volatile() };
            let before = counter();
            // SAFETY: as above.
            unsafe { region.at(line).read_volatile() };
            counter() - before
        })
        .collect()
}

/// Times of a load of each of `lines`, from fast to slow. Those that were interrupted are left out. None where the
/// counter's steps are too long to see differences between loads of memory, or where most loads were interrupted.
pub fn sorted(region: &Region, lines: &[u64]) -> Option<Vec<Took>> {
    let left = uninterrupted(all(region, lines)?);
    (left.len() > lines.len() / 2).then_some(left)
}

/// Times of a load of each of `lines` beside one that hits the nearest cache, from fast to slow. None where the
/// counter's steps are too long to tell loads of memory apart.
fn all(region: &Region, lines: &[u64]) -> Option<Vec<Took>> {
    let (mut found, mut all) = (Vec::new(), 0);
    let took = timed_at_once(|| {
        let first = counter();
        found = counts(region, lines);
        all = counter() - first;
    });
    found.sort_unstable();
    // The partner of a line that is read again and again is the other one of the two.
    let mut near = counts(region, &[0, (PAGE / 2) as u64].repeat(NEAR / 2));
    near.sort_unstable();
    let near = near[near.len() / 2];
    let step = found.windows(2).map(|pair| pair[1] - pair[0]).filter(|&step| step > 0).min()?;
    if found[found.len() / 2].saturating_sub(near) < STEPS * step {
        return None;
    }
    let share = |count: u64| count.saturating_sub(near) as f64 / all as f64;
    let each = |count| Took { ns: took.ns * share(count), cycles: took.cycles * share(count) };
    Some(found.into_iter().map(each).collect())
}

/// The loads that were not interrupted: an interrupt is no part of memory's latency, and comes by the clock, however
/// many loads there are.
fn uninterrupted(mut loads: Vec<Took>) -> Vec<Took> {
    loads.retain(|took| took.ns < INTERRUPTED_NS);
    loads
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Backing, random::Random};

    #[test]
    fn far_loads_take_longer_than_near_ones_and_none_takes_less_than_no_time() {
        let region = Region::map(64 << 20, Backing::Large).unwrap();
        region.populate(Backing::Large, &mut Random::new(1));
        let mut lines: Vec<u64> = (0..(64 << 20) / PAGE as u64).map(|page| page * PAGE as u64).collect();
        Random::new(2).shuffle(&mut lines);
        // Nothing can be seen with a counter of long steps.
        let Some(found) = all(&region, &lines[..2048]) else { return };
        assert_eq!(found.len(), 2048);
        assert!(found.windows(2).all(|pair| pair[0].cycles <= pair[1].cycles) && found[0].cycles >= 0.0);
        // No memory answers in 5 ns, and none takes a millisecond for the slowest of the faster half.
        assert!((5.0..1e6).contains(&found[1024].ns), "{:?}", found[1024]);
    }

    #[test]
    fn a_load_that_an_interrupt_met_is_left_out() {
        let loads = [120.0, 126.0, 345.0, 550.0, 6600.0].map(|ns| Took { ns, cycles: 3.66 * ns });
        let left: Vec<f64> = uninterrupted(loads.to_vec()).iter().map(|took| took.ns).collect();
        assert_eq!(left, [120.0, 126.0, 345.0, 550.0]);
    }
}
