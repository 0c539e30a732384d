//! A cache that neighbours share: lines that nobody uses for a while are gone.
//!
//! Programs of others displace lines: those on other cores the lines of the third level, those on another hardware
//! thread of the core the lines of all levels. How long a line stays then is random, and short beside what the size of
//! the cache says. The time has a Weibull distribution: of lines of age `t` the share `exp(-(t / scale)^shape)` is
//! left. Shape 1 is exponential, as under random replacement. With a larger shape lines go at about the same age, as
//! under replacement of the least recently used line; with a smaller one a neighbour that comes and goes displaces
//! them.

use mmulab_addr::{GOLDEN, mix};

/// Values that `chance` has.
const CHANCES: f64 = 4_294_967_296.0;
/// Times are kept in units of 1,024 cycles.
const UNIT_SHIFT: u32 = 10;
/// Bits of an age after its highest one that choose its share.
const FINE: u32 = 5;

/// When each line of a cache was last used, and whether it outlived the time since.
pub struct Retention {
    /// Time after which 1/e of the lines are left, in units.
    scale: f64,
    shape: f64,
    /// Last use of each slot.
    used: Vec<u32>,
    /// By [`step`] of an age: below which `chance` a line is left.
    left: Vec<u32>,
}

/// Which share is for an age: ages that agree in their highest bits have the same.
#[inline]
fn step(age: u32) -> usize {
    let high = age.max(1).ilog2().saturating_sub(FINE);
    ((high << FINE) + (age >> high)) as usize
}

impl Retention {
    /// A cache of `slots` lines, of which 1/e are left after `cycles`.
    pub fn new(slots: usize, cycles: u64, shape: f64) -> Self {
        let scale = (cycles as f64 / f64::from(1 << UNIT_SHIFT)).max(1.0);
        let mut left = vec![0; step(u32::MAX) + 1];
        for high in 0..=(u32::BITS - 1 - FINE) {
            // Of an age without `FINE` bits after its highest one all bits count.
            let begin = if high == 0 { 0 } else { 1 << FINE };
            for top in begin..2 << FINE {
                let middle = if high == 0 { f64::from(top) } else { (f64::from(top) + 0.5) * f64::from(1 << high) };
                let share = (-(middle / scale).powf(shape)).exp();
                left[((high << FINE) + top) as usize] = (share * CHANCES).min(f64::from(u32::MAX)) as u32;
            }
        }
        Self { scale, shape, used: vec![0; slots], left }
    }

    /// The line in `slot` is placed there at `now` cycles, or placed anew.
    #[inline]
    pub fn place(&mut self, slot: usize, now: u64) {
        self.used[slot] = (now >> UNIT_SHIFT) as u32;
    }

    /// When the `line` in `slot` was displaced, if it was by `now` cycles.
    #[inline]
    pub fn displaced(&self, slot: usize, line: u64, now: u64) -> Option<u64> {
        let used = self.used[slot];
        // Cores in time and their walks run a little ahead of each other.
        let age = ((now >> UNIT_SHIFT) as u32).saturating_sub(used);
        if age == 0 {
            return None;
        }
        let chance = chance(line, used);
        (chance >= self.left[step(age)]).then(|| self.when(used, chance).min(now))
    }

    /// When a line with this `chance` goes that was used at `used`.
    #[cold]
    fn when(&self, used: u32, chance: u32) -> u64 {
        let share = (f64::from(chance) / CHANCES).max(f64::MIN_POSITIVE);
        let stays = self.scale * (-share.ln()).powf(1.0 / self.shape);
        ((f64::from(used) + stays) * f64::from(1 << UNIT_SHIFT)) as u64
    }
}

/// A number that line and time decide, each value as likely as any other (the finisher of SplitMix64).
pub fn chance(line: u64, used: u32) -> u32 {
    (mix(line.wrapping_mul(GOLDEN) ^ u64::from(used)) >> 32) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Uses `line` in the only slot: whether it was still there.
    fn stayed(cache: &mut Retention, line: u64, now: u64) -> bool {
        let displaced = cache.displaced(0, line, now);
        cache.place(0, now);
        displaced.is_none()
    }

    /// The share of lines that are there after `age` scales.
    fn share_after(age: f64, shape: f64) -> f64 {
        let scale = 1 << 20;
        let mut cache = Retention::new(1, scale, shape);
        let lines = 20_000;
        let left = (0..lines).filter(|&line| {
            cache.place(0, 0);
            stayed(&mut cache, line, (age * scale as f64) as u64)
        });
        left.count() as f64 / lines as f64
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
    fn a_displaced_line_went_at_an_age_of_the_distribution() {
        let scale = 1u64 << 20;
        let mut cache = Retention::new(1, scale, 1.0);
        cache.place(0, 5 * scale);
        let now = 8 * scale;
        let mut went: Vec<u64> = (0..20_000).filter_map(|line| cache.displaced(0, line, now)).collect();
        assert!(went.iter().all(|&at| (5 * scale..=now).contains(&at)));
        // Half of those that go within three scales go within 0.644 of one: 1 - exp(-t) is half of 1 - exp(-3).
        went.sort_unstable();
        let median = (went[went.len() / 2] - 5 * scale) as f64 / scale as f64;
        assert!((median - 0.644).abs() < 0.03, "{median}");
    }

    #[test]
    fn ages_have_steps_that_grow_with_them() {
        assert_eq!([0, 1, 2, 31, 32, 63].map(step), [0, 1, 2, 31, 32, 63]);
        let mut last = 0;
        for age in (0..32).flat_map(|bit| [(1u32 << bit) - 1, 1 << bit, (1 << bit) + (1 << bit >> 1)]) {
            last = last.max(step(age));
            assert!(step(age) <= last + 1, "{age}");
        }
        assert!(step(u32::MAX) < 1024);
    }

    #[test]
    fn what_is_used_again_stays() {
        let mut cache = Retention::new(1, 1 << 20, 1.0);
        let uses = (0..2000u64).filter(|n| stayed(&mut cache, 7, n << UNIT_SHIFT)).count();
        assert!(uses > 1990, "{uses}: between two uses goes a thousandth of a scale");
    }
}
