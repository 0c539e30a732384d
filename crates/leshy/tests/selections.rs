//! Selections: by hand on small profiles, and on random ones held against a search through all selections. Claims
//! S2-023 to S2-026 of paper 3.

use mmulab_addr::PageOrder;
use mmulab_leshy::{
    Bins, Budget, Goal, LeshyError, Page, Profile, Selection, WHOLE, Weight, artifact, bound, by_prices, paper,
};
use proptest::prelude::*;

const ALL: [PageOrder; 4] = [PageOrder::P4K, PageOrder::P64K, PageOrder::P2M, PageOrder::P32M];

fn page(number: u64, misses: u64) -> Page {
    Page { number, misses, cycles: misses * 40 }
}

fn goal(entries: u64, target: u32) -> Goal {
    let budgets = vec![Budget { sizes: ALL.to_vec(), entries }];
    Goal { target, budgets, slack: 100, weight: Weight::Misses }
}

fn bins(pages: &[Page]) -> Bins {
    Bins::new(&Profile::new(pages.iter().copied()), &ALL, Weight::Misses).expect("bins")
}

fn chosen(made: &Selection) -> Vec<(PageOrder, u64)> {
    made.entries.iter().map(|entry| (entry.order, entry.bin.first_page)).collect()
}

/// S2-023 and S2-024: it covers the target, has no more entries than there are, and no two overlap.
fn holds(bins: &Bins, goal: &Goal, made: &Selection) {
    let mut allowed = goal.clone();
    if let Some(raised) = made.raised {
        allowed.slack = 100;
        allowed.budgets[0].entries = raised;
    }
    let again = Selection::of(bins, &allowed, &chosen(made)).expect("a selection");
    assert_eq!((again.entries, again.covered), (made.entries.clone(), made.covered));
}

/// S2-025: for each size, a profile that only this size covers with the entries there are.
#[test]
fn the_initial_size_is_the_smallest_that_reaches_the_target() {
    for (level, size) in ALL.into_iter().enumerate() {
        // Four groups, far apart, of two pages that lie together in a page of `size` only.
        let apart = if level == 0 { 0 } else { ALL[level - 1].base_pages() };
        let pages: Vec<Page> = (0..4).flat_map(|n| [page(n << 18, 5), page((n << 18) + apart, 5)]).collect();
        let (bins, goal) = (bins(&pages), goal(4, WHOLE));
        for made in [artifact(&bins, &goal), paper(&bins, &goal)] {
            let made = made.expect("in reach");
            assert_eq!(made.initial, Some(size));
            assert_eq!(made.by_size(), [(size, 4)].into());
            holds(&bins, &goal, &made);
        }
    }
}

/// S2-026: the coldest entry gives way to smaller ones while there is room, and no further.
#[test]
fn the_coldest_entries_are_replaced_by_smaller_ones() {
    // Two hot 2 MiB pages of 20 sampled 64 KiB pages each, and a cold one whose misses are in one 64 KiB page.
    let hot = |first: u64| (0..20).map(move |n| page(first + n * 16, 100));
    let pages: Vec<Page> = hot(0).chain(hot(512)).chain([page(1024, 3), page(1025, 2)]).collect();
    let bins = bins(&pages);
    let three = goal(3, WHOLE);
    let made = paper(&bins, &three).expect("in reach");
    assert_eq!(made.initial, Some(PageOrder::P2M));
    assert_eq!(made.by_size(), [(PageOrder::P64K, 1), (PageOrder::P2M, 2)].into());
    assert_eq!(chosen(&made)[2], (PageOrder::P64K, 1024));
    assert_eq!(made.bytes(), (4 << 20) + (64 << 10));
    // One entry more: the cold page's two 4 KiB pages take its place. 22 more: one of the hot ones' pages do.
    let by_size = |entries| paper(&bins, &goal(entries, WHOLE)).expect("in reach").by_size();
    assert_eq!(by_size(4), [(PageOrder::P4K, 2), (PageOrder::P2M, 2)].into());
    assert_eq!(by_size(23), [(PageOrder::P4K, 22), (PageOrder::P2M, 1)].into());
    // All pages fit.
    assert_eq!(by_size(42), [(PageOrder::P4K, 42)].into());
    // The artifact fills all entries that are free: here one, by the hottest page that no 2 MiB page covers.
    let made = artifact(&bins, &goal(4, WHOLE)).expect("in reach");
    assert_eq!(made.by_size(), [(PageOrder::P64K, 1), (PageOrder::P2M, 2)].into());
    holds(&bins, &goal(4, WHOLE), &made);
}

#[test]
fn a_target_out_of_reach_raises_the_artifacts_entries_and_is_refused_by_the_paper() {
    let pages: Vec<Page> = (0..10).map(|n| page(n << 13, 7)).collect();
    let bins = bins(&pages);
    let made = artifact(&bins, &goal(4, WHOLE)).expect("raised");
    assert_eq!((made.raised, made.entries.len(), made.initial), (Some(10), 10, Some(PageOrder::P32M)));
    let refused = paper(&bins, &goal(4, WHOLE)).expect_err("out of reach");
    let LeshyError::OutOfReach { entries, reached, wanted, needed, .. } = refused.clone() else { panic!("{refused}") };
    assert_eq!((entries, reached, wanted, needed), (4, 28, 70, 10));
    // Slack above 100 % is room beyond the least.
    let slack = Goal { slack: 150, ..goal(4, WHOLE) };
    assert_eq!(artifact(&bins, &slack).expect("raised").raised, Some(25));
}

/// The bound is the linear program's: exact where no entry would be taken in part.
#[test]
fn the_bound_is_close() {
    // Twenty groups of eight pages: each takes eight entries of 4 KiB, or one of 64 KiB.
    let pages: Vec<Page> = (0..20).flat_map(|n| (0..8).map(move |k| page(n * 512 + k, 3))).collect();
    let bins = bins(&pages);
    // Ten of them with one entry, ten with eight: 90 entries.
    let least = 10 * (64 << 10) + 80 * 4096;
    assert_eq!(bound(&bins, &goal(90, WHOLE)), Ok(least));
    assert_eq!(paper(&bins, &goal(90, WHOLE)).expect("in reach").bytes(), least);
}

#[test]
fn budgets_of_a_split_tlb_hold_each() {
    // One 2 MiB page allowed, and many small ones.
    let pages: Vec<Page> = (0..3).flat_map(|n| (0..4).map(move |k| page(n * 512 + k * 16, 10 - n))).collect();
    let bins = bins(&pages);
    let small = Budget { sizes: vec![PageOrder::P4K, PageOrder::P64K], entries: 8 };
    let large = Budget { sizes: vec![PageOrder::P2M, PageOrder::P32M], entries: 1 };
    let goal = Goal { budgets: vec![small, large], ..goal(1, WHOLE) };
    // The initial size is 32M with its one entry, which eight small ones cannot replace, but one of 2M with them can.
    let made = paper(&bins, &goal).expect("in reach");
    assert_eq!(made.initial, Some(PageOrder::P32M));
    holds(&bins, &goal, &made);
    // A size without entries, and one with two budgets.
    let missing = Goal { budgets: vec![goal.budgets[0].clone()], ..goal.clone() };
    assert_eq!(paper(&bins, &missing), Err(LeshyError::Budgets { size: PageOrder::P2M, times: 0 }));
    let twice = Goal { budgets: vec![goal.budgets[0].clone(), self::goal(1, WHOLE).budgets[0].clone()], ..goal };
    assert_eq!(artifact(&bins, &twice), Err(LeshyError::Budgets { size: PageOrder::P4K, times: 2 }));
}

#[test]
fn impossible_goals_are_refused_by_name() {
    let some = bins(&[page(1, 1)]);
    for method in [artifact, paper] {
        assert_eq!(method(&some, &goal(0, WHOLE)), Err(LeshyError::NoEntries { entries: 0, slack: 100 }));
        let thin = Goal { slack: 10, ..goal(9, WHOLE) };
        assert_eq!(method(&some, &thin), Err(LeshyError::NoEntries { entries: 9, slack: 10 }));
        assert_eq!(method(&some, &goal(1, 0)), Err(LeshyError::Target(0)));
        assert_eq!(method(&some, &goal(1, WHOLE + 1)), Err(LeshyError::Target(WHOLE + 1)));
    }
    let of = |pages: &[Page], sizes: &[PageOrder], weight| {
        Bins::new(&Profile::new(pages.iter().copied()), sizes, weight).map(|_| ()).expect_err("refused")
    };
    assert_eq!(of(&[], &ALL, Weight::Misses), LeshyError::Empty);
    assert_eq!(of(&[page(1, 0)], &ALL, Weight::Misses), LeshyError::Empty);
    let unmeasured = Page { number: 1, misses: 4, cycles: 0 };
    assert_eq!(of(&[unmeasured], &ALL, Weight::Latency), LeshyError::NoLatency);
    assert!(matches!(of(&[page(1, 1)], &[], Weight::Misses), LeshyError::Sizes(_)));
    assert!(matches!(of(&[page(1, 1)], &[PageOrder::P2M, PageOrder::P2M], Weight::Misses), LeshyError::Sizes(_)));
}

/// By misses the page with many short walks is hottest; by latency the one with long walks is.
#[test]
fn latency_can_weigh_instead_of_misses() {
    let pages = [Page { number: 0, misses: 90, cycles: 900 }, Page { number: 512, misses: 10, cycles: 9000 }];
    let one = |weight| {
        let bins = Bins::new(&Profile::new(pages), &ALL, weight).expect("bins");
        let goal = Goal { weight, ..goal(1, 90_000) };
        chosen(&paper(&bins, &goal).expect("in reach"))
    };
    assert_eq!(one(Weight::Misses), [(PageOrder::P4K, 0)]);
    assert_eq!(one(Weight::Latency), [(PageOrder::P4K, 512)]);
}

/// Sizes that nest in few pages, so that all selections can be tried.
const SMALL: [PageOrder; 3] = [PageOrder::P4K, PageOrder::new(1), PageOrder::new(3)];

/// The least bytes of any selection: every bin is taken, or left, or split.
fn search(pages: &[Page], goal: &Goal, wanted: u64) -> Option<u64> {
    /// Entries, misses covered and bytes.
    type Way = (u64, u64, u64);
    fn ways(pages: &[Page], level: usize, first: u64) -> Vec<Way> {
        let order = SMALL[level];
        let inside = |page: &&Page| page.number & !(order.base_pages() - 1) == first;
        let misses: u64 = pages.iter().filter(inside).map(|page| page.misses).sum();
        if misses == 0 {
            return vec![(0, 0, 0)];
        }
        let mut found = vec![(1, misses, order.bytes())];
        if level == 0 {
            found.push((0, 0, 0));
            return found;
        }
        let step = SMALL[level - 1].base_pages();
        let mut split = vec![(0, 0, 0)];
        for child in (first..first + order.base_pages()).step_by(step as usize) {
            split = join(&split, &ways(pages, level - 1, child));
        }
        found.extend(split);
        found
    }
    fn join(some: &[Way], others: &[Way]) -> Vec<Way> {
        some.iter().flat_map(|a| others.iter().map(move |b| (a.0 + b.0, a.1 + b.1, a.2 + b.2))).collect()
    }
    let most = pages.iter().map(|page| page.number).max()?;
    let mut all = vec![(0, 0, 0)];
    for first in (0..=most).step_by(SMALL[2].base_pages() as usize) {
        all = join(&all, &ways(pages, 2, first));
        all.sort_unstable();
        all.dedup();
    }
    all.iter().filter(|way| way.0 <= goal.budgets[0].entries && way.1 >= wanted).map(|way| way.2).min()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// Every selection meets its constraints, costs no less than the best of all, and does not depend on the order of
    /// the samples.
    #[test]
    fn selections_meet_their_constraints(
        samples in prop::collection::vec((0u64..24, 1u64..20), 1..30),
        entries in 1u64..8,
        target in 1u32..=WHOLE,
    ) {
        let samples: Vec<Page> = samples.into_iter().map(|(number, misses)| page(number, misses)).collect();
        let budgets = vec![Budget { sizes: SMALL.to_vec(), entries }];
        let goal = Goal { target, budgets, slack: 100, weight: Weight::Misses };
        let made = |samples: &[Page]| {
            let bins = Bins::new(&Profile::new(samples.iter().copied()), &SMALL, Weight::Misses).expect("bins");
            let both = [artifact(&bins, &goal), paper(&bins, &goal), by_prices(&bins, &goal)];
            (bins, both)
        };
        let (bins, both) = made(&samples);
        let best = search(&samples, &goal, goal.wanted(bins.total()));
        for (n, found) in both.iter().enumerate() {
            match found {
                Ok(found) => {
                    holds(&bins, &goal, found);
                    prop_assert!(found.raised.is_some() || bound(&bins, &goal).expect("a goal") <= best.unwrap_or(0));
                    if found.raised.is_none() {
                        prop_assert!(found.bytes() >= best.expect("there is one"), "method {n}");
                    }
                }
                // Only what no size alone can cover is refused.
                Err(error) => {
                    let is_expected = match n {
                        1 => matches!(error, LeshyError::OutOfReach { .. }),
                        2 => matches!(error, LeshyError::Broken(_)),
                        _ => false,
                    };
                    prop_assert!(is_expected, "{error}");
                }
            }
        }
        let mut shuffled = samples.clone();
        shuffled.reverse();
        shuffled.rotate_left(samples.len() / 3);
        prop_assert_eq!(&made(&shuffled).1, &both);
    }
}
