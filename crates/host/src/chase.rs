//! Chases: each line holds the address of the next one, so that a load waits for the load before it.
//!
//! Several chases at once overlap as far as the processor lets loads (and walks) run beside each other.

use crate::region::Region;

/// Chains that a measurement can have at once.
pub const CHAINS: [u64; 16] = [1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 28, 32];

/// Writes `lines` (offsets) into the region as `chains` closed chases of nearly equal length, in the order given, and
/// returns where each begins. Writing in the order of the chase also brings the lines near, as one round of it would.
pub fn link(region: &Region, lines: &[u64], chains: u64) -> Vec<*const usize> {
    let each = (lines.len() / chains.max(1) as usize).max(1);
    lines
        .chunks_exact(each)
        .take(chains as usize)
        .map(|own| {
            for (at, &line) in own.iter().enumerate() {
                let next = region.at(own[(at + 1) % own.len()]);
                // SAFETY: `at` gives addresses within the region, and nothing else refers to it.
                unsafe { region.at(line).write_volatile(next as usize) };
            }
            region.at(own[0]).cast_const()
        })
        .collect()
}

/// Follows one chase for `steps`, rounded up to eights.
#[inline(never)]
fn follow(mut at: *const usize, steps: u64) -> *const usize {
    for _ in 0..steps.div_ceil(8) {
        // SAFETY: `link` closed the chase over lines of a region that is still mapped.
        unsafe {
            at = at.read_volatile() as *const usize;
            at = at.read_volatile() as *const usize;
            at = at.read_volatile() as *const usize;
            at = at.read_volatile() as *const usize;
            at = at.read_volatile() as *const usize;
            at = at.read_volatile() as *const usize;
            at = at.read_volatile() as *const usize;
            at = at.read_volatile() as *const usize;
        }
    }
    at
}

#[inline(never)]
fn follow_many<const N: usize>(heads: &mut [*const usize], steps: u64) {
    let Ok(mut at) = <[*const usize; N]>::try_from(&*heads) else { return };
    for _ in 0..steps {
        for one in &mut at {
            // SAFETY: as in `follow`.
            *one = unsafe { one.read_volatile() } as *const usize;
        }
    }
    heads.copy_from_slice(&at);
}

/// Follows one chase for `steps`, by one load instruction: to a prefetcher that looks at instructions, the chase has
/// one step.
#[inline(never)]
pub fn run_by_one(head: &mut *const usize, steps: u64) {
    let mut at = *head;
    let mut left = steps;
    while left > 0 {
        // SAFETY: as in `follow`.
        at = unsafe { at.read_volatile() } as *const usize;
        // A number that the compiler knows nothing of keeps it from unrolling the loop.
        left = std::hint::black_box(left) - 1;
    }
    *head = std::hint::black_box(at);
}

/// Loads `lines` (offsets), which do not wait for each other.
#[inline(never)]
pub fn load(region: &Region, lines: &[u64]) {
    let mut sum = 0usize;
    for &line in lines {
        // SAFETY: `at` gives addresses within the region, which is mapped.
        sum = sum.wrapping_add(unsafe { region.at(line).cast_const().cast::<usize>().read_volatile() });
    }
    std::hint::black_box(sum);
}

/// Sends `lines` (offsets) out of all caches.
pub fn flush(region: &Region, lines: &[u64]) {
    for &line in lines {
        let at = region.at(line);
        // SAFETY: `at` gives addresses within the region, which is mapped; what is in memory stays the same.
        #[cfg(target_arch = "x86_64")]
        unsafe {
            std::arch::x86_64::_mm_clflush(at.cast_const().cast());
        }
        // SAFETY: as above. Linux lets programs clean and invalidate lines of their own.
        #[cfg(target_arch = "aarch64")]
        unsafe {
            std::arch::asm!("dc civac, {at}", at = in(reg) at, options(nostack));
        }
    }
    // The chase that follows shall not begin before.
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a fence.
    unsafe {
        std::arch::x86_64::_mm_mfence();
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: a barrier.
    unsafe {
        std::arch::asm!("dsb sy", options(nostack));
    }
}

/// Follows all chases side by side, each for `steps` (rounded up to eights); they end further on.
pub fn run(heads: &mut [*const usize], steps: u64) {
    match heads.len() {
        1 => heads[0] = follow(heads[0], steps),
        2 => follow_many::<2>(heads, steps),
        3 => follow_many::<3>(heads, steps),
        4 => follow_many::<4>(heads, steps),
        5 => follow_many::<5>(heads, steps),
        6 => follow_many::<6>(heads, steps),
        7 => follow_many::<7>(heads, steps),
        8 => follow_many::<8>(heads, steps),
        10 => follow_many::<10>(heads, steps),
        12 => follow_many::<12>(heads, steps),
        14 => follow_many::<14>(heads, steps),
        16 => follow_many::<16>(heads, steps),
        20 => follow_many::<20>(heads, steps),
        24 => follow_many::<24>(heads, steps),
        28 => follow_many::<28>(heads, steps),
        32 => follow_many::<32>(heads, steps),
        other => unreachable!("{other} chains: the specification was checked against CHAINS"),
    }
    std::hint::black_box(heads);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Backing;

    #[test]
    fn chases_visit_every_line_once_a_round() {
        let region = Region::map(1 << 20, Backing::Small).unwrap();
        let lines: Vec<u64> = (0..96).map(|i| (i * 37 % 96) * 64).collect();
        for chains in CHAINS.into_iter().filter(|&chains| chains <= 12) {
            let heads = link(&region, &lines, chains);
            assert_eq!(heads.len(), chains as usize);
            let each = 96 / chains;
            let mut seen = std::collections::BTreeSet::new();
            for &head in &heads {
                let mut at = head;
                for _ in 0..each {
                    assert!(seen.insert(at), "a line is visited twice");
                    // SAFETY: a line of the region.
                    at = unsafe { *at } as *const usize;
                }
                assert_eq!(at, head, "the chase is closed");
            }
            assert_eq!(seen.len() as u64, each * chains);
        }
    }

    #[test]
    fn following_moves_each_chase_by_its_steps() {
        let region = Region::map(1 << 20, Backing::Small).unwrap();
        let lines: Vec<u64> = (0..512).map(|i| i * 64).collect();
        for chains in CHAINS {
            let begun = link(&region, &lines, chains);
            let mut heads = begun.clone();
            run(&mut heads, 8);
            for (head, begin) in heads.iter().zip(&begun) {
                assert_eq!(*head as usize - *begin as usize, 8 * 64, "{chains} chains");
            }
        }
    }
}
