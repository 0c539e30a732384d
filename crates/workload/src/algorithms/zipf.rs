//! Generator `zipf`: loads of array elements whose popularity follows a Zipf distribution. Ranks are scattered by a
//! multiplicative hash, so popular elements spread over all pages. A larger exponent concentrates the loads on fewer
//! elements.

use super::Describe;
use crate::{
    algorithms::drawn::{Draw, Drawn},
    ranks::{RankSequence, Ranks},
    seed::mix,
};
use mmulab_addr::Bytes;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Loads of elements by a Zipf distribution.
#[derive(Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ZipfDesc {
    /// Size of the array. Default 64M.
    #[schemars(extend("x-least" = "4K", "x-most" = "64T", "x-power-of-two" = true))]
    footprint: Bytes,
    /// Exponent. Default 0.99.
    #[schemars(range(min = 0.01, max = 10.0))]
    exponent: f64,
    /// Loads. `k`, `M` and `G` are powers of 1000. Default 1000000.
    #[schemars(range(min = 0, max = 1u64 << 40))]
    references: u64,
    /// Seed. Default 1.
    #[schemars(range(min = 0, max = i64::MAX))]
    seed: u64,
}

impl Default for ZipfDesc {
    fn default() -> Self {
        Self { footprint: Bytes(64 << 20), exponent: 0.99, references: 1_000_000, seed: 1 }
    }
}

impl Describe for ZipfDesc {
    const NAME: &str = "zipf";
    type Algorithm = Drawn<Zipf>;

    fn algorithm(&self) -> Result<Drawn<Zipf>, String> {
        Ok(Zipf::new(self.footprint.0, self.exponent, self.references, self.seed))
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
