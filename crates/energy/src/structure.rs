//! Energy of one access and leakage, by what a structure is made of. Fitted to the CACTI 6.5 numbers, at 32 nm, that Karakostas
//! and others state (Energy-Efficient Address Translation, HPCA 2016, Table 2; paper 4's [6]):
//!
//! | structure | read pJ | write pJ | leakage mW |
//! |---|---|---|---|
//! | TLB, 32 entries of 4 ways | 4.801 | 5.562 | 0.1715 |
//! | TLB, 64 entries of 4 ways | 5.865 | 6.858 | 0.3632 |
//! | TLB, 512 entries of 4 ways | 8.078 | 12.379 | 1.6663 |
//! | walk cache, 4 entries, fully associative | 0.766 | 0.279 | 0.0500 |
//! | walk cache, 2 entries, fully associative | 0.473 | 0.158 | 0.0296 |
//! | cache, 32 KiB of 8 ways | 174.171 | 186.723 | 13.3364 |
//!
//! The table was written down from memory of that paper, and has not been held against it since.
//!
//! The tests say how far off the formulas are.

/// What one structure takes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Takes {
    /// A lookup, in pJ.
    pub read_pj: f64,
    /// Writing an entry, in pJ.
    pub write_pj: f64,
    /// Leakage, in mW.
    pub leakage_mw: f64,
}

/// Decoding and driving, in pJ: where the line through the two fully associative walk caches meets no entries.
const FIXED_PJ: f64 = 0.18;
/// A bit read of one set, in pJ, for an entry of about 75 bits (paper 4, section 4.1).
const BIT_PJ: f64 = 0.0080;
/// What each doubling of the sets adds to that: longer bit lines.
const BIT_DOUBLING_PJ: f64 = 0.002_65;
/// A bit searched of a fully associative structure, in pJ: 0.146 for an entry of about 60 bits.
const SEARCHED_BIT_PJ: f64 = 0.146 / 60.0;
/// What a write takes of a read, and what each doubling of the sets adds.
const WRITE_SHARE: f64 = 0.80;
const WRITE_DOUBLING: f64 = 0.105;
/// A write of a fully associative structure needs no search.
const ASSOCIATIVE_WRITE_SHARE: f64 = 0.36;
/// Leakage of a bit of a first level, whose arrays have several ports, and of structures behind it, in mW.
const FIRST_LEVEL_MW: f64 = 0.3632 / (64.0 * 75.0);
const BEHIND_MW: f64 = 1.6663 / (512.0 * 75.0);

/// Of an array of `sets` of `ways`, entries of `bits`, of a first level or behind it.
pub fn of_sets(sets: u32, ways: u32, bits: u32, first: bool) -> Takes {
    let doublings = f64::from(sets.max(1)).log2();
    let read_pj = FIXED_PJ + f64::from(ways * bits) * (BIT_PJ + BIT_DOUBLING_PJ * doublings);
    Takes {
        read_pj,
        write_pj: read_pj * (WRITE_SHARE + WRITE_DOUBLING * doublings),
        leakage_mw: f64::from(sets * ways * bits) * if first { FIRST_LEVEL_MW } else { BEHIND_MW },
    }
}

/// Of a fully associative structure of `entries` of `bits`.
pub fn associative(entries: u32, bits: u32, first: bool) -> Takes {
    let read_pj = FIXED_PJ + f64::from(entries * bits) * SEARCHED_BIT_PJ;
    Takes {
        read_pj,
        write_pj: read_pj * ASSOCIATIVE_WRITE_SHARE,
        leakage_mw: f64::from(entries * bits) * if first { FIRST_LEVEL_MW } else { BEHIND_MW },
    }
}

/// Bytes of the cache that others are scaled from.
const CACHE_BYTES: f64 = 32.0 * 1024.0;
/// Reads of larger caches grow with this power of their size: 20 pJ a word at 32 KiB and 100 pJ at 1 MiB (Horowitz,
/// Computing's Energy Problem, ISSCC 2014): log 5 / log 32.
const CACHE_POWER: f64 = 0.464;

/// Of a cache of `bytes`.
pub fn cache(bytes: u64) -> Takes {
    let times = bytes as f64 / CACHE_BYTES;
    Takes {
        read_pj: 174.171 * times.powf(CACHE_POWER),
        write_pj: 186.723 * times.powf(CACHE_POWER),
        leakage_mw: 13.3364 * times,
    }
}

/// A line of 64 bytes from memory: eight words of 1.3 to 2.6 nJ (Horowitz, ISSCC 2014); 2 nJ each. Memory's standing power is
/// not translation's.
pub const MEMORY: Takes = Takes { read_pj: 16_000.0, write_pj: 16_000.0, leakage_mw: 0.0 };

#[cfg(test)]
mod tests {
    use super::*;

    /// By how much `a` misses `b`.
    fn off(a: f64, b: f64) -> f64 {
        (a / b - 1.0).abs()
    }

    #[test]
    fn the_formulas_meet_the_stated_numbers() {
        for (entries, read, write, leakage) in
            [(32, 4.801, 5.562, 0.1715), (64, 5.865, 6.858, 0.3632), (512, 8.078, 12.379, 1.6663)]
        {
            let takes = of_sets(entries / 4, 4, 75, entries < 512);
            assert!(off(takes.read_pj, read) < 0.04, "{entries}: {takes:?}");
            assert!(off(takes.write_pj, write) < 0.06, "{entries}: {takes:?}");
            assert!(off(takes.leakage_mw, leakage) < 0.06, "{entries}: {takes:?}");
        }
        for (entries, read, write) in [(4, 0.766, 0.279), (2, 0.473, 0.158)] {
            let takes = associative(entries, 60, false);
            assert!(off(takes.read_pj, read) < 0.02 && off(takes.write_pj, write) < 0.1, "{takes:?}");
        }
        assert_eq!(cache(32 << 10).read_pj, 174.171);
        // Five times a 32 KiB cache's, at 1 MiB.
        assert!(off(cache(1 << 20).read_pj, 5.0 * 174.171) < 0.01);
    }

    #[test]
    fn more_of_anything_takes_more() {
        let base = of_sets(16, 4, 75, true);
        for larger in [of_sets(32, 4, 75, true), of_sets(16, 6, 75, true), of_sets(16, 4, 80, true)] {
            assert!(larger.read_pj > base.read_pj && larger.write_pj > base.write_pj);
            assert!(larger.leakage_mw > base.leakage_mw);
        }
    }
}
