//! Designs for all page sizes: the same translations as plain arrays, on any history; and MIX as paper 4 draws it.

#[allow(dead_code, reason = "the model is for the other tests")]
use crate::common::{
    array,
    flat::{A, D, P, RW, US},
    mixed::{self, Core, Ended, GIANT, HUGE, pde, pdpte},
};
use mmulab_addr::{Access, PageOrder};
use mmulab_assoc::{Replacement, Ways};
use mmulab_tlb::{
    ArrayDesc, Bundle, Design, Frames, Hierarchy, HierarchyDesc, Mirrors, MixDesc, Outcome, Placement, PredictorDesc,
    Probe, Span,
};
use proptest::prelude::*;

const P4K: PageOrder = PageOrder::P4K;
const P2M: PageOrder = PageOrder::P2M;
const P1G: PageOrder = PageOrder::P1G;
/// Superpages of the tests' address space, two lines of entries and a bit.
const SUPERS: u64 = 18;
/// 1 GiB pages behind it, a line of entries and a bit, the first of which its page tables hold the place of.
const GIANTS: std::ops::Range<u64> = 1..11;

fn mix(level: u8, sets: u32, ways: u32, group: u16, options: MixDesc) -> ArrayDesc {
    let name = if level == 1 { "L1" } else { "L2" };
    ArrayDesc {
        design: Design::Mix,
        group: Some(group),
        mix: Some(options),
        ..array(name, level, Placement::Both, sets * ways, Ways::Count(ways), &[P4K, P2M])
    }
}

fn core(arrays: &[ArrayDesc]) -> Core {
    Core::new(Hierarchy::new(arrays, &HierarchyDesc::default()).unwrap())
}

fn of(sets: u32, ways: u32, group: u16, options: MixDesc) -> Core {
    core(&[mix(1, sets, ways, group, options)])
}

fn length() -> MixDesc {
    MixDesc { bundle: Some(Bundle::Length), ..MixDesc::default() }
}

fn merged() -> MixDesc {
    MixDesc { mirrors: Mirrors::Merged, ..MixDesc::default() }
}

/// Paper 4's Figure 2: superpages B at 0x400000 and C at 0x600000, at frames 0 and 0x200000.
const B: u64 = 2 * HUGE;
const C: u64 = 3 * HUGE;

fn figure_2(mut core: Core) -> Core {
    core.huge.insert(2, pde(0, RW | A));
    core.huge.insert(3, pde(1, RW | A));
    // Small pages: A (and F) in even regions, D and E in odd ones.
    for (page, frame) in [(0x10, 0x9000), (0x11, 0x9101), (0x13, 0x9203), (0x12, 0x9302)] {
        core.small.insert(page, P | US | RW | frame << 12);
    }
    core
}

/// Figures 2 to 4: one walk for B puts a bundle of B and C into both sets.
#[test]
fn a_fill_mirrors_the_bundle_in_every_set() {
    let mut core = figure_2(of(2, 2, 2, MixDesc::default()));
    core.read(0x10);
    assert_eq!(core.read(B), Ended::Walked);
    assert_eq!((core.copies(0, B, P2M), core.copies(0, C, P2M)), (2, 2));
    // Even regions are answered by set 0, odd ones by set 1, and neither walks.
    for page in [B + 1, B + 2, B + 511, C, C + 1, C + 510] {
        assert_eq!(core.read(page), Ended::Hit(1), "{page:#x}");
    }
    assert_eq!(core.read(0x10), Ended::Hit(1), "A is still there");
    let counts = core.tlbs.counts();
    let wrote = counts.arrays[0].mirroring.unwrap();
    assert_eq!((wrote.writes, wrote.duplicates), (1 + 2, 0), "one set for A, two for B and C");
}

/// Figure 8: mirrors are replaced each for itself; a miss writes them all again, and the copy goes when it is met.
#[test]
fn copies_arise_and_go() {
    let mut core = figure_2(of(2, 2, 2, MixDesc::default()));
    core.read(0x10); // A, set 0.
    core.read(B); // 1: both sets.
    core.read(0x11); // 2: D takes the free way of set 1 ...
    assert_eq!(core.copies(0, B, P2M), 2);
    core.read(0x13); // 3: ... and E the place of its mirror of B and C.
    assert_eq!(core.copies(0, B, P2M), 1);
    assert_eq!(core.read(C), Ended::Hit(1), "set 0 has its mirror yet");
    assert_eq!(core.read(B + 1), Ended::Walked, "4: set 1 has not");
    assert_eq!(core.copies(0, B, P2M), 3, "two in set 0, one in set 1");
    assert_eq!(core.copies(0, 0x10, P4K), 0, "the copy took A's place");
    assert_eq!(core.read(B + 2), Ended::Hit(1), "5: set 0 is probed");
    assert_eq!(core.copies(0, B, P2M), 2, "and one copy is left in it");
    assert_eq!(core.tlbs.counts().arrays[0].mirroring.unwrap().duplicates, 1);
    // What looks first writes no copy, and A stays.
    let mut core = figure_2(of(2, 2, 2, merged()));
    for page in [0x10, B, 0x11, 0x13, C, B + 1] {
        core.read(page);
    }
    assert_eq!((core.copies(0, B, P2M), core.copies(0, 0x10, P4K)), (2, 1));
}

/// Section 3, and X30: as many mirrors as sets, or as regions if those are fewer.
#[test]
fn there_are_no_more_mirrors_than_regions() {
    for (sets, mirrors) in [(2, 2), (16, 16), (64, 64), (96, 96), (128, 128), (512, 512), (1024, 512)] {
        let mut core = of(sets, 2, 1, MixDesc::default());
        core.huge.insert(2, pde(0, RW));
        core.read(B + 7);
        assert_eq!(core.copies(0, B, P2M), mirrors, "{sets} sets");
        assert_eq!(core.read(B + 300), Ended::Hit(1));
    }
    // Two neighbours reach all of twice as many sets.
    let mut core = of(1024, 2, 2, MixDesc::default());
    core.huge.extend([(2, pde(0, RW | A)), (3, pde(1, RW | A))]);
    core.read(B);
    assert_eq!(core.copies(0, C, P2M), 1024);
}

/// Section 3: with superpage index bits no mirrors, and 512 small pages in one set.
#[test]
fn superpage_index_bits_send_small_pages_to_one_set() {
    let by_superpage = MixDesc { index: Some(P2M), ..MixDesc::default() };
    let mut core = of(16, 4, 1, by_superpage);
    core.huge.insert(2, pde(0, RW));
    core.read(B + 7);
    assert_eq!(core.copies(0, B, P2M), 1);
    for page in 0..8 {
        core.small.insert(page, P | US | RW | page << 12);
        core.read(page);
    }
    let held = (0..8).map(|page| core.copies(0, page, P4K)).sum::<usize>();
    assert_eq!(held, 4, "the ways of one set");
}

/// Section 4.1: bundles begin at a multiple of their largest size, holes are possible in bitmaps and not in lengths.
#[test]
fn bundles_are_aligned_and_bitmaps_have_holes() {
    let took = |group: u16, options: MixDesc, present: &[u64], asked: u64| {
        let mut core = of(4, 2, group, options);
        core.huge.extend(present.iter().map(|&n| (n, pde(100 + n, RW | A))));
        core.read(asked * HUGE);
        (0..16).filter(|&n| core.copies(0, n * HUGE, P2M) != 0).collect::<Vec<_>>()
    };
    let bitmap = MixDesc::default;
    assert_eq!(took(2, bitmap(), &[1, 2], 1), [1], "no bundle crosses a boundary of 4 MiB");
    assert_eq!(took(2, bitmap(), &[2, 3], 3), [2, 3]);
    assert_eq!(took(4, bitmap(), &[0, 2, 3], 2), [0, 2, 3], "a hole at 1");
    assert_eq!(took(4, length(), &[0, 2, 3], 2), [2, 3]);
    assert_eq!(took(8, length(), &[0, 1, 2, 4], 1), [0, 1, 2]);
    assert_eq!(took(2, length(), &[1, 2], 1), [1]);
    let anywhere = MixDesc { span: Span::Anywhere, ..length() };
    assert_eq!(took(2, anywhere.clone(), &[1, 2], 1), [1, 2]);
    assert_eq!(took(2, anywhere.clone(), &[1, 2, 3], 2), [1, 2]);
    // A line of entries is all that a walk knows.
    assert_eq!(took(16, anywhere, &(0..16).collect::<Vec<_>>(), 9), (8..16).collect::<Vec<_>>());
    // By concatenation only frames as far from their boundary as the pages.
    let aligned = |distance: u64| {
        let mut core = of(4, 2, 4, MixDesc { frames: Frames::Aligned, ..MixDesc::default() });
        core.huge.extend((4..8).map(|n| (n, pde(n + distance, RW | A))));
        core.read(4 * HUGE);
        (4..8).filter(|&n| core.copies(0, n * HUGE, P2M) != 0).count()
    };
    assert_eq!((aligned(4), aligned(2)), (4, 1));
}

/// Section 4.2: a line of 8 at first; misses in other lines make the bundle larger.
#[test]
fn bundles_grow_line_by_line() {
    let mut core = of(4, 4, 64, MixDesc { mirrors: Mirrors::Merged, ..length() });
    core.huge.extend((0..64).map(|n| (n, pde(n, RW | A))));
    for line in 0..8 {
        assert_eq!(core.read((8 * line + 5) * HUGE), Ended::Walked);
        let held = (0..64).filter(|n| core.copies(0, n * HUGE, P2M) == 4).count() as u64;
        assert_eq!(held, 8 * (line + 1));
    }
    let counts = core.tlbs.counts();
    assert_eq!(counts.arrays[0].mirroring.unwrap().extended, 7);
    assert_eq!(counts.arrays[0].evictions, 0, "64 superpages in one way of each set");
}

/// Section 4.3: entries with one tag are found when the set is probed. Those that know different superpages become one.
#[test]
fn parts_of_a_bundle_become_one_entry() {
    let mut core = of(2, 2, 16, MixDesc { extra_bits: 3, ..MixDesc::default() });
    core.huge.extend((0..16).map(|n| (n, pde(n, RW | A))));
    let small = 16 * HUGE;
    core.small.extend((0..4).map(|n| (small + n, P | US | RW | (0x9000 + 2 * n) << 12)));
    core.read(0); // The first line, in both sets.
    core.read(small + 1);
    core.read(small + 3); // Set 1 has two small pages now,
    assert_eq!(core.read(8 * HUGE + 1), Ended::Walked, "and does not know of the first line: this is a new bundle");
    assert_eq!(core.read(9 * HUGE), Ended::Hit(1), "in set 0 it is the second entry with this tag");
    assert_eq!(core.tlbs.counts().arrays[0].mirroring.unwrap().duplicates, 1);
    assert_eq!(core.read(0), Ended::Hit(1), "which took in the first one");
    assert_eq!(core.read(small), Ended::Walked);
    assert_eq!(core.read(0), Ended::Hit(1), "and left a way for another page");
}

/// Section 4.4: an invalidation clears a bit in each mirror of a bitmap, and drops a run.
#[test]
fn what_an_invalidation_leaves() {
    for (options, left) in [(MixDesc::default(), 2), (length(), 0)] {
        let mut core = figure_2(of(2, 2, 2, options));
        core.read(B);
        core.flush(B, 1);
        assert_eq!((core.copies(0, B, P2M), core.copies(0, C, P2M)), (0, left));
    }
}

/// Section 4.4: rights must be equal, A bits set; what was left out joins once it has been asked for.
#[test]
fn rights_and_accessed_bits_decide() {
    let mut core = of(2, 2, 4, MixDesc::default());
    core.huge.extend([(4, pde(4, RW | A)), (5, pde(5, A)), (6, pde(6, RW)), (7, pde(7, RW | A))]);
    core.read(4 * HUGE);
    let held = |core: &Core| (4..8).filter(|&n| core.copies(0, n * HUGE, P2M) != 0).collect::<Vec<_>>();
    assert_eq!(held(&core), [4, 7], "5 has other rights, 6 was not accessed");
    assert_eq!(core.read(6 * HUGE), Ended::Walked);
    assert_eq!(held(&core), [4, 6, 7]);
}

/// Section 4.4: the entry is dirty if all are; else every store makes the walker write the table's bit.
#[test]
fn one_dirty_bit_for_all() {
    for (first, second, dirty) in [(0, 0, false), (D, 0, false), (0, D, false), (D, D, true)] {
        let mut core = of(2, 2, 2, MixDesc::default());
        core.huge.extend([(2, pde(0, RW | A | first)), (3, pde(1, RW | A | second))]);
        core.read(B);
        assert_eq!(core.copies(0, C, P2M), 2);
        assert_eq!(core.write(B) == Ended::Hit(1), dirty);
        assert_eq!(core.huge[&3] & D, second, "the other's bit is as it was");
        core.check();
    }
    // Both dirty at last: what a walk reads of all pages of the bundle counts.
    let mut core = figure_2(of(2, 2, 2, MixDesc::default()));
    core.read(B);
    assert_eq!((core.write(B), core.write(B), core.write(C)), (Ended::Rewalked, Ended::Rewalked, Ended::Rewalked));
    assert_eq!(core.write(B), Ended::Hit(1));
}

/// CHANGELOG number 12: mirrors are written on misses (section 4.3). A walk for a page that the probed set translates
/// sets a dirty bit or finds other rights; it changes that set alone, even if the line has more pages of the bundle by
/// now.
#[test]
fn a_walk_that_follows_no_miss_changes_the_probed_set_alone() {
    let anywhere = MixDesc { span: Span::Anywhere, ..length() };
    for options in [MixDesc::default(), merged(), length(), anywhere] {
        let writes = |core: &mut Core| core.tlbs.counts().arrays[0].mirroring.unwrap().writes;
        // The neighbour was not accessed at the first walk, and is at the second.
        let mut core = of(4, 2, 8, options.clone());
        core.huge.extend([(8, pde(8, RW | A)), (9, pde(9, RW))]);
        core.read(8 * HUGE);
        assert_eq!((core.copies(0, 8 * HUGE, P2M), writes(&mut core)), (4, 4));
        *core.huge.get_mut(&9).unwrap() |= A;
        assert_eq!(core.write(8 * HUGE), Ended::Rewalked);
        assert_eq!((core.copies(0, 9 * HUGE, P2M), writes(&mut core)), (1, 5), "{options:?}");
        assert_eq!(core.read(9 * HUGE + 1), Ended::Walked, "set 1 knows nothing of it");
        core.check();
        // Rights that grew need no flush. The pages had one entry in each set, and have two in the probed one.
        let mut core = of(4, 2, 8, options.clone());
        core.huge.extend([(8, pde(8, A)), (9, pde(9, A))]);
        core.read(8 * HUGE);
        assert_eq!(writes(&mut core), 4);
        *core.huge.get_mut(&8).unwrap() |= RW;
        assert_eq!(core.write(8 * HUGE), Ended::Rewalked);
        assert_eq!((core.copies(0, 8 * HUGE, P2M), writes(&mut core)), (4, 5), "{options:?}");
        assert_eq!(core.write(8 * HUGE), Ended::Hit(1));
        assert_eq!(core.write(8 * HUGE + 1), Ended::Rewalked, "set 1 has the old rights");
        core.check();
    }
    // A run that its line would make too long goes; the new one is for the probed set.
    let mut core = of(4, 2, 8, MixDesc { span: Span::Anywhere, ..length() });
    core.huge.extend((4..12).map(|n| (n, pde(n, RW | A))));
    core.huge.extend((12..16).map(|n| (n, pde(n, RW))));
    for number in [4, 8] {
        core.read(number * HUGE);
    }
    assert_eq!(core.copies(0, 11 * HUGE, P2M), 4, "pages 4 to 11, in each set");
    assert_eq!(core.copies(0, 4 * HUGE, P2M), 7, "the other three sets hold pages 4 to 7 too");
    core.huge.range_mut(12..16).for_each(|(_, bits)| *bits |= A);
    assert_eq!(core.write(8 * HUGE), Ended::Rewalked);
    assert_eq!((core.copies(0, 15 * HUGE, P2M), core.copies(0, 4 * HUGE, P2M)), (1, 6));
}

/// CHANGELOG number 12: the dirty bit of two copies made one does not depend on their ways. Here the copy in the first
/// way is dirty, and the older one behind it is not.
#[test]
fn of_two_copies_the_dirty_one_counts() {
    for dirty in [false, true] {
        let mut core = figure_2(of(2, 2, 2, MixDesc::default()));
        core.read(0x10); // A takes the first way of set 0, and the bundle the second.
        core.read(B);
        core.read(0x11); // D and E take both ways of set 1.
        core.read(0x13);
        if dirty {
            // As by another core.
            core.huge.values_mut().for_each(|bits| *bits |= D);
        }
        core.flush(0x10, 1);
        assert_eq!(core.read(B + 1), Ended::Walked);
        assert_eq!(core.copies(0, B, P2M), 3, "two in set 0: the new one in A's place");
        let ended = if dirty { Ended::Hit(1) } else { Ended::Rewalked };
        assert_eq!(core.write(B + 2), ended);
        assert_eq!(core.tlbs.counts().arrays[0].mirroring.unwrap().duplicates, 1);
        core.check();
    }
}

/// Section 3: as many contiguous superpages as sets need one entry of each set.
#[test]
fn coalescing_outweighs_mirroring() {
    let sets = 8;
    let mut core = of(sets, 1, 8, MixDesc::default());
    core.huge.extend((0..8).map(|n| (n, pde(n, RW | A))));
    core.read(0);
    for page in 0..8 * HUGE {
        assert_eq!(core.read(page), Ended::Hit(1));
    }
}

#[test]
fn all_ways_are_used_whatever_the_replacement() {
    for replacement in [Replacement::Lru, Replacement::TreePlru, Replacement::Random] {
        let mut core = core(&[ArrayDesc { replacement, ..mix(1, 1, 4, 1, MixDesc::default()) }]);
        for page in 0..4 {
            core.small.insert(page, P | US | RW | page << 12);
            core.read(page);
        }
        assert_eq!((0..4).map(|page| core.copies(0, page, P4K)).sum::<usize>(), 4, "{replacement:?}");
    }
}

#[test]
fn mix_with_colt_takes_small_pages_together() {
    let mut core = of(2, 2, 2, MixDesc { small_group: Some(4), ..MixDesc::default() });
    core.small.extend((0..8).map(|page| (page, P | US | RW | A | (page + 32) << 12)));
    core.huge.extend([(2, pde(0, RW | A)), (3, pde(1, RW | A))]);
    core.read(1);
    let held = |core: &Core| (0..8).map(|page| core.copies(0, page, P4K)).collect::<Vec<_>>();
    assert_eq!(held(&core), [1, 1, 1, 1, 0, 0, 0, 0]);
    core.read(4);
    assert_eq!(held(&core), [1; 8]);
    core.read(B);
    assert_eq!(core.copies(0, C, P2M), 2);
}

#[test]
fn colt_plus_coalesces_superpages_in_one_set() {
    let arrays = [
        array("4K", 1, Placement::Both, 8, Ways::Count(2), &[P4K]),
        ArrayDesc {
            design: Design::ColtPlus,
            group: Some(4),
            ..array("2M", 1, Placement::Both, 8, Ways::Count(2), &[P2M])
        },
    ];
    let mut core = core(&arrays);
    core.huge.extend((0..8).map(|n| (n, pde(n + 3, RW | A))));
    core.read(2 * HUGE);
    let held = (0..8).map(|n| core.copies(1, n * HUGE, P2M)).collect::<Vec<_>>();
    assert_eq!(held, [1, 1, 1, 1, 0, 0, 0, 0]);
}

#[test]
fn what_cannot_be_is_refused_with_the_arithmetic() {
    let refused = |desc: ArrayDesc| Hierarchy::new(&[desc], &HierarchyDesc::default()).err().unwrap().to_string();
    let wide = refused(mix(1, 16, 4, 16, MixDesc::default()));
    assert!(wide.contains("9 + log2(16) = 13") && wide.contains("mix.extra_bits = 3"), "{wide}");
    assert!(
        Hierarchy::new(
            &[mix(1, 16, 4, 16, MixDesc { extra_bits: 3, ..MixDesc::default() })],
            &HierarchyDesc::default()
        )
        .is_ok()
    );
    let surplus = refused(mix(1, 16, 4, 8, MixDesc { extra_bits: 65, ..MixDesc::default() }));
    assert!(surplus.contains("widest bitmap has 64"), "{surplus}");
    let once = ArrayDesc {
        design: Design::Skew,
        probe_cycles: 1,
        ..array("S", 1, Placement::Both, 24, Ways::Count(4), &[P4K, P2M])
    };
    assert!(refused(once).contains("takes one probe"));
    assert!(refused(mix(1, 0, 4, 8, MixDesc::default())).contains("0 entries"));
    assert!(refused(mix(1, 16, 4, 12, MixDesc::default())).contains("power of two"));
    let predictor = Some(PredictorDesc { entries: 3, cycles: 0 });
    let skew = array("S", 1, Placement::Both, 24, Ways::Count(4), &[P4K, P2M]);
    let three = refused(ArrayDesc { design: Design::Skew, predictor: predictor.clone(), ..skew.clone() });
    assert!(three.contains("log2(3) = 1.58"), "{three}");
    let parallel = refused(ArrayDesc { predictor, ..skew.clone() });
    assert!(parallel.contains("which size to search first"), "{parallel}");
    assert!(refused(ArrayDesc { design: Design::Skew, ways: Ways::Count(3), ..skew }).contains("as many ways"));
}

#[test]
fn colt_leaves_superpages_single_and_searches_in_turn() {
    let second = ArrayDesc {
        design: Design::ColtSa,
        group: Some(4),
        probe: Probe::Serial,
        hit_cycles: 6,
        ..array("L2", 2, Placement::Both, 16, Ways::Count(2), &[P4K, P2M])
    };
    let mut core = core(&[array("L1", 1, Placement::Both, 1, Ways::Full, &[P4K, P2M]), second]);
    core.small.extend((0..8).map(|page| (page, P | US | RW | A | (page + 32) << 12)));
    core.huge.extend((1..8).map(|n| (n, pde(n + 3, RW | A))));
    core.read(1);
    core.read(2 * HUGE);
    assert_eq!((0..8).map(|page| core.copies(1, page, P4K)).sum::<usize>(), 4);
    assert_eq!((1..8).map(|n| core.copies(1, n * HUGE, P2M)).sum::<usize>(), 1);
    let cycles = |core: &mut Core, page| match core.look(page) {
        Outcome::L2 { cycles, .. } | Outcome::Miss { cycles } => cycles,
        _ => 0,
    };
    // A probe for small pages, one more for superpages, and both for what is nowhere.
    assert_eq!([3, 2 * HUGE, 4 * HUGE].map(|page| cycles(&mut core, page)), [6, 12, 12]);
}

#[derive(Clone, Debug)]
enum Step {
    Touch { page: u64, access: Access },
    Giant { number: u64, frame: u64, rights: u64 },
    Huge { number: u64, frame: u64, rights: u64 },
    Small { page: u64, frame: u64, rights: u64 },
    Clear { number: u64, count: u64 },
    Age { number: u64 },
    Loosen { number: u64 },
    Unmap { number: u64 },
    Drop { page: u64 },
}

fn step() -> impl Strategy<Value = Step> {
    let number = || 0..SUPERS;
    // A few regions of each superpage, in different sets.
    let near = || (0..SUPERS, prop_oneof![0u64..10, 500u64..512]).prop_map(|(n, at)| n * HUGE + at);
    let page = move || {
        prop_oneof![
            3 => near(),
            1 => (GIANTS, near()).prop_map(|(number, at)| number * GIANT + at),
        ]
    };
    let rights = || prop_oneof![5 => Just(RW), 1 => Just(0), 1 => Just(RW | 1 << 63)];
    let access = prop_oneof![1 => Just(Access::Fetch), 5 => Just(Access::Read), 3 => Just(Access::Write)];
    let distance = || prop_oneof![5 => Just(0x40u64), 1 => Just(0x41), 1 => 0x100u64..0x104];
    prop_oneof![
        24 => (page(), access).prop_map(|(page, access)| Step::Touch { page, access }),
        2 => (number(), distance(), rights()).prop_map(|(number, frame, rights)| Step::Huge { number, frame, rights }),
        2 => (near(), distance(), rights()).prop_map(|(page, frame, rights)| Step::Small { page, frame, rights }),
        1 => (GIANTS, distance(), rights()).prop_map(|(number, frame, rights)| Step::Giant { number, frame, rights }),
        1 => (number(), 1u64..9).prop_map(|(number, count)| Step::Clear { number, count }),
        1 => GIANTS.prop_map(|number| Step::Age { number }),
        1 => number().prop_map(|number| Step::Loosen { number }),
        1 => number().prop_map(|number| Step::Unmap { number }),
        1 => page().prop_map(|page| Step::Drop { page }),
    ]
}

fn apply(core: &mut Core, step: &Step) -> Option<Ended> {
    match *step {
        Step::Touch { page, access } => return Some(core.access(page, access)),
        Step::Giant { number, frame, rights } => {
            core.giant.insert(number, pdpte(frame + number, rights));
            core.flush(number * GIANT, GIANT);
        }
        Step::Huge { number, frame, rights } => {
            core.huge.insert(number, pde(frame + number, rights));
            core.small.retain(|page, _| page / HUGE != number);
            core.flush(number * HUGE, HUGE);
        }
        Step::Small { page, frame, rights } => {
            core.huge.remove(&(page / HUGE));
            core.small.insert(page, P | US | (frame + page) << 12 | rights);
            core.flush(page / HUGE * HUGE, HUGE);
        }
        Step::Clear { number, count } => {
            core.huge.range_mut(number..number + count).for_each(|(_, e)| *e &= !(A | D));
            let pages = number * HUGE..(number + count) * HUGE;
            core.small.range_mut(pages).for_each(|(_, e)| *e &= !(A | D));
            core.flush(number * HUGE, count * HUGE);
        }
        Step::Age { number } => {
            core.giant.entry(number).and_modify(|e| *e &= !(A | D));
            core.flush(number * GIANT, GIANT);
        }
        Step::Loosen { number } => {
            if let Some(e) = core.huge.get_mut(&number) {
                *e = (*e | RW) & !(1 << 63);
            }
        }
        Step::Unmap { number } => {
            core.huge.remove(&number);
            core.small.retain(|page, _| page / HUGE != number);
            core.flush(number * HUGE, HUGE);
        }
        Step::Drop { page } => core.flush(page, 1),
    }
    None
}

fn options() -> impl Strategy<Value = MixDesc> {
    let small = prop_oneof![2 => Just(None), 1 => Just(Some(4u16))];
    let index = prop_oneof![3 => Just(None), 1 => Just(Some(P2M))];
    (any::<[bool; 4]>(), small, index).prop_map(|(bits, small, index)| mixed::options(bits, index, small))
}

fn one(level: u8) -> impl Strategy<Value = ArrayDesc> {
    let name = if level == 1 { "L1" } else { "L2" };
    let sizes = [P4K, P2M, P1G];
    let plain = move |entries, ways| array(name, level, Placement::Both, entries, Ways::Count(ways), &sizes);
    let predictor = prop_oneof![Just(None), Just(Some(PredictorDesc { entries: 4, cycles: 0 }))];
    prop_oneof![
        4 => (1u32..6, 1u32..5, 0u32..5, options()).prop_map(move |(sets, ways, group, o)| ArrayDesc {
            sizes: sizes.to_vec(),
            ..mix(level, sets, ways, 1 << group, o)
        }),
        1 => (2u32..5, 1u32..3, predictor.clone()).prop_map(move |(sets, ways, predictor)| ArrayDesc {
            design: Design::Skew,
            predictor,
            ..plain(sets * ways * 3, ways * 3)
        }),
        1 => (1u32..5, 1u32..4, predictor).prop_map(move |(sets, ways, predictor)| ArrayDesc {
            probe: Probe::Serial,
            predictor,
            ..plain(sets * ways, ways)
        }),
        1 => (1u32..5, 1u32..4, 1u32..4, any::<[bool; 2]>()).prop_map(move |(sets, ways, group, options)| ArrayDesc {
            design: if options[0] { Design::ColtPlus } else { Design::ColtSa },
            probe: if options[1] { Probe::Serial } else { Probe::Parallel },
            group: Some(1 << group),
            ..plain(sets * ways, ways)
        }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// Whatever the design, the table's bits are those of plain arrays, and no entry says what the table does not.
    #[test]
    fn all_designs_translate_alike(
        first in one(1),
        second in one(2),
        steps in prop::collection::vec(step(), 1..250),
    ) {
        let mut core = core(&[first, second]);
        let sizes = [P4K, P2M, P1G];
        let twin = |(level, name)| array(name, level, Placement::Both, 4, Ways::Count(2), &sizes);
        let twins = [(1, "L1"), (2, "L2")].map(twin);
        let mut twin = Core::new(Hierarchy::new(&twins, &HierarchyDesc::default()).unwrap());
        for number in 0..SUPERS - 4 {
            for core in [&mut core, &mut twin] {
                core.huge.insert(number, pde(0x40 + number, RW));
            }
        }
        for number in GIANTS {
            for core in [&mut core, &mut twin] {
                core.giant.insert(number, pdpte(0x40 + number, RW));
            }
        }
        for step in &steps {
            let (mine, theirs) = (apply(&mut core, step), apply(&mut twin, step));
            prop_assert_eq!(mine == Some(Ended::Fault), theirs == Some(Ended::Fault));
            prop_assert_eq!(&core.giant, &twin.giant, "after {:?}", step);
            prop_assert_eq!(&core.huge, &twin.huge, "after {:?}", step);
            prop_assert_eq!(&core.small, &twin.small, "after {:?}", step);
            core.check();
        }
        prop_assert_eq!(core.tlbs.counts().check(), Ok(()));
    }
}
