//! Time by samples: short intervals of a run are run in time, and stand for all of it. Source: Wunderlich, Wenisch,
//! Falsafi and Hoe, "SMARTS", ISCA 2003.
//!
//! ```text
//! |<------------------------- period ------------------------->|
//! | passed: TLBs, walk caches, caches, page tables stay warm | warm | length |  passed ...
//! ```
//!
//! Between samples references still go through TLBs, page tables and caches. So all counts are exact, and samples begin
//! with what a whole run would have left there, and so do branch target buffers. Everything else of the core (its
//! queues, its branch predictor) warms up for `warm` instructions that run in time and are not measured.

use crate::{count::Sampled, describe::Sample};
use mmulab_timing::{Core, Stack};

/// Groups that are kept at most: then each two become one.
const GROUPS: usize = 256;

/// What is done with the instructions that come next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    Passed,
    Warm,
    Measured,
}

/// The figures of a core in time at one moment, or between two.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Mark {
    pub instructions: u64,
    pub cycles: u64,
    pub mispredicted: u64,
    pub unknown_targets: u64,
    pub stack: Stack,
}

impl Mark {
    /// Those of `core` now.
    pub fn of(core: &Core) -> Self {
        Self {
            instructions: core.instructions(),
            cycles: core.now(),
            mispredicted: core.mispredicted(),
            unknown_targets: core.unknown_targets(),
            stack: *core.stack(),
        }
    }

    /// What came since it was `before`.
    fn since(&self, before: &Self) -> Self {
        Self {
            instructions: self.instructions - before.instructions,
            cycles: self.cycles - before.cycles,
            mispredicted: self.mispredicted - before.mispredicted,
            unknown_targets: self.unknown_targets - before.unknown_targets,
            stack: self.stack.minus(&before.stack),
        }
    }

    fn add(&mut self, more: &Self) {
        self.instructions += more.instructions;
        self.cycles += more.cycles;
        self.mispredicted += more.mispredicted;
        self.unknown_targets += more.unknown_targets;
        self.stack.plus(&more.stack);
    }
}

/// The samples of one core.
#[derive(Clone, Debug)]
pub(super) struct Sampling {
    sample: Sample,
    phase: Phase,
    /// The count of the core's instructions at which the phase ends, and at which it began.
    until: u64,
    since: u64,
    mark: Mark,
    /// Sums over all samples, as a mark is.
    sums: Mark,
    samples: u64,
    groups: Vec<[u64; 2]>,
    /// Samples of a whole group, and of the one that is not whole.
    in_group: u64,
    in_last: u64,
}

impl Sampling {
    pub fn new(sample: Sample) -> Self {
        let mut all = Self {
            sample,
            phase: Phase::Passed,
            until: 0,
            since: 0,
            mark: Mark::default(),
            sums: Mark::default(),
            samples: 0,
            groups: Vec::new(),
            in_group: 1,
            in_last: 0,
        };
        all.pass(0);
        all
    }

    /// Forgets all samples: counts begin at `instructions` of the core.
    pub fn restart(&mut self, instructions: u64) {
        *self = Self::new(self.sample);
        self.pass(instructions);
    }

    fn pass(&mut self, instructions: u64) {
        self.phase = Phase::Passed;
        self.since = instructions;
        let sampled = u64::from(self.sample.length) + u64::from(self.sample.warm);
        self.until = instructions + self.sample.period().saturating_sub(sampled).max(1);
    }

    /// Cycles of an instruction, by the samples so far; 1 before there is one.
    pub fn cpi(&self) -> f64 {
        if self.sums.instructions == 0 { 1.0 } else { self.sums.cycles as f64 / self.sums.instructions as f64 }
    }

    /// Whether the next block is run in time. `instructions`: those of the core so far.
    #[inline(always)]
    pub fn in_time(&mut self, instructions: u64, core: &mut Core) -> bool {
        if instructions >= self.until {
            self.turn(instructions, core);
        }
        self.phase != Phase::Passed
    }

    /// Whether what is run in time is measured.
    pub fn measures(&self) -> bool {
        self.phase == Phase::Measured
    }

    /// The time at `instructions`: of those that are passed, by the samples so far.
    pub fn time(&self, instructions: u64, core: &Core) -> u64 {
        let passed = if self.phase == Phase::Passed { instructions - self.since } else { 0 };
        core.now() + (passed as f64 * self.cpi()) as u64
    }

    /// The next phase begins.
    #[cold]
    fn turn(&mut self, instructions: u64, core: &mut Core) {
        match self.phase {
            Phase::Passed => {
                core.jump(self.time(instructions, core));
                self.phase = Phase::Warm;
                self.until = instructions + u64::from(self.sample.warm);
                if self.sample.warm == 0 {
                    self.turn(instructions, core);
                }
            }
            Phase::Warm => {
                self.mark = Mark::of(core);
                self.phase = Phase::Measured;
                self.until = instructions + u64::from(self.sample.length);
            }
            Phase::Measured => {
                self.note(&Mark::of(core));
                self.pass(instructions);
            }
        }
    }

    /// A sample ends.
    fn note(&mut self, end: &Mark) {
        let sample = end.since(&self.mark);
        self.sums.add(&sample);
        self.samples += 1;
        if self.in_last == 0 {
            if self.groups.len() == GROUPS {
                self.groups = self.groups.chunks(2).map(|two| add(two[0], two[1])).collect();
                self.in_group *= 2;
            }
            self.groups.push([0; 2]);
        }
        if let Some(last) = self.groups.last_mut() {
            *last = add(*last, [sample.instructions, sample.cycles]);
        }
        self.in_last = (self.in_last + 1) % self.in_group;
    }

    /// The figures of a whole run that the samples of `core` stand for, the unfinished one included.
    pub fn estimate(&self, core: &Core) -> Mark {
        let mut all = self.sums;
        if self.measures() {
            all.add(&Mark::of(core).since(&self.mark));
        }
        let Mark { instructions, cycles, mispredicted, unknown_targets, stack } = all;
        let by = u64::from(self.sample.one_of);
        Mark {
            instructions: instructions * by,
            cycles: cycles * by,
            mispredicted: mispredicted * by,
            unknown_targets: unknown_targets * by,
            stack: stack.times(by),
        }
    }

    /// For how much of the cost a measured cycle stands.
    pub fn weight(&self) -> u64 {
        u64::from(self.sample.one_of)
    }

    /// The samples, to be reported.
    pub fn report(&self) -> Sampled {
        // A group that is not whole would count for less than it says.
        let whole = self.groups.len() - usize::from(self.in_last > 0);
        let groups = self.groups[..whole].to_vec();
        Sampled { samples: self.samples, error: error(&groups), groups }
    }
}

fn add(a: [u64; 2], b: [u64; 2]) -> [u64; 2] {
    [a[0] + b[0], a[1] + b[1]]
}

/// Half of the 95 % interval of cycles by instruction, as a share.
///
/// Samples at equal distances meet every phase of a program, so phases are no error. What neighbours differ by is one
/// (Wolter, "Introduction to Variance Estimation", section 8.2, the estimator of successive differences).
pub(super) fn error(groups: &[[u64; 2]]) -> Option<f64> {
    let n = groups.len() as f64;
    let sum = |of: usize| groups.iter().map(|g| g[of] as f64).sum::<f64>();
    let (instructions, cycles) = (sum(0), sum(1));
    if groups.len() < 2 || instructions == 0.0 || cycles == 0.0 {
        return None;
    }
    let ratio = cycles / instructions;
    let residual = |g: &[u64; 2]| g[1] as f64 - ratio * g[0] as f64;
    let squares: f64 = groups.windows(2).map(|g| (residual(&g[1]) - residual(&g[0])).powi(2)).sum();
    Some(1.96 * (n * squares / (2.0 * (n - 1.0))).sqrt() / cycles)
}

#[cfg(test)]
mod tests {
    use super::*;
    use mmulab_timing::TimingDesc;

    /// A shipped core.
    fn desc() -> TimingDesc {
        let text = include_str!("../../../../machines/zen4-epyc9004.toml");
        let machine: toml::Table = toml::from_str(text).unwrap();
        machine["core"]["timing"].clone().try_into().unwrap()
    }

    #[test]
    fn groups_of_equal_cycles_have_no_error_and_others_have_one() {
        assert_eq!(error(&[[100, 50]; 8]), Some(0.0));
        // Neighbours differ by 50 cycles: 1.96 * sqrt(8 * 7 * 2500 / (2 * 7)) / 600.
        let found = error(&[[100, 50], [100, 100]].repeat(4)).unwrap();
        assert!((found - 1.96 * (8.0f64 * 7.0 * 2500.0 / 14.0).sqrt() / 600.0).abs() < 1e-12);
        // Two phases differ once.
        let found = error(&[vec![[100, 50]; 4], vec![[100, 100]; 4]].concat()).unwrap();
        assert!((found - 1.96 * (8.0f64 * 2500.0 / 14.0).sqrt() / 600.0).abs() < 1e-12);
        assert_eq!(error(&[[100, 50]]), None);
    }

    #[test]
    fn phases_follow_each_other_and_groups_merge() {
        let mut core = Core::new(&desc());
        let mut sampling = Sampling::new(Sample { one_of: 10, length: 100, warm: 200 });
        let (mut ran, mut passed, mut in_time) = (0, 0, 0);
        while ran < 1000 * 1000 {
            if sampling.in_time(ran, &mut core) {
                core.idle(10);
                in_time += 10;
            } else {
                passed += 10;
            }
            ran += 10;
        }
        // Of each 1000 instructions 300 run in time.
        assert!((290_000..=300_000).contains(&in_time), "{in_time}, {passed}");
        let report = sampling.report();
        assert!((998..=1000).contains(&report.samples), "{}", report.samples);
        assert!(report.groups.len() <= GROUPS && report.groups.iter().all(|g| g[0] == report.groups[0][0]));
        // The last sample is unfinished, and counts too.
        let Mark { instructions, cycles, stack, .. } = sampling.estimate(&core);
        assert!((999_000..=1_000_000).contains(&instructions), "{instructions}");
        assert_eq!(cycles, stack.total());
        sampling.restart(ran);
        assert_eq!(sampling.report(), Sampled::default());
    }
}
