//! The microbenchmark's main loop, and the `Target` trait that a simulated machine and a real processor implement.
//! With one loop for both, their counters are comparable.
//!
//! ```text
//! trace_repeats x program
//!   each word: global_repeats x all groups, then read the counters
//!     each group: local_repeats x word
//!       each operation: operation_repeats x page
//! ```

use crate::{Kind, Plan, Program};
use serde::Serialize;
use thiserror::Error;

/// The four counters, all of L1 DTLB misses (paper 1, section 3.1): what was reloaded, and whether the L2 had it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counted {
    /// Reloads of a 4 KB page that the L2 missed too.
    pub l2_miss_4k: u64,
    /// Reloads of a 4 KB page that the L2 had.
    pub l2_hit_4k: u64,
    /// Reloads of a coalesced entry that the L2 missed too.
    pub l2_miss_coalesced: u64,
    /// Reloads of a coalesced entry that the L2 had.
    pub l2_hit_coalesced: u64,
}

impl Counted {
    /// What was counted since `before`.
    pub fn since(&self, before: &Self) -> Self {
        Self {
            l2_miss_4k: self.l2_miss_4k.wrapping_sub(before.l2_miss_4k),
            l2_hit_4k: self.l2_hit_4k.wrapping_sub(before.l2_hit_4k),
            l2_miss_coalesced: self.l2_miss_coalesced.wrapping_sub(before.l2_miss_coalesced),
            l2_hit_coalesced: self.l2_hit_coalesced.wrapping_sub(before.l2_hit_coalesced),
        }
    }
}

/// What became of a page of the region, as mincore tells it; `None` where the system does not tell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PageState {
    /// It is mapped.
    pub valid: bool,
    /// Its accessed bit.
    pub accessed: Option<bool>,
    /// Its modified (dirty) bit.
    pub modified: Option<bool>,
}

/// Why a target cannot do what is asked.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct TargetError(pub String);

/// What the benchmark runs on.
pub trait Target {
    /// Makes the region: aligned to 2 MB, every page written, write-protected if asked, A and M bits cleared. What
    /// should be said of it, if anything.
    ///
    /// # Errors
    /// Why there is no such region.
    fn prepare(&mut self, plan: &Plan) -> Result<Option<String>, TargetError>;

    /// Does `kind` to the region's page `page`.
    fn perform(&mut self, kind: Kind, page: u64);

    /// What the counters say now.
    ///
    /// # Errors
    /// Why the run cannot go on.
    fn sample(&mut self) -> Result<Counted, TargetError>;

    /// What became of each page.
    ///
    /// # Errors
    /// Why that cannot be told.
    fn pages(&mut self) -> Result<Vec<PageState>, TargetError>;
}

/// What one execution of a word counted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Sample {
    /// Which repeat of the program, from 0.
    pub round: u32,
    /// Which word of it, from 0.
    pub word: usize,
    /// The word.
    pub text: String,
    /// The counters, since the word before.
    #[serde(flatten)]
    pub counted: Counted,
}

/// What a run found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Report {
    /// The plan, with the machine's group.
    pub plan: Plan,
    /// Groups of the region.
    pub groups: u64,
    /// What there is to say of the region, if anything.
    pub note: Option<String>,
    /// By word, in the order of execution.
    pub samples: Vec<Sample>,
    /// The pages afterwards, where asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pages: Option<Vec<PageState>>,
}

/// Runs a program. Samples are kept until the end: telling them would miss in the TLBs too.
///
/// # Errors
/// What the target cannot do.
pub fn run<T: Target>(target: &mut T, plan: &Plan, program: &Program, pages: bool) -> Result<Report, TargetError> {
    let note = target.prepare(plan)?;
    let mut readings = Vec::with_capacity(program.words.len() * plan.trace_repeats as usize);
    let first = target.sample()?;
    for _ in 0..plan.trace_repeats {
        for word in &program.words {
            for _ in 0..plan.global_repeats {
                for group in 0..plan.groups() {
                    let base = group * u64::from(plan.group);
                    for _ in 0..plan.local_repeats {
                        for operation in &word.operations {
                            for _ in 0..plan.operation_repeats {
                                target.perform(operation.kind, base + u64::from(operation.page));
                            }
                        }
                    }
                }
            }
            readings.push(target.sample()?);
        }
    }
    let mut before = first;
    let mut samples = Vec::with_capacity(readings.len());
    for (at, now) in readings.into_iter().enumerate() {
        let word = at % program.words.len();
        let round = (at / program.words.len()) as u32;
        samples.push(Sample { round, word, text: program.words[word].text.clone(), counted: now.since(&before) });
        before = now;
    }
    let pages = if pages { Some(target.pages()?) } else { None };
    Ok(Report { plan: plan.clone(), groups: plan.groups(), note, samples, pages })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Counts calls, and writes down who was touched.
    #[derive(Default)]
    struct Diary(Vec<(Kind, u64)>, u64);

    impl Target for Diary {
        fn prepare(&mut self, _: &Plan) -> Result<Option<String>, TargetError> {
            Ok(None)
        }

        fn perform(&mut self, kind: Kind, page: u64) {
            self.0.push((kind, page));
        }

        fn sample(&mut self) -> Result<Counted, TargetError> {
            self.1 += 1;
            Ok(Counted { l2_miss_4k: 10 + self.0.len() as u64, ..Counted::default() })
        }

        fn pages(&mut self) -> Result<Vec<PageState>, TargetError> {
            Ok(Vec::new())
        }
    }

    fn go(text: &str, plan: Plan) -> (Diary, Report) {
        let program = Program::parse(text, plan.group).unwrap();
        let mut diary = Diary::default();
        let report = run(&mut diary, &plan, &program, false).unwrap();
        assert_eq!(diary.0.len() as u128, plan.operations(&program));
        (diary, report)
    }

    /// S0-021: every group in order before the next word.
    #[test]
    fn a_word_goes_over_all_groups_before_the_next() {
        let plan = Plan { group: 4, region: 2 << 20, ..Plan::default() };
        let (diary, report) = go("r0: w1", plan);
        let expected = (0..128).map(|g| (Kind::Read, 4 * g)).chain((0..128).map(|g| (Kind::Write, 4 * g + 1)));
        assert_eq!(diary.0, expected.collect::<Vec<_>>());
        // S0-023: a sample for each word, and what it counted alone.
        assert_eq!(report.samples.iter().map(|s| s.counted.l2_miss_4k).collect::<Vec<_>>(), [128, 128]);
        assert_eq!(diary.1, 3);
    }

    /// S0-027: the four repeats, and the order each makes.
    #[test]
    fn four_kinds_of_repeats() {
        let base = Plan { group: 512, region: 4 << 20, ..Plan::default() };
        let pages = |plan: Plan| go("r0 r1: r2", plan).0.0.iter().map(|&(_, page)| page).collect::<Vec<_>>();
        assert_eq!(pages(base.clone()), [0, 1, 512, 513, 2, 514]);
        assert_eq!(
            pages(Plan { operation_repeats: 2, ..base.clone() }),
            [0, 0, 1, 1, 512, 512, 513, 513, 2, 2, 514, 514]
        );
        assert_eq!(pages(Plan { local_repeats: 2, ..base.clone() }), [0, 1, 0, 1, 512, 513, 512, 513, 2, 2, 514, 514]);
        assert_eq!(pages(Plan { global_repeats: 2, ..base.clone() }), [0, 1, 512, 513, 0, 1, 512, 513, 2, 514, 2, 514]);
        assert_eq!(pages(Plan { trace_repeats: 2, ..base }), [0, 1, 512, 513, 2, 514, 0, 1, 512, 513, 2, 514]);
    }

    #[test]
    fn impossible_plans_are_refused_by_name() {
        let good = Plan { group: 4, ..Plan::default() };
        for (plan, what) in [
            (Plan { group: 3, ..good.clone() }, "a group of 3 pages: give a power of two"),
            (Plan { region: 3 << 20, ..good.clone() }, "give a multiple of 2 MB"),
            (Plan { region: 0, ..good.clone() }, "give a multiple of 2 MB"),
            (Plan { local_repeats: 0, ..good.clone() }, "0 local repeats: give 1 or more"),
        ] {
            assert!(plan.check().unwrap_err().0.contains(what), "{plan:?}");
        }
        let program = Program::parse("r0: w1", 4).unwrap();
        let protected = Plan { write_protect: true, ..good.clone() }.check_program(&program).unwrap_err().0;
        assert!(protected.starts_with("column 5: a store to a write-protected region"), "{protected}");
        let many = Plan { trace_repeats: u32::MAX, global_repeats: u32::MAX, ..good };
        assert!(many.check_program(&program).unwrap_err().0.contains("repeat less"));
    }

    /// S0-025: 512 groups of 16 KB, or 256 of 32 KB.
    #[test]
    fn the_default_region_is_8_mb() {
        let plan = |group| Plan { group, ..Plan::default() };
        assert_eq!((plan(4).groups(), plan(8).groups(), plan(4).pages()), (512, 256, 2048));
    }
}
