//! One measured curve: cycles of a load over a growing footprint, number of pages or number of chases, or of a jump
//! over a growing number of jumps.
//!
//! Every point is measured `repeats` times, each time over lines chosen anew. If the curve needs one, a control stands
//! beside it. It has as many lines packed into few pages, so that the difference is the cost of translation.

use crate::{
    Backing, Frames, HostError,
    chase::{CHAINS, flush, link, load, run, run_by_one},
    clock::{Took, fastest, frequency, timed, timed_at_once},
    jumps::{self, Jumps},
    latency,
    random::Random,
    region::{LARGE, LINE, PAGE, Region},
    wide, window,
};
use serde::{Deserialize, Serialize};
use std::time::{Duration, Instant};

/// The lines of a chase, and what a point's `x` means.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, tag = "kind")]
pub enum Pattern {
    /// No memory at all: a chain of adds, one a cycle; `x` is 1. No control.
    Adds,
    /// No memory at all: adds that do not wait for each other; `x` is 1. No control.
    WideAdds,
    /// Instructions of one kind that do not wait for each other; `x` is 1. No control.
    Wide {
        /// The kind.
        of: wide::Kind,
    },
    /// No memory at all, but code: `x` jumps in random order. No control.
    Jumps,
    /// Every line of `x` bytes, in random order. No control.
    Footprint,
    /// The same by `chains` chases at once: rounds so short that neighbours displace few lines meanwhile. No control.
    FootprintAtOnce {
        /// Chases of a round.
        chains: u64,
    },
    /// One line in each of `x` pages of the region's page size.
    Pages,
    /// One line in each of `x` base pages, so that eight neighbours, whose page-table entries share a line, follow each
    /// other.
    NearPages,
    /// One line in each of `x` base pages, by loads that do not wait for each other.
    PageLoads,
    /// One line in each of `x` base pages that lie in one aligned region of 2 MB.
    Within,
    /// One line in each of `pages` base pages, which are spread over `x` aligned regions of 2 MB.
    Spread {
        /// Base pages in all.
        pages: u64,
    },
    /// Every fourth line of `bytes`, by `x` chases at once. No control.
    Chains {
        /// Footprint of all chases together.
        bytes: u64,
    },
    /// Every fourth line of `bytes`, by two chases with `x` instructions between their loads. No control.
    Window {
        /// Footprint of both chases together.
        bytes: u64,
        /// The instructions' kind.
        #[serde(default)]
        of: window::Between,
    },
    /// Every line of `bytes`, once, by `chains` chases at once, `x` microseconds after all were used. No control.
    Idle {
        /// Footprint: what the cache has whose lines are left alone.
        bytes: u64,
        /// Chases of a round: a round that is short beside the wait ages its own lines little.
        #[serde(default = "idle_chains")]
        chains: u64,
    },
    /// The lines of some pages that memory sent, by `chains` chases at once, `x` microseconds after a chase over
    /// `bytes` drove them out of the second level. The control has lines that came back from the next level often.
    Fresh {
        /// Footprint that the next level holds, and the second level does not.
        bytes: u64,
        /// Chases of a round.
        chains: u64,
    },
    /// Every line of `bytes`, once, by `chains` chases at once, after all were used often and then `x` bytes of other
    /// lines came from memory. The control has the same lines after a wait of the same time.
    Stream {
        /// Footprint that the next level holds, and the second level does not.
        bytes: u64,
        /// Chases of a round.
        chains: u64,
    },
    /// Every line of `bytes`, each `x` lines further on than the one before, by one load instruction. No control.
    Strides {
        /// Footprint: more than all caches hold.
        bytes: u64,
    },
    /// Lines of `bytes` in random order, each followed by the line `x` further on, within 1 KB. No control.
    Pairs {
        /// Footprint: more than all caches hold.
        bytes: u64,
    },
    /// Some lines of `bytes`, by loads that are timed one by one: the time that `x` of 1,000 loads do not exceed. No
    /// control.
    Latencies {
        /// Footprint: more than all caches hold.
        bytes: u64,
    },
    /// One line in each of `pages` pages of the region's page size, by `x` chases at once.
    PageChains {
        /// Pages in all.
        pages: u64,
    },
}

/// Chases of a curve that does not say how many.
fn idle_chains() -> u64 {
    8
}

/// What to measure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CurveSpec {
    /// The curve's name in the output.
    pub name: String,
    /// The lines.
    pub pattern: Pattern,
    /// The pages they lie in.
    pub backing: Backing,
    /// The points.
    pub xs: Vec<u64>,
    /// Measurements of each point.
    pub repeats: u32,
    /// Microseconds of a burst; the fastest of three bursts is a measurement.
    pub burst_us: u64,
    /// Seed of the choice and order of lines.
    pub seed: u64,
}

/// One point of a curve.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// Bytes, pages, regions, chases, or loads of 1,000.
    pub x: u64,
    /// Cycles of an access, by repeat.
    pub cycles: Vec<f64>,
    /// Nanoseconds of an access, by repeat.
    pub ns: Vec<f64>,
    /// Cycles of an access to as many lines packed into few pages, by repeat; empty for curves without control.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub control: Vec<f64>,
    /// Of loads that do not wait for each other, by repeat: cycles that an access takes beyond its control where each
    /// one waits for the one before. Other memory would have other frames, whose walks take longer or shorter.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub alone: Vec<f64>,
}

impl Point {
    /// A point without measurements.
    pub(crate) fn new(x: u64) -> Self {
        Self { x, cycles: vec![], ns: vec![], control: vec![], alone: vec![] }
    }
}

/// A measured curve.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Curve {
    /// Its name.
    pub name: String,
    /// The lines.
    pub pattern: Pattern,
    /// The pages asked for.
    pub backing: Backing,
    /// Share of the region that huge pages mapped; None where /proc/self/smaps cannot be read.
    pub huge_share: Option<f64>,
    /// The frames of its base pages; None of huge pages, and where they cannot be seen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub frames: Option<Frames>,
    /// The points, by `x`.
    pub points: Vec<Point>,
}

/// Fewest steps of a burst.
const FEWEST: u64 = 256;
/// Bursts of a measurement, of which the fastest counts.
const BURSTS: u32 = 3;
/// Rounds of loads that do not wait for each other.
const ROUNDS: usize = 8;
/// Rounds before a wait: neighbours may have displaced what the first one brings before the second one meets it.
const IDLE_ROUNDS: u64 = 4;
/// Bytes of lines that are fresh: little of any second level, and within the reach of any TLB.
const FRESH_BYTES: u64 = 256 << 10;
/// Where they are chosen from: no piece is used again soon.
const FRESH_FROM: u64 = 64 << 20;
/// Rounds that bring lines near, and send them away again, until the level behind takes all of them for used.
const OFTEN: u64 = 8;
/// Bytes above which one such round is enough, for it is long.
const IDLE_LONG: u64 = 1 << 20;
/// Lines up to which each round of a footprint is measured as a whole, 32 MB: as many as a third level has.
const WHOLE_ROUND: usize = 1 << 19;
/// Least bytes that send lines away: several lines for each of the most chases.
const LEAST_AWAY: u64 = 1 << 16;
/// Rounds that send lines away.
pub(crate) const AWAY_ROUNDS: u64 = 2;
/// Longest that a point may wait.
const LONGEST_IDLE_US: u64 = 1_000_000;
/// Page-table entries in a line.
const PER_LINE: u64 = 8;
/// Loads of a repeat that are timed one by one: 1 of 1,000 is the fourth of them.
const TIMED_LOADS: usize = 4096;
/// Lines of a piece of memory that has one pair.
const PAIR_LINES: u64 = 16;
/// Most bytes of a region: what a mistaken number would ask for.
const MOST_BYTES: u64 = 1 << 40;

impl CurveSpec {
    /// Bytes of the region that the points need.
    fn region_bytes(&self) -> u64 {
        let most = self.xs.iter().copied().max().unwrap_or(0);
        let page = match self.backing {
            Backing::Small => PAGE as u64,
            Backing::Large => LARGE as u64,
        };
        match self.pattern {
            Pattern::Adds | Pattern::WideAdds | Pattern::Wide { .. } | Pattern::Jumps => PAGE as u64,
            Pattern::Footprint | Pattern::FootprintAtOnce { .. } => most,
            Pattern::NearPages | Pattern::PageLoads => most.next_multiple_of(PER_LINE) * PAGE as u64,
            // Repeats shall meet other frames.
            Pattern::Pages if self.backing == Backing::Small => (most + most / 2) * page,
            Pattern::Pages => most * page,
            Pattern::Within => 32 * LARGE as u64,
            Pattern::Spread { .. } => most * LARGE as u64,
            Pattern::Chains { bytes }
            | Pattern::Idle { bytes, .. }
            | Pattern::Stream { bytes, .. }
            | Pattern::Window { bytes, .. }
            | Pattern::Strides { bytes }
            | Pattern::Latencies { bytes }
            | Pattern::Pairs { bytes } => bytes,
            Pattern::PageChains { pages } => pages * page,
            Pattern::Fresh { .. } => FRESH_FROM,
        }
    }

    fn check(&self) -> Result<(), HostError> {
        let wrong = |text: String| Err(HostError::Asked(format!("curve {}: {text}", self.name)));
        if self.xs.is_empty() || self.xs.contains(&0) {
            return wrong("give points above 0".into());
        }
        if self.repeats == 0 || self.burst_us == 0 {
            return wrong("give at least 1 repeat and 1 microsecond".into());
        }
        let many = match self.pattern {
            Pattern::Chains { .. } | Pattern::PageChains { .. } => self.xs.iter().find(|x| !CHAINS.contains(x)),
            Pattern::Idle { ref chains, .. }
            | Pattern::FootprintAtOnce { ref chains }
            | Pattern::Stream { ref chains, .. }
            | Pattern::Fresh { ref chains, .. } => Some(chains).filter(|chains| !CHAINS.contains(chains)),
            _ => None,
        };
        if let Some(x) = many {
            return wrong(format!("{x} chases at once: give numbers out of {CHAINS:?}"));
        }
        if let Pattern::Window { .. } = self.pattern
            && let Some(x) = self.xs.iter().find(|x| !window::BETWEEN.contains(x))
        {
            return wrong(format!("{x} instructions between loads: give numbers out of {:?}", window::BETWEEN));
        }
        if self.pattern == Pattern::Within && self.xs.iter().any(|&x| x > (LARGE / PAGE) as u64) {
            return wrong(format!("a large page has {} base pages", LARGE / PAGE));
        }
        if let Pattern::Strides { bytes } = self.pattern
            && let Some(x) = self.xs.iter().find(|&&x| x % 2 == 0 || !bytes.is_power_of_two())
        {
            return wrong(format!(
                "a step of {x} lines in {bytes} bytes: give odd numbers, and a power of two of bytes"
            ));
        }
        if let Pattern::Pairs { .. } = self.pattern
            && let Some(x) = self.xs.iter().find(|&&x| x >= PAIR_LINES)
        {
            return wrong(format!("a line {x} further on: give at most {}", PAIR_LINES - 1));
        }
        if let Pattern::Latencies { .. } = self.pattern
            && let Some(x) = self.xs.iter().find(|&&x| x >= 1000)
        {
            return wrong(format!("{x} of 1,000 loads: give at most 999"));
        }
        if self.pattern == Pattern::Jumps {
            if !jumps::MADE {
                return wrong("jumps are made for x86-64 only".into());
            }
            if let Some(x) = self.xs.iter().find(|&&x| x > jumps::MOST) {
                return wrong(format!("{x} jumps: give at most {}", jumps::MOST));
            }
        }
        if let Pattern::Fresh { bytes, .. } = self.pattern
            && !(LEAST_AWAY..=MOST_BYTES).contains(&bytes)
        {
            return wrong(format!("{bytes} bytes that send lines away: give {LEAST_AWAY} to {MOST_BYTES}"));
        }
        if let Pattern::Stream { .. } = self.pattern
            && let Some(x) = self.xs.iter().find(|x| !(LEAST_AWAY..=MOST_BYTES).contains(x))
        {
            return wrong(format!("a stream of {x} bytes: give {LEAST_AWAY} to {MOST_BYTES}"));
        }
        if let Pattern::Idle { .. } | Pattern::Fresh { .. } = self.pattern
            && let Some(x) = self.xs.iter().find(|&&x| x > LONGEST_IDLE_US)
        {
            return wrong(format!("{x} microseconds: give at most {LONGEST_IDLE_US}"));
        }
        match self.region_bytes() {
            0 => wrong("it needs no memory".into()),
            bytes if bytes > MOST_BYTES => wrong(format!("{} GB: give at most {} GB", bytes >> 30, MOST_BYTES >> 30)),
            _ => Ok(()),
        }
    }
}

/// The lines of point `x`, in the order in which they are visited.
fn lines(spec: &CurveSpec, x: u64, random: &mut Random) -> Vec<u64> {
    let (page, line) = (PAGE as u64, LINE as u64);
    // Neighbours in the list get neighbouring sets of a first-level cache, which the address within a page chooses.
    let balanced = |random: &mut Random, pages: Vec<u64>| -> Vec<u64> {
        let first = random.below(PAGE as u64 / line);
        let at = |(i, start): (usize, u64)| start + (first + i as u64) % (page / line) * line;
        pages.into_iter().enumerate().map(at).collect()
    };
    let pages_of = |random: &mut Random, of: u64, take: u64| -> Vec<u64> {
        let mut all: Vec<u64> = (0..of).collect();
        random.shuffle(&mut all);
        all.truncate(take as usize);
        all
    };
    let of_pages = |random: &mut Random, count: u64| -> Vec<u64> {
        match spec.backing {
            Backing::Small => {
                // A run of pages falls evenly into the sets of a TLB, so that a knee is where the entries end.
                let first = random.below(spec.region_bytes() / page - count + 1);
                let mut pages: Vec<u64> = (first..first + count).map(|p| p * page).collect();
                random.shuffle(&mut pages);
                balanced(random, pages)
            }
            Backing::Large => {
                let pages = pages_of(random, count, count);
                let inside = |p: u64| p * LARGE as u64 + random.below((LARGE / PAGE) as u64) * page;
                let pages = pages.into_iter().map(inside).collect();
                balanced(random, pages)
            }
        }
    };
    let mut found: Vec<u64> = match spec.pattern {
        Pattern::Adds | Pattern::WideAdds | Pattern::Wide { .. } | Pattern::Jumps => Vec::new(),
        Pattern::Footprint | Pattern::FootprintAtOnce { .. } => (0..(x / line).max(1)).map(|i| i * line).collect(),
        Pattern::Idle { bytes, .. } | Pattern::Stream { bytes, .. } => {
            (0..(bytes / line).max(1)).map(|i| i * line).collect()
        }
        Pattern::Fresh { .. } => {
            let first = random.below(FRESH_FROM / FRESH_BYTES) * FRESH_BYTES;
            (0..FRESH_BYTES / line).map(|i| first + i * line).collect()
        }
        Pattern::Chains { bytes } | Pattern::Window { bytes, .. } => {
            (0..bytes / (4 * line)).map(|i| 4 * i * line).collect()
        }
        Pattern::Strides { bytes } => {
            let (all, first) = (bytes / line, random.below(bytes / line));
            // An odd step meets every one of a power of two of lines.
            return (0..all).map(|i| first.wrapping_add(i.wrapping_mul(x)) % all * line).collect();
        }
        Pattern::Pairs { bytes } => {
            let mut pieces: Vec<u64> = (0..bytes / (PAIR_LINES * line)).map(|i| i * PAIR_LINES).collect();
            random.shuffle(&mut pieces);
            let pair = |piece: u64| {
                let first = piece + random.below(PAIR_LINES - x);
                [first * line, (first + x) * line]
            };
            return pieces.into_iter().flat_map(pair).collect();
        }
        Pattern::Latencies { bytes } => {
            return (0..TIMED_LOADS).map(|_| random.below(bytes / line) * line).collect();
        }
        Pattern::Pages => of_pages(random, x),
        Pattern::NearPages => {
            let groups = pages_of(random, x.div_ceil(PER_LINE), x.div_ceil(PER_LINE));
            let mut near = Vec::new();
            for group in groups {
                let mut eight: Vec<u64> = (group * PER_LINE..(group + 1) * PER_LINE).map(|p| p * page).collect();
                random.shuffle(&mut eight);
                near.extend(eight);
            }
            // The order is what matters.
            return balanced(random, near);
        }
        Pattern::PageLoads => {
            let pages = pages_of(random, x, x).into_iter().map(|p| p * page).collect();
            balanced(random, pages)
        }
        Pattern::PageChains { pages } => of_pages(random, pages),
        Pattern::Within => {
            let region = random.below(spec.region_bytes() / LARGE as u64) * LARGE as u64;
            let pages = pages_of(random, (LARGE / PAGE) as u64, x).into_iter().map(|p| region + p * page).collect();
            balanced(random, pages)
        }
        Pattern::Spread { pages } => {
            let each = (pages / x).clamp(1, (LARGE / PAGE) as u64);
            // At other places of each region. Entries at the same place of all page tables would meet in a few sets of
            // the caches.
            let mut pages = Vec::new();
            for region in 0..x {
                let of_region = pages_of(random, (LARGE / PAGE) as u64, each);
                pages.extend(of_region.into_iter().map(|p| region * LARGE as u64 + p * page));
            }
            balanced(random, pages)
        }
    };
    random.shuffle(&mut found);
    found
}

/// Measures the chase over `lines` by `chains`: the fastest of some bursts.
fn chase(region: &Region, lines: &[u64], chains: u64, burst_us: u64) -> Took {
    chase_by(run, region, lines, chains, burst_us)
}

/// The same over every line of a footprint: the fastest of some runs of whole rounds. A part of a round would meet the
/// lines that were written last, and no lines that are as old as lines become.
fn rounds(region: &Region, lines: &[u64], chains: u64, burst_us: u64) -> Took {
    if lines.len() > WHOLE_ROUND {
        return chase(region, lines, chains, burst_us);
    }
    let mut heads = link(region, lines, chains);
    let round = lines.len() as u64 / chains;
    run(&mut heads, round);
    let tried = timed(|| run(&mut heads, round));
    let many = (burst_us as f64 * 1000.0 / tried.ns.max(1.0)) as u64 + 1;
    // A run is rounded up to eights.
    let steps = (many * round).next_multiple_of(8);
    fastest(BURSTS, || run(&mut heads, steps)).each((steps * chains) as f64)
}

/// The same by another way to follow chases.
fn chase_by(
    run: impl Fn(&mut [*const usize], u64),
    region: &Region,
    lines: &[u64],
    chains: u64,
    burst_us: u64,
) -> Took {
    let mut heads = link(region, lines, chains);
    let each = lines.len() as u64 / chains;
    // A chase that fits any second-level cache or TLB is gone round once more; a longer one has just been written.
    let warm = each.min(1 << 14).next_multiple_of(8);
    run(&mut heads, warm);
    let tried = timed(|| run(&mut heads, FEWEST));
    let step_ns = (tried.ns / FEWEST as f64).max(0.05);
    let steps = ((burst_us as f64 * 1000.0 / step_ns) as u64).max(FEWEST).next_multiple_of(8);
    fastest(BURSTS, || run(&mut heads, steps)).each((steps * chains) as f64)
}

/// Measures loads of `lines` that do not wait for each other. The result is the mean of some rounds, because the loads
/// contend for walkers and queues that are shared with another hardware thread.
fn loads(region: &Region, lines: &[u64]) -> Took {
    load(region, lines);
    timed(|| (0..ROUNDS).for_each(|_| load(region, lines))).each((lines.len() * ROUNDS) as f64)
}

/// One repeat of every point of a window: the chases go on from point to point, so that no line is met twice.
fn windows(spec: &CurveSpec, of: window::Between, region: &Region, repeat: u32, points: &mut [Point]) {
    let mut random = Random::new(spec.seed ^ u64::from(repeat) << 32);
    let heads = link(region, &lines(spec, 1, &mut random), 2);
    let mut heads = [heads[0], heads[1]];
    for point in points {
        let took = timed(|| window::run(&mut heads, FEWEST, of, point.x));
        point.cycles.push(took.cycles / FEWEST as f64);
        point.ns.push(took.ns / FEWEST as f64);
    }
}

/// One repeat of every point of a curve of latencies. It adds nothing where the processor's counter is too coarse.
fn latencies(spec: &CurveSpec, region: &Region, repeat: u32, points: &mut [Point]) {
    let mut random = Random::new(spec.seed ^ u64::from(repeat) << 32);
    let Some(found) = latency::sorted(region, &lines(spec, 1, &mut random)) else { return };
    for point in points {
        let took = found[found.len() * point.x as usize / 1000];
        point.cycles.push(took.cycles);
        point.ns.push(took.ns);
    }
}

/// Measures one round of chases, `idle_us` after the round before: which lines are still in a cache that others use
/// too?
fn chase_after(region: &Region, lines: &[u64], chains: u64, idle_us: u64) -> Took {
    let mut heads = link(region, lines, chains);
    let round = lines.len() as u64 / chains;
    let rounds = if lines.len() as u64 * LINE as u64 > IDLE_LONG { 1 } else { IDLE_ROUNDS };
    run(&mut heads, rounds * round);
    wait(idle_us);
    timed_at_once(|| run(&mut heads, round)).each((round * chains) as f64)
}

/// Measures one round of chases over `lines` that memory sent, `idle_us` after they left the second level. A chase over
/// the lines of `away` drives them out. The second result is of the same lines once they were used from the next level
/// often.
fn chase_fresh(region: &Region, lines: &[u64], away: (&Region, &[u64]), chains: u64, idle_us: u64) -> [Took; 2] {
    let mut away_heads = link(away.0, away.1, chains);
    let away_round = away.1.len() as u64 / chains;
    let mut heads = link(region, lines, chains);
    let round = lines.len() as u64 / chains;
    // What sends them away shall itself be used often.
    run(&mut away_heads, OFTEN * away_round);
    flush(region, lines);
    let mut once = |idle_us: u64| {
        run(&mut heads, round);
        run(&mut away_heads, AWAY_ROUNDS * away_round);
        wait(idle_us);
        timed_at_once(|| run(&mut heads, round)).each((round * chains) as f64)
    };
    let fresh = once(idle_us);
    let used = (0..OFTEN).map(|_| once(0)).last().unwrap_or(fresh);
    [fresh, used]
}

/// Measures one round of chases over `lines`, which were used often, after the lines of `others` came from memory. The
/// second result is of the same lines after a wait that takes as long: what neighbours displace meanwhile.
fn chase_beside_stream(region: &Region, lines: &[u64], others: (&Region, &[u64]), chains: u64) -> [Took; 2] {
    let mut heads = link(region, lines, chains);
    let round = lines.len() as u64 / chains;
    let mut timed_round = |meanwhile: &mut dyn FnMut()| {
        run(&mut heads, OFTEN * round);
        meanwhile();
        timed_at_once(|| run(&mut heads, round)).each((round * chains) as f64)
    };
    let mut spent = Duration::ZERO;
    let displaced = timed_round(&mut || {
        let begun = Instant::now();
        load(others.0, others.1);
        spent = begun.elapsed();
    });
    let left = timed_round(&mut || wait(spent.as_micros() as u64));
    [displaced, left]
}

/// Waits without sleep: the core stays this program's, and its clock as fast as it is.
fn wait(us: u64) {
    let until = Instant::now() + Duration::from_micros(us);
    while Instant::now() < until {
        std::hint::spin_loop();
    }
}

/// Measures a curve. `go_on` is asked between points, with the share that is done; false stops.
///
/// # Errors
/// What is asked for cannot be, memory is refused, or the caller stops.
pub fn measure(spec: &CurveSpec, mut go_on: impl FnMut(f64) -> bool) -> Result<Curve, HostError> {
    spec.check()?;
    let region = Region::map(spec.region_bytes() as usize, spec.backing)?;
    let sparse = matches!(spec.pattern, Pattern::Spread { .. });
    if !sparse {
        region.populate(spec.backing, &mut Random::new(spec.seed));
    }
    // The second region of a curve: the control's, or what sends lines away.
    let controlled = packed_bytes(spec) > LINE;
    let packed = Region::map(packed_bytes(spec), Backing::Large)?;
    if controlled {
        packed.populate(Backing::Large, &mut Random::new(spec.seed));
    }
    let huge_share = region.huge_bytes().map(|huge| huge as f64 / region.bytes() as f64);
    let frames = (spec.backing == Backing::Small && !sparse)
        .then(|| Frames::of_memory(region.at(0) as usize, region.bytes()))
        .flatten();
    let mut points: Vec<Point> = spec.xs.iter().map(|&x| Point::new(x)).collect();
    let all = (spec.repeats as usize * points.len()) as f64;
    let mut done = 0.0;
    // Point by point within a repeat: what changes with time meets all points alike.
    for repeat in 0..spec.repeats {
        if measure_together(spec, repeat, &mut points, &region) {
            done += points.len() as f64;
            if !go_on(done / all) {
                return Err(HostError::Stopped);
            }
            continue;
        }
        for (at, point) in points.iter_mut().enumerate() {
            match spec.pattern {
                Pattern::Adds => {
                    point.cycles.push(1.0);
                    point.ns.push(1.0 / frequency(spec.burst_us));
                }
                Pattern::WideAdds | Pattern::Wide { .. } => {
                    let of = if let Pattern::Wide { of } = spec.pattern { of } else { wide::Kind::Adds };
                    let took = wide::among_others(of, spec.burst_us);
                    point.cycles.push(took.cycles);
                    point.ns.push(took.ns);
                }
                Pattern::Jumps => {
                    let mut random = Random::new(spec.seed ^ u64::from(repeat) << 32 ^ point.x);
                    let took = Jumps::new(point.x, &mut random)?.time(spec.burst_us);
                    point.cycles.push(took.cycles);
                    point.ns.push(took.ns);
                }
                _ => measure_point(spec, (repeat, at), point, &region, controlled.then_some(&packed)),
            }
            done += 1.0;
            if !go_on(done / all) {
                return Err(HostError::Stopped);
            }
        }
    }
    let (name, pattern, backing) = (spec.name.clone(), spec.pattern, spec.backing);
    Ok(Curve { name, pattern, backing, huge_share, frames, points })
}

/// Adds one repeat to all points, if the curve's points are measured together; whether they are.
fn measure_together(spec: &CurveSpec, repeat: u32, points: &mut [Point], region: &Region) -> bool {
    match spec.pattern {
        Pattern::Window { of, .. } => windows(spec, of, region, repeat, points),
        Pattern::Latencies { .. } => latencies(spec, region, repeat, points),
        _ => return false,
    }
    true
}

/// Adds one repeat to a point.
fn measure_point(
    spec: &CurveSpec,
    (repeat, at): (u32, usize),
    point: &mut Point,
    region: &Region,
    packed: Option<&Region>,
) {
    let mut random = Random::new(spec.seed ^ (u64::from(repeat) << 32) ^ ((at as u64) << 48));
    let lines = lines(spec, point.x, &mut random);
    let chains = match spec.pattern {
        Pattern::Chains { .. } | Pattern::PageChains { .. } => point.x,
        _ => 1,
    };
    // Those whose control is the same lines under other circumstances.
    let beside = match (spec.pattern, packed) {
        (Pattern::Fresh { bytes, chains }, Some(away)) => {
            let mut others: Vec<u64> = (0..bytes / LINE as u64).map(|i| i * LINE as u64).collect();
            random.shuffle(&mut others);
            Some(chase_fresh(region, &lines, (away, &others), chains, point.x))
        }
        (Pattern::Stream { chains, .. }, Some(others)) => {
            let (all, many) = (others.bytes() as u64 / LINE as u64, point.x / LINE as u64);
            // From another place each time: what was read last may still be cached.
            let first = random.below(all);
            let mut stream: Vec<u64> = (first..first + many).map(|i| i % all * LINE as u64).collect();
            random.shuffle(&mut stream);
            Some(chase_beside_stream(region, &lines, (others, &stream), chains))
        }
        _ => None,
    };
    if let Some([took, control]) = beside {
        point.cycles.push(took.cycles);
        point.ns.push(took.ns);
        point.control.push(control.cycles);
        return;
    }
    let took = match spec.pattern {
        Pattern::Idle { chains, .. } => chase_after(region, &lines, chains, point.x),
        // Its pages are fresh: their lines are cached only once a round has used them.
        Pattern::Footprint | Pattern::Spread { .. } => rounds(region, &lines, 1, spec.burst_us),
        Pattern::FootprintAtOnce { chains } => rounds(region, &lines, chains, spec.burst_us),
        Pattern::PageLoads => loads(region, &lines),
        Pattern::Strides { .. } => {
            chase_by(|heads, steps| run_by_one(&mut heads[0], steps), region, &lines, 1, spec.burst_us)
        }
        _ => chase(region, &lines, chains, spec.burst_us),
    };
    point.cycles.push(took.cycles);
    point.ns.push(took.ns);
    if let Some(packed) = packed {
        let mut beside: Vec<u64> = (0..lines.len() as u64).map(|i| i * LINE as u64).collect();
        random.shuffle(&mut beside);
        let control = match spec.pattern {
            Pattern::PageLoads => loads(packed, &beside),
            _ => chase(packed, &beside, chains, spec.burst_us),
        };
        point.control.push(control.cycles);
        if spec.pattern == Pattern::PageLoads {
            let [apart, together] = [(region, &lines), (packed, &beside)]
                .map(|(memory, lines)| chase(memory, lines, 1, spec.burst_us).cycles);
            point.alone.push(apart - together);
        }
    }
}

/// Bytes of the second region: a control's line for each page, or what sends lines away; one line where there is none.
fn packed_bytes(spec: &CurveSpec) -> usize {
    let lines = match spec.pattern {
        Pattern::Fresh { bytes, .. } => bytes / LINE as u64,
        Pattern::Stream { .. } => spec.xs.iter().copied().max().unwrap_or(1) / LINE as u64,
        Pattern::Spread { pages } | Pattern::PageChains { pages } => {
            pages.max(spec.xs.iter().copied().max().unwrap_or(1))
        }
        Pattern::Pages | Pattern::Within | Pattern::NearPages | Pattern::PageLoads => {
            spec.xs.iter().copied().max().unwrap_or(1).next_multiple_of(PER_LINE)
        }
        Pattern::Adds
        | Pattern::WideAdds
        | Pattern::Wide { .. }
        | Pattern::Jumps
        | Pattern::Footprint
        | Pattern::FootprintAtOnce { .. }
        | Pattern::Chains { .. }
        | Pattern::Window { .. }
        | Pattern::Strides { .. }
        | Pattern::Pairs { .. }
        | Pattern::Latencies { .. }
        | Pattern::Idle { .. } => 1,
    };
    lines as usize * LINE
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn spec(pattern: Pattern, backing: Backing, xs: &[u64]) -> CurveSpec {
        CurveSpec { name: "test".into(), pattern, backing, xs: xs.to_vec(), repeats: 2, burst_us: 20, seed: 1 }
    }

    #[test]
    fn a_point_has_as_many_lines_in_as_many_pages_as_its_x() {
        let mut random = Random::new(3);
        let pages = |lines: &[u64], bytes: u64| lines.iter().map(|l| l / bytes).collect::<BTreeSet<_>>().len();
        for backing in [Backing::Small, Backing::Large] {
            let found = lines(&spec(Pattern::Pages, backing, &[100]), 100, &mut random);
            let bytes = if backing == Backing::Small { PAGE } else { LARGE };
            assert_eq!((found.len(), pages(&found, bytes as u64)), (100, 100));
            // Every set of a cache with 64 sets of lines gets one or two.
            let sets = found.iter().map(|l| l / 64 % 64).collect::<BTreeSet<_>>();
            assert_eq!(sets.len(), 64);
        }
        let within = lines(&spec(Pattern::Within, Backing::Large, &[128]), 128, &mut random);
        assert_eq!((pages(&within, LARGE as u64), pages(&within, PAGE as u64)), (1, 128));
        let spread = lines(&spec(Pattern::Spread { pages: 1024 }, Backing::Small, &[16]), 16, &mut random);
        assert_eq!((pages(&spread, LARGE as u64), pages(&spread, PAGE as u64), spread.len()), (16, 1024, 1024));
        let places: BTreeSet<u64> = spread.iter().map(|line| line % LARGE as u64 / PAGE as u64).collect();
        assert!(places.len() > 400, "of 512 places in a region {} are used", places.len());
        let pairs = lines(&spec(Pattern::Pairs { bytes: 1 << 20 }, Backing::Small, &[3]), 3, &mut random);
        assert_eq!((pairs.len(), pairs.iter().collect::<BTreeSet<_>>().len()), (2048, 2048));
        assert!(pairs.chunks(2).all(|pair| pair[1] - pair[0] == 3 * 64 && pair[0] / 1024 == pair[1] / 1024));
        let footprint = lines(&spec(Pattern::Footprint, Backing::Small, &[65536]), 65536, &mut random);
        assert_eq!(footprint.iter().collect::<BTreeSet<_>>().len(), 1024);
    }

    #[test]
    fn a_curve_has_all_its_repeats_and_controls() {
        let curve = measure(&spec(Pattern::Pages, Backing::Small, &[8, 64]), |_| true).unwrap();
        for point in &curve.points {
            assert_eq!((point.cycles.len(), point.ns.len(), point.control.len()), (2, 2, 2));
            // A load takes at least a cycle, and less than a second.
            assert!(point.cycles.iter().chain(&point.control).all(|c| (0.5..1e9).contains(c)), "{point:?}");
        }
        let footprint = measure(&spec(Pattern::Footprint, Backing::Small, &[4096]), |_| true).unwrap();
        assert!(footprint.points[0].control.is_empty());
        let fresh = measure(&spec(Pattern::Fresh { bytes: 4 << 20, chains: 8 }, Backing::Large, &[1, 200]), |_| true);
        for point in fresh.unwrap().points {
            assert_eq!((point.cycles.len(), point.control.len()), (2, 2));
            assert!(point.cycles.iter().chain(&point.control).all(|c| (0.1..1e9).contains(c)), "{point:?}");
        }
        let stream = Pattern::Stream { bytes: 2 << 20, chains: 8 };
        for point in measure(&spec(stream, Backing::Large, &[1 << 20, 4 << 20]), |_| true).unwrap().points {
            assert_eq!((point.cycles.len(), point.control.len()), (2, 2));
            assert!(point.cycles.iter().chain(&point.control).all(|c| (0.1..1e9).contains(c)), "{point:?}");
        }
        let chains = measure(&spec(Pattern::Chains { bytes: 1 << 20 }, Backing::Small, &[1, 4, 32]), |_| true).unwrap();
        assert_eq!(chains.points.len(), 3);
    }

    #[test]
    fn impossible_curves_are_refused_with_what_is_allowed() {
        let refused = |s: CurveSpec| measure(&s, |_| true).unwrap_err().to_string();
        assert_eq!(refused(spec(Pattern::Footprint, Backing::Small, &[0])), "curve test: give points above 0");
        assert!(refused(spec(Pattern::Chains { bytes: 4096 }, Backing::Small, &[9])).contains("9 chases at once"));
        assert!(refused(spec(Pattern::Within, Backing::Large, &[513])).contains("512 base pages"));
        assert!(refused(spec(Pattern::Footprint, Backing::Small, &[1 << 50])).contains("give at most 1024 GB"));
        let far = refused(spec(Pattern::Pairs { bytes: 1 << 20 }, Backing::Small, &[16]));
        assert!(far.contains("a line 16 further on: give at most 15"), "{far}");
        let nothing = refused(spec(Pattern::Fresh { bytes: 0, chains: 8 }, Backing::Large, &[1]));
        assert!(nothing.contains("0 bytes that send lines away"), "{nothing}");
        let short = refused(spec(Pattern::Stream { bytes: 4 << 20, chains: 8 }, Backing::Large, &[64]));
        assert!(short.contains("a stream of 64 bytes: give 65536"), "{short}");
        let stopped = measure(&spec(Pattern::Footprint, Backing::Small, &[4096]), |_| false);
        assert!(matches!(stopped, Err(HostError::Stopped)));
    }
}
