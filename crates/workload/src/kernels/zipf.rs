use super::Describe;
use crate::{
    kernel::Kernel,
    layout::Layout,
    memory::{Array, Memory, Setup},
    query::power,
    seed::{mix, nth},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Loads of elements by a Zipf distribution.
#[derive(Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ZipfDesc {
    /// Size of the array: a power of two from 4K to 64T. Default 64M.
    footprint: String,
    /// Exponent, from 0.01 to 10. Default 0.99.
    exponent: f64,
    /// Loads. `k`, `M` and `G` are powers of 1000. Default 1000000.
    references: u64,
    /// Seed. Default 1.
    seed: u64,
}

impl Default for ZipfDesc {
    fn default() -> Self {
        Self { footprint: "64M".into(), exponent: 0.99, references: 1_000_000, seed: 1 }
    }
}

impl Describe for ZipfDesc {
    const NAME: &str = "zipf";
    type Kernel = Zipf;

    fn kernel(&self) -> Result<Zipf, String> {
        if !(0.01..=10.0).contains(&self.exponent) {
            return Err(format!("exponent is {}: give 0.01 to 10", self.exponent));
        }
        Ok(Zipf::new(power(&self.footprint)?, self.exponent, self.references, self.seed))
    }
}

/// Ranks whose popularity falls to the power of `s`, from 0, the most popular.
///
/// Sampled exactly by rejection-inversion (Hörmann and Derflinger, "Rejection-inversion to generate variates from
/// monotone discrete distributions", ACM TOMACS 6(3), 1996).
#[derive(Clone, Debug)]
pub struct Ranks {
    elements: u64,
    s: f64,
    /// 1 / (1 - s).
    root: f64,
    low: f64,
    high: f64,
    accept: f64,
    /// Above `flat`, less than `bend` / k^2 of what rounds to rank k is refused: the density is nearly a straight line
    /// there, and twice the first term of the series of what it is not is more than all of them.
    flat: f64,
    bend: f64,
}

impl Ranks {
    /// Of `elements`, exponent `s` above 0.
    pub fn new(elements: u64, s: f64) -> Self {
        let mut z = Self {
            elements,
            s,
            root: (1.0 - s).recip(),
            low: 0.0,
            high: 0.0,
            accept: 0.0,
            flat: 16.0 * (s + 1.0),
            bend: s * (s + 1.0) / 12.0,
        };
        z.low = z.integral(1.5) - 1.0;
        z.high = z.integral(elements as f64 + 0.5);
        z.accept = 2.0 - z.inverse(z.integral(2.5) - z.density(2.0));
        z
    }

    fn density(&self, x: f64) -> f64 {
        (-self.s * x.ln()).exp()
    }

    /// The integral of the density from 1, also where the exponent is 1.
    fn integral(&self, x: f64) -> f64 {
        let log = x.ln();
        let t = (1.0 - self.s) * log;
        if t.abs() < 1e-8 { log * (1.0 + t / 2.0) } else { log * (t.exp_m1() / t) }
    }

    #[inline(always)]
    fn inverse(&self, y: f64) -> f64 {
        let t = (y * (1.0 - self.s)).max(-1.0);
        // Away from 1 the exponent needs neither a division nor care for small numbers, and this is most of a draw's time.
        if (1.0 - self.s).abs() > 1e-6 {
            return ((1.0 + t).ln() * self.root).exp();
        }
        if t.abs() < 1e-8 { (y * (1.0 - t / 2.0)).exp() } else { (y * (t.ln_1p() / t)).exp() }
    }

    /// The rank that random number `random` draws; where it is refused, those that follow from it do.
    #[inline(always)]
    pub fn draw(&self, mut random: u64) -> u64 {
        loop {
            let unit = (random >> 11) as f64 / (1u64 << 53) as f64;
            let u = self.high + unit * (self.low - self.high);
            let x = self.inverse(u);
            let k = (x + 0.5).floor().clamp(1.0, self.elements as f64);
            // The last test is what counts; those before it say yes only where it would, and cost next to nothing.
            if k - x <= self.accept || (k > self.flat && k - x <= 0.5 - self.bend / (k * k)) {
                return k as u64 - 1;
            }
            if u >= self.integral(k + 0.5) - self.density(k) {
                return k as u64 - 1;
            }
            random = mix(random);
        }
    }
}

/// Loads of elements whose popularity falls with their rank; ranks are scattered over memory by a multiplicative hash.
pub struct Zipf {
    layout: Layout,
    elements: Array<u64>,
    ranks: Ranks,
    references: u64,
    key: u64,
    at: u64,
}

impl Zipf {
    /// `footprint` bytes (a power of two) of elements, exponent `s` above 0.
    pub fn new(footprint: u64, s: f64, references: u64, seed: u64) -> Self {
        let mut layout = Layout::default();
        let elements: Array<u64> = layout.array(footprint / 8);
        Self { layout, elements, ranks: Ranks::new(elements.len(), s), references, key: mix(seed), at: 0 }
    }
}

impl Kernel for Zipf {
    fn layout(&self) -> &Layout {
        &self.layout
    }

    fn rounds(&self) -> Option<u64> {
        Some(self.references)
    }

    fn instructions_before(&self, round: u64) -> Option<u64> {
        // Take the next index, load the element, add to the sum, advance, compare, branch.
        round.checked_mul(6)
    }

    fn prepare(&mut self, setup: &mut impl Setup) {
        setup.fill(self.elements, |i| i);
    }

    fn seek(&mut self, round: u64) -> bool {
        self.at = round;
        true
    }

    #[inline(always)]
    fn round(&mut self, m: &mut impl Memory) -> bool {
        m.block(0, 6);
        let rank = self.ranks.draw(nth(self.key, self.at));
        self.at += 1;
        // Odd multiplier: a bijection of the elements, whose number is a power of two.
        m.load(self.elements, rank.wrapping_mul(0x9e37_79b9_7f4a_7c15) & (self.elements.len() - 1), || 0);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_accepted_early_would_be_accepted() {
        for s in [0.01, 0.5, 0.99, 1.0, 1.4, 3.0] {
            let z = Ranks::new(1 << 40, s);
            for k in (1..300).map(|i| z.flat.floor() + f64::from(i)) {
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
            (0..n).for_each(|i| seen[z.draw(nth(3, i as u64)) as usize] += 1);
            for rank in [0usize, 1, 9, 99] {
                let expected = (rank as f64 + 1.0).powf(-s) / norm * f64::from(n);
                let off = (f64::from(seen[rank]) - expected).abs();
                assert!(off < 5.0 * expected.sqrt() + 1.0, "s {s} rank {rank}: {} for {expected}", seen[rank]);
            }
        }
    }
}
