//! Numbers drawn by a Zipf distribution.

use crate::seed::{mix, nth, unit};

/// Ranks whose popularity falls to the power of `s`, from 0, the most popular.
///
/// Sampled by rejection-inversion (Hörmann and Derflinger, "Rejection-inversion to generate variates from monotone
/// discrete distributions", ACM TOMACS 6(3), 1996).
#[derive(Clone, Debug)]
pub struct Ranks {
    elements: f64,
    s: f64,
    /// 1 - s and 1 / (1 - s).
    rest: f64,
    root: f64,
    low: f64,
    high: f64,
    /// From which integral on the ranks below [`LISTED`] are accepted.
    listed: [f64; LISTED],
    /// Above 16 (s + 1), less than `bend` / k^2 of what rounds to rank k is refused. The density is nearly a straight
    /// line there. Twice the first term of the series of its deviation is more than all terms.
    bend: f64,
}

/// Ranks whose acceptance is listed. A draw is of one of them, or of one so flat that it hardly ever needs an integral.
/// For an exponent of 10, that is from 176 on.
const LISTED: usize = 256;
const LAST: f64 = (LISTED - 1) as f64;
/// How near to 1 an exponent needs care for small numbers.
const NEAR: f64 = 1e-6;

impl Ranks {
    /// Of `elements`, exponent `s` above 0.
    pub fn new(elements: u64, s: f64) -> Self {
        let mut z = Self {
            elements: elements as f64,
            s,
            rest: 1.0 - s,
            root: (1.0 - s).recip(),
            low: 0.0,
            high: 0.0,
            listed: [0.0; LISTED],
            bend: s * (s + 1.0) / 12.0,
        };
        z.low = z.integral(1.5) - 1.0;
        z.high = z.integral(elements as f64 + 0.5);
        z.listed = std::array::from_fn(|k| z.least(k as f64));
        z
    }

    fn density(&self, x: f64) -> f64 {
        (-self.s * x.ln()).exp()
    }

    /// The integral of the density from 1, also where the exponent is 1.
    fn integral(&self, x: f64) -> f64 {
        let log = x.ln();
        let t = self.rest * log;
        if t.abs() < 1e-8 { log * (1.0 + t / 2.0) } else { log * (t.exp_m1() / t) }
    }

    /// The least integral of those whose rank `k` is accepted.
    fn least(&self, k: f64) -> f64 {
        self.integral(k + 0.5) - self.density(k)
    }

    #[inline(always)]
    fn inverse(&self, y: f64) -> f64 {
        let t = (y * self.rest).max(-1.0);
        // Away from 1 the exponent needs neither a division nor care for small numbers, and this is most of a draw's
        // time.
        if self.rest.abs() > NEAR {
            return exp(ln(1.0 + t) * self.root);
        }
        if t.abs() < 1e-8 { (y * (1.0 - t / 2.0)).exp() } else { (y * (t.ln_1p() / t)).exp() }
    }

    /// Where random number `random` falls: the integral up to there, the place, and its rank from 1.
    #[inline(always)]
    fn fall(&self, random: u64) -> Fallen {
        let u = self.high + unit(random) * (self.low - self.high);
        let x = self.inverse(u);
        let k = (x + 0.5).floor();
        let k = if k > 1.0 { k } else { 1.0 };
        Fallen { u, x, k: if k < self.elements { k } else { self.elements } }
    }

    /// Whether the rank is accepted, or whether that costs nothing to know.
    #[inline(always)]
    fn surely_accepts(&self, Fallen { u, x, k }: Fallen) -> bool {
        // Both are computed, without a jump: which of them is the right one is as random as the draw.
        let listed = u >= self.listed[k.min(LAST) as i64 as usize % LISTED];
        let flat = (k - x - 0.5) * (k * k) <= -self.bend;
        ((k <= LAST) & listed) | ((k > LAST) & flat)
    }

    fn accepts(&self, fallen: Fallen) -> bool {
        self.surely_accepts(fallen) || (fallen.k > LAST && fallen.u >= self.least(fallen.k))
    }

    /// The rank that random number `random` draws; where it is refused, those that follow from it do.
    fn draw(&self, mut random: u64) -> u64 {
        loop {
            let fallen = self.fall(random);
            if self.accepts(fallen) {
                return fallen.rank();
            }
            random = mix(random);
        }
    }

    /// The ranks that many draw, each as if it were alone, whose arithmetic the host does side by side.
    #[inline]
    pub fn draw_all<const N: usize>(&self, randoms: [u64; N]) -> [u64; N] {
        let fallen = randoms.map(|random| self.fall(random));
        let mut drawn = fallen.map(Fallen::rank);
        let sure = fallen.map(|fallen| u8::from(self.surely_accepts(fallen)));
        for i in (0..N).filter(|&i| sure[i] == 0) {
            if !self.accepts(fallen[i]) {
                drawn[i] = self.draw(mix(randoms[i]));
            }
        }
        drawn
    }
}

#[derive(Clone, Copy)]
struct Fallen {
    u: f64,
    x: f64,
    k: f64,
}

impl Fallen {
    #[inline(always)]
    fn rank(self) -> u64 {
        self.k as i64 as u64 - 1
    }
}

/// Ranks that are drawn at once.
const AHEAD: usize = 32;

/// A sequence of ranks: each a function of its place, some drawn ahead.
#[derive(Clone, Debug)]
pub struct RankSequence {
    ranks: Ranks,
    key: u64,
    /// The place of the first of those drawn.
    first: u64,
    drawn: [u64; AHEAD],
}

impl RankSequence {
    /// What the random numbers of `key` draw of `ranks`.
    pub fn new(ranks: Ranks, key: u64) -> Self {
        let mut sequence = Self { ranks, key, first: 0, drawn: [0; AHEAD] };
        sequence.draw_from(0);
        sequence
    }

    #[inline(never)]
    fn draw_from(&mut self, first: u64) {
        self.first = first;
        self.drawn = self.ranks.draw_all(std::array::from_fn(|i| nth(self.key, first.wrapping_add(i as u64))));
    }

    /// The rank at place `at`.
    #[inline(always)]
    pub fn nth(&mut self, at: u64) -> u64 {
        if at.wrapping_sub(self.first) >= AHEAD as u64 {
            self.draw_from(at);
        }
        self.drawn[at.wrapping_sub(self.first) as usize % AHEAD]
    }
}

/// The logarithm of a normal number above 0, but for some 1e-15 of it or of 1: inlined, and the same on every system.
#[inline(always)]
fn ln(x: f64) -> f64 {
    const MANTISSA: u64 = (1 << 52) - 1;
    const ONE: u64 = 0x3ff << 52;
    // x = 2^e m, with m from the root of a half to that of 2.
    const ROOT_HALF: u64 = 0x3fe6_a09e_667f_3bcd;
    let shifted = x.to_bits().wrapping_sub(ROOT_HALF) as i64;
    let e = (shifted >> 52) as f64;
    let m = f64::from_bits(((shifted as u64) & MANTISSA).wrapping_add(ROOT_HALF));
    debug_assert!(m.to_bits() >= ROOT_HALF && m.to_bits() < ONE + (1 << 52));
    // ln m = 2 artanh((m - 1) / (m + 1)): s^2 is below 0.03, so that what is left out is below 1e-16.
    let s = (m - 1.0) / (m + 1.0);
    let s2 = s * s;
    let s4 = s2 * s2;
    let even = 2.0 + s4 * (2.0 / 5.0 + s4 * (2.0 / 9.0 + s4 * (2.0 / 13.0 + s4 * (2.0 / 17.0))));
    let odd = 2.0 / 3.0 + s4 * (2.0 / 7.0 + s4 * (2.0 / 11.0 + s4 * (2.0 / 15.0)));
    e * std::f64::consts::LN_2 + s * (even + s2 * odd)
}

/// e to the power of `x`, but for some 1e-14 of it. Values that are too small or too large are 2 to the power of -1022
/// or 1023.
#[inline(always)]
fn exp(x: f64) -> f64 {
    // x = k ln 2 + r; adding and taking away 1.5 * 2^52 rounds to a whole number, which is then in the low bits.
    const ROUND: f64 = 6_755_399_441_055_744.0;
    let rounded = (x * std::f64::consts::LOG2_E).clamp(-1022.0, 1023.0) + ROUND;
    let k = rounded - ROUND;
    let r = (x - k * std::f64::consts::LN_2).clamp(-0.4, 0.4);
    // The series of the exponential: r is below 0.35, so that what is left out is below 1e-15.
    let (r2, r4) = (r * r, (r * r) * (r * r));
    let a = (1.0 + r) + r2 * (1.0 / 2.0 + r * (1.0 / 6.0));
    let b = (1.0 / 24.0 + r * (1.0 / 120.0)) + r2 * (1.0 / 720.0 + r * (1.0 / 5_040.0));
    let c = (1.0 / 40_320.0 + r * (1.0 / 362_880.0)) + r2 * (1.0 / 3_628_800.0 + r * (1.0 / 39_916_800.0));
    let power = f64::from_bits((rounded.to_bits().wrapping_add(0x3ff)) << 52);
    (a + r4 * (b + r4 * c)) * power
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_accepted_early_would_be_accepted() {
        for s in [0.01, 0.5, 0.99, 1.0, 1.4, 3.0] {
            let z = Ranks::new(1 << 40, s);
            for k in (0..300).map(|i| LAST + f64::from(i)) {
                // What lies above is accepted; 1e-8 is what the differences of integrals are uncertain by.
                let least = z.inverse(z.integral(k + 0.5) - z.density(k));
                assert!(k - least >= 0.5 - z.bend / (k * k) - 1e-8, "s {s}, rank {k}: {least}");
            }
        }
    }

    #[test]
    fn ranks_are_as_frequent_as_they_should_be() {
        for s in [0.5, 1.0, 1.4] {
            let z = Ranks::new(1024, s);
            let norm: f64 = (1..=1024).map(|k| f64::from(k).powf(-s)).sum();
            let n = 200_000;
            let mut seen = [0u32; 1024];
            let mut sequence = RankSequence::new(z.clone(), 3);
            (0..n).for_each(|i| seen[sequence.nth(i as u64) as usize] += 1);
            assert!((0..1000).all(|i| sequence.nth(i) == z.draw(nth(3, i))), "many at once are as each alone");
            for rank in [0usize, 1, 9, 99] {
                let expected = (rank as f64 + 1.0).powf(-s) / norm * f64::from(n);
                let off = (f64::from(seen[rank]) - expected).abs();
                assert!(off < 5.0 * expected.sqrt() + 1.0, "s {s} rank {rank}: {} for {expected}", seen[rank]);
            }
        }
    }

    #[test]
    fn logarithms_and_powers_are_what_they_should_be() {
        for i in 0..200_000 {
            let random = nth(5, i);
            // Numbers of all exponents, and those about 1.
            for x in [f64::from_bits((random >> 2).max(1 << 52)), 1.0 + 0.5 * (unit(random) - 0.5)] {
                let (own, right) = (ln(x), x.ln());
                assert!((own - right).abs() <= 1e-15 * right.abs().max(1.0), "ln {x}: {own} for {right}");
            }
            let x = 600.0 * (unit(random) - 0.5);
            assert!((exp(x) / x.exp() - 1.0).abs() < 1e-13, "exp {x}");
            let x = x / 300.0;
            assert!((exp(x) / x.exp() - 1.0).abs() < 1e-14, "exp {x}");
        }
        assert!(exp(1e9).is_finite() && exp(-1e9) > 0.0);
    }
}
