//! Random numbers of what fills memory: the same for the same seed, on every computer.

use rand_core::Rng;
use rand_pcg::Pcg64Mcg;

/// Those of a seed and a purpose. The generator's state is odd: a seed's lowest bit would be lost in its.
pub fn generator(purpose: u128, seed: u64) -> Pcg64Mcg {
    Pcg64Mcg::new(purpose ^ u128::from(seed) << 1)
}

/// A number below `bound`.
pub fn below(rng: &mut Pcg64Mcg, bound: u64) -> u64 {
    ((u128::from(rng.next_u64()) * u128::from(bound)) >> 64) as u64
}
