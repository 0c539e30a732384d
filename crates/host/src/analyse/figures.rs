//! The figures of a machine, each with the interval over repeats and the curve it was found in.
//!
//! Curves are found by their names. Of the core: `add-chain`, `wide-adds`, `wide-loads`, `wide-stores`,
//! `wide-vectors`, `wide-mixed`, `jumps`, `window`, `window-ints`, `window-vectors`, `window-loads`, `window-stores`.
//! Of caches and memory: `footprint`, `footprint-at-once`, `second-level`, `memory-chains`, `memory-latencies`,
//! `idle-first`, `idle-second`, `idle`, `fresh`, `stream`, `strides`, `pairs`. Of translation: `pages-4k`, `pages-2m`,
//! `within-large`, `walk-chains-4k`, `walk-chains-2m`, `walk-far-4k`, `walk-near-4k`, `walk-near-2m`, `walk-loads-4k`,
//! `walk-spread`.
//! A figure whose curve does not show it has no value, and says why.

use super::{
    figure::{Confidence, Figure, Found, Take, WHOLE, Wanted, figure},
    fresh, jumps,
    levels::{Levels, base_of, extra, extra_steps, tlb_levels, xs},
    prefetch,
    retention::{self, Costs, Left},
    shared,
    stats::{median, quantile},
    steps::{Knee, Level, Steps, departure, steps},
    stream,
    translation::Translation,
    walks,
};
use crate::curve::{Curve, Point};

/// Of 1,000 loads, those that are not slow.
const SLOW: u64 = 990;

/// Everything that these curves show.
pub fn figures(curves: &[Curve]) -> Vec<Figure> {
    let mut all = Vec::new();
    let of = |name: &str| curves.iter().find(|c| c.name == name && !c.points.is_empty());
    if let Some(curve) = of("add-chain") {
        all.push(frequency(curve));
    }
    let large = of("within-large").zip(of("pages-4k")).map(|(within, small)| large_entries(within, small));
    // Where base pages have the entries, a chase over a large footprint misses the TLBs too.
    let fractured = large.as_ref().and_then(|f| f.value).is_some_and(|share| share < 0.5);
    if let Some(curve) = of("footprint") {
        caches(curve, of("pages-4k").filter(|_| fractured), &mut all);
    }
    let second = named("l2_bytes", &all).and_then(|figure| figure.value);
    if let Some((at_once, memory)) = of("footprint-at-once").zip(of("memory-chains")) {
        all.push(shared::caches(at_once, memory, second));
    }
    all.extend(of("second-level").map(shared::second_level));
    if let Some(curve) = of("memory-chains") {
        all.push(overlap(curve, "memory_outstanding", "loads of memory", |p, take| take.quiet(&p.cycles)));
    }
    all.extend(of("memory-latencies").map(slow_loads));
    all.extend(of("strides").into_iter().flat_map(prefetch::figures));
    if let Some((pairs, single)) = of("pairs").zip(of("memory-chains").and_then(|chains| chains.points.first()))
        && single.x == 1
    {
        all.push(prefetch::region(pairs, median(&single.cycles)));
    }
    all.extend(of("jumps").into_iter().flat_map(jumps::figures));
    all.extend(of("window").map(shared::window));
    for queue in shared::QUEUES {
        all.extend(of(&format!("window-{}", queue.0)).map(|curve| shared::queue(curve, queue)));
    }
    for kind in ["adds", "loads", "stores", "vectors", "mixed"] {
        all.extend(of(&format!("wide-{kind}")).map(|curve| shared::at_once(curve, kind)));
    }
    if let Some(adds) = of("add-chain") {
        retentions(&of, mhz(adds, &WHOLE), &mut all);
    }
    for size in ["4k", "2m"] {
        if let Some(curve) = of(&format!("pages-{size}")) {
            tlbs(curve, size, &mut all);
        }
    }
    all.extend(large);
    for size in ["4k", "2m"] {
        if let Some(curve) = of(&format!("walk-chains-{size}")) {
            let extra = |p: &Point, take: &Take| (take.quiet(&p.cycles) - take.quiet(&p.control)).max(0.1);
            all.push(overlap(curve, &format!("walks_overlapped_{size}"), "walks", extra));
        }
    }
    let hit = of("pages-4k").and_then(|curve| tlb_levels(curve, &WHOLE).hit_cycles);
    if let Some(hit) = hit {
        all.extend(walks::figures(&of, hit));
    }
    if let Some(curve) = of("walk-spread") {
        walk_cache(curve, &mut all);
    }
    all
}

/// The figure of this name, if it was found so far.
fn named<'a>(name: &str, all: &'a [Figure]) -> Option<&'a Figure> {
    all.iter().find(|figure| figure.name == name)
}

/// How long lines stay in each cache. `mhz`: cycles of a microsecond.
fn retentions<'a>(of: &dyn Fn(&str) -> Option<&'a Curve>, mhz: f64, all: &mut Vec<Figure>) {
    let mut behind = None;
    if let Some(curve) = of("idle") {
        let left = Left { curve, level: "l3", costs: None, behind, mhz };
        all.extend(retention::figures_of(&left));
        all.push(retention::memory_alone(curve));
        behind = left.stay(&WHOLE);
    }
    let cycles =
        |name: &str, all: &[Figure]| named(name, all).filter(|f| f.confidence != Confidence::Low).and_then(|f| f.value);
    if let Some((curve, memory)) = of("fresh").zip(cycles("memory_alone_cycles", all)) {
        all.extend(fresh::figures(curve, memory, mhz));
    }
    if let Some((curve, memory)) = of("stream").zip(cycles("memory_alone_cycles", all)) {
        all.push(stream::displaces(curve, memory));
    }
    let mut next = cycles("l3_cycles", all);
    let mut further = cycles("memory_alone_cycles", all);
    for (name, level, near) in [("idle-second", "l2", "l2_cycles"), ("idle-first", "l1d", "l1d_cycles")] {
        let near = cycles(near, all);
        if let (Some(curve), Some(near)) = (of(name), near) {
            let blank = Left { curve, level, costs: None, behind, mhz };
            // A third level that neighbours fill may have no flat part in the curve of footprints.
            let costs = match (next, further) {
                (Some(next), further) => Some(Costs { near, next, further: further.unwrap_or(next) }),
                (None, further) => further.and_then(|further| blank.costs_by(near, further)),
            };
            if costs.is_some() {
                let left = Left { costs, ..blank };
                all.extend(retention::figures_of(&left));
                behind = left.stay(&WHOLE);
            }
            next = costs.map(|costs| costs.next).or(next);
        }
        (further, next) = (next, near);
    }
}

/// Median over the points of the spread of their repeats: the middle half, as a share of the median. None of one
/// repeat.
pub fn noise(curve: &Curve) -> Option<f64> {
    let spread = |values: &Vec<f64>| (quantile(values, 0.75) - quantile(values, 0.25)) / median(values);
    let all: Vec<f64> = curve.points.iter().map(|p| &p.ns).filter(|ns| ns.len() > 1).map(spread).collect();
    (!all.is_empty()).then(|| median(&all))
}

/// The latency of memory that one load in a hundred exceeds.
fn slow_loads(curve: &Curve) -> Figure {
    let note = "loads timed one by one, each with its translation".to_owned();
    let missing = "this processor's counter has steps too long to time a load of memory".to_owned();
    let wanted = Wanted { name: "memory_slow_cycles".into(), unit: "cycles", curve, note, missing };
    let slow = curve.points.iter().find(|p| p.x == SLOW && !p.cycles.is_empty());
    figure(wanted, &|take| Some((take.median(&slow?.cycles), None)))
}

/// The clock: the mean, for it moves, and cycles are counted with it everywhere.
fn mhz(adds: &Curve, take: &Take) -> f64 {
    1000.0 / take.trimmed(&adds.points[0].ns)
}

fn frequency(curve: &Curve) -> Figure {
    let note = "a chain of dependent adds, one a cycle; the mean, for a clock moves".to_owned();
    let wanted = Wanted { name: "frequency_mhz".into(), unit: "MHz", curve, note, missing: String::new() };
    figure(wanted, &|take| Some((mhz(curve, take), None)))
}

/// A level that costs at least this share of the largest footprint's latency is memory, within the reach of some TLB
/// level. Caches of processors are faster by more.
const MEMORY_SHARE: f64 = 0.5;

/// Caches only, and the knee at the end of each. `pages`: the curve over the pages that the TLBs hold.
fn cache_steps(curve: &Curve, pages: Option<&Curve>, take: &Take) -> Vec<(Level, Knee)> {
    let xs = xs(curve);
    let translation = pages.map(|pages| Translation::of(pages, take)).unwrap_or_default();
    let alone = |p: &Point| {
        let cycles = take.quiet(&p.cycles);
        // Never all of it: what the TLBs add is an estimate.
        (cycles - translation.cycles(p.x as f64)).max(cycles / 2.0)
    };
    let ys: Vec<f64> = curve.points.iter().map(alone).collect();
    let Steps { mut levels, knees } = steps(&xs, &ys);
    let last = ys.last().copied().unwrap_or(0.0);
    levels.retain(|l| l.cycles < MEMORY_SHARE * last);
    let knee = |(at, level): (usize, Level)| match knees.get(at) {
        Some(&knee) => Some((level, knee)),
        None => departure(&xs, &ys, &level).map(|(knee, _)| (level, knee)),
    };
    levels.into_iter().enumerate().map_while(knee).collect()
}

/// Levels of the cache hierarchy, and memory.
fn caches(curve: &Curve, pages: Option<&Curve>, all: &mut Vec<Figure>) {
    const NAMES: [&str; 3] = ["l1d", "l2", "l3"];
    let shown = cache_steps(curve, pages, &WHOLE).len();
    let largest = curve.points.last().map_or(0, |p| p.x);
    for (at, name) in NAMES.into_iter().enumerate() {
        let missing = format!(
            "the curve shows {shown} caches up to {largest} bytes: one that neighbours share and overwrite has no \
             flat part"
        );
        let wanted = |what: &str, unit, note: &str| {
            let (name, note) = (format!("{name}_{what}"), note.to_owned());
            Wanted { name, unit, curve, note, missing: missing.clone() }
        };
        // With another number of caches a resample shows another hierarchy: its knees are not these.
        let find = |take: &Take| cache_steps(curve, pages, take).get(at).copied().filter(|_| at < shown);
        all.push(figure(wanted("bytes", "bytes", "half of the loads miss it"), &|take| {
            find(take).map(|(_, knee)| (knee.at, Some([knee.begins, knee.ends])))
        }));
        all.push(figure(
            wanted("cycles", "cycles", "dependent loads over its flat part, without translation"),
            &|take| find(take).map(|(level, _)| (level.cycles, None)),
        ));
    }
    let last = curve.points.last().expect("a curve that was found has points");
    let backed = curve.huge_share.unwrap_or(0.0);
    let note = format!(
        "dependent loads over {largest} bytes, {:.0} % of it in 2 MB pages; walks are part of it",
        backed * 100.0
    );
    let wanted =
        Wanted { name: "memory_cycles".into(), unit: "cycles", curve, note: note.clone(), missing: String::new() };
    all.push(figure(wanted, &|take| Some((take.median(&last.cycles), None))));
    let wanted = Wanted { name: "memory_ns".into(), unit: "ns", curve, note, missing: String::new() };
    all.push(figure(wanted, &|take| Some((take.median(&last.ns), None))));
}

/// How many run at once: the cost alone over the cost of one among many. The latter is the third lowest of all numbers
/// of chases, so that one lucky point decides nothing.
fn overlap(curve: &Curve, name: &str, what: &str, cost: impl Fn(&Point, &Take) -> f64) -> Figure {
    let costs = |take: &Take| -> Vec<f64> { curve.points.iter().map(|p| cost(p, take)).collect() };
    let among = |costs: &[f64]| {
        let mut sorted = costs.to_vec();
        sorted.sort_by(f64::total_cmp);
        sorted[sorted.len().min(3) - 1]
    };
    let whole = costs(&WHOLE);
    let enough = whole.iter().position(|&c| c <= among(&whole) / 0.9).map_or(0, |at| curve.points[at].x);
    let alone = curve.points[0].x == 1;
    let note = format!(
        "cost of one of the {what} alone over its cost among independent ones; {enough} chases reach nine tenths"
    );
    let missing = "the curve does not begin with 1 chase".to_owned();
    figure(Wanted { name: name.into(), unit: "at once", curve, note, missing }, &|take| {
        let costs = costs(take);
        alone.then(|| (costs[0] / among(&costs), None))
    })
}

/// Entries of both levels and the costs behind them.
fn tlbs(curve: &Curve, size: &str, all: &mut Vec<Figure>) {
    let largest = curve.points.last().map_or(0, |p| p.x);
    let mut add = |name: String, unit, note: &str, find: &dyn Fn(&Levels) -> Found| {
        let missing = format!("the curve does not show it up to {largest} pages");
        let wanted = Wanted { name, unit, curve, note: note.to_owned(), missing };
        all.push(figure(wanted, &|take| find(&tlb_levels(curve, take))));
    };
    let entries = |knee: Option<Knee>| knee.map(|k| (k.at.floor(), Some([k.begins, k.ends])));
    add(format!("l1_dtlb_entries_{size}"), "entries", "half of the loads miss it", &|l| entries(l.first));
    add(format!("l2_tlb_entries_{size}"), "entries", "half of the loads miss it", &|l| entries(l.second));
    add(format!("l2_tlb_hit_cycles_{size}"), "cycles", "beyond a hit in the first level", &|l| {
        l.hit_cycles.map(|c| (c, None))
    });
    let note = "dependent walks at twice the second level's pages, beyond a hit in it";
    add(format!("walk_cycles_{size}"), "cycles", note, &|l| l.walk_cycles.map(|c| (c, None)));
}

/// Share of 2 MB pages that one entry maps: lines in many of its base pages cost no more than a first-level hit.
fn large_entries(within: &Curve, small: &Curve) -> Figure {
    let whole = extra_steps(small, &WHOLE);
    let name = "large_entries".to_owned();
    let (curve, unit) = (within, "share");
    let wanted = |note: String, missing: String| Wanted { name: name.clone(), unit, curve, note, missing };
    let (Some(knee), Some([first, second])) = (whole.knees.first(), whole.levels.get(..2)) else {
        let why =
            "the first level's knee with 4 KB pages was not found, so there is nothing to compare with".to_owned();
        return figure(wanted(String::new(), why), &|_| None);
    };
    let half = (second.cycles - first.cycles) / 2.0;
    let beyond: Vec<&Point> = within.points.iter().filter(|p| p.x as f64 >= 1.3 * knee.at).collect();
    if within.huge_share.is_none_or(|share| share < 0.9) || beyond.is_empty() {
        let why = "the kernel gave no 2 MB pages to look at, or no point lies beyond the first level's knee".to_owned();
        return figure(wanted(String::new(), why), &|_| None);
    }
    let note = format!(
        "regions of 2 MB of which lines in {} and more base pages cost less than half a second-level hit ({half:.1} \
         cycles); where none does, a hypervisor's small pages fracture the entries",
        beyond[0].x
    );
    // Each repeat looks at another region.
    let repeats = within.points.iter().map(|p| p.cycles.len()).min().unwrap_or(0);
    let verdicts: Vec<f64> = (0..repeats)
        .map(|r| {
            let extra: Vec<f64> = beyond.iter().map(|p| p.cycles[r] - p.control[r]).collect();
            f64::from(u8::from(median(&extra) < half))
        })
        .collect();
    figure(wanted(note, String::new()), &|take| Some((take.mean(&verdicts), None)))
}

/// Regions whose upper page-table entries a walk cache holds.
fn walk_cache(curve: &Curve, all: &mut Vec<Figure>) {
    let costs = extra(curve, &WHOLE);
    let (first, last) = (&curve.points[0], &curve.points[curve.points.len() - 1]);
    let missing = format!(
        "no knee: a load costs {:.0} cycles more than a packed one over {} regions of 2 MB, {:.0} over {}",
        costs[0] - base_of(curve),
        first.x,
        costs[costs.len() - 1] - base_of(curve),
        last.x
    );
    let add = |name: &str, unit, note: &str, find: &dyn Fn(&Steps) -> Found| {
        let wanted = Wanted { name: name.into(), unit, curve, note: note.to_owned(), missing: missing.clone() };
        figure(wanted, &|take| find(&extra_steps(curve, take)))
    };
    let large = 2.0 * 1024.0 * 1024.0;
    all.push(add("walk_cache_reach_bytes", "bytes", "regions of 2 MB whose walks get no longer", &|s| {
        s.knees.first().map(|k| (k.at * large, Some([k.begins * large, k.ends * large])))
    }));
    all.push(add("walk_cache_miss_cycles", "cycles", "a walk beyond that reach, beyond one within it", &|s| {
        (s.levels.len() >= 2).then(|| (s.levels[1].cycles - s.levels[0].cycles, None))
    }));
}
