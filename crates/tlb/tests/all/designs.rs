//! Every design over a flat table against no TLB at all: the same translations, the same accessed and dirty bits as
//! without coalescing, and never an entry that the table does not bear out. Then what sets each design apart.

#[allow(dead_code, reason = "the model is for the other tests")]
use crate::common;

use crate::common::{
    array,
    flat::{A, ASID, Core, D, Ended, RW, pte, va},
};
use mmulab_addr::{Access, PageOrder, VirtRange};
use mmulab_assoc::{Replacement, Ways};
use mmulab_pagetable::Invalidate;
use mmulab_tlb::{ArrayDesc, Design, Hierarchy, HierarchyDesc, NoObserver, Placement};
use proptest::prelude::*;

const P4K: PageOrder = PageOrder::P4K;
const PAGES: u64 = 40;

#[derive(Clone, Debug)]
enum Step {
    Touch {
        page: u64,
        access: Access,
    },
    Map {
        page: u64,
        frame: u64,
        rights: u64,
    },
    /// As a kernel does that wants to see accesses again.
    Clear {
        page: u64,
        pages: u64,
    },
    Protect {
        page: u64,
        rights: u64,
    },
    Unmap {
        page: u64,
        pages: u64,
    },
    /// The rights grow, and nobody is told.
    Loosen {
        page: u64,
    },
    Drop {
        page: u64,
    },
}

fn step() -> impl Strategy<Value = Step> {
    let page = || 0..PAGES;
    let rights = || prop_oneof![4 => Just(RW), 1 => Just(0), 1 => Just(RW | 1 << 63)];
    let access = prop_oneof![1 => Just(Access::Fetch), 4 => Just(Access::Read), 3 => Just(Access::Write)];
    // Where frames are at one distance from pages, at another, or anywhere in a group.
    let frame = prop_oneof![6 => Just(0x1000u64), 1 => Just(0x1001), 1 => (0u64..8).prop_map(|n| 0x2000 + n)];
    prop_oneof![
        20 => (page(), access).prop_map(|(page, access)| Step::Touch { page, access }),
        2 => (page(), frame, rights()).prop_map(|(page, base, rights)| {
            Step::Map { page, frame: if base < 0x2000 { base + page } else { base + page / 8 * 8 }, rights }
        }),
        1 => (page(), 1u64..10).prop_map(|(page, pages)| Step::Clear { page, pages }),
        1 => (page(), rights()).prop_map(|(page, rights)| Step::Protect { page, rights }),
        1 => (page(), 1u64..4).prop_map(|(page, pages)| Step::Unmap { page, pages }),
        1 => page().prop_map(|page| Step::Loosen { page }),
        2 => page().prop_map(|page| Step::Drop { page }),
    ]
}

fn designed() -> impl Strategy<Value = (Design, Option<u16>, bool)> {
    let group = prop_oneof![Just(Some(2)), Just(Some(4)), Just(Some(8))];
    let block = prop_oneof![group.clone(), Just(Some(16))];
    prop_oneof![
        prop_oneof![Just(Some(4)), Just(Some(8))].prop_map(|g| (Design::Zen, g, false)),
        group.clone().prop_map(|g| (Design::ColtSa, g, false)),
        group.clone().prop_map(|g| (Design::Clustered, g, false)),
        block.clone().prop_map(|g| (Design::CompleteSubblock, g, false)),
        block.prop_map(|g| (Design::PartialSubblock, g, false)),
        group.prop_map(|g| (Design::GapTolerant, g, false)),
        prop_oneof![Just(Some(2)), Just(Some(8)), Just(Some(32))].prop_map(|g| (Design::Anchor, g, false)),
        prop_oneof![Just(Some(8)), Just(Some(16)), Just(Some(1024))].prop_map(|g| (Design::ColtFa, g, true)),
        Just((Design::Tps, None, true)),
        Just((Design::Plain, None, false)),
    ]
}

prop_compose! {
    fn one(name: &'static str, level: u8, side: Placement)(
        (design, group, full) in designed(),
        ways in 1u32..6,
        sets in 1u32..4,
        random in any::<bool>(),
    ) -> ArrayDesc {
        let (entries, ways) = if full { (ways, Ways::Full) } else { (ways * sets, Ways::Count(ways)) };
        let replacement = if random { Replacement::Random } else { Replacement::Lru };
        ArrayDesc { design, group, replacement, ..array(name, level, side, entries, ways, &[P4K, PageOrder::P2M]) }
    }
}

fn plain(desc: &ArrayDesc) -> ArrayDesc {
    let sizes = if desc.design == Design::Tps { vec![P4K] } else { desc.sizes.clone() };
    ArrayDesc { design: Design::Plain, group: None, sizes, ..desc.clone() }
}

fn apply(core: &mut Core, step: &Step) -> Option<Ended> {
    let range = |page: u64, pages: u64| VirtRange::sized(va(page).align_down(P4K), pages << 12);
    let flush = |page, pages| Invalidate::Range { asid: ASID, range: range(page, pages), stride: PageOrder::P4K };
    match *step {
        Step::Touch { page, access } => return Some(core.access(page, access, &mut NoObserver)),
        Step::Map { page, frame, rights } => {
            if core.ptes.insert(page, pte(frame, rights)).is_some() {
                core.tlbs.invalidate(&flush(page, 1), &mut NoObserver);
            }
        }
        Step::Clear { page, pages } => {
            core.ptes.range_mut(page..page + pages).for_each(|(_, e)| *e &= !(A | D));
            core.tlbs.invalidate(&flush(page, pages), &mut NoObserver);
        }
        Step::Protect { page, rights } => {
            if let Some(e) = core.ptes.get_mut(&page) {
                *e = *e & !(RW | 1 << 63) | rights;
            }
            core.tlbs.invalidate(&flush(page, 1), &mut NoObserver);
        }
        Step::Unmap { page, pages } => {
            core.ptes.retain(|at, _| !(page..page + pages).contains(at));
            core.tlbs.invalidate(&flush(page, pages), &mut NoObserver);
        }
        Step::Loosen { page } => {
            if let Some(e) = core.ptes.get_mut(&page) {
                *e = (*e | RW) & !(1 << 63);
            }
        }
        Step::Drop { page } => core.invlpg(page, &mut NoObserver),
    }
    None
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// S0-012, S0-013.
    #[test]
    fn every_design_translates_as_the_table_says(
        first in one("L1", 1, Placement::Both),
        second in one("L2", 2, Placement::Both),
        steps in prop::collection::vec(step(), 1..300),
    ) {
        let rules = HierarchyDesc::default();
        let mut core = Core::new(Hierarchy::new(&[first.clone(), second.clone()], &rules).unwrap());
        let mut twin = Core::new(Hierarchy::new(&[plain(&first), plain(&second)], &rules).unwrap());
        for page in 0..PAGES {
            for core in [&mut core, &mut twin] {
                core.ptes.insert(page, pte(0x1000 + page, RW));
            }
        }
        for step in &steps {
            let (mine, theirs) = (apply(&mut core, step), apply(&mut twin, step));
            prop_assert_eq!(mine == Some(Ended::Fault), theirs == Some(Ended::Fault));
            prop_assert_eq!(&core.ptes, &twin.ptes, "after {:?}", step);
            core.check();
        }
        prop_assert_eq!(core.tlbs.counts().check(), Ok(()));
    }
}

fn of(design: Design, group: Option<u16>, frames: &[u64]) -> Core {
    let desc = ArrayDesc { design, group, ..array("L1", 1, Placement::Both, 16, Ways::Full, &[P4K, PageOrder::P2M]) };
    let mut core = Core::new(Hierarchy::new(&[desc], &HierarchyDesc::default()).unwrap());
    for (page, &frame) in (0u64..).zip(frames) {
        core.ptes.insert(page, pte(frame, RW | A));
    }
    core
}

/// Which of the first pages one walk for page `asked` makes hits of.
fn after_one_walk(mut core: Core, asked: u64, pages: u64) -> Vec<u64> {
    core.access(asked, Access::Read, &mut NoObserver);
    (0..pages).filter(|&page| !core.holds(page).is_empty()).collect()
}

#[test]
fn what_each_design_takes_from_a_line() {
    let all = [Design::Zen, Design::ColtSa, Design::ColtFa, Design::Clustered];
    let took = |design, frames: &[u64], asked| {
        let group = if design == Design::Tps { None } else { Some(8) };
        after_one_walk(of(design, group, frames), asked, 8)
    };
    let eight: Vec<u64> = (0..8).collect();
    let aligned: Vec<u64> = (0x100..0x108).collect();
    for design in all {
        assert_eq!(took(design, &aligned, 3), eight, "{design:?}");
    }
    assert_eq!(took(Design::Tps, &aligned, 3), [3]);
    // Contiguous, but not aligned as the pages are.
    let shifted: Vec<u64> = (0x103..0x10b).collect();
    assert_eq!(took(Design::Zen, &shifted, 3), [3]);
    assert_eq!(took(Design::ColtSa, &shifted, 3), eight);
    assert_eq!(took(Design::ColtFa, &shifted, 3), eight);
    assert_eq!(took(Design::Clustered, &shifted, 3), [0, 1, 2, 3, 4], "those whose frames lie in one group");
    // One page elsewhere: a hole.
    let hole = [0x100, 0x101, 0x900, 0x103, 0x104, 0x105, 0x106, 0x107];
    assert_eq!(took(Design::Zen, &hole, 4), [4]);
    assert_eq!(took(Design::ColtSa, &hole, 4), [0, 1, 3, 4, 5, 6, 7]);
    assert_eq!(took(Design::ColtFa, &hole, 4), [3, 4, 5, 6, 7]);
    assert_eq!(took(Design::Clustered, &hole, 4), [0, 1, 3, 4, 5, 6, 7]);
    // In no order within a group of frames.
    let mixed = [0x107, 0x101, 0x104, 0x103, 0x100, 0x105, 0x102, 0x106];
    assert_eq!(took(Design::ColtSa, &mixed, 1), [1, 3, 5]);
    assert_eq!(took(Design::ColtFa, &mixed, 1), [1]);
    assert_eq!(took(Design::Clustered, &mixed, 1), eight);
}

/// CoLT-SA's sets are chosen by the group, so that pages of one group meet; and a page that changes leaves the others.
#[test]
fn colt_sa_adds_pages_to_an_entry_and_takes_single_ones_out() {
    let mut core = of(Design::ColtSa, Some(4), &[0x101, 0x102, 0x103, 0x104]);
    core.ptes.values_mut().for_each(|e| *e &= !A);
    for page in 0..4 {
        assert_eq!(core.access(page, Access::Read, &mut NoObserver), Ended::Walked);
    }
    let arrays = core.tlbs.counts().arrays;
    assert_eq!((arrays[0].fills, arrays[0].evictions), (4, 0));
    let mut entries = 0;
    core.tlbs.each_entry(|_, _, _| entries += 1);
    assert_eq!(entries, 4, "four pages, told page by page, in one entry");
    // A store to one of the clean pages: an entry of its own, and the other three stay.
    assert_eq!(core.access(1, Access::Write, &mut NoObserver), Ended::Rewalked);
    for page in 0..4 {
        assert!(matches!(core.access(page, Access::Read, &mut NoObserver), Ended::Hit(1, _)));
    }
    assert_eq!(core.access(2, Access::Write, &mut NoObserver), Ended::Rewalked);
    assert_eq!(core.tlbs.counts().arrays[0].hits_by_size["coalesced"], 5);
}

/// CoLT-FA's runs grow over lines, up to the longest; anything within drops the whole run.
#[test]
fn colt_fa_joins_runs() {
    let frames: Vec<u64> = (0x103..0x103 + 32).collect();
    for (longest, held) in [(8, vec![24, 25, 26, 27, 28, 29, 30, 31]), (1024, (0..32).collect::<Vec<u64>>())] {
        let mut core = of(Design::ColtFa, Some(longest), &frames);
        for page in [3, 20, 12, 30] {
            core.access(page, Access::Read, &mut NoObserver);
        }
        core.check();
        assert_eq!((0..32).filter(|&p| !core.holds(p).is_empty()).count(), 32);
        core.invlpg(25, &mut NoObserver);
        let gone: Vec<u64> = (0..32).filter(|&p| core.holds(p).is_empty()).collect();
        assert_eq!(gone, held, "of runs up to {longest}");
    }
}

/// Tailored pages: any power of two between the two sizes, found whatever its size.
#[test]
fn tps_holds_any_power_of_two() {
    let desc =
        ArrayDesc { design: Design::Tps, ..array("L1", 1, Placement::Both, 16, Ways::Full, &[P4K, PageOrder::P1G]) };
    let mut tlbs = Hierarchy::new(&[desc], &HierarchyDesc::default()).unwrap();
    for order in 0..=18u8 {
        let order = PageOrder::new(order);
        let at = ((u64::from(order.get()) + 1) << 40) + order.bytes() / 2;
        let mut leaf = mmulab_pagetable::Leaf {
            pfn: mmulab_addr::Pfn(1 << 20),
            order,
            prot: mmulab_addr::Prot::RW,
            user: true,
            accessed: true,
            dirty: true,
            global: false,
        };
        leaf.pfn = leaf.pfn.align_down(order);
        let at = mmulab_addr::VirtAddr::new(at);
        tlbs.invalidate(&Invalidate::All, &mut NoObserver);
        tlbs.fill(ASID, at, Access::Read, &common::walked(leaf), &mut NoObserver);
        for va in [at.align_down(order), at] {
            let found = tlbs.access(ASID, va, Access::Read, &mut NoObserver);
            let mmulab_tlb::Outcome::L1 { entry } = found else { panic!("{va} is not in level 1: {found:?}") };
            assert_eq!((entry.order, entry.translate(va)), (order, leaf.translate(va)));
        }
    }
    let counts = tlbs.counts();
    assert_eq!((counts.l1d.hits, counts.arrays[0].hits_by_size["64K"]), (38, 2));
}

/// Complete-subblock: a page at a time, under one tag; each page has its own frame, rights and dirty bit.
#[test]
fn complete_subblock_pages_share_a_tag_and_nothing_else() {
    let desc = ArrayDesc {
        design: Design::CompleteSubblock,
        group: Some(16),
        ..array("L1", 1, Placement::Both, 1, Ways::Full, &[P4K])
    };
    let mut core = Core::new(Hierarchy::new(&[desc], &HierarchyDesc::default()).unwrap());
    core.ptes.extend((0..).zip([0x900, 0x100, 0x500, 0x300].map(|frame| pte(frame, RW | A))));
    for page in 0..4 {
        assert_eq!(core.access(page, Access::Read, &mut NoObserver), Ended::Walked, "no neighbour came with another");
    }
    assert_eq!(core.access(1, Access::Write, &mut NoObserver), Ended::Rewalked);
    for (page, access) in [(0, Access::Read), (1, Access::Write), (2, Access::Read)] {
        assert!(matches!(core.access(page, access, &mut NoObserver), Ended::Hit(1, _)));
    }
    assert_eq!(core.access(2, Access::Write, &mut NoObserver), Ended::Rewalked, "its own dirty bit is clear");
    core.invlpg(1, &mut NoObserver);
    assert_eq!((0..4).filter(|&page| !core.holds(page).is_empty()).collect::<Vec<_>>(), [0, 2, 3]);
    let array = &core.tlbs.counts().arrays[0];
    assert_eq!(
        (array.fills, array.evictions, array.hits_by_size["coalesced"]),
        (6, 0, 5),
        "one entry, of several pages"
    );
}

/// Partial-subblock: pages in their own places of an aligned block of frames share an entry; any other page is alone.
#[test]
fn partial_subblock_pages_must_be_properly_placed() {
    let took = |frames: &[u64], asked| after_one_walk(of(Design::PartialSubblock, Some(8), frames), asked, 8);
    let proper: Vec<u64> = (0x100..0x108).collect();
    assert_eq!(took(&proper, 5), (0..8).collect::<Vec<u64>>());
    let shifted: Vec<u64> = (0x101..0x109).collect();
    assert_eq!(took(&shifted, 5), [5], "contiguous, but in each other's places");
    let hole = [0x100, 0x101, 0x900, 0x103, 0x104, 0x105, 0x107, 0x106];
    assert_eq!(took(&hole, 0), [0, 1, 3, 4, 5]);
    assert_eq!(took(&hole, 2), [2]);
    // Entries of pages that are alone stay apart, though their distances are equal.
    let mut core = of(Design::PartialSubblock, Some(8), &shifted);
    for page in 0..8 {
        assert_eq!(core.access(page, Access::Read, &mut NoObserver), Ended::Walked);
    }
    assert_eq!((0..8).filter(|&page| core.access(page, Access::Read, &mut NoObserver) == Ended::Walked).count(), 0);
    assert_eq!(core.tlbs.counts().arrays[0].hits_by_size["4K"], 8);
    // Of a block of 16 a line shows a half; an invalidation takes one page out.
    let frames: Vec<u64> = (0x110..0x120).collect();
    let mut core = of(Design::PartialSubblock, Some(16), &frames);
    for page in [3, 12] {
        assert_eq!(core.access(page, Access::Read, &mut NoObserver), Ended::Walked);
    }
    core.invlpg(9, &mut NoObserver);
    assert_eq!((0..16).filter(|&page| core.holds(page).is_empty()).collect::<Vec<_>>(), [9]);
}

/// Gap-tolerant: frames in order, whatever lies between them, as far as the window goes.
#[test]
fn gap_tolerant_runs_need_order_alone() {
    let took = |frames: &[u64], asked| after_one_walk(of(Design::GapTolerant, Some(8), frames), asked, 8);
    assert_eq!(took(&[1, 2, 5, 6, 9, 10, 13, 14], 3), (0..8).collect::<Vec<u64>>());
    assert_eq!(took(&[1, 2, 5, 6, 4, 7, 8, 9], 3), [0, 1, 2, 3], "frame 4 is out of order");
    assert_eq!(took(&[1, 2, 5, 6, 4, 7, 8, 9], 5), [4, 5, 6, 7]);
    assert_eq!(took(&[1, 2, 5, 6, 9, 10, 16, 17], 0), [0, 1, 2, 3, 4, 5, 6], "17 is 16 frames from 1");
    // Runs that touch become one.
    let mut core = of(Design::GapTolerant, Some(4), &[0x101, 0x103, 0x104, 0x107]);
    core.ptes.values_mut().for_each(|e| *e &= !A);
    for page in [0, 3, 2, 1] {
        assert_eq!(core.access(page, Access::Read, &mut NoObserver), Ended::Walked);
    }
    core.invlpg(2, &mut NoObserver);
    assert_eq!((0..4).filter(|&page| !core.holds(page).is_empty()).count(), 0, "one entry, which went whole");
}

/// Anchors: a line at the anchor begins its entry, the next ones extend it; other pages are alone until it reaches
/// them.
#[test]
fn anchors_learn_their_contiguity_from_lines() {
    let frames: Vec<u64> = (0x103..0x103 + 32).collect();
    let mut core = of(Design::Anchor, Some(32), &frames);
    let held = |core: &Core| (0..32).filter(|&page| !core.holds(page).is_empty()).collect::<Vec<u64>>();
    core.access(20, Access::Read, &mut NoObserver);
    assert_eq!(held(&core), [20], "a regular entry: the anchor is not known");
    core.access(3, Access::Read, &mut NoObserver);
    assert_eq!(held(&core), [0, 1, 2, 3, 4, 5, 6, 7, 20]);
    core.access(12, Access::Read, &mut NoObserver);
    core.access(21, Access::Read, &mut NoObserver);
    core.access(31, Access::Read, &mut NoObserver);
    assert_eq!(held(&core).len(), 32);
    core.check();
    // An invalidation drops the anchor's entry whole; the regular one of page 20 is still there.
    core.invlpg(9, &mut NoObserver);
    assert_eq!(held(&core), [20]);
    // A distance of 4: a line has two anchors, and a fill goes no farther than the page's own.
    assert_eq!(after_one_walk(of(Design::Anchor, Some(4), &frames), 5, 8), [4, 5, 6, 7]);
    assert_eq!(after_one_walk(of(Design::Anchor, Some(4), &[9, 8, 10, 11]), 3, 4), [3], "cut off from its anchor");
}

#[test]
fn impossible_blocks_and_distances_are_refused() {
    let refused = |design, group, sizes: &[PageOrder]| {
        let desc = ArrayDesc { design, group, ..array("L1", 1, Placement::Both, 16, Ways::Full, sizes) };
        Hierarchy::new(&[desc], &HierarchyDesc::default()).map(drop).unwrap_err().to_string()
    };
    for design in Design::ALL.iter().filter(|d| d.about().coalesces) {
        let needs = refused(*design, None, &[P4K, PageOrder::P2M]);
        assert!(
            needs.contains(&format!("design {} needs group: give", design.about().name))
                || needs.contains("needs group: the"),
            "{needs}"
        );
    }
    let both = [P4K, PageOrder::P2M];
    assert_eq!(
        refused(Design::CompleteSubblock, Some(32), &both),
        "tlb.L1: group is 32: design complete-subblock has blocks of 2, 4, 8 or 16 pages"
    );
    assert!(refused(Design::PartialSubblock, Some(3), &both).contains("blocks of 2, 4, 8 or 16 pages"));
    assert!(refused(Design::GapTolerant, Some(16), &both).contains("among 2, 4 or 8 pages"));
    assert!(refused(Design::Anchor, Some(6), &both).contains("a power of two from 2 to 1024 pages"));
    assert!(refused(Design::Anchor, Some(8), &[PageOrder::P2M]).contains("add \"4K\" to sizes"));
}

/// Entries that are joined stay those of their address space: lookups and flushes of another one pass them by.
#[test]
fn joined_entries_stay_those_of_their_address_space() {
    for &design in Design::ALL.iter().filter(|design| design.about().coalesces) {
        let mut core = of(design, Some(8), &(0x100..0x108).collect::<Vec<u64>>());
        for page in 0..8 {
            core.ptes.values_mut().for_each(|e| *e &= !A);
            core.ptes.range_mut(page.max(1) - 1..page + 1).for_each(|(_, e)| *e |= A);
            core.access(page, Access::Read, &mut NoObserver);
        }
        core.tlbs.each_entry(|_, asid, entry| assert_eq!(asid, ASID, "{design:?}: {entry:?}"));
    }
}

/// CHANGELOG number 28: in a virtual machine a guest's large page over small pages of the host is walked for as a base
/// page, whose line is of no use. It was held beside the groups, and its hits were counted as those of several pages.
#[test]
fn a_base_page_without_a_line_is_one_page() {
    for (design, group) in [(Design::ColtSa, 8), (Design::Clustered, 8), (Design::ColtFa, 8), (Design::Anchor, 8)] {
        let desc = ArrayDesc { design, group: Some(group), ..array("L1", 1, Placement::Both, 4, Ways::Full, &[P4K]) };
        let mut tlbs = Hierarchy::new(&[desc], &HierarchyDesc::default()).unwrap();
        let leaf = mmulab_pagetable::Leaf {
            pfn: mmulab_addr::Pfn(0x123),
            order: P4K,
            prot: mmulab_addr::Prot::RW,
            user: true,
            accessed: true,
            dirty: true,
            global: false,
        };
        let walked = mmulab_pagetable::Walked { level: 2, ..common::walked(leaf) };
        tlbs.fill(ASID, va(9), Access::Read, &walked, &mut NoObserver);
        assert!(matches!(tlbs.access(ASID, va(9), Access::Read, &mut NoObserver), mmulab_tlb::Outcome::L1 { .. }));
        assert_eq!(tlbs.counts().arrays[0].hits_by_size["4K"], 1, "{design:?}");
    }
}
