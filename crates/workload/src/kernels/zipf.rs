use super::Describe;
use crate::{
    kernels::drawn::{Draw, Drawn},
    query::power,
    ranks::{RankSequence, Ranks},
    seed::mix,
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
    type Kernel = Drawn<Zipf>;

    fn kernel(&self) -> Result<Drawn<Zipf>, String> {
        if !(0.01..=10.0).contains(&self.exponent) {
            return Err(format!("exponent is {}: give 0.01 to 10", self.exponent));
        }
        Ok(Zipf::new(power(&self.footprint)?, self.exponent, self.references, self.seed))
    }
}

/// Elements whose popularity falls with their rank; ranks are scattered over memory by a multiplicative hash.
#[derive(Clone)]
pub struct Zipf {
    ranks: RankSequence,
    /// One less than there are elements.
    mask: u64,
}

/// Bytes of an element.
const WORD: u64 = 8;

impl Zipf {
    /// `references` loads of `footprint` bytes (a power of two) of elements, exponent `s` above 0.
    pub fn new(footprint: u64, s: f64, references: u64, seed: u64) -> Drawn<Self> {
        let elements = footprint / WORD;
        let ranks = RankSequence::new(Ranks::new(elements, s), mix(seed));
        Drawn::new(elements, Self { ranks, mask: elements - 1 }, references)
    }
}

impl Draw for Zipf {
    #[inline(always)]
    fn index(&mut self, at: u64) -> u64 {
        let rank = self.ranks.nth(at);
        // Odd multiplier: a bijection of the elements, whose number is a power of two.
        rank.wrapping_mul(0x9e37_79b9_7f4a_7c15) & self.mask
    }
}
