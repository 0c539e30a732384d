//! Rules case by case: Zen's 1 GB pages, rights and dirty bits, latencies, and what is refused.

#[allow(dead_code, reason = "the model is for the other test")]
use crate::common::{array, walked};
use mmulab_addr::{Access, Asid, PageOrder, Pfn, Prot, VirtAddr};
use mmulab_assoc::{Replacement, Ways};
use mmulab_pagetable::{Invalidate, Leaf};
use mmulab_tlb::{ArrayDesc, Hierarchy, HierarchyDesc, HoldDesc, Inclusion, NoObserver, Outcome, Placement, Probe};

const P4K: PageOrder = PageOrder::P4K;
const P2M: PageOrder = PageOrder::P2M;
const P1G: PageOrder = PageOrder::P1G;
const ASID: Asid = Asid(1);

fn leaf(va: u64, order: PageOrder) -> Leaf {
    let pfn = Pfn(VirtAddr::new(va).align_down(order).raw() >> 12);
    Leaf { pfn, order, prot: Prot::RW.with(Prot::X), user: true, accessed: true, dirty: true, global: false }
}

fn fill(tlbs: &mut Hierarchy, va: u64, access: Access, leaf: Leaf) {
    tlbs.fill(ASID, VirtAddr::new(va), access, &walked(leaf), &mut NoObserver);
}

fn look(tlbs: &mut Hierarchy, va: u64, access: Access) -> Outcome {
    tlbs.access(ASID, VirtAddr::new(va), access, &mut NoObserver)
}

/// The 64-entry first levels and the second levels of Zen 3, shrunk.
fn zen() -> Hierarchy {
    let l1 = |name, side| array(name, 1, side, 2, Ways::Full, &[P4K, P2M, P1G]);
    let l2 = |name, side| array(name, 2, side, 64, Ways::Count(8), &[P4K, P2M]);
    let arrays = [
        l1("L1-I", Placement::Instruction),
        l1("L1-D", Placement::Data),
        ArrayDesc { smash_to: Some(P2M), ..l2("L2-I", Placement::Instruction) },
        l2("L2-D", Placement::Data),
        ArrayDesc { victim_of: Some("L1-D".into()), ..array("PDC", 2, Placement::Data, 4, Ways::Full, &[P1G]) },
    ];
    Hierarchy::new(&arrays, &HierarchyDesc::default()).unwrap()
}

/// CHANGELOG number 16: a core that misses in a shared array may find, when its walk ends, that another core has filled
/// the page meanwhile. The array must not get it twice.
#[test]
fn a_page_that_two_cores_walk_for_is_once_in_the_array_they_share() {
    let arrays = [
        array("L1", 1, Placement::Both, 2, Ways::Full, &[P4K]),
        ArrayDesc { shared: true, ..array("L2", 2, Placement::Both, 8, Ways::Full, &[P4K]) },
    ];
    let [mut one, mut other] = [(); 2].map(|()| Hierarchy::new(&arrays, &HierarchyDesc::default()).unwrap());
    let (va, page) = (0x5000, leaf(0x5000, P4K));
    assert!(matches!(look(&mut one, va, Access::Read), Outcome::Miss { .. }));
    one.hand_over(&mut other);
    assert!(matches!(look(&mut other, va, Access::Read), Outcome::Miss { .. }));
    fill(&mut other, va, Access::Read, page);
    other.hand_over(&mut one);
    one.fill_late(ASID, VirtAddr::new(va), Access::Read, (&page, None), 1, &mut NoObserver);
    let mut held = Vec::new();
    one.each_entry(|array, _, entry| held.extend((array == 1).then_some(entry.pfn)));
    assert_eq!(held, [page.pfn]);
}

/// S0-M014: the L2 DTLB never holds 1 GB; Zen 3's page directory cache takes what the L1 DTLB evicts.
#[test]
fn one_gigabyte_data_pages_go_from_the_first_level_to_the_page_directory_cache() {
    let mut tlbs = zen();
    let gb = |n: u64| n << 30;
    for n in 1..=3 {
        fill(&mut tlbs, gb(n), Access::Read, leaf(gb(n), P1G));
    }
    // The first was evicted by the third, and is found where it went; the second goes there for it.
    assert!(matches!(look(&mut tlbs, gb(1) + 5, Access::Read), Outcome::L2 { entry, .. } if entry.order == P1G));
    assert!(matches!(look(&mut tlbs, gb(2), Access::Read), Outcome::L2 { .. }));
    let counts = tlbs.counts();
    assert_eq!(counts.arrays[3].fills, 0, "the L2 DTLB");
    assert_eq!(counts.arrays[4].hits, 2, "the PDC");
    counts.check().unwrap();
    // What is invalidated does not go there.
    let page = Invalidate::Page { asid: ASID, va: VirtAddr::new(gb(2)), order: P1G };
    tlbs.invalidate(&page, &mut NoObserver);
    assert!(matches!(look(&mut tlbs, gb(2), Access::Read), Outcome::Miss { .. }));
}

/// S0-M015: 1 GB instruction mappings are smashed to 2 MB in the L2 ITLB.
#[test]
fn one_gigabyte_code_pages_are_two_megabytes_in_the_second_level() {
    let mut tlbs = zen();
    let at = (7 << 30) + (3 << 21) + 0x123;
    fill(&mut tlbs, at, Access::Fetch, leaf(at, P1G));
    for n in 0..2u64 {
        fill(&mut tlbs, n << 12, Access::Fetch, leaf(n << 12, P4K));
    }
    let Outcome::L2 { entry, .. } = look(&mut tlbs, at, Access::Fetch) else { panic!("it is in the second level") };
    assert_eq!((entry.order, entry.translate(VirtAddr::new(at)).0), (P2M, at));
    assert!(matches!(look(&mut tlbs, at, Access::Fetch), Outcome::L1 { entry } if entry.order == P2M));
    assert!(matches!(look(&mut tlbs, at + (1 << 21), Access::Fetch), Outcome::Miss { .. }));
}

#[test]
fn a_store_needs_the_dirty_bit_and_the_right() {
    let mut tlbs = zen();
    fill(&mut tlbs, 0x1000, Access::Read, Leaf { dirty: false, ..leaf(0x1000, P4K) });
    assert!(matches!(look(&mut tlbs, 0x1000, Access::Read), Outcome::L1 { .. }));
    assert_eq!(look(&mut tlbs, 0x1000, Access::Write), Outcome::NeedDirty { level: 1, cycles: 0 });
    tlbs.set_dirty(ASID, VirtAddr::new(0x1000));
    assert!(matches!(look(&mut tlbs, 0x1008, Access::Write), Outcome::L1 { .. }));
    fill(&mut tlbs, 0x2000, Access::Read, Leaf { prot: Prot::R, ..leaf(0x2000, P4K) });
    assert_eq!(look(&mut tlbs, 0x2000, Access::Write), Outcome::Denied { level: 1, cycles: 0 });
    let counts = tlbs.counts();
    assert_eq!((counts.l1d.hits, counts.l1d.misses), (4, 0));
}

#[test]
fn serial_probes_add_up_and_the_slowest_array_decides_a_miss() {
    let l1 = array("L1", 1, Placement::Both, 1, Ways::Full, &[P4K, P2M, P1G]);
    let l2 = array("L2", 2, Placement::Both, 64, Ways::Count(4), &[P2M, P4K]);
    let arrays = [
        l1,
        ArrayDesc { probe: Probe::Serial, ..l2 },
        ArrayDesc { hit_cycles: 9, ..array("L2-1G", 2, Placement::Both, 4, Ways::Full, &[P1G]) },
    ];
    let mut tlbs = Hierarchy::new(&arrays, &HierarchyDesc::default()).unwrap();
    assert_eq!(look(&mut tlbs, 0x1000, Access::Read), Outcome::Miss { cycles: 14 });
    fill(&mut tlbs, 0x1000, Access::Read, leaf(0x1000, P4K));
    fill(&mut tlbs, 1 << 30, Access::Read, leaf(1 << 30, P1G));
    fill(&mut tlbs, 2 << 21, Access::Read, leaf(2 << 21, P2M));
    assert!(matches!(look(&mut tlbs, 0x1000, Access::Read), Outcome::L2 { cycles: 7, .. }));
    assert!(matches!(look(&mut tlbs, 2 << 21, Access::Read), Outcome::L2 { cycles: 14, .. }));
    assert!(matches!(look(&mut tlbs, 1 << 30, Access::Read), Outcome::L2 { cycles: 9, .. }));
}

#[test]
fn an_inclusive_second_level_takes_the_first_levels_entry_along() {
    for (inclusion, stays) in [(Inclusion::None, true), (Inclusion::Inclusive, false)] {
        let arrays = [
            array("L1", 1, Placement::Both, 8, Ways::Full, &[P4K]),
            array("L2", 2, Placement::Both, 2, Ways::Full, &[P4K]),
        ];
        let mut tlbs = Hierarchy::new(&arrays, &HierarchyDesc { inclusion, ..HierarchyDesc::default() }).unwrap();
        for page in 1..=3 {
            fill(&mut tlbs, page << 12, Access::Read, leaf(page << 12, P4K));
        }
        assert_eq!(matches!(look(&mut tlbs, 1 << 12, Access::Read), Outcome::L1 { .. }), stays);
    }
}

#[test]
fn what_cannot_be_is_refused_with_a_remedy() {
    let ok = || array("A", 1, Placement::Both, 64, Ways::Count(4), &[P4K]);
    let refused =
        |arrays: &[ArrayDesc]| Hierarchy::new(arrays, &HierarchyDesc::default()).map(|_| ()).unwrap_err().to_string();
    let with = |change: fn(&mut ArrayDesc)| {
        let mut desc = ok();
        change(&mut desc);
        refused(&[desc])
    };
    assert_eq!(with(|d| d.ways = Ways::Count(5)), "tlb.A: 5 ways do not divide 64 entries; 4 would");
    assert_eq!(with(|d| d.entries = 0), "tlb.A: 0 entries: give 1 to 65536");
    assert_eq!(with(|d| d.entries = 1 << 20), "tlb.A: 1048576 entries: give 1 to 65536");
    assert_eq!(with(|d| d.level = 3), "tlb.A: level is 3: give 1 or 2");
    assert_eq!(with(|d| d.sizes.clear()), "tlb.A: sizes is empty: name at least one page size");
    assert_eq!(with(|d| d.sizes.push(P4K)), "tlb.A: sizes names 4K twice: name it once");
    assert_eq!(with(|d| d.smash_to = Some(P2M)), "tlb.A: smash_to is 2M: name one of its sizes");
    assert!(with(|d| d.hit_cycles = 1).contains("leave out hit_cycles"));
    assert!(with(|d| d.side = Placement::Data).contains("no array of level 1 serves the instruction side"));
    assert!(
        with(|d| (d.entries, d.ways, d.replacement) = (60, Ways::Count(12), Replacement::TreePlru))
            .contains("power of two")
    );
    let twin = |name: &str, of: Option<&str>| ArrayDesc {
        level: 2,
        victim_of: of.map(Into::into),
        ..array(name, 2, Placement::Both, 8, Ways::Full, &[P4K])
    };
    assert_eq!(refused(&[ok(), ok()]), "tlb.A: two arrays have this name: rename one");
    assert_eq!(
        refused(&[ok(), twin("B", None), twin("C", None)]),
        "tlb.C: 'B' of the same level and side holds 4K pages too: choose one"
    );
    assert!(refused(&[ok(), twin("B", Some("Z"))]).contains("victim_of is 'Z': name an array of level 1"));
    let rules = HierarchyDesc { asid_bits: 17, ..HierarchyDesc::default() };
    assert!(Hierarchy::new(&[ok()], &rules).map(|_| ()).unwrap_err().to_string().contains("give 0 to 16"));
}

/// Both levels of fetches, of `entries` in the first, which instructions in flight hold; and some data side.
fn held(entries: u32, instructions: u32) -> Hierarchy {
    let hold = Some(HoldDesc { cycles: 22, instructions });
    let arrays = [
        ArrayDesc { hold, ..array("I", 1, Placement::Instruction, entries, Ways::Full, &[P4K, P2M]) },
        array("D", 1, Placement::Data, 4, Ways::Full, &[P4K]),
        ArrayDesc { hit_cycles: 7, ..array("S", 2, Placement::Both, 64, Ways::Full, &[P4K, P2M]) },
    ];
    Hierarchy::new(&arrays, &HierarchyDesc::default()).unwrap()
}

fn cycles(outcome: Outcome) -> u32 {
    match outcome {
        Outcome::L2 { cycles, .. } => cycles,
        other => panic!("{other:?} is no hit of the second level"),
    }
}

#[test]
fn a_replaced_entry_is_held_by_each_of_its_pages() {
    let mut tlbs = held(2, 8);
    let superpage = leaf(0x20_0000, P2M);
    fill(&mut tlbs, 0x20_0000, Access::Fetch, superpage);
    for page in [0x40_0000, 0x40_1000] {
        fill(&mut tlbs, page, Access::Fetch, leaf(page, P4K));
    }
    // Two pages of the superpage, then one elsewhere: the superpage comes back, and goes for what follows.
    assert_eq!(cycles(look(&mut tlbs, 0x20_5000, Access::Fetch)), 7, "nothing began before");
    tlbs.begin(3);
    assert_eq!(cycles(look(&mut tlbs, 0x40_0000, Access::Fetch)), 7, "0x401000 was filled, and nothing fetched there");
    tlbs.begin(1);
    assert_eq!(cycles(look(&mut tlbs, 0x40_1000, Access::Fetch)), 29, "an instruction at 0x205000 is in flight");
    tlbs.begin(1);
    // Loads replace nothing that fetches hold, and wait for nothing.
    fill(&mut tlbs, 0x80_0000, Access::Read, leaf(0x80_0000, P4K));
    for page in 0..4 {
        fill(&mut tlbs, 0x90_0000 + page * 0x1000, Access::Read, leaf(0x90_0000 + page * 0x1000, P4K));
    }
    assert_eq!(cycles(look(&mut tlbs, 0x80_0000, Access::Read)), 7);
    tlbs.begin(8);
    assert_eq!(cycles(look(&mut tlbs, 0x20_5000, Access::Fetch)), 7, "eight instructions began after the last there");
}

#[test]
fn entries_of_another_address_space_are_not_held_by_this_one() {
    let mut tlbs = held(1, 100);
    let other = Asid(2);
    fill(&mut tlbs, 0x1000, Access::Fetch, leaf(0x1000, P4K));
    fill(&mut tlbs, 0x2000, Access::Fetch, leaf(0x2000, P4K));
    assert_eq!(cycles(look(&mut tlbs, 0x1000, Access::Fetch)), 7);
    tlbs.begin(1);
    tlbs.fill(other, VirtAddr::new(0x1000), Access::Fetch, &walked(leaf(0x1000, P4K)), &mut NoObserver);
    // The only entry is the other space's now, from whose page no instruction began.
    assert_eq!(cycles(look(&mut tlbs, 0x2000, Access::Fetch)), 7);
    tlbs.begin(1);
    assert_eq!(cycles(look(&mut tlbs, 0x1000, Access::Fetch)), 29);
}

#[test]
fn only_first_levels_of_fetches_have_entries_that_are_held() {
    let hold = Some(HoldDesc { cycles: 1, instructions: 1 });
    let first = array("A", 1, Placement::Both, 8, Ways::Full, &[P4K]);
    let refused =
        |arrays: &[ArrayDesc]| Hierarchy::new(arrays, &HierarchyDesc::default()).map(|_| ()).unwrap_err().to_string();
    let what = "hold is for an array of level 1 that serves fetches alone: leave it out";
    assert_eq!(refused(&[ArrayDesc { hold: hold.clone(), ..first.clone() }]), format!("tlb.A: {what}"));
    let second = ArrayDesc { hold, ..array("B", 2, Placement::Instruction, 8, Ways::Full, &[P4K]) };
    assert_eq!(refused(&[first, second]), format!("tlb.B: {what}"));
}
