//! FreeBSD's allocator: its promises, against a map of single frames, and the order in which it hands frames out.

use mmulab_addr::{PageOrder, Pfn};
use mmulab_frames::{Allocator, Fragment, Frames, HeldPages, MemoryDesc, Mobility};
use proptest::prelude::*;
use std::collections::BTreeMap;

fn frames(size: &str, bucket: u32) -> Frames {
    Frames::of(Allocator::Freebsd { bucket }, &MemoryDesc::of(size), 2, 7).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn blocks_are_aligned_disjoint_and_all_come_back(
        bucket in 1u32..20,
        ops in prop::collection::vec((any::<bool>(), 0u8..=12, any::<bool>(), 0u16..2, any::<usize>()), 1..300),
    ) {
        let mut f = frames("48M", bucket);
        let whole = f.free_frames();
        let mut held: BTreeMap<u64, u8> = BTreeMap::new();
        for (take, order, table, cpu, n) in ops {
            if take {
                let mobility = if table { Mobility::Unmovable } else { Mobility::Movable };
                let Some(pfn) = f.alloc(PageOrder::new(order), mobility, cpu) else { continue };
                prop_assert_eq!(pfn.0 % (1 << order), 0);
                let before = held.range(..=pfn.0).next_back().map_or(0, |(s, o)| s + (1 << o));
                let after = held.range(pfn.0..).next().map_or(u64::MAX, |(s, _)| *s);
                prop_assert!(before <= pfn.0 && pfn.0 + (1 << order) <= after, "blocks overlap");
                held.insert(pfn.0, order);
            } else if let Some((&pfn, &order)) = held.iter().nth(n % held.len().max(1)) {
                held.remove(&pfn);
                f.free(Pfn(pfn), PageOrder::new(order), cpu);
            }
            prop_assert_eq!(f.free_frames() + held.values().map(|o| 1u64 << o).sum::<u64>(), whole);
        }
        for (pfn, order) in held {
            f.free_run(Pfn(pfn), 1 << order);
        }
        f.drain();
        // 47 MiB from 1 MiB on: two blocks of 16 MiB, and 1, 2, 4 and 8 MiB before them.
        let blocks: Vec<_> = (0..=12).map(|o| f.free_blocks(o)).collect();
        prop_assert_eq!(blocks, [0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2]);
    }
}

#[test]
fn base_frames_go_out_bucket_by_bucket_each_from_its_end() {
    let mut f = frames("64M", 4);
    let got: Vec<u64> = (0..8).map(|_| f.alloc(PageOrder::P4K, Mobility::Movable, 0).unwrap().0).collect();
    assert_eq!(got, [259, 258, 257, 256, 263, 262, 261, 260]);
    // Linux's, for contrast, go out in ascending order.
    let mut linux = Frames::new(&MemoryDesc::of("64M"), 1, 7).unwrap();
    let got: Vec<u64> = (0..3).map(|_| linux.alloc(PageOrder::P4K, Mobility::Movable, 0).unwrap().0).collect();
    assert_eq!(got, [256, 257, 258]);
}

#[test]
fn a_pool_that_is_empty_takes_the_largest_block_there_is() {
    let mut f = frames("64M", 1);
    f.alloc(PageOrder::P4K, Mobility::Movable, 0).unwrap();
    let table = f.alloc(PageOrder::P4K, Mobility::Unmovable, 0).unwrap();
    assert_eq!(table.0, 4096, "the first block of 16 MiB");
    assert_eq!(f.counts().steals, 1);
    // The rest of the block is the pool's own now.
    assert_eq!(f.alloc(PageOrder::P4K, Mobility::Unmovable, 0), Some(Pfn(4097)));
    assert_eq!(f.alloc(PageOrder::P2M, Mobility::Movable, 0), Some(Pfn(512)));
    assert_eq!(f.counts().steals, 1);
}

#[test]
fn a_block_freed_in_parts_merges_again_and_waits_at_the_tail() {
    let mut f = frames("64M", 1);
    let first = f.alloc(PageOrder::P2M, Mobility::Movable, 0).unwrap();
    f.free_run(Pfn(first.0 + 100), 412);
    assert_eq!(f.free_blocks(9), 0);
    f.free_run(first, 100);
    assert_eq!(f.free_blocks(9), 1);
}

#[test]
fn fragmented_memory_has_no_large_blocks_under_freebsd_either() {
    let held = HeldPages::Movable;
    let fragment = Fragment::Fmfi { target: 1.0, free: "16M".into(), order: PageOrder::P2M, held };
    let desc = MemoryDesc { fragment, ..MemoryDesc::of("64M") };
    let mut f = Frames::of(Allocator::Freebsd { bucket: 4 }, &desc, 1, 7).unwrap();
    assert_eq!((f.alloc(PageOrder::P2M, Mobility::Movable, 0), f.fmfi(9)), (None, 1.0));
}
