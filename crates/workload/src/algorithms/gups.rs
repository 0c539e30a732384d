//! Generator `gups`: HPCC RandomAccess, one load and one store of the same random table element per update. Successive
//! updates are unrelated, so the TLB hit rate depends mostly on the share of the table that the TLB covers. The random
//! sequence can be entered at any update, so parts and threads skip the updates before.

use super::Describe;
use crate::{
    algorithm::{Algorithm, Sharing},
    layout::Layout,
    memory::{Array, Memory, Setup},
    seed::mix,
};
use mmulab_addr::Bytes;
use mmulab_trace::Loads;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// HPCC RandomAccess: a table updated at random places.
#[derive(Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct GupsDesc {
    /// Size of the table. Default 64M.
    #[schemars(extend("x-least" = "4K", "x-most" = "64T", "x-power-of-two" = true))]
    footprint: Bytes,
    /// Updates, each one load and one store. `k`, `M` and `G` are powers of 1000. Default 1000000.
    #[schemars(range(min = 0, max = 1u64 << 40))]
    updates: u64,
    /// Chooses where in the random sequence to begin. Default 1.
    #[schemars(range(min = 0, max = i64::MAX))]
    seed: u64,
}

impl Default for GupsDesc {
    fn default() -> Self {
        Self { footprint: Bytes(64 << 20), updates: 1_000_000, seed: 1 }
    }
}

impl Describe for GupsDesc {
    const NAME: &str = "gups";
    type Algorithm = Gups;

    fn algorithm(&self) -> Result<Gups, String> {
        Ok(Gups::new(self.footprint.0, self.updates, self.seed))
    }
}

/// HPCC RandomAccess: a table is updated at places a shift register gives (HPC Challenge benchmark, RandomAccess
/// rules; `POLY` 7).
#[derive(Clone)]
pub struct Gups {
    layout: Layout,
    table: Array<u64>,
    mask: u64,
    updates: u64,
    /// Where in the sequence round 0 is.
    origin: u64,
    register: u64,
}

const POLY: u64 = 7;
/// Bytes of an element.
const WORD: u64 = 8;

impl Gups {
    /// `footprint` bytes (a power of two), `updates` updates, beginning at a place in the sequence that `seed` chooses.
    ///
    /// HPCC itself begins at its first value, 1: a register with few bits set. For millions of steps it stays so far
    /// from random that updates come back to the same pages. Any place is as much the benchmark as that one: its own
    /// streams begin all over the sequence.
    pub fn new(footprint: u64, updates: u64, seed: u64) -> Self {
        let mut layout = Layout::default();
        let table = layout.array(footprint / WORD);
        Self { layout, table, mask: footprint / WORD - 1, updates, origin: mix(seed), register: start(mix(seed)) }
    }
}

#[inline]
fn step(register: u64) -> u64 {
    (register << 1) ^ if (register as i64) < 0 { POLY } else { 0 }
}

/// The register after `n` steps from 1 (`HPCC_starts`): squarings of x modulo the polynomial.
fn start(n: u64) -> u64 {
    if n == 0 {
        return 1;
    }
    // squares[i] = x^(2i) for each bit i of a register: squaring spreads a register's bits so.
    let mut squares = [0u64; 64];
    let mut register = 1;
    for square in &mut squares {
        *square = register;
        register = step(step(register));
    }
    let top = 63 - n.leading_zeros();
    let mut register = 2;
    for bit in (0..top).rev() {
        register = (0..64).filter(|j| register >> j & 1 == 1).fold(0, |sum, j| sum ^ squares[j]);
        if n >> bit & 1 == 1 {
            register = step(register);
        }
    }
    register
}

/// Steps after which the register is what it was: of HPCC's polynomial, `PERIOD` in its sources.
const PERIOD: u64 = 1_317_624_576_693_539_401;

impl Algorithm for Gups {
    fn loads(&self) -> Option<Loads> {
        Some(Loads::Independent)
    }

    fn layout(&self) -> &Layout {
        &self.layout
    }

    fn rounds(&self) -> Option<u64> {
        Some(self.updates)
    }

    fn instructions_before(&self, round: u64) -> Option<u64> {
        // As compiled for x86-64 and recorded: 16 instructions and two references an update.
        round.checked_mul(16)
    }

    fn prepare(&self, setup: &mut impl Setup) {
        setup.fill(self.table, |i| i);
    }

    fn sharing(&self) -> Sharing {
        Sharing::INTERVALS
    }

    fn seek(&mut self, round: u64) -> bool {
        self.register = start((self.origin % PERIOD + round % PERIOD) % PERIOD);
        true
    }

    #[inline(always)]
    fn round(&mut self, m: &mut impl Memory) -> bool {
        m.block(0, 16);
        self.register = step(self.register);
        let index = self.register & self.mask;
        let before = m.load(self.table, index, || 0);
        m.store(self.table, index, || before ^ self.register);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{loads, model};

    #[test]
    fn jumping_ahead_equals_stepping() {
        let mut register = 1;
        for n in 0..500 {
            assert_eq!(start(n), register, "after {n} steps");
            register = step(register);
        }
        assert_eq!(start(PERIOD), 1);
        assert_eq!(start(mix(3)), start(mix(3) % PERIOD));
    }

    #[test]
    fn updates_stay_in_the_table_and_reach_most_of_it() {
        let pages: std::collections::BTreeSet<_> =
            loads(Gups::new(1 << 20, 1 << 18, 1 << 40)).into_iter().map(|at| at >> 12).collect();
        assert_eq!(pages.len(), 256);
    }

    #[test]
    fn every_update_done_twice_leaves_the_table_as_it_was() {
        // HPCC verifies itself so.
        let mut found = model(Gups::new(1 << 16, 10_000, 7));
        assert_ne!(found.array(|k| k.table), (0..1 << 13).collect::<Vec<u64>>());
        found.algorithm.seek(0);
        found.run();
        assert_eq!(found.array(|k| k.table), (0..1 << 13).collect::<Vec<u64>>());
    }
}
