//! Seeds as people give them (1, 2, 3) made into numbers that have nothing in common.

/// SplitMix64's output function on the state that follows `seed` (Steele, Lea and Flood, "Fast splittable pseudorandom
/// number generators", OOPSLA 2014, with Stafford's variant 13 of the finalizer). A bijection: no two seeds meet.
pub fn mix(seed: u64) -> u64 {
    let z = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{chase::Chase, generator::Rounds, gups::Gups, zipf::Zipf};

    #[test]
    fn numbers_are_those_of_splitmix64() {
        // The first outputs of the generator seeded with 0 (and so of those seeded with its later states).
        assert_eq!(mix(0), 0xe220_a839_7b1d_cdaf);
        assert_eq!(mix(0x9e37_79b9_7f4a_7c15), 0x6e78_9e6a_a1b9_65f4);
    }

    /// The pages of the first 256 references.
    fn pages(mut rounds: impl Rounds) -> Vec<u64> {
        (0..256).map(|_| rounds.next().read.expect("each round loads").vpn().0).collect()
    }

    /// The first references of neighbouring seeds are spread evenly, and have no more in common than chance gives.
    fn looks_random(name: &str, first: impl Fn(u64) -> Vec<u64>) {
        let all: Vec<Vec<u64>> = (0..16).map(first).collect();
        for (seed, one) in all.iter().enumerate() {
            // 256 references to 2^16 pages: half a repetition is expected, a few of HPCC's shift register, whose next value
            // is the last one moved by a bit; and each quarter of the pages holds 64.
            let unique: std::collections::BTreeSet<_> = one.iter().collect();
            assert!(unique.len() >= 240, "{name}, seed {seed}: {} pages in 256 references", unique.len());
            for quarter in 0..4 {
                let here = one.iter().filter(|&&p| (p >> 14) & 3 == quarter).count();
                assert!((32..=96).contains(&here), "{name}, seed {seed}: {here} of 256 in quarter {quarter}");
            }
            for (other, two) in all.iter().enumerate().skip(seed + 1) {
                let same = one.iter().zip(two).filter(|(a, b)| a == b).count();
                let shared = unique.iter().filter(|p| two.contains(p)).count();
                assert!(same <= 2 && shared <= 12, "{name}, seeds {seed} and {other}: {same} and {shared} alike");
            }
        }
    }

    #[test]
    fn small_seeds_are_as_random_as_large_ones() {
        const SIZE: u64 = 256 << 20;
        looks_random("gups", |seed| pages(Gups::new(SIZE, 1 << 20, seed)));
        looks_random("pointer-chase", |seed| pages(Chase::new(SIZE, 4096, 1 << 20, seed)));
        // Nearly uniform, so that popular elements do not repeat.
        looks_random("zipf", |seed| pages(Zipf::new(SIZE, 0.01, 1 << 20, seed)));
    }
}
