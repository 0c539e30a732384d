//! SplitMix64's output function: numbers that have nothing in common out of numbers that follow each other. Hashes,
//! seeds and random choices of the engine need one that is the same on every computer and in every version.

/// The golden ratio as a 64-bit fraction: SplitMix64 adds it from one output to the next.
pub const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// The output of SplitMix64 for a state (Steele, Lea and Flood, "Fast splittable pseudorandom number generators",
/// OOPSLA 2014, with Stafford's variant 13 of the finalizer). A bijection: no two states have one output.
#[inline(always)]
pub const fn mix(state: u64) -> u64 {
    let z = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first outputs of the published generator (Vigna, splitmix64.c) seeded with 1234567.
    #[test]
    fn outputs_are_those_of_the_published_generator() {
        let outputs: Vec<u64> = (1..=3).map(|n| mix(GOLDEN.wrapping_mul(n).wrapping_add(1_234_567))).collect();
        assert_eq!(outputs, [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]);
    }
}
