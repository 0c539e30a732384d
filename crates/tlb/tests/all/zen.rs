//! AMD's coalescing, rule by rule and then exhaustively: every setting of the accessed and dirty bits of a group, and
//! every short program over one, against a model of a few lines.

#[allow(dead_code, reason = "the model is for the other tests")]
use crate::common::{
    array,
    flat::{A, ASID, Core, D, Ended, G, RW, pte, va},
};
use mmulab_addr::{Access, PageOrder};
use mmulab_assoc::Ways;
use mmulab_pagetable::Invalidate;
use mmulab_tlb::{ArrayDesc, CoalescingCounts, Design, Hierarchy, HierarchyDesc, NoObserver, Placement, Probe};

const P4K: PageOrder = PageOrder::P4K;
const READ: Access = Access::Read;
const WRITE: Access = Access::Write;

fn order(group: u16) -> PageOrder {
    PageOrder::new(group.trailing_zeros() as u8)
}

fn zen(desc: ArrayDesc, group: u16) -> ArrayDesc {
    ArrayDesc { design: Design::Zen, group: Some(group), ..desc }
}

/// One level of 64 entries for each side, as Zen's first levels are.
fn core(group: u16) -> Core {
    let sizes = [P4K, PageOrder::P2M];
    let l1 = |name, side| zen(array(name, 1, side, 64, Ways::Full, &sizes), group);
    let arrays = [l1("L1-D", Placement::Data), l1("L1-I", Placement::Instruction)];
    Core::new(Hierarchy::new(&arrays, &HierarchyDesc::default()).unwrap())
}

/// The pages of one aligned group over aligned, contiguous frames.
fn mapped(group: u16, bits: u64) -> Core {
    let mut core = core(group);
    for page in 0..8 {
        core.ptes.insert(64 + page, pte(0x1000 + page, bits));
    }
    core
}

fn counts(core: &mut Core) -> CoalescingCounts {
    core.tlbs.counts().arrays[0].coalescing.unwrap()
}

/// S0-001: four pages or eight, aligned. S0-005: none before all are touched.
#[test]
fn a_group_becomes_one_entry_with_the_last_page_touched() {
    for group in [4u16, 8] {
        let mut core = mapped(group, RW);
        for page in 0..u64::from(group) {
            assert_eq!(core.holds(64), if page == 0 { vec![] } else { vec![(0, P4K)] });
            assert_eq!(core.access(64 + page, READ, &mut NoObserver), Ended::Walked);
        }
        let whole = (0, order(group));
        for page in 0..u64::from(group) {
            assert!(core.holds(64 + page).contains(&whole));
            assert_eq!(core.access(64 + page, READ, &mut NoObserver), Ended::Hit(1, order(group)));
        }
        assert!(!core.holds(64 + u64::from(group)).contains(&whole));
        assert!(!core.holds(63).contains(&whole));
        let expected =
            CoalescingCounts { coalesced: 1, untouched: u64::from(group) - 1, ..CoalescingCounts::default() };
        assert_eq!(counts(&mut core), expected);
    }
}

/// S0-002, S0-003, S0-004: each condition on its own prevents it, and is counted by its name.
#[test]
fn each_condition_is_needed() {
    type Spoil = fn(&mut Core, u64);
    type Named = fn(&CoalescingCounts) -> u64;
    let spoils: [(Spoil, Named); 8] = [
        (|c, page| c.ptes.retain(|&at, _| at != page), |c| c.missing),
        (|c, page| *c.ptes.get_mut(&page).unwrap() &= !A, |c| c.untouched),
        (|c, page| *c.ptes.get_mut(&page).unwrap() ^= D, |c| c.mixed_dirty),
        (|c, page| *c.ptes.get_mut(&page).unwrap() ^= RW, |c| c.rights_differ),
        (|c, page| *c.ptes.get_mut(&page).unwrap() ^= G, |c| c.rights_differ),
        (|c, page| *c.ptes.get_mut(&page).unwrap() ^= 1 << 63, |c| c.rights_differ),
        (|c, page| *c.ptes.get_mut(&page).unwrap() ^= 1 << 40, |c| c.not_contiguous),
        // All of them moved by one frame.
        (|c, _| c.ptes.values_mut().for_each(|e| *e += 1 << 12), |c| c.misaligned),
    ];
    for group in [4u16, 8] {
        for (spoil, named) in spoils {
            for which in 1..u64::from(group) {
                for dirty in [0, D] {
                    let mut core = mapped(group, RW | A | dirty);
                    spoil(&mut core, 64 + which);
                    assert_eq!(core.access(64, READ, &mut NoObserver), Ended::Walked);
                    assert_eq!(core.holds(64), [(0, P4K)]);
                    let counted = counts(&mut core);
                    assert_eq!((named(&counted), counted.coalesced), (1, 0));
                }
            }
            let mut core = mapped(group, RW | A);
            core.access(64, READ, &mut NoObserver);
            assert_eq!(core.holds(64), [(0, order(group))], "with nothing wrong");
        }
    }
}

/// S0-006, S0-007, S0-008, S0-009: what a store finds in a dirty group and in a clean one.
#[test]
fn a_store_destroys_a_clean_group_and_all_must_be_written_for_another() {
    for group in [4u16, 8] {
        let pages = u64::from(group);
        let mut core = mapped(group, RW);
        for page in 0..pages {
            core.access(64 + page, READ, &mut NoObserver);
        }
        assert!(core.holds(64).contains(&(0, order(group))));
        for page in 0..pages {
            // The last page read had no entry of its own: the group came of its walk.
            let expected = if page == pages - 1 { Ended::Walked } else { Ended::Rewalked };
            assert_eq!(core.access(64 + page, WRITE, &mut NoObserver), expected);
            let whole = core.holds(64).contains(&(0, order(group)));
            assert_eq!(whole, page == pages - 1, "after {} stores", page + 1);
            core.check();
        }
        assert_eq!(counts(&mut core).destroyed, 1);
        for page in 0..pages {
            assert_eq!(core.access(64 + page, WRITE, &mut NoObserver), Ended::Hit(1, order(group)));
        }
    }
}

/// S0-015, S0-016: the entries of single pages that a group was made of linger.
#[test]
fn precursors_linger() {
    let mut core = mapped(4, RW);
    for page in [0, 1, 2, 3, 0] {
        core.access(64 + page, READ, &mut NoObserver);
    }
    core.invlpg(65, &mut NoObserver);
    assert_eq!(core.holds(65), []);
    assert_eq!(core.access(64, READ, &mut NoObserver), Ended::Hit(1, P4K), "another page of the group");
    assert_eq!(core.access(67, READ, &mut NoObserver), Ended::Walked, "the last one had no entry of its own");
    let mut core = mapped(4, RW);
    for page in 0..4 {
        core.access(64 + page, READ, &mut NoObserver);
    }
    assert_eq!(core.access(64, WRITE, &mut NoObserver), Ended::Rewalked);
    assert_eq!(core.access(65, READ, &mut NoObserver), Ended::Hit(1, P4K));
}

/// S0-017: a store through a clean entry looks at the table again.
#[test]
fn a_store_through_a_lingering_clean_entry_faults_if_the_page_is_no_longer_writable() {
    let mut core = mapped(4, RW);
    for page in 0..4 {
        core.access(64 + page, READ, &mut NoObserver);
    }
    core.access(64, WRITE, &mut NoObserver);
    assert_eq!(core.access(65, WRITE, &mut NoObserver), Ended::Rewalked);
    assert_ne!(core.bits(65) & D, 0);
    *core.ptes.get_mut(&66).unwrap() &= !RW;
    assert_eq!(core.access(66, WRITE, &mut NoObserver), Ended::Fault);
    assert_eq!(core.bits(66) & D, 0);
}

/// S0-004, S0-005, S0-006, S0-007: every setting of the accessed and dirty bits of a group, and every first access to
/// it.
#[test]
fn every_setting_of_the_bits() {
    for group in [4u16, 8] {
        let pages = u64::from(group);
        let mut core = mapped(group, RW);
        for bits in 0u64..1 << (2 * pages) {
            for page in 0..pages {
                let accessed = if bits >> page & 1 == 1 { A } else { 0 };
                let dirty = if bits >> (pages + page) & 1 == 1 { D } else { 0 };
                core.ptes.insert(64 + page, pte(0x1000 + page, RW | accessed | dirty));
            }
            // Which page of eight is asked for cannot matter to the rule; a few of them do.
            let asked: &[u64] = if group == 4 { &[0, 1, 2, 3] } else { &[0, 5] };
            for &page in asked {
                for access in [READ, WRITE] {
                    let before: Vec<u64> = (0..pages).map(|p| core.bits(64 + p)).collect();
                    core.access(64 + page, access, &mut NoObserver);
                    let after: Vec<u64> = (0..pages).map(|p| core.bits(64 + p)).collect();
                    let all = |bit| after.iter().all(|e| e & bit != 0);
                    let whole = all(A) && (all(D) || after.iter().all(|e| e & D == 0));
                    let expected = if whole { order(group) } else { P4K };
                    assert_eq!(core.holds(64 + page), [(0, expected)], "bits {bits:b}, {access:?} of {page}");
                    for (p, (was, is)) in (0..pages).zip(before.iter().zip(&after)) {
                        let set = if p != page {
                            0
                        } else if access == WRITE {
                            A | D
                        } else {
                            A
                        };
                        assert_eq!(was | set, *is, "no other bit changes");
                        core.ptes.insert(64 + p, *was);
                    }
                    core.tlbs.invalidate(&Invalidate::All, &mut NoObserver);
                }
            }
        }
    }
}

/// One group of four under the rules of paper 1, section 3.2, with TLBs that never run out of room.
#[derive(Default)]
struct Rules {
    accessed: [bool; 4],
    dirty: [bool; 4],
    /// The group's entry, if any: whether stores may use it.
    group: Option<bool>,
    /// The pages' own.
    own: [Option<bool>; 4],
}

impl Rules {
    fn touch(&mut self, page: usize, write: bool) -> Ended {
        let again = match (self.group, self.own[page]) {
            (Some(stores), _) if stores || !write => return Ended::Hit(1, PageOrder::P16K),
            (None, Some(stores)) if stores || !write => return Ended::Hit(1, P4K),
            (None, None) => false,
            _ => true,
        };
        self.accessed[page] = true;
        self.dirty[page] |= write;
        if self.accessed == [true; 4] && self.dirty.iter().all(|d| *d == self.dirty[0]) {
            self.group = Some(self.dirty[0]);
        } else {
            self.group = None;
            self.own[page] = Some(self.dirty[page]);
        }
        if again { Ended::Rewalked } else { Ended::Walked }
    }

    fn invlpg(&mut self, page: usize) {
        self.group = None;
        self.own[page] = None;
    }
}

/// Every program of six loads, stores and invalidations over the pages of a group, hence every order of first touches.
#[test]
fn every_short_program_does_as_the_rules_say() {
    const STEPS: u32 = 5;
    let mut core = mapped(4, RW);
    for program in 0..12u32.pow(STEPS) {
        for page in 0..4 {
            core.ptes.insert(64 + page, pte(0x1000 + page, RW));
        }
        core.tlbs.invalidate(&Invalidate::All, &mut NoObserver);
        let mut rules = Rules::default();
        for at in 0..STEPS {
            let step = program / 12u32.pow(at) % 12;
            let page = (step % 4) as usize;
            if step / 4 == 2 {
                core.invlpg(64 + page as u64, &mut NoObserver);
                rules.invlpg(page);
                continue;
            }
            let access = if step / 4 == 1 { WRITE } else { READ };
            let found = core.access(64 + page as u64, access, &mut NoObserver);
            assert_eq!(found, rules.touch(page, access == WRITE), "program {program}, step {at}");
            for page in 0..4 {
                let bits = core.bits(64 + page as u64);
                assert_eq!((bits & A != 0, bits & D != 0), (rules.accessed[page], rules.dirty[page]));
            }
        }
    }
}

/// Every order of first touches of the eight pages, each by a load or all by a store.
#[test]
fn every_order_of_eight_touches_coalesces_at_the_last() {
    fn orders(left: &mut Vec<u64>, taken: &mut Vec<u64>, each: &mut impl FnMut(&[u64])) {
        if left.is_empty() {
            return each(taken);
        }
        for at in 0..left.len() {
            let page = left.remove(at);
            taken.push(page);
            orders(left, taken, each);
            taken.pop();
            left.insert(at, page);
        }
    }
    let mut core = mapped(8, RW);
    for access in [READ, WRITE] {
        orders(&mut (0..8).collect(), &mut Vec::new(), &mut |pages| {
            core.tlbs.invalidate(&Invalidate::All, &mut NoObserver);
            core.ptes.values_mut().for_each(|e| *e &= !(A | D));
            for (at, page) in pages.iter().enumerate() {
                assert_eq!(core.access(64 + page, access, &mut NoObserver), Ended::Walked);
                let whole = core.holds(64 + page).contains(&(0, PageOrder::P32K));
                assert_eq!(whole, at == 7);
            }
        });
    }
}

/// A second level with groups fills a first with groups, and one without; a smaller group takes its part of a larger.
#[test]
fn groups_pass_between_levels() {
    for (first, expected) in [(None, P4K), (Some(4), PageOrder::P16K), (Some(8), PageOrder::P32K)] {
        let l1 = array("L1", 1, Placement::Both, 1, Ways::Full, &[P4K]);
        let l1 = if let Some(group) = first { zen(l1, group) } else { l1 };
        let l2 = zen(array("L2", 2, Placement::Both, 64, Ways::Count(8), &[P4K]), 8);
        let mut core = Core::new(Hierarchy::new(&[l1, l2], &HierarchyDesc::default()).unwrap());
        for page in 0..8 {
            core.ptes.insert(page, pte(0x1000 + page, RW | A));
        }
        core.ptes.insert(20, pte(7, RW | A));
        core.access(5, READ, &mut NoObserver);
        core.access(20, READ, &mut NoObserver);
        assert_eq!(core.access(2, READ, &mut NoObserver), Ended::Hit(2, PageOrder::P32K));
        assert_eq!(core.access(2, READ, &mut NoObserver), Ended::Hit(1, expected));
        core.check();
        // Counted once by each array that could.
        let arrays = core.tlbs.counts().arrays;
        assert_eq!(arrays[1].coalescing.unwrap().coalesced, 1);
        core.tlbs.counts().check().unwrap();
    }
}

/// S0-012: code is coalesced as data is.
#[test]
fn the_instruction_side_coalesces_for_itself() {
    let mut core = mapped(8, A);
    core.access(64, Access::Fetch, &mut NoObserver);
    assert_eq!(core.holds(64), [(1, PageOrder::P32K)]);
    core.tlbs.set_dirty(ASID, va(64));
    assert_eq!(core.access(65, Access::Fetch, &mut NoObserver), Ended::Hit(1, PageOrder::P32K));
}

/// The walker's note that a page is dirty ends a clean group, not a dirty one.
#[test]
fn set_dirty_ends_a_clean_group() {
    for (bits, held) in [(RW | A, vec![]), (RW | A | D, vec![(0, PageOrder::P16K)])] {
        let mut core = mapped(4, bits);
        core.access(64, READ, &mut NoObserver);
        core.tlbs.set_dirty(ASID, va(65));
        assert_eq!(core.holds(65), held);
    }
}

#[test]
fn impossible_arrays_are_refused_by_name() {
    let sizes = [P4K, PageOrder::P2M];
    let base = || array("X", 1, Placement::Both, 64, Ways::Full, &sizes);
    let of = |design, group| ArrayDesc { design, group, ..base() };
    let odd = |desc: ArrayDesc| ArrayDesc { design: Design::ColtSa, group: Some(4), ..desc };
    for (desc, why) in [
        (of(Design::Zen, Some(3)), "group is 3: zen coalesces 4 or 8 pages"),
        (of(Design::Zen, None), "design zen needs group"),
        (of(Design::Plain, Some(4)), "a plain array coalesces nothing"),
        (of(Design::ColtSa, Some(3)), "group is 3: design colt-sa shares an entry among 2, 4 or 8 pages"),
        (of(Design::ColtSa, None), "design colt-sa needs group"),
        (of(Design::Clustered, Some(16)), "group is 16: design clustered"),
        (of(Design::ColtFa, Some(4)), "the longest run of colt-fa is 8 to 1024 pages"),
        (of(Design::ColtFa, None), "design colt-fa needs group"),
        (of(Design::Tps, Some(4)), "leave it out"),
        (ArrayDesc { sizes: vec![P4K], ..of(Design::Tps, None) }, "design tps takes two"),
        (ArrayDesc { sizes: vec![P4K, PageOrder::new(30)], ..of(Design::Tps, None) }, "31 powers of two: at most 24"),
        (ArrayDesc { ways: Ways::Count(4), ..of(Design::ColtFa, Some(64)) }, "is fully associative"),
        (ArrayDesc { ways: Ways::Count(4), ..of(Design::Tps, None) }, "is fully associative"),
        (ArrayDesc { sizes: vec![PageOrder::P2M], ..of(Design::Zen, Some(4)) }, "add \"4K\" to sizes"),
        (ArrayDesc { sizes: vec![PageOrder::P2M], ..of(Design::ColtSa, Some(4)) }, "add \"4K\" to sizes"),
        (ArrayDesc { sizes: vec![P4K, PageOrder::P16K], ..of(Design::Zen, Some(4)) }, "which design zen coalesces to"),
        (ArrayDesc { level: 2, probe: Probe::Serial, design: Design::Clustered, ..odd(base()) }, "leave out probe"),
        (ArrayDesc { level: 2, smash_to: Some(P4K), ..odd(base()) }, "leave out smash_to"),
    ] {
        let error = match Hierarchy::new(std::slice::from_ref(&desc), &HierarchyDesc::default()) {
            Ok(_) => panic!("{desc:?} is possible"),
            Err(error) => error.to_string(),
        };
        assert!(error.starts_with("tlb.X: ") && error.contains(why), "{error}");
    }
}
