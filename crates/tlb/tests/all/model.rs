//! The hierarchy against the model of lists in `common`: outcome by outcome, entry by entry, count by count.

use crate::common::{Change, Listener, Naive, array, walked};
use mmulab_addr::{Access, Asid, PageOrder, Pfn, Prot, VirtAddr, VirtRange};
use mmulab_assoc::{Replacement, Ways};
use mmulab_pagetable::{Invalidate, Leaf};
use mmulab_tlb::{ArrayDesc, Hierarchy, HierarchyDesc, Inclusion, NoObserver, Outcome, Placement, Probe};
use proptest::prelude::*;

const P4K: PageOrder = PageOrder::P4K;
const P16K: PageOrder = PageOrder::P16K;
const P64K: PageOrder = PageOrder::P64K;
const BASE: u64 = 0x7f00_0000_0000;

#[derive(Clone, Debug)]
enum Step {
    Use { page: u64, access: Access, asid: u16 },
    Fill { page: u64, access: Access, asid: u16, order: PageOrder, prot: u8, dirty: bool, global: bool },
    Dirty { page: u64, asid: u16 },
    Drop(Invalidate),
}

fn va(page: u64) -> VirtAddr {
    VirtAddr::new(BASE + page * 4096 + page % 4096)
}

/// Steps over pages few enough to collide, near enough to overlap.
fn step() -> impl Strategy<Value = Step> {
    let page = 0u64..96;
    let access = prop_oneof![Just(Access::Fetch), Just(Access::Read), Just(Access::Write)];
    let asid = 1u16..4;
    let order = prop_oneof![4 => Just(P4K), 2 => Just(P16K), 1 => Just(P64K)];
    let prot = prop_oneof![9 => Just(7u8), 1 => 0u8..8];
    prop_oneof![
        12 => (page.clone(), access.clone(), asid.clone())
            .prop_map(|(page, access, asid)| Step::Use { page, access, asid }),
        3 => (page.clone(), access, asid.clone(), order.clone(), prot, any::<bool>(), prop::bool::weighted(0.1))
            .prop_map(|(page, access, asid, order, prot, dirty, global)| {
                Step::Fill { page, access, asid, order, prot, dirty, global }
            }),
        1 => (page.clone(), asid.clone()).prop_map(|(page, asid)| Step::Dirty { page, asid }),
        1 => (page.clone(), asid.clone(), order).prop_map(|(page, asid, order)| {
            Step::Drop(Invalidate::Page { asid: Asid(asid), va: va(page), order })
        }),
        1 => (page.clone(), prop_oneof![9 => 0u64..40_000, 1 => Just(0)], asid.clone()).prop_map(|(page, bytes, asid)| {
            let range = VirtRange::sized(va(page), bytes);
            Step::Drop(Invalidate::Range { asid: Asid(asid), range, stride: PageOrder::P4K })
        }),
        1 => asid.prop_map(|asid| Step::Drop(Invalidate::Asid(Asid(asid)))),
    ]
}

fn replacement() -> impl Strategy<Value = Replacement> {
    prop_oneof![2 => Just(Replacement::Lru), 1 => Just(Replacement::TreePlru), 1 => Just(Replacement::Random)]
}

/// A shape that the policy allows: few entries, so that sets fill.
fn shape(replacement: Replacement, ways: u32, sets: u32, full: bool) -> (u32, Ways) {
    let ways = if replacement == Replacement::TreePlru { ways.next_power_of_two() } else { ways };
    if full { (ways, Ways::Full) } else { (ways * sets, Ways::Count(ways)) }
}

prop_compose! {
    fn one(name: &'static str, level: u8, side: Placement, sizes: Vec<PageOrder>)(
        replacement in replacement(),
        ways in prop_oneof![3 => 1u32..21, 1 => 30u32..36],
        sets in 1u32..5,
        full in any::<bool>(),
        serial in any::<bool>(),
    ) -> ArrayDesc {
        let (entries, ways) = shape(replacement, ways, sets, full);
        let probe = if serial && level == 2 { Probe::Serial } else { Probe::Parallel };
        ArrayDesc { replacement, probe, ..array(name, level, side, entries, ways, &sizes) }
    }
}

/// Split and unified first levels, one or several sizes to an array, smashed pages, victims.
fn machine() -> impl Strategy<Value = Vec<ArrayDesc>> {
    let all = || vec![P4K, P16K, P64K];
    prop_oneof![
        (
            one("I", 1, Placement::Instruction, all()),
            one("D4", 1, Placement::Data, vec![P4K]),
            one("D16", 1, Placement::Data, vec![P16K]),
            one("S", 2, Placement::Both, vec![P16K, P4K]),
            one("S64", 2, Placement::Both, vec![P64K]),
        )
            .prop_map(|(a, b, c, d, e)| vec![a, b, c, d, e]),
        (one("U", 1, Placement::Both, all()), one("S", 2, Placement::Both, all())).prop_map(|(a, b)| vec![a, b]),
        (
            one("I", 1, Placement::Instruction, all()),
            one("D", 1, Placement::Data, all()),
            one("I2", 2, Placement::Instruction, vec![P4K, P16K]),
            one("D2", 2, Placement::Data, vec![P4K, P16K]),
            one("PDC", 2, Placement::Data, vec![P64K, P16K]),
        )
            .prop_map(|(a, b, c, d, e)| {
                let c = ArrayDesc { smash_to: Some(P16K), ..c };
                vec![a, b, c, d, ArrayDesc { victim_of: Some("D".into()), ..e }]
            }),
        (
            one("I", 1, Placement::Instruction, vec![P4K]),
            one("U", 1, Placement::Both, vec![P16K]),
            one("D", 1, Placement::Data, vec![P4K]),
            one("S", 2, Placement::Both, all()),
        )
            .prop_map(|(a, b, c, d)| {
                vec![ArrayDesc { smash_to: Some(P4K), ..a }, b, ArrayDesc { smash_to: Some(P4K), ..c }, d]
            }),
    ]
}

fn leaf(page: u64, order: PageOrder, prot: u8, dirty: bool, global: bool) -> Leaf {
    // Frames in reverse, so that a wrong offset shows.
    let pfn = Pfn(((1 << 20) - page).next_multiple_of(order.base_pages()));
    Leaf { pfn, order, prot: Prot::from_bits(prot), user: true, accessed: true, dirty, global }
}

fn in_no_order(told: &mut Vec<Change>) -> Vec<String> {
    let mut texts: Vec<String> = told.drain(..).map(|t| format!("{t:?}")).collect();
    texts.sort();
    texts
}

fn agree(desc: &[ArrayDesc], rules: &HierarchyDesc, steps: &[Step], listen: bool) -> Result<(), TestCaseError> {
    let mut tlbs = Hierarchy::new(desc, rules).expect("the generator makes possible shapes");
    let mut naive = Naive::new(desc, rules);
    let mut heard = Listener::default();
    // By side: the page that the last search found nowhere, which the next fill for it reloads; reloads by walks.
    let (mut missed, mut walks) = ([None; 2], [0u64; 2]);
    for step in steps {
        match *step {
            Step::Use { page, access, asid } => {
                let (asid, va) = (Asid(asid), va(page));
                let (mine, theirs) = if listen {
                    (tlbs.access(asid, va, access, &mut heard), naive.access(asid, va, access))
                } else {
                    (tlbs.access(asid, va, access, &mut NoObserver), naive.access(asid, va, access))
                };
                prop_assert_eq!(mine, theirs);
                let side = access.side() as usize;
                missed[side] = matches!(mine, Outcome::Miss { .. }).then_some(page);
                if matches!(mine, Outcome::Miss { .. }) && page % 3 != 0 {
                    let found = leaf(page, P4K, 7, page % 2 == 0, false);
                    tlbs.fill(asid, va, access, &walked(found), &mut heard);
                    naive.fill(asid, va, access, &found);
                    walks[side] += 1;
                    missed[side] = None;
                }
            }
            Step::Fill { page, access, asid, order, prot, dirty, global } => {
                let found = leaf(page, order, prot, dirty, global);
                tlbs.fill(Asid(asid), va(page), access, &walked(found), &mut heard);
                naive.fill(Asid(asid), va(page), access, &found);
                let side = access.side() as usize;
                walks[side] += u64::from(missed[side] == Some(page));
                missed[side] = None;
            }
            Step::Dirty { page, asid } => {
                tlbs.set_dirty(Asid(asid), va(page));
                naive.set_dirty(Asid(asid), va(page));
            }
            Step::Drop(what) => {
                tlbs.invalidate(&what, &mut heard);
                naive.invalidate(&what);
            }
        }
        if listen {
            // The order in which one invalidation drops entries is nobody's business.
            prop_assert_eq!(in_no_order(&mut heard.0), in_no_order(&mut naive.told));
        }
    }
    let counts = tlbs.counts();
    prop_assert_eq!(counts.check(), Ok(()));
    prop_assert_eq!([[counts.l1i, counts.l1d], [counts.l2i, counts.l2d]], naive.counts);
    let reloads = [&counts.reloads_i, &counts.reloads_d];
    prop_assert_eq!(reloads.map(|r| r.l2_misses.values().sum::<u64>()), walks);
    prop_assert_eq!(reloads.map(|r| r.l2_hits.values().sum::<u64>()), [counts.l2i.hits, counts.l2d.hits]);
    let arrays: Vec<_> =
        counts.arrays.iter().map(|a| (a.hits_by_size.clone(), a.fills, a.evictions, a.invalidations)).collect();
    prop_assert_eq!(arrays, naive.array_counts());
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn every_machine_does_as_lists_do(
        desc in machine(),
        inclusive in any::<bool>(),
        listen in any::<bool>(),
        steps in prop::collection::vec(step(), 1..400),
    ) {
        let inclusion = if inclusive { Inclusion::Inclusive } else { Inclusion::None };
        agree(&desc, &HierarchyDesc { inclusion, ..HierarchyDesc::default() }, &steps, listen)?;
    }
}

/// Every sequence of seven reads of four pages and an invalidation, in two levels of two and three ways.
#[test]
fn all_short_programs_do_as_lists_do() {
    for replacement in [Replacement::Lru, Replacement::Random] {
        let desc = [
            ArrayDesc { replacement, ..array("L1", 1, Placement::Both, 2, Ways::Full, &[P4K]) },
            ArrayDesc { replacement, ..array("L2", 2, Placement::Both, 3, Ways::Full, &[P4K]) },
        ];
        for code in 0..5u32.pow(7) {
            let steps: Vec<Step> = (0..7)
                .map(|at| match code / 5u32.pow(at) % 5 {
                    4 => Step::Drop(Invalidate::Page { asid: Asid(1), va: va(1), order: P4K }),
                    // Not multiples of three: misses are filled.
                    page => Step::Use { page: [1, 2, 4, 5][page as usize], access: Access::Read, asid: 1 },
                })
                .collect();
            let inclusion = if code % 2 == 0 { Inclusion::Inclusive } else { Inclusion::None };
            agree(&desc, &HierarchyDesc { inclusion, ..HierarchyDesc::default() }, &steps, false)
                .unwrap_or_else(|why| panic!("{replacement:?}, {steps:?}: {why}"));
        }
    }
}
