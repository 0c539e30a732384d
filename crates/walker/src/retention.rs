//! A cache that neighbours share: lines that nobody uses for a while are gone.
//!
//! Programs of others displace lines of the third level. How long a line stays then is random, and short beside what the
//! size of the cache says. The time has a Weibull distribution: of lines of age `t` the share `exp(-(t / scale)^shape)` is
//! left. Shape 1 is exponential, as under random replacement. With a larger shape lines go at about the same age, as under
//! replacement of the least recently used line.

/// Values that `chance` has.
const CHANCES: f64 = 4_294_967_296.0;
/// Times are kept in units of 1,024 cycles.
const UNIT_SHIFT: u32 = 10;

/// When each line of a cache was last used, and whether it outlived the time since.
pub struct Retention {
    /// Time after which 1/e of the lines are left, in units.
    scale: f64,
    shape: f64,
    /// Last use of each slot.
    used: Vec<u32>,
}

impl Retention {
    /// A cache of `slots` lines, of which 1/e are left after `cycles`.
    pub fn new(slots: usize, cycles: u64, shape: f64) -> Self {
        Self { scale: (cycles as f64 / f64::from(1 << UNIT_SHIFT)).max(1.0), shape, used: vec![0; slots] }
    }

    /// The line in `slot` is placed there at `now` cycles, or placed anew.
    #[inline]
    pub fn place(&mut self, slot: usize, now: u64) {
        self.used[slot] = (now >> UNIT_SHIFT) as u32;
    }

    /// Uses `line` in `slot` at `now` cycles: whether it was there still, if it ever was.
    #[inline]
    pub fn stayed(&mut self, slot: usize, line: u64, now: u64) -> bool {
        let now = (now >> UNIT_SHIFT) as u32;
        let used = std::mem::replace(&mut self.used[slot], now);
        // Cores in time and their walks run a little ahead of each other.
        let age = f64::from(now.saturating_sub(used));
        let share = (-(age / self.scale).powf(self.shape)).exp();
        f64::from(chance(line, used)) < share * CHANCES
    }
}

/// A number that line and time decide, each value as likely as any other (the finisher of SplitMix64).
fn chance(line: u64, used: u32) -> u32 {
    let mut x = line.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ u64::from(used);
    x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    ((x ^ x >> 31) >> 32) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The share of lines that are there after `age` scales.
    fn share_after(age: f64, shape: f64) -> f64 {
        let scale = 1 << 20;
        let mut cache = Retention::new(1, scale, shape);
        let lines = 20_000;
        let stayed = (0..lines).filter(|&line| {
            cache.place(0, 0);
            cache.stayed(0, line, (age * scale as f64) as u64)
        });
        stayed.count() as f64 / lines as f64
    }

    #[test]
    fn ages_have_the_distribution_asked_for() {
        for shape in [1.0, 2.7f64] {
            assert_eq!(share_after(0.0, shape), 1.0);
            for age in [0.1, 0.5, 1.0, 2.0f64] {
                let (found, expected) = (share_after(age, shape), (-age.powf(shape)).exp());
                assert!((found - expected).abs() < 0.03, "{found} of lines after {age} scales, not {expected}");
            }
            assert!(share_after(9.0, shape) < 0.001);
        }
    }

    #[test]
    fn what_is_used_again_stays() {
        let mut cache = Retention::new(1, 1 << 20, 1.0);
        let uses = (0..2000u64).filter(|n| cache.stayed(0, 7, n << UNIT_SHIFT)).count();
        assert!(uses > 1990, "{uses}: between two uses goes a thousandth of a scale");
    }
}
