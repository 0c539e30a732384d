//! Tests of the area fit. Proposed TLB arrays must be buildable and, except for the ideal design, must not be larger
//! than the arrays of paper 4's baseline. Impossible requests must fail with a message that names the cause.

use super::*;
use crate::area;
use mmulab_tlb::{Hierarchy, HierarchyDesc};

const P4K: PageOrder = PageOrder::P4K;
const P2M: PageOrder = PageOrder::P2M;
const P1G: PageOrder = PageOrder::P1G;
const ASID_BITS: u8 = 12;

fn array(name: &str, level: u8, entries: u32, ways: Ways, sizes: &[PageOrder]) -> ArrayDesc {
    ArrayDesc {
        hit_cycles: if level == 1 { 0 } else { 6 },
        ..ArrayDesc::plain(
            name,
            (level, if level == 1 { Placement::Data } else { Placement::Both }),
            (entries, ways),
            sizes,
        )
    }
}

/// Paper 4's baseline (section 6.1).
fn haswell() -> Vec<ArrayDesc> {
    vec![
        ArrayDesc { side: Placement::Instruction, ..array("ITLB", 1, 128, Ways::Count(4), &[P4K]) },
        array("DTLB-4K", 1, 64, Ways::Count(4), &[P4K]),
        array("DTLB-2M", 1, 32, Ways::Count(4), &[P2M]),
        array("DTLB-1G", 1, 4, Ways::Full, &[P1G]),
        ArrayDesc { probe: Probe::Serial, ..array("L2", 2, 512, Ways::Count(4), &[P4K, P2M]) },
        array("L2-1G", 2, 32, Ways::Count(4), &[P1G]),
    ]
}

fn cells(arrays: &[ArrayDesc], level: u8) -> f64 {
    let of = |a: &&ArrayDesc| a.level == level && a.side != Placement::Instruction;
    arrays.iter().filter(of).map(|a| array_area(a, ASID_BITS).cells).sum()
}

#[test]
fn what_is_proposed_fits_and_can_be_built() {
    let there = haswell();
    for (name, wanted) in Wanted::NAMES {
        let made = fit(&there, ASID_BITS, wanted, [8, 64]).unwrap();
        assert_eq!(made[0], there[0], "{name}: fetches keep their array");
        Hierarchy::new(&made, &HierarchyDesc::default()).unwrap_or_else(|e| panic!("{name}: {e}"));
        for level in [1, 2] {
            let (was, is) = (cells(&there, level), cells(&made, level));
            // What no hardware does has no area to compare.
            assert!(wanted == Wanted::Ideal || is <= was, "{name} level {level}: {is} of {was}");
            assert!(is > 0.5 * was, "{name} level {level}: {is} of {was}");
        }
    }
}

/// Paper 4, section 7.2: skewed arrays of equal area have fewer entries, for their stamps; section 4.5: MIX saves what
/// separate arrays took.
#[test]
fn stamps_and_bitmaps_cost_entries() {
    let entries = |wanted| -> Vec<u32> {
        fit(&haswell(), ASID_BITS, wanted, [8, 64]).unwrap()[1..].iter().map(|a| a.entries).collect()
    };
    let (mix, skew) = (entries(Wanted::Mix), entries(Wanted::Skew));
    assert!(mix[0] > skew[0] && mix[1] > skew[1], "{mix:?} {skew:?}");
    assert!(mix[0] >= 64, "{mix:?}");
    // X34: a bitmap of 32 bits that 14 spare ones do not hold makes every entry 18 bits longer.
    let wide = fit(&haswell(), ASID_BITS, Wanted::Mix, [32, 64]).unwrap();
    assert_eq!(wide[1].mix.as_ref().unwrap().extra_bits, 32 - 14);
    let narrow = fit(&haswell(), ASID_BITS, Wanted::Mix, [8, 64]).unwrap();
    // More sets, shorter tags.
    let bits = |arrays: &[ArrayDesc]| {
        let of = &area(arrays, ASID_BITS)[1];
        of.entry_bits + of.sets.ilog2()
    };
    assert_eq!(bits(&wide), bits(&narrow) + 18);
    assert!(wide[1].entries < narrow[1].entries);
}

#[test]
fn too_little_area_is_said_with_the_figures() {
    let tiny = [array("D", 1, 1, Ways::Full, &[P4K]), array("D2", 1, 1, Ways::Full, &[P2M])];
    let error = fit(&tiny, ASID_BITS, Wanted::Skew, [8, 64]).unwrap_err().to_string();
    assert!(error.contains("D, D2 take") && error.contains("nothing fits"), "{error}");
}

#[test]
fn groups_that_no_array_can_have_are_refused() {
    for (group, what) in [([12, 128], "power of two"), ([0, 128], "power of two"), ([16, 1024], "at most 512")] {
        let error = fit(&haswell(), ASID_BITS, Wanted::Mix, group).unwrap_err().to_string();
        assert!(error.contains(what), "{group:?}: {error}");
    }
}

/// S3-017, S3-018: two bits for three sizes on an entry of about 75 (2.7 %: X32).
#[test]
fn an_entry_for_all_sizes_has_two_bits_more() {
    let plain = crate::entry_bits(&array("A", 1, 64, Ways::Count(4), &[P4K]), 0);
    let mix = ArrayDesc { design: Design::Mix, group: Some(8), ..array("A", 1, 64, Ways::Count(4), &[P4K, P2M, P1G]) };
    let bits = crate::entry_bits(&mix, 0);
    assert_eq!((plain, bits), (75, 77));
}
