//! Decay of unused pages in jemalloc: how many may stay mapped, by how long ago pages became unused. The time at which
//! memory goes back to the kernel decides which page sizes a heap can have.

/// Steps in which unused pages decay (jemalloc's SMOOTHSTEP_NSTEPS).
const STEPS: usize = 200;
/// Bits behind the binary point of the curve (SMOOTHSTEP_BFP).
const POINT: u32 = 24;

/// How many unused pages may be kept. Ever fewer of those that became unused a while ago may, along a smooth step from
/// all to none (jemalloc's decay.c). Its jitter of the moments is left out.
#[derive(Clone, Debug)]
pub struct Decay {
    /// Nanoseconds of a step.
    step_ns: u64,
    epoch_ns: u64,
    /// Pages that became unused in each of the last steps, the latest last.
    backlog: Vec<u64>,
    /// Pages there were, or could be kept, when the last step ended.
    before: u64,
}

impl Decay {
    /// Pages that became unused are all given back after `ns`.
    pub fn new(ns: u64, now_ns: u64) -> Self {
        Self { step_ns: (ns / STEPS as u64).max(1), epoch_ns: now_ns, backlog: vec![0; STEPS], before: 0 }
    }

    /// How many of `pages` unused ones may be kept, if a step ended.
    pub fn limit(&mut self, pages: u64, now_ns: u64) -> Option<u64> {
        let steps = now_ns.saturating_sub(self.epoch_ns) / self.step_ns;
        if steps == 0 {
            return None;
        }
        self.epoch_ns += steps * self.step_ns;
        let gone = steps.min(STEPS as u64) as usize;
        self.backlog.drain(..gone);
        self.backlog.resize(STEPS, 0);
        self.backlog[STEPS - 1] = pages.saturating_sub(self.before);
        let kept: u128 = self.backlog.iter().zip(1u128..).map(|(&n, step)| u128::from(n) * curve(step)).sum();
        let limit = (kept >> POINT) as u64;
        self.before = limit.max(pages);
        Some(limit)
    }
}

/// `x^3 (6 x^2 - 15 x + 10)` at x = step / STEPS.
fn curve(step: u128) -> u128 {
    let n = STEPS as u128;
    let whole = n.pow(5);
    ((6 * step.pow(5) + 10 * step.pow(3) * n * n - 15 * step.pow(4) * n) << POINT) / whole
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_decay_along_the_curve() {
        assert_eq!(curve(200), 1 << POINT);
        assert_eq!(curve(100), 1 << (POINT - 1));
        // jemalloc's smoothstep.h: STEP(1, 0x0000000000000014, ...).
        assert_eq!(curve(1), 0x14);
        let mut decay = Decay::new(2000, 0);
        assert_eq!(decay.limit(1000, 9), None);
        assert_eq!(decay.limit(1000, 10), Some(1000));
        // Half the time later half of them may stay, then none.
        assert_eq!(decay.limit(1000, 1010), Some(500));
        assert_eq!(decay.limit(500, 2010), Some(0));
        // Used again and unused later: they count from then.
        assert_eq!(decay.limit(0, 2020), Some(0));
        assert_eq!(decay.limit(64, 2030), Some(64));
    }
}
