//! The allocator's promises: blocks are aligned and disjoint, nothing is lost, fragmentation is what was asked for.

use mmulab_addr::{PageOrder, Pfn};
use mmulab_frames::{Aged, Fragment, Frames, HeldPages, MemoryDesc, Mobility, Rest};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

fn frames(size: &str, fragment: Fragment) -> Frames {
    Frames::new(&MemoryDesc { fragment, ..MemoryDesc::of(size) }, 2, 7).unwrap()
}

fn fmfi(target: f64, free: &str, held: HeldPages) -> Fragment {
    Fragment::Fmfi { target, free: free.into(), order: PageOrder::P2M, held }
}

fn memhog(percent: f64, chunk: &str, within: Option<&str>, held: HeldPages) -> Fragment {
    Fragment::Memhog { percent, chunk: chunk.into(), within: within.map(Into::into), regions: None, over: None, held }
}

/// Single frames of which half are free, in `regions` of memory's first `over`.
fn regions(within: &str, regions: u32, over: Option<&str>) -> Fragment {
    Fragment::Memhog {
        percent: 50.0,
        chunk: "4K".into(),
        within: Some(within.into()),
        regions: Some(regions),
        over: over.map(Into::into),
        held: HeldPages::Pinned,
    }
}

/// Frames below 1 MiB are reserved.
const RESERVED: u64 = 256;

#[derive(Clone, Debug)]
enum Op {
    Take(u8, usize, u16),
    Give(usize),
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        3 => (0u8..=10, 0usize..3, 0u16..2).prop_map(|(o, m, c)| Op::Take(o, m, c)),
        2 => any::<usize>().prop_map(Op::Give),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn blocks_are_aligned_disjoint_and_all_come_back(ops in prop::collection::vec(op(), 1..400)) {
        let mut f = frames("16M", Fragment::None);
        let mobilities = [Mobility::Unmovable, Mobility::Movable, Mobility::Reclaimable];
        let mut held: BTreeMap<u64, u8> = BTreeMap::new();
        for op in ops {
            match op {
                Op::Take(order, m, cpu) => {
                    let Some(pfn) = f.alloc(PageOrder::new(order), mobilities[m], cpu) else { continue };
                    prop_assert_eq!(pfn.0 % (1 << order), 0);
                    prop_assert!(pfn.0 >= RESERVED && pfn.0 + (1 << order) <= 4096);
                    let before = held.range(..=pfn.0).next_back().map_or(0, |(s, o)| s + (1 << o));
                    let after = held.range(pfn.0..).next().map_or(u64::MAX, |(s, _)| *s);
                    prop_assert!(before <= pfn.0 && pfn.0 + (1 << order) <= after, "blocks overlap");
                    held.insert(pfn.0, order);
                }
                Op::Give(n) => {
                    let Some((&pfn, &order)) = held.iter().nth(n % held.len().max(1)) else { continue };
                    held.remove(&pfn);
                    f.free(Pfn(pfn), PageOrder::new(order), 0);
                }
            }
            let used: u64 = held.values().map(|o| 1u64 << o).sum();
            prop_assert_eq!(f.free_frames() + used, 4096 - RESERVED);
        }
        for (pfn, order) in held {
            f.free(Pfn(pfn), PageOrder::new(order), 1);
        }
        f.drain();
        // 15 MiB from 1 MiB on: three blocks of 4 MiB, and 1 MiB and 2 MiB before them.
        prop_assert_eq!((f.free_blocks(10), f.free_blocks(9), f.free_blocks(8)), (3, 1, 1));
        prop_assert_eq!((0..8).map(|o| f.free_blocks(o)).sum::<u64>(), 0);
    }
}

#[test]
fn memory_is_handed_out_from_the_lowest_address_up() {
    let mut f = frames("1G", Fragment::None);
    // Boot frees in ascending order and the smallest block that fits is split first: the one of 1 MiB.
    let got: Vec<u64> = (0..4).map(|_| f.alloc(PageOrder::P4K, Mobility::Movable, 0).unwrap().0).collect();
    assert_eq!(got, [256, 257, 258, 259]);
}

#[test]
fn unmovable_pages_claim_blocks_of_their_own() {
    let mut f = frames("64M", Fragment::None);
    let movable = f.alloc(PageOrder::P4K, Mobility::Movable, 0).unwrap();
    let table = f.alloc(PageOrder::P4K, Mobility::Unmovable, 0).unwrap();
    assert_ne!(movable.0 >> 9, table.0 >> 9, "page tables and data lie in different page blocks");
    assert_eq!(f.counts().steals, 1);
}

#[test]
fn when_memory_runs_out_the_request_is_refused_and_counted() {
    let mut f = frames("16M", Fragment::None);
    let mut taken = 0;
    while f.alloc(PageOrder::P4K, Mobility::Movable, 0).is_some() {
        taken += 1;
    }
    assert_eq!(taken, 4096 - RESERVED);
    assert_eq!(f.counts().refusals, 1);
    assert_eq!(f.fmfi(9), 1.0);
}

#[test]
fn the_index_of_unusable_free_space_by_hand() {
    let f = frames("16M", Fragment::None);
    // Free: 1 MiB + 2 MiB + 3 x 4 MiB. Unusable for 2 MiB: 1 of 15; for 4 MiB: 3 of 15.
    assert!((f.fmfi(9) - 1.0 / 15.0).abs() < 1e-12);
    assert!((f.fmfi(10) - 3.0 / 15.0).abs() < 1e-12);
    assert_eq!(f.fmfi(0), 0.0);
}

/// Claim S2-033 (paper 3, section VI): the fragmentation tool leaves free memory equal to the footprint and the order-9
/// index at the target, within 10 %.
#[test]
fn claim_s2_033_the_fragmentation_tool_reaches_its_target() {
    for target in [0.0, 0.25, 0.5, 0.75, 0.99] {
        let f = frames("8G", fmfi(target, "2G", HeldPages::Movable));
        let free = f.free_frames() as f64;
        assert!((free / (2u64 << 18) as f64 - 1.0).abs() < 0.01, "{target}: {free} frames free");
        assert!((f.fmfi(9) - target).abs() <= 0.1 * target + 1e-9, "{target}: index {}", f.fmfi(9));
    }
}

/// All that is neither free nor reserved is held by pages that can move, or by none; free memory is the same.
#[test]
fn what_holds_memory_can_move_or_not() {
    let all = |f: &Frames| f.occupants(Pfn(0), f.total_frames()).map(|run| run.1).sum::<u64>();
    let kinds: [&dyn Fn(HeldPages) -> Fragment; 3] =
        [&|held| fmfi(0.99, "256M", held), &|held| memhog(60.0, "2M", None, held), &|held| {
            memhog(50.0, "4K", Some("512M"), held)
        }];
    for kind in kinds {
        let [mut movable, pinned] = [HeldPages::Movable, HeldPages::Pinned].map(|held| frames("1G", kind(held)));
        assert_eq!(all(&movable) + movable.free_frames(), (1 << 18) - RESERVED);
        assert_eq!((all(&pinned), pinned.free_frames()), (0, movable.free_frames()));
        let (by_frame, total) =
            (|f: &Frames| (0..1 << 18).filter(|&pfn| f.is_occupant(Pfn(pfn))).count() as u64, 1 << 18);
        assert_eq!((by_frame(&movable), by_frame(&pinned)), (all(&movable), 0));
        // One moves to a frame that was free, and leaves its own.
        let old = (RESERVED..total).map(Pfn).find(|&pfn| movable.is_occupant(pfn)).expect("memory is held");
        let new = movable.alloc(PageOrder::P4K, Mobility::Movable, 0).expect("memory is free");
        let before = all(&movable);
        movable.relocate_occupant(old, new);
        movable.free_run(old, 1);
        assert_eq!((movable.is_occupant(old), movable.is_occupant(new), all(&movable)), (false, true, before));
    }
}

#[test]
fn memhog_takes_its_share_and_repeats() {
    let hog = |percent| frames("1G", memhog(percent, "2M", None, HeldPages::Pinned));
    let total = (1u64 << 18) - RESERVED;
    for percent in [0.0, 20.0, 60.0] {
        let share = 1.0 - hog(percent).free_frames() as f64 / total as f64;
        assert!((share - percent / 100.0).abs() < 1e-4);
    }
    assert!(hog(60.0).fmfi(9) > hog(20.0).fmfi(9));
    assert_eq!(hog(20.0).fmfi(9), hog(20.0).fmfi(9));
}

#[test]
fn memhog_within_a_part_leaves_single_frames_there_and_whole_blocks_behind() {
    let half = memhog(50.0, "4K", Some("512M"), HeldPages::Pinned);
    let mut f = frames("1G", half);
    let (total, hogged) = ((1u64 << 18) - RESERVED, 1u64 << 17);
    assert_eq!(f.free_frames(), total - hogged / 2);
    // Base pages take what is scattered first: a frame follows the one before in half of the cases.
    let mut next = || f.alloc(PageOrder::P4K, Mobility::Movable, 0).expect("free").0;
    let singles: Vec<u64> = (0..10_000).map(|_| next()).collect();
    let follow = singles.windows(2).filter(|w| w[1] == w[0] + 1).count();
    assert!((1000..7000).contains(&follow), "{follow} of 10,000 frames follow");
    assert!(singles.iter().all(|&pfn| pfn <= hogged + RESERVED));
    // Large pages have the other half.
    let blocks = std::iter::from_fn(|| f.alloc_contiguous(PageOrder::P2M)).count();
    assert!((250..=256).contains(&blocks), "{blocks} blocks of 2 MB");
}

#[test]
fn what_memhog_leaves_may_lie_in_regions_over_all_of_memory() {
    // 64 MiB in 100 of the 256 regions of 512 MiB: 21 of the 64 groups of each.
    let mut f = frames("1G", regions("64M", 100, Some("512M")));
    let hogged = 1u64 << 14;
    let mut by_region: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
    for _ in 0..hogged / 2 {
        let pfn = f.alloc(PageOrder::P4K, Mobility::Movable, 0).expect("free").0;
        by_region.entry(pfn / 512).or_default().push(pfn % 512);
    }
    // Below 2 MiB, 1 MiB is free and hands out whole blocks, before any larger one is broken.
    let below = by_region.remove(&0).unwrap_or_default();
    assert!(below.len() <= 256);
    let places: Vec<u64> = by_region.keys().copied().collect();
    assert!((97..=98).contains(&places.len()), "21 groups of each use 98 regions: {}", places.len());
    let groups = |frames: &[u64]| frames.iter().map(|frame| frame / 8).collect::<BTreeSet<_>>();
    assert!(by_region.values().all(|frames| groups(frames).len() <= 21));
    let used: BTreeSet<u64> = by_region.values().flat_map(|frames| groups(frames)).collect();
    assert_eq!(used.len(), 64, "no place of a region is preferred");
    assert!(places.windows(2).all(|pair| (2..=3).contains(&(pair[1] - pair[0]))), "evenly: {places:?}");
    assert!(places.iter().all(|&region| region <= 256), "in the first 512 MiB: {places:?}");
    // The others are whole.
    let blocks = std::iter::from_fn(|| f.alloc_contiguous(PageOrder::P2M)).count();
    assert!((510 - 100..=511 - 97).contains(&blocks), "{blocks} blocks of 2 MB");
}

#[test]
fn regions_that_do_not_fit_are_refused() {
    let refused = |how| Frames::new(&MemoryDesc { fragment: how, ..MemoryDesc::of("1G") }, 1, 7).err().unwrap().what;
    assert_eq!(refused(regions("64M", 31, None)), "regions is 31: within does not fit into so few, give at least 32");
    assert!(refused(regions("64M", 512, None)).contains("regions is too much: this memory has 511 regions of 2M"));
    assert!(refused(regions("64M", 40, Some("64M"))).contains("of which over has 32"));
    assert!(refused(regions("64M", 40, Some("2G"))).starts_with("over is too much"));
    assert!(refused(regions("64M", 40, Some("much"))).starts_with("over is 'much'"));
    let Fragment::Memhog { percent, chunk, within, held, .. } = regions("64M", 1, None) else { unreachable!() };
    let without = Fragment::Memhog { percent, chunk, within, regions: None, over: Some("1G".into()), held };
    assert!(refused(without).ends_with("give regions too"));
}

#[test]
fn memhog_places_otherwise_for_each_seed() {
    // What is left, as the blocks that it is handed out in.
    let left = |seed| {
        let desc = MemoryDesc { fragment: memhog(40.0, "2M", None, HeldPages::Pinned), ..MemoryDesc::of("1G") };
        let mut frames = Frames::new(&desc, 1, seed).unwrap();
        std::iter::from_fn(|| frames.alloc_contiguous(PageOrder::P2M)).collect::<Vec<_>>()
    };
    let all: Vec<_> = (0..6).map(left).collect();
    for (at, one) in all.iter().enumerate() {
        assert!(one.len() > 50, "{} blocks of 2 MB", one.len());
        assert!(all[..at].iter().all(|other| other != one), "seed {at} leaves what a lower one does");
    }
}

#[test]
fn gigantic_pages_are_found_whole() {
    let mut f = frames("4G", Fragment::None);
    // The first GiB has the reserved megabyte.
    assert_eq!(f.alloc_contiguous(PageOrder::P1G), Some(Pfn(1 << 18)));
    assert_eq!(f.alloc_contiguous(PageOrder::P1G), Some(Pfn(2 << 18)));
    f.free(Pfn(1 << 18), PageOrder::P1G, 0);
    assert_eq!(f.alloc_contiguous(PageOrder::P1G), Some(Pfn(1 << 18)));
}

#[test]
fn impossible_memory_is_refused_with_a_remedy() {
    let refused = |desc: MemoryDesc| Frames::new(&desc, 1, 0).err().unwrap().to_string();
    assert!(refused(MemoryDesc::of("lots")).starts_with("memory.size: 'lots'"));
    assert!(refused(MemoryDesc { max_order: 14, ..MemoryDesc::of("1G") }).contains("between 9 and 13"));
    let greedy = fmfi(0.99, "900M", HeldPages::Movable);
    assert!(refused(MemoryDesc { fragment: greedy, ..MemoryDesc::of("1G") }).contains("enlarge memory.size"));
}

/// CHANGELOG number 10: aged memory has the lists that guests had, in the same order for the same seed.
#[test]
fn aged_memory_has_the_free_lists_of_guests() {
    let of =
        |size: &str, aged: Aged, seed: u64| Frames::new(&MemoryDesc { aged, ..MemoryDesc::of(size) }, 1, seed).unwrap();
    let first = |aged, seed| {
        let mut frames = of("1G", aged, seed);
        (0..6000).map(|_| frames.alloc(PageOrder::P4K, Mobility::Movable, 0).unwrap().0).collect::<Vec<_>>()
    };
    let runs = |pfns: &[u64]| 1 + pfns.windows(2).filter(|w| w[1] != w[0] + 1).count();
    let (off, booted, used) = (first(Aged::Off, 0), first(Aged::Booted, 0), first(Aged::Used, 0));
    assert_eq!(runs(&off), 1);
    // 48 frames of the CPU's list, and then blocks of 2 to 512 frames, 33 of them in guests, before whole ones.
    assert!((30..=75).contains(&runs(&booted)), "{}", runs(&booted));
    // Of the 4,686 to 5,711 frames that the CPU's list of a used guest held, every second or so began a run.
    assert!((1500..=4500).contains(&runs(&used)), "{}", runs(&used));
    assert_eq!(used, first(Aged::Used, 0), "the same seed, the same lists");
    assert_ne!(used, first(Aged::Used, 1));
    for pfns in [&booted, &used] {
        let distinct: std::collections::BTreeSet<_> = pfns.iter().collect();
        assert_eq!(distinct.len(), pfns.len(), "no frame twice");
        assert!(pfns.iter().all(|&pfn| (256..1 << 18).contains(&pfn)));
    }

    for size in ["16M", "64M", "1G", "8G"] {
        for aged in [Aged::Booted, Aged::Used] {
            for seed in 0..4 {
                let mut frames = of(size, aged, seed);
                let total = frames.total_frames();
                assert!(frames.free_frames() * 4 >= total, "{size} {aged:?}: room for a program");
                // All of it can be had, each frame once; then what others held, as if files were dropped.
                let mut seen = vec![false; total as usize];
                let mut take = |frames: &mut Frames| {
                    while let Some(pfn) = frames.alloc(PageOrder::P4K, Mobility::Movable, 0) {
                        assert!(!std::mem::replace(&mut seen[pfn.0 as usize], true), "{size} {aged:?} {pfn:?} twice");
                    }
                };
                take(&mut frames);
                assert_eq!(frames.free_frames(), 0);
                while frames.drop_held(32) > 0 {}
                assert!(frames.free_frames() > 0);
                take(&mut frames);
                assert_eq!(seen.iter().filter(|&&s| s).count() as u64, total - 256, "{size} {aged:?}");
            }
        }
    }
}

/// CHANGELOG number 10: huge pages come out of whole blocks, and what is in use is as much in guests of any size.
#[test]
fn aged_memory_is_whole_beyond_what_is_in_use() {
    let of = |size: &str, aged| Frames::new(&MemoryDesc { aged, ..MemoryDesc::of(size) }, 1, 0).unwrap();
    for (aged, least, most) in [(Aged::Booted, 90, 170), (Aged::Used, 500, 1000)] {
        let used = |size: &str| {
            let frames = of(size, aged);
            ((frames.total_frames() - frames.free_frames()) * 4096) >> 20
        };
        assert!((least..=most).contains(&used("4G")), "{aged:?}: {} MB", used("4G"));
        // 16 MB a GiB more are the kernel's descriptions of frames.
        assert!((50..=150).contains(&(used("8G") - used("4G"))), "{aged:?}: {} MB", used("8G") - used("4G"));
        let frames = of("8G", aged);
        assert!(frames.fmfi(9) < 0.01, "{aged:?}: {}", frames.fmfi(9));
        assert!(frames.free_blocks(10) > 1500);
    }
    // What is held at random says itself which frames are free.
    let hog = memhog(40.0, "2M", None, HeldPages::Pinned);
    let free = |aged| {
        Frames::new(&MemoryDesc { aged, fragment: hog.clone(), ..MemoryDesc::of("1G") }, 1, 0).unwrap().free_frames()
    };
    assert_eq!(free(Aged::Used), free(Aged::Off));
}

/// CHANGELOG number 27: 16 TiB are 2^32 frames, whose number wrapped to 0.
#[test]
fn memory_whose_frames_have_no_numbers_is_refused() {
    let refused = Frames::new(&MemoryDesc::of("16T"), 1, 1).map(|_| ()).expect_err("too many frames");
    assert!(refused.to_string().contains("between 16M and 15T"), "{refused}");
}

/// What is left of a block and put last goes out after all others of its size.
#[test]
fn what_is_put_last_goes_out_last() {
    for (rest, is_first) in [(Rest::Usual, true), (Rest::Last, false)] {
        let mut memory = frames("64M", Fragment::None);
        let small = PageOrder::new(4);
        let blocks: Vec<Pfn> = (0..64).map(|_| memory.alloc(small, Mobility::Movable, 0).unwrap()).collect();
        // Every fourth block is free: none of them can merge.
        blocks.iter().step_by(4).for_each(|&pfn| memory.free_run(pfn, 16));
        memory.give_rest(blocks[62], 16, rest);
        assert_eq!(memory.alloc(small, Mobility::Movable, 0) == Some(blocks[62]), is_first, "{rest:?}");
    }
}
