//! Figures of made-up processors whose sizes and latencies are known: curves as a perfect stopwatch would have them,
//! and with noise.

use mmulab_host::{Backing, Confidence, Curve, Figure, Pattern, Point, figures, noise};

/// Noise of a repeat, the same in each run: a few percent up, now and then much more.
fn disturbed(value: f64, x: u64, repeat: u64, share: f64) -> f64 {
    let mut bits = (x ^ repeat << 40).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    bits ^= bits >> 29;
    let unit = (bits.wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 11) as f64 / (1u64 << 53) as f64;
    let rare = if unit > 0.9 { 4.0 * share } else { 0.0 };
    value * (1.0 + share * unit + rare)
}

/// A curve of `cost` with `control` beside it.
fn curve(
    name: &str,
    pattern: Pattern,
    xs: &[u64],
    share: f64,
    cost: impl Fn(u64) -> f64,
    control: Option<&dyn Fn(u64) -> f64>,
) -> Curve {
    let points = xs
        .iter()
        .map(|&x| {
            let cycles: Vec<f64> = (0..9).map(|r| disturbed(cost(x), x, r, share)).collect();
            let ns = cycles.iter().map(|c| c / 4.0).collect();
            let control = control.map(|c| (0..9).map(|r| disturbed(c(x), x, r + 99, share)).collect());
            Point { x, cycles, ns, control: control.unwrap_or_default(), alone: vec![] }
        })
        .collect();
    Curve { name: name.into(), pattern, backing: Backing::Small, huge_share: Some(1.0), frames: None, points }
}

fn grid(first: u64, last: u64, density: f64) -> Vec<u64> {
    let steps = ((last as f64 / first as f64).log2() * density).round() as u32;
    (0..=steps).map(|i| (first as f64 * 2f64.powf(f64::from(i) / density)).round() as u64).collect()
}

fn find<'a>(all: &'a [Figure], name: &str) -> &'a Figure {
    all.iter().find(|f| f.name == name).unwrap_or_else(|| panic!("no figure {name}"))
}

fn value(all: &[Figure], name: &str) -> f64 {
    find(all, name).value.unwrap_or_else(|| panic!("{name}: {}", find(all, name).note))
}

/// The share of a cyclic chase over `x` that misses `size`: none up to it, all from a tenth beyond it.
fn missing(x: u64, size: u64) -> f64 {
    ((x as f64 / size as f64 - 1.0) / 0.1).clamp(0.0, 1.0)
}

fn caches(x: u64) -> f64 {
    let (l1, l2, l3) = (missing(x, 32 << 10), missing(x, 512 << 10), missing(x, 8 << 20));
    4.0 + 9.0 * l1 + 30.0 * l2 + 250.0 * l3
}

fn footprint(share: f64) -> Curve {
    curve("footprint", Pattern::Footprint, &grid(4096, 256 << 20, 4.0), share, caches, None)
}

/// Entries of 64 and 1536, a second-level hit for 7, walks for 30 that grow with the page tables.
fn translated(x: u64) -> f64 {
    let walk = 30.0 * (1.0 + (x as f64 / 4096.0).max(1.0).log2());
    4.0 + 7.0 * missing(x, 64) + walk * missing(x, 1536)
}

fn pages(share: f64) -> Curve {
    let mut xs: Vec<u64> = (52..78).chain([16, 32, 48]).chain(grid(96, 12288, 8.0)).collect();
    xs.sort_unstable();
    curve("pages-4k", Pattern::Pages, &xs, share, translated, Some(&|_| 4.0))
}

#[test]
fn caches_and_memory_are_found_with_and_without_noise() {
    for share in [0.0, 0.03, 0.1] {
        let all = figures(&[footprint(share)]);
        for (name, bytes, cycles) in [("l1d", 32u64 << 10, 4.0), ("l2", 512 << 10, 13.0), ("l3", 8 << 20, 43.0)] {
            let size = value(&all, &format!("{name}_bytes")) / bytes as f64;
            assert!((0.95..1.2).contains(&size), "{name}: {size} of its size at noise {share}");
            let hit = value(&all, &format!("{name}_cycles")) / cycles;
            assert!((0.95..1.15).contains(&hit), "{name}: {hit} of its latency at noise {share}");
        }
        assert!((0.95..1.2).contains(&(value(&all, "memory_cycles") / 293.0)));
        assert_eq!(find(&all, "l2_bytes").confidence, Confidence::High);
    }
}

/// A cache that neighbours use has no flat part: it is not found, and memory is not taken for it.
#[test]
fn a_cache_without_a_flat_part_is_not_made_up() {
    let forgetful = |x: u64| {
        let l3 = missing(x, 512 << 10);
        4.0 + 9.0 * missing(x, 32 << 10) + l3 * (400.0 + 40.0 * (x as f64 / 1e6).max(1.0).log2())
    };
    let all = figures(&[curve("footprint", Pattern::Footprint, &grid(4096, 256 << 20, 4.0), 0.03, forgetful, None)]);
    assert!(value(&all, "l2_cycles") < 14.0);
    let third = find(&all, "l3_bytes");
    assert_eq!((third.value, third.interval, third.found), (None, None, 0.0));
    assert!(third.note.starts_with("the curve shows 2 caches"), "{}", third.note);
}

/// Chases at once over caches of 11 MB and of 32 MB; without a step there is nothing to tell. One cache keeps what was
/// used last, another one holds as much as it can of any footprint. Walks may make loads slower before.
#[test]
fn all_caches_hold_what_loads_at_once_find_there() {
    let resists = |x: u64, size: u64| (1.0 - size as f64 / x as f64).max(0.0);
    // On an Emerald Rapids guest, loads took 6.8 cycles at 4 MB and 10.9 at 32 MB, with none from memory.
    let walks = |x: u64| (x as f64 / f64::from(4 << 20)).max(1.0).log2();
    let at_once = |share: &dyn Fn(u64) -> f64, memory: f64, walk: f64| {
        let cost = |x: u64| 4.0 + walk * walks(x).min(3.0) + memory * share(x);
        let pattern = Pattern::FootprintAtOnce { chains: 16 };
        let far = curve(
            "memory-chains",
            Pattern::Chains { bytes: 1 << 28 },
            &[1, 16],
            0.05,
            |_| 4.0 + 3.0 * walk + memory,
            None,
        );
        figures(&[curve("footprint-at-once", pattern, &grid(2 << 20, 64 << 20, 4.0), 0.05, cost, None), far])
    };
    for size in [11 << 20, 32 << 20] {
        for (walk, resisting) in [(0.0, false), (0.0, true), (1.3, false), (1.3, true)] {
            let share = |x: u64| if resisting { resists(x, size) } else { missing(x, size) };
            let all = at_once(&share, 30.0, walk);
            let found = find(&all, "caches_bytes");
            assert!((0.9..1.25).contains(&(found.value.unwrap() / size as f64)), "{found:?} of {size}");
            assert_ne!(found.confidence, Confidence::Low);
        }
    }
    let none = at_once(&|x| missing(x, 11 << 20), 2.0, 0.0);
    assert_eq!(find(&none, "caches_bytes").value, None);
    assert!(find(&none, "caches_bytes").note.contains("did not become slower"));
}

#[test]
fn both_tlb_levels_are_found_to_the_entry_or_nearly() {
    for share in [0.0, 0.03, 0.1] {
        let all = figures(&[pages(share)]);
        let first = find(&all, "l1_dtlb_entries_4k");
        assert!((64.0..=70.0).contains(&first.value.unwrap()), "{first:?}");
        let [begins, ends] = first.blur.unwrap();
        assert!(begins <= ends && ends < 78.0);
        let second = value(&all, "l2_tlb_entries_4k");
        assert!((1500.0..1750.0).contains(&second), "{second} at noise {share}");
        let hit = value(&all, "l2_tlb_hit_cycles_4k");
        assert!((6.3..8.5).contains(&hit), "{hit} at noise {share}");
        let walk = value(&all, "walk_cycles_4k");
        assert!((25.0..50.0).contains(&walk), "{walk} at noise {share}");
    }
}

#[test]
fn a_curve_that_ends_early_has_no_second_knee_and_says_how_far_it_went() {
    let mut short = pages(0.0);
    short.points.retain(|p| p.x <= 1000);
    let all = figures(&[short]);
    assert!(find(&all, "l1_dtlb_entries_4k").value.is_some());
    let second = find(&all, "l2_tlb_entries_4k");
    assert_eq!(second.value, None);
    assert!(second.note.contains("up to"), "{}", second.note);
}

/// The same region with one entry for a large page, and with one for each base page.
#[test]
fn fractured_entries_are_distinguished_from_whole_ones() {
    let within = |cost: &dyn Fn(u64) -> f64| {
        curve("within-large", Pattern::Within, &[32, 64, 96, 128, 256, 512], 0.05, cost, Some(&|_| 4.0))
    };
    let whole = figures(&[pages(0.05), within(&|_| 4.0)]);
    assert_eq!(value(&whole, "large_entries"), 1.0);
    let fractured = figures(&[pages(0.05), within(&translated)]);
    assert_eq!(value(&fractured, "large_entries"), 0.0);
    // Without large pages there is nothing to find out.
    let mut none = within(&|_| 4.0);
    none.huge_share = Some(0.2);
    let all = figures(&[pages(0.05), none]);
    assert_eq!(find(&all, "large_entries").value, None);
}

#[test]
fn overlap_is_what_independent_chases_save() {
    let chains = [1, 2, 3, 4, 6, 8, 12, 16, 24, 32];
    let memory = |k: u64| 300.0 / k.min(12) as f64;
    let curves = [
        curve("memory-chains", Pattern::Chains { bytes: 1 << 28 }, &chains, 0.05, memory, None),
        curve(
            "walk-chains-4k",
            Pattern::PageChains { pages: 4096 },
            &chains,
            0.05,
            |k| 60.0 / k.min(6) as f64 + 13.0 / k as f64,
            Some(&|k| 13.0 / k as f64),
        ),
    ];
    let all = figures(&curves);
    let (loads, walks) = (value(&all, "memory_outstanding"), value(&all, "walks_overlapped_4k"));
    assert!((10.5..13.5).contains(&loads) && (5.0..7.0).contains(&walks), "{loads} {walks}");
}

#[test]
fn slow_loads_of_memory_are_told_or_why_they_are_not() {
    let shares = [1, 500, 990, 999];
    let latency = |x: u64| if x < 990 { 400.0 } else { 1200.0 };
    let pattern = Pattern::Latencies { bytes: 1 << 28 };
    let mut curve = curve("memory-latencies", pattern, &shares, 0.02, latency, None);
    let slow = value(&figures(&[curve.clone()]), "memory_slow_cycles");
    assert!((1200.0..1260.0).contains(&slow), "{slow}");
    for point in &mut curve.points {
        (point.cycles, point.ns) = (vec![], vec![]);
    }
    assert_eq!(noise(&curve), None);
    let all = figures(&[curve]);
    let slow = find(&all, "memory_slow_cycles");
    assert_eq!((slow.value, slow.confidence), (None, Confidence::Low));
    assert!(slow.note.contains("steps too long"), "{}", slow.note);
}

#[test]
fn a_walk_cache_has_its_reach_or_a_reason() {
    let xs = grid(16, 8192, 4.0);
    let spread = |cost: &dyn Fn(u64) -> f64| {
        let pattern = Pattern::Spread { pages: 8192 };
        figures(&[curve("walk-spread", pattern, &xs, 0.02, cost, Some(&|_| 13.0))])
    };
    let all = spread(&|r| 33.0 + 20.0 * missing(r, 64));
    let reach = value(&all, "walk_cache_reach_bytes") / f64::from(64 * (2 << 20));
    assert!((0.95..1.2).contains(&reach), "{reach}");
    let none = spread(&|_| 33.0);
    let reach = find(&none, "walk_cache_reach_bytes");
    assert_eq!(reach.value, None);
    assert!(reach.note.starts_with("no knee: "), "{}", reach.note);
}

#[test]
fn noise_is_the_middle_half_and_one_repeat_has_none() {
    let mut still = footprint(0.0);
    assert_eq!(noise(&still), Some(0.0));
    assert!(noise(&footprint(0.2)).unwrap() > 0.03);
    for point in &mut still.points {
        point.ns.truncate(1);
    }
    assert_eq!(noise(&still), None);
}

/// One repeat gives figures, but nobody should rely on them.
#[test]
fn a_single_repeat_has_low_confidence() {
    let mut once = footprint(0.0);
    for point in &mut once.points {
        point.cycles.truncate(1);
    }
    assert!(figures(&[once]).iter().all(|f| f.confidence == Confidence::Low));
    assert!(figures(&[]).is_empty());
}
