use crate::{
    generator::{DATA, Round, Rounds, WORD},
    seed::mix,
};

/// HPCC RandomAccess: a table is updated at places a shift register gives (HPC Challenge benchmark, RandomAccess
/// rules; `POLY` 7).
pub struct Gups {
    mask: u64,
    updates: u64,
    register: u64,
}

const POLY: u64 = 7;

impl Gups {
    /// `footprint` bytes (a power of two), `updates` updates, beginning at a place in the sequence that `seed` chooses.
    ///
    /// HPCC itself begins at its first value, 1: a register with few bits set, which for millions of steps stays so far
    /// from random that updates come back to the same pages. Any place is as much the benchmark as that one: its
    /// own streams begin all over the sequence.
    pub fn new(footprint: u64, updates: u64, seed: u64) -> Self {
        Self { mask: footprint / WORD - 1, updates, register: start(mix(seed)) }
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

impl Rounds for Gups {
    fn footprint(&self) -> u64 {
        (self.mask + 1) * WORD
    }

    fn rounds(&self) -> u64 {
        self.updates
    }

    fn instructions(&self) -> u32 {
        // As compiled for x86-64 and recorded: 16 instructions and two references an update.
        16
    }

    #[inline]
    fn next(&mut self) -> Round {
        self.register = step(self.register);
        let va = DATA.add((self.register & self.mask) * WORD);
        Round { read: Some(va), write: Some(va) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jumping_ahead_equals_stepping() {
        let mut register = 1;
        for n in 0..500 {
            assert_eq!(start(n), register, "after {n} steps");
            register = step(register);
        }
    }

    #[test]
    fn updates_stay_in_the_table_and_reach_most_of_it() {
        let mut g = Gups::new(1 << 20, 1 << 18, 1 << 40);
        let mut pages = std::collections::BTreeSet::new();
        for _ in 0..g.rounds() {
            let va = g.next().read.unwrap();
            assert!(va.raw() - DATA.raw() < 1 << 20 && va.raw().is_multiple_of(8));
            pages.insert(va.vpn());
        }
        assert_eq!(pages.len(), 256);
    }
}
