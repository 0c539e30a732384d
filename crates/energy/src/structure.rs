//! Energy of one access and leakage, by the parts of a structure. The formulas are fitted to the output of CACTI 7.0
//! for structures at 32 nm (`scripts/cacti.py` asks CACTI, and fits).
//!
//! The errors are root mean squares, with the largest error in brackets. CACTI changes an array's layout from size to
//! size, and a formula does not. CACTI refuses to lay out smaller arrays than these.
//!
//! | arrays | reads | writes | leakage |
//! |---|---|---|---|
//! | 90 of sets (32 to 512 sets of 2 to 8 ways, entries of 88 to 168 bits) | 12 % (26 %) | 15 % (47 %) | 10 % (24 %) |
//! | 39 fully associative (4 to 256 entries) | 11 % (26 %) | 12 % (21 %) | 8 % (16 %) |

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

/// Reading one set of an array, in pJ. The parts are decoding, for each bit of the set the ends of the bit lines, and
/// the bit lines for each set that they pass.
const READ: (f64, f64, f64) = (0.172, 0.006_33, 0.000_028);
/// Writing it, in pJ.
const WRITE: (f64, f64, f64) = (0.646, 0.006_35, 0.000_041_9);
/// What a bit of an array of sets leaks, in mW.
const BIT_MW: f64 = 85.2e-6;
/// Searching a fully associative structure: for each bit of an entry, and for each bit of all entries; in pJ.
const SEARCH: (f64, f64) = (0.0142, 0.000_266);
/// Writing an entry of it, in pJ.
const ASSOCIATIVE_WRITE: (f64, f64) = (0.0128, 0.000_109);
/// What it leaks, for each bit of an entry, and for each bit of all entries; in mW.
const ASSOCIATIVE_MW: (f64, f64) = (0.003_55, 0.000_133);

/// Of an array of `sets` of `ways`, entries of `bits`.
pub fn of_sets(sets: u32, ways: u32, bits: u32) -> Takes {
    let (line, sets) = (f64::from(ways * bits), f64::from(sets));
    let takes = |(fixed, bit, run): (f64, f64, f64)| fixed + line * (bit + run * sets);
    Takes { read_pj: takes(READ), write_pj: takes(WRITE), leakage_mw: line * sets * BIT_MW }
}

/// Of a fully associative structure of `entries` of `bits`.
pub fn associative(entries: u32, bits: u32) -> Takes {
    let takes = |(entry, all): (f64, f64)| f64::from(bits) * (entry + all * f64::from(entries));
    Takes { read_pj: takes(SEARCH), write_pj: takes(ASSOCIATIVE_WRITE), leakage_mw: takes(ASSOCIATIVE_MW) }
}

/// Caches with lines of 64 bytes: KiB, and what CACTI 7.0 says of a read and a write, in pJ; of 8 ways, from 1 MiB on
/// 16.
const CACHES: [(f64, f64, f64); 5] = [
    (32.0, 123.4, 123.7),
    (256.0, 147.1, 164.6),
    (1024.0, 379.5, 415.9),
    (8192.0, 595.4, 650.3),
    (24_576.0, 1032.0, 1016.0),
];
/// What a KiB of a cache leaks, in mW (CACTI 7.0, at 1 MiB).
const CACHE_KIB_MW: f64 = 582.7 / 1024.0;

/// Of a cache of `bytes`: between two of those known by their logarithms, beyond them as between the nearest two.
pub fn cache(bytes: u64) -> Takes {
    let kib = bytes as f64 / 1024.0;
    let above = CACHES[1..CACHES.len() - 1].iter().position(|c| kib < c.0).unwrap_or(CACHES.len() - 2);
    let (low, high) = (CACHES[above], CACHES[above + 1]);
    let between = (kib / low.0).ln() / (high.0 / low.0).ln();
    Takes {
        read_pj: low.1 * (high.1 / low.1).powf(between),
        write_pj: low.2 * (high.2 / low.2).powf(between),
        leakage_mw: kib * CACHE_KIB_MW,
    }
}

/// A line of 64 bytes from memory is eight words of 1.3 to 2.6 nJ (Horowitz, Computing's Energy Problem, ISSCC 2014, as
/// others quote it). Here each takes 2 nJ. Memory's standing power is not translation's.
pub const MEMORY: Takes = Takes { read_pj: 16_000.0, write_pj: 16_000.0, leakage_mw: 0.0 };

#[cfg(test)]
mod tests {
    use super::*;

    /// By how much `a` misses `b`.
    fn off(a: f64, b: f64) -> f64 {
        (a / b - 1.0).abs()
    }

    /// What CACTI 7.0 says: sets, ways, bits, read, write, leakage.
    const ARRAYS: [(u32, u32, u32, f64, f64, f64); 4] = [
        (32, 4, 104, 2.683, 3.450, 1.300),
        (128, 4, 104, 4.094, 5.828, 4.650),
        (128, 8, 96, 6.624, 12.683, 8.563),
        (256, 4, 104, 5.241, 9.343, 9.013),
    ];
    /// Entries of 104 bits, fully associative.
    const ASSOCIATIVE: [(u32, f64, f64, f64); 3] =
        [(8, 1.592, 1.272, 0.490), (32, 2.469, 1.544, 0.818), (128, 6.699, 2.642, 2.559)];

    #[test]
    fn the_formulas_meet_what_cacti_says() {
        for (sets, ways, bits, read, write, leakage) in ARRAYS {
            let takes = of_sets(sets, ways, bits);
            assert!(off(takes.read_pj, read) < 0.26, "{sets} sets, {ways} ways: {takes:?}");
            assert!(off(takes.write_pj, write) < 0.47, "{sets} sets, {ways} ways: {takes:?}");
            assert!(off(takes.leakage_mw, leakage) < 0.24, "{sets} sets, {ways} ways: {takes:?}");
        }
        for (entries, read, write, leakage) in ASSOCIATIVE {
            let takes = associative(entries, 104);
            assert!(off(takes.read_pj, read) < 0.26, "{entries} entries: {takes:?}");
            assert!(off(takes.write_pj, write) < 0.21, "{entries} entries: {takes:?}");
            assert!(off(takes.leakage_mw, leakage) < 0.165, "{entries} entries: {takes:?}");
        }
        for (kib, read, write) in CACHES {
            let takes = cache(kib as u64 * 1024);
            assert!(off(takes.read_pj, read) < 1e-9 && off(takes.write_pj, write) < 1e-9, "{kib} KiB: {takes:?}");
        }
        // Between: CACTI says 171.6 pJ of 512 KiB, where another layout is best.
        assert!(off(cache(512 << 10).read_pj, 171.6) < 0.4);
        assert!(cache(32 << 20).read_pj > cache(24 << 20).read_pj);
    }

    #[test]
    fn more_of_anything_takes_more() {
        let base = of_sets(16, 4, 75);
        for larger in [of_sets(32, 4, 75), of_sets(16, 6, 75), of_sets(16, 4, 80)] {
            assert!(larger.read_pj > base.read_pj && larger.write_pj > base.write_pj);
            assert!(larger.leakage_mw > base.leakage_mw);
        }
    }
}
