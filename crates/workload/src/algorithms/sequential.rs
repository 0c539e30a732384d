//! Generators `sequential` and `stride`: loads at a fixed distance through an array, over and over. `sequential` makes
//! 512 successive loads per base page. The default distance of `stride` is 4 KB: one load per base page.

use super::Describe;
use crate::{
    algorithm::{Algorithm, Sharing},
    layout::Layout,
    memory::{Array, Memory, Setup},
};
use mmulab_addr::{Bytes, show_bytes};
use mmulab_trace::Loads;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Loads of one element after another.
#[derive(Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SequentialDesc {
    /// Size of the array. Default 64M.
    #[schemars(extend("x-least" = "4K", "x-most" = "64T"))]
    footprint: Bytes,
    /// Loads. `k`, `M` and `G` are powers of 1000. Default 1000000.
    #[schemars(range(min = 0, max = 1u64 << 40))]
    references: u64,
}

impl Default for SequentialDesc {
    fn default() -> Self {
        Self { footprint: Bytes(64 << 20), references: 1_000_000 }
    }
}

impl Describe for SequentialDesc {
    const NAME: &str = "sequential";
    type Algorithm = Stride;

    fn algorithm(&self) -> Result<Stride, String> {
        Ok(Stride::new(self.footprint.0, 8, self.references))
    }
}

/// Loads at a fixed distance.
#[derive(Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct StrideDesc {
    /// Size of the array. Default 64M.
    #[schemars(extend("x-least" = "4K", "x-most" = "64T"))]
    footprint: Bytes,
    /// Distance between loads, at most the footprint. Default 4K.
    #[schemars(extend("x-least" = "1", "x-most" = "64T"))]
    stride: Bytes,
    /// Loads of a byte. `k`, `M` and `G` are powers of 1000. Default 1000000.
    #[schemars(range(min = 0, max = 1u64 << 40))]
    references: u64,
}

impl Default for StrideDesc {
    fn default() -> Self {
        Self { footprint: Bytes(64 << 20), stride: Bytes(4 << 10), references: 1_000_000 }
    }
}

impl Describe for StrideDesc {
    const NAME: &str = "stride";
    type Algorithm = Stride;

    fn algorithm(&self) -> Result<Stride, String> {
        let (Bytes(footprint), Bytes(stride)) = (self.footprint, self.stride);
        if stride > footprint {
            return Err(format!(
                "stride is {}: give 1 to the footprint, {}",
                show_bytes(stride),
                show_bytes(footprint)
            ));
        }
        Ok(Stride::new(footprint, stride, self.references))
    }
}

/// Loads at a fixed distance from one another, round and round.
#[derive(Clone)]
pub struct Stride {
    layout: Layout,
    bytes: Array<u8>,
    footprint: u64,
    stride: u64,
    references: u64,
    at: u64,
}

impl Stride {
    /// Loads every `stride` bytes of `footprint`.
    pub fn new(footprint: u64, stride: u64, references: u64) -> Self {
        let mut layout = Layout::default();
        let bytes = layout.array(footprint);
        Self { layout, bytes, footprint, stride, references, at: 0 }
    }
}

impl Algorithm for Stride {
    fn loads(&self) -> Option<Loads> {
        Some(Loads::Independent)
    }

    fn layout(&self) -> &Layout {
        &self.layout
    }

    fn rounds(&self) -> Option<u64> {
        Some(self.references)
    }

    fn instructions_before(&self, round: u64) -> Option<u64> {
        // Load, add to the sum, advance, compare, branch.
        round.checked_mul(5)
    }

    fn prepare(&self, setup: &mut impl Setup) {
        setup.fill(self.bytes, |i| i as u8);
    }

    fn sharing(&self) -> Sharing {
        Sharing::INTERVALS
    }

    fn seek(&mut self, round: u64) -> bool {
        self.at = round % self.footprint.div_ceil(self.stride) * self.stride;
        true
    }

    #[inline(always)]
    fn round(&mut self, m: &mut impl Memory) -> bool {
        m.block(0, 5);
        m.load(self.bytes, self.at, || 0);
        self.at += self.stride;
        if self.at >= self.footprint {
            self.at = 0;
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{layout::DATA, testing::loads};

    #[test]
    fn it_begins_anew_at_the_end() {
        let found = loads(Stride::new(10_000, 4_000, 7));
        assert_eq!(found, [0, 4_000, 8_000, 0, 4_000, 8_000, 0].map(|offset| DATA + offset));
    }
}
