use crate::{
    generator::{DATA, Round, Rounds, WORD},
    seed::mix,
};
use rand_core::Rng;
use rand_pcg::Pcg64Mcg;

/// Loads of elements whose popularity falls with their rank to the power of `s`.
///
/// Sampled exactly by rejection-inversion (Hörmann and Derflinger, "Rejection-inversion to generate variates from
/// monotone discrete distributions", ACM TOMACS 6(3), 1996); ranks are scattered over memory by a multiplicative hash.
pub struct Zipf {
    elements: u64,
    s: f64,
    references: u64,
    rng: Pcg64Mcg,
    low: f64,
    high: f64,
    accept: f64,
}

impl Zipf {
    /// `footprint` bytes (a power of two) of elements, exponent `s` above 0.
    pub fn new(footprint: u64, s: f64, references: u64, seed: u64) -> Self {
        let elements = footprint / WORD;
        let mut z = Self {
            elements,
            s,
            references,
            rng: Pcg64Mcg::new(u128::from(mix(seed)) << 64 | u128::from(mix(!seed))),
            low: 0.0,
            high: 0.0,
            accept: 0.0,
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

    fn inverse(&self, y: f64) -> f64 {
        let t = (y * (1.0 - self.s)).max(-1.0);
        if t.abs() < 1e-8 { (y * (1.0 - t / 2.0)).exp() } else { (y * (t.ln_1p() / t)).exp() }
    }

    fn rank(&mut self) -> u64 {
        loop {
            let unit = (self.rng.next_u64() >> 11) as f64 / (1u64 << 53) as f64;
            let u = self.high + unit * (self.low - self.high);
            let x = self.inverse(u);
            let k = x.round().clamp(1.0, self.elements as f64);
            if k - x <= self.accept || u >= self.integral(k + 0.5) - self.density(k) {
                return k as u64 - 1;
            }
        }
    }
}

impl Rounds for Zipf {
    fn footprint(&self) -> u64 {
        self.elements * WORD
    }

    fn rounds(&self) -> u64 {
        self.references
    }

    fn instructions(&self) -> u32 {
        // Take the next index, load the element, add to the sum, advance, compare, branch.
        6
    }

    #[inline]
    fn next(&mut self) -> Round {
        let rank = self.rank();
        // Odd multiplier: a bijection of the elements, whose number is a power of two.
        let element = rank.wrapping_mul(0x9e37_79b9_7f4a_7c15) & (self.elements - 1);
        Round { read: Some(DATA.add(element * WORD)), write: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_as_frequent_as_they_should_be() {
        for s in [0.5, 1.0, 1.4] {
            let mut z = Zipf::new(1024 * WORD, s, 0, 3);
            let norm: f64 = (1..=1024).map(|k| f64::from(k).powf(-s)).sum();
            let n = 200_000;
            let mut seen = [0u32; 1024];
            (0..n).for_each(|_| seen[z.rank() as usize] += 1);
            for rank in [0usize, 1, 9, 99] {
                let expected = (rank as f64 + 1.0).powf(-s) / norm * f64::from(n);
                let off = (f64::from(seen[rank]) - expected).abs();
                assert!(off < 5.0 * expected.sqrt() + 1.0, "s {s} rank {rank}: {} for {expected}", seen[rank]);
            }
        }
    }
}
