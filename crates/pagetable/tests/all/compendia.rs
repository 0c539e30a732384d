//! When levels are merged and unmerged, what that costs, and that no walk is ever misled.

use crate::common;

use crate::common::{Counter, Model, WalkCache, hardware, holder, leaf};
use mmulab_addr::{Bytes, PageOrder, Pfn, Prot, VirtAddr, VirtRange, Vpn};
use mmulab_frames::PhysMem;
use mmulab_pagetable::{CompendiaDesc, Leaf, Marks, Share, Table, TableDesc, TableEvent, TableKind};
use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;

/// Base pages that an entry of PMD, PUD and PGD spans.
const PMD: u64 = 1 << 9;
const PUD: u64 = 1 << 18;
const PGD: u64 = 1 << 27;
const P4D5: u64 = PGD;
const PGD5: u64 = 1 << 36;

struct Bench {
    mem: PhysMem,
    frames: Counter,
    table: Table,
}

impl Bench {
    fn new(levels: u8, desc: CompendiaDesc) -> Self {
        let (mut mem, mut frames) = (PhysMem::new(1 << 40), Counter::default());
        let table = Table::new(&TableDesc::of_compendia(levels, desc).unwrap(), &mut mem, &mut frames).unwrap();
        Self { mem, frames, table }
    }

    fn map(&mut self, page: u64, order: PageOrder) -> bool {
        let leaf = leaf(page, order, Prot::RW);
        let flush = self.table.map(&mut self.mem, &mut self.frames, Vpn(page), leaf).unwrap();
        let moves = flush.moves_tables();
        flush.lazy("no TLB here");
        moves
    }

    fn unmap(&mut self, page: u64, order: PageOrder) {
        self.table.unmap(&mut self.mem, &mut self.frames, Vpn(page), order).1.lazy("no TLB here");
    }

    /// The levels of the entries that a cold walk reads.
    fn walk(&self, page: u64) -> Vec<u8> {
        hardware(&self.table, &self.mem, Vpn(page)).1
    }
}

/// Thresholds of `merge` and `unmerge` entries.
fn entries(merge: u16, unmerge: u16) -> CompendiaDesc {
    let share = |n| Share::new(n, 512).unwrap();
    CompendiaDesc { merge: share(merge), unmerge: share(unmerge), ..CompendiaDesc::default() }
}

const P4K: PageOrder = PageOrder::P4K;
const P2M: PageOrder = PageOrder::P2M;
const P1G: PageOrder = PageOrder::P1G;

#[test]
fn merged_at_64_children_and_not_at_63_unmerged_below_32() {
    let mut b = Bench::new(4, CompendiaDesc::default());
    for child in 0..63 {
        assert!(!b.map(child * PMD, P4K));
    }
    assert_eq!((b.walk(0), b.table.table_frames()), (vec![4, 3, 2, 1], 3 + 63));
    assert!(b.map(63 * PMD, P4K), "the 64th merges");
    assert_eq!((b.walk(0), b.table.table_frames()), (vec![4, 3, 1], 2 + 512));
    for child in 32..64 {
        b.unmap(child * PMD, P4K);
    }
    assert_eq!((b.walk(0), b.frames.merges(2)), (vec![4, 3, 1], (1, 0)), "32 are enough to stay");
    b.unmap(0, P4K);
    assert_eq!((b.walk(PMD), b.frames.merges(2), b.table.table_frames()), (vec![4, 3, 2, 1], (1, 1), 3 + 31));
}

#[test]
fn strictly_more_than_an_eighth_is_65() {
    let mut b = Bench::new(4, CompendiaDesc { strict: true, ..CompendiaDesc::default() });
    (0..64).for_each(|child| assert!(!b.map(child * PMD, P4K)));
    assert!(b.map(64 * PMD, P4K));
}

#[test]
fn every_pair_of_levels_has_the_same_thresholds() {
    for (stride, level, merged) in [(PMD, 2, vec![4, 3, 1]), (PUD, 3, vec![4, 2, 1]), (PGD, 4, vec![3, 2, 1])] {
        let mut b = Bench::new(4, CompendiaDesc::default());
        (0..63).for_each(|child| assert!(!b.map(child * stride, P4K)));
        assert!(b.map(63 * stride, P4K));
        assert_eq!((b.walk(5 * stride), b.frames.merges(level)), (merged, (1, 0)));
    }
}

#[test]
fn changes_of_ptes_alone_decide_nothing() {
    let mut b = Bench::new(4, CompendiaDesc::default());
    (0..100).for_each(|child| _ = b.map(child * PMD, P4K));
    let checks = b.frames.checks();
    for child in 0..100 {
        (1..512).for_each(|page| assert!(!b.map(child * PMD + page, P4K)));
        (1..512).for_each(|page| b.unmap(child * PMD + page, P4K));
    }
    assert_eq!(b.frames.checks(), checks);
}

#[test]
fn a_full_gibibyte_takes_one_frame_less_and_a_single_page_256_times_as_many() {
    // 512 PTE tables and the PMD table; the PUD table and the root are not merged.
    let full = |desc| {
        let mut b = Bench::new(4, desc);
        (0..PUD).for_each(|page| _ = b.map(page, P4K));
        b.table.table_frames() - 2
    };
    let never = CompendiaDesc { merge_levels: vec![], ..CompendiaDesc::default() };
    assert_eq!((full(never.clone()), full(CompendiaDesc::default())), (513, 512));
    let single = |desc| {
        let mut b = Bench::new(4, desc);
        b.map(0, P4K);
        b.table.table_frames() - 2
    };
    let pmd = CompendiaDesc { merge_levels: vec![2], ..entries(1, 1) };
    assert_eq!((single(never), single(pmd)), (2, 512));
}

#[test]
fn the_worst_case_is_64_children_of_a_page_each() {
    let taken = |desc| {
        let mut b = Bench::new(4, desc);
        (0..64).for_each(|child| _ = b.map(child * PMD, P4K));
        b.table.table_frames() - 2
    };
    let (before, after) = (taken(entries(65, 1)), taken(CompendiaDesc::default()));
    assert_eq!((before, after), (65, 512));
    // With the 64 pages themselves: 576 / 129 = 4.465.
    assert!(((after + 64) as f64 / (before + 64) as f64 - 4.465).abs() < 0.001);
}

#[test]
fn down_a_line_merges_next_to_the_leaves_come_first() {
    // Every pair qualifies by itself: two PGD entries, two PUD entries below the first, two PMD entries below that.
    let mut b = Bench::new(4, entries(2, 1));
    b.map(0, P4K);
    b.map(PMD, P4K);
    assert_eq!(b.walk(0), [4, 3, 1]);
    b.map(PUD, P4K);
    b.map(PUD + PMD, P4K);
    assert_eq!((b.walk(0), b.walk(PUD)), (vec![4, 3, 1], vec![4, 3, 1]), "PMD and PTE, so not PUD and PMD");
    b.map(PGD, P4K);
    assert_eq!((b.walk(0), b.walk(PUD)), (vec![3, 1], vec![3, 1]), "PGD and PUD come besides");
}

#[test]
fn branches_overlap_through_512_copies_and_walks_remember_the_base() {
    // PUD entries 0 to 3: the first PMD is dense, the others are not (paper 5, figure 9).
    let mut b = Bench::new(4, entries(3, 1));
    (0..3).for_each(|child| _ = b.map(child * PMD, P4K));
    (1..4).for_each(|child| _ = b.map(child * PUD, P4K));
    assert_eq!(b.frames.merges(3), (1, 0));
    // The dense branch: PGD, one of the 512 copies in the merged PUD and PMD, PTE. The sparse ones gain.
    assert_eq!((b.walk(0), b.walk(PUD)), (vec![4, 2, 1], vec![4, 2, 1]));
    let mut cache = WalkCache::default();
    let mut reads = |page| cache.walk(&b.table, &mut b.mem, Vpn(page), false).1;
    assert_eq!(reads(0), [4, 2, 1]);
    assert_eq!(reads(PMD), [1], "the base serves the whole GiB");
    assert_eq!(reads(PUD), [2, 1]);
    assert_eq!(reads(2 * PUD), [2, 1]);
}

#[test]
fn the_next_node_but_one_is_pointed_to_directly() {
    // As before, and PGD entries enough to merge PGD and PUD (figure 11).
    let grown = |direct| {
        let mut b = Bench::new(4, CompendiaDesc { direct, ..entries(3, 1) });
        (0..3).for_each(|child| _ = b.map(child * PMD, P4K));
        (1..4).for_each(|child| _ = b.map(child * PUD, P4K));
        (1..3).for_each(|child| _ = b.map(child * PGD, P4K));
        b
    };
    assert_eq!(grown(false).walk(0), [3, 2, 1], "figure 11a");
    let mut b = grown(true);
    assert_eq!(b.frames.merges(4), (1, 0));
    assert_eq!(b.walk(0), [3, 1], "not by way of the merged PUD and PMD");
    assert_eq!(b.walk(PUD), [3, 2, 1], "by way of it: its PMD is sparse");
    assert_eq!(b.walk(PGD), [3, 2, 1]);
    // The sparse PMDs go: nothing gains by the merged PUD and PMD any more.
    (1..4).for_each(|child| b.unmap(child * PUD, P4K));
    assert_eq!((b.frames.merges(3), b.walk(0)), ((1, 1), vec![3, 1]));
}

#[test]
fn a_layer_whose_children_are_mostly_merged_is_not() {
    // Three sparse PMDs merge PUD and PMD; as two of them become dense, one is left that gains.
    let mut b = Bench::new(4, entries(3, 2));
    (0..3).for_each(|child| _ = b.map(child * PUD, P4K));
    assert_eq!(b.walk(0), [4, 2, 1]);
    for dense in 0..2 {
        (1..3).for_each(|child| _ = b.map(dense * PUD + child * PMD, P4K));
    }
    assert_eq!(b.frames.merges(3), (1, 1));
    assert_eq!((b.walk(0), b.walk(2 * PUD)), (vec![4, 3, 1], vec![4, 3, 2, 1]));
}

#[test]
fn huge_pages_count_as_nothing_and_are_found_among_merged_leaves() {
    let mut b = Bench::new(4, CompendiaDesc::default());
    (0..512).for_each(|slot| assert!(!b.map(slot * PMD, P2M)));
    assert_eq!(b.walk(0), [4, 3, 2]);
    let mut b = Bench::new(4, entries(3, 1));
    b.map(3 * PMD, P2M);
    (0..3).for_each(|child| _ = b.map(child * PMD, P4K));
    assert_eq!(b.walk(3 * PMD + 77), [4, 3, 1], "one of 512 copies");
    // With PUD and PMD merged too, it is a leaf of theirs.
    (1..4).for_each(|child| _ = b.map(child * PUD, P4K));
    assert_eq!((b.walk(3 * PMD + 77), b.walk(0)), (vec![4, 2], vec![4, 2, 1]));
}

#[test]
fn the_marks_of_all_copies_count() {
    let mut b = Bench::new(4, entries(2, 1));
    b.map(3 * PMD, P2M);
    (0..2).for_each(|child| _ = b.map(child * PMD, P4K));
    let mut cache = WalkCache::default();
    let marks = |b: &Bench| b.table.lookup(&b.mem, Vpn(3 * PMD)).map(|(_, l)| (l.accessed, l.dirty));
    assert_eq!(marks(&b), Some((false, false)));
    cache.walk(&b.table, &mut b.mem, Vpn(3 * PMD + 400), false);
    assert_eq!(marks(&b), Some((true, false)));
    cache.walk(&b.table, &mut b.mem, Vpn(3 * PMD + 5), true);
    assert_eq!(marks(&b), Some((true, true)));
    let clean = leaf(3 * PMD, P2M, Prot::RW);
    b.table.set(&mut b.mem, Vpn(3 * PMD), clean).lazy("no TLB here");
    assert_eq!(marks(&b), Some((false, false)));
}

#[test]
fn five_levels_are_merged_from_the_leaves_up_and_for_huge_pages_from_the_middle() {
    let few = || Bench::new(5, entries(2, 1));
    let mut b = few();
    for p4d in 0..2 {
        for pud in 0..2 {
            for pmd in 0..2 {
                let at = p4d * P4D5 + pud * PUD + pmd * PMD;
                b.map(at, P4K);
                b.map(PGD5 + at, P4K);
            }
        }
    }
    // Figure 12b: PGD sparse, P4D and PUD, PMD and PTE.
    assert_eq!(b.walk(0), [5, 3, 1]);
    let mut b = few();
    for p4d in 0..2 {
        for pud in 0..2 {
            let at = p4d * P4D5 + pud * PUD;
            b.map(at, P2M);
            b.map(PGD5 + at, P2M);
        }
    }
    // Figure 12c: PGD and P4D, PUD and PMD.
    assert_eq!(b.walk(0), [4, 2]);
}

#[test]
fn without_a_block_tables_stay_and_without_frames_nodes_do() {
    let mut b = Bench::new(4, CompendiaDesc::default());
    b.frames.limit = Some(500);
    (0..64).for_each(|child| _ = b.map(child * PMD, P4K));
    assert_eq!((b.walk(0), b.frames.count(|e| *e == TableEvent::NoBlock { level: 2 })), (vec![4, 3, 2, 1], 1));
    b.frames.limit = None;
    b.map(64 * PMD, P4K);
    assert_eq!(b.walk(0), [4, 3, 1], "tried again with the next entry");
    b.frames.limit = Some(b.frames.out);
    (0..40).for_each(|child| b.unmap(child * PMD, P4K));
    assert_eq!(b.walk(64 * PMD), [4, 3, 1]);
    assert!(b.frames.count(|e| *e == TableEvent::NoFrames { level: 2 }) > 0);
    (40..65).for_each(|child| b.unmap(child * PMD, P4K));
    assert_eq!((b.frames.out, b.table.table_frames()), (1, 1), "an empty table is its root");
}

/// Three entries merge two levels, and three such merge three.
fn three_levels(level: u8) -> CompendiaDesc {
    CompendiaDesc { merge_three: Some(level), ..entries(3, 2) }
}

#[test]
fn three_levels_become_one_when_enough_are_two() {
    let mut b = Bench::new(4, three_levels(3));
    for gib in 0..3 {
        assert_eq!(b.walk(0).len(), if gib == 0 { 1 } else { 3 });
        (0..3).for_each(|child| _ = b.map(gib * PUD + child * PMD, P4K));
    }
    // A PGD entry, and one that 27 bits choose: the root and the node are all there is.
    assert_eq!((b.walk(0), b.walk(PUD), b.table.table_frames()), (vec![4, 1], vec![4, 1], 1 + PUD));
    assert_eq!(b.frames.count(|e| matches!(e, TableEvent::Merged { level: 3, levels: 3, .. })), 1);
    assert_eq!(b.walk(7 * PUD), [4, 1], "nothing is found where nothing is");
    let mut cache = WalkCache::default();
    let mut reads = |page| cache.walk(&b.table, &mut b.mem, Vpn(page), false).1;
    assert_eq!((reads(0), reads(2 * PUD)), (vec![4, 1], vec![1]), "a PGD entry leads to every PTE");
    // A sparse GiB has its part of it too, and changes of PTEs decide nothing.
    assert!(!b.map(5 * PUD, P4K));
    assert_eq!(b.walk(5 * PUD), [4, 1]);
    // Two of three children are what a middle table stays for; with one left, as many as are too few.
    b.unmap(0, P4K);
    assert_eq!(b.walk(PMD), [4, 1]);
    b.unmap(PMD, P4K);
    assert_eq!(b.walk(2 * PMD), [4, 1], "two dense GiBs are enough to stay");
    (0..2).for_each(|child| b.unmap(PUD + child * PMD, P4K));
    assert_eq!((b.walk(2 * PMD), b.walk(2 * PUD)), (vec![4, 3, 2, 1], vec![4, 3, 1]), "one is dense, and keeps a node");
    assert_eq!(b.frames.count(|e| matches!(e, TableEvent::Unmerged { level: 3, levels: 3, .. })), 1);
}

#[test]
fn three_levels_below_merged_ones_are_found_past_them() {
    let mut b = Bench::new(5, CompendiaDesc { merge_levels: vec![2, 5], ..three_levels(3) });
    for gib in 0..3 {
        (0..3).for_each(|child| _ = b.map(gib * PUD + child * PMD, P4K));
    }
    assert_eq!(b.walk(0), [5, 4, 1]);
    (1..4).for_each(|at| _ = b.map(at * PGD5, P4K));
    assert_eq!(
        (b.walk(0), b.walk(PGD5)),
        (vec![4, 1], vec![4, 3, 2, 1]),
        "PGD and P4D, PUD to PTE: two reads of five levels"
    );
    // P4D and PUD merged over it: all places of the PUD point to the one node, with O.
    let mut b = Bench::new(5, CompendiaDesc { merge_levels: vec![2, 4], ..three_levels(3) });
    for gib in 0..3 {
        (0..3).for_each(|child| _ = b.map(gib * PUD + child * PMD, P4K));
    }
    (1..4).for_each(|at| _ = b.map(at * P4D5, P4K));
    assert_eq!((b.walk(0), b.walk(P4D5)), (vec![5, 3, 1], vec![5, 3, 2, 1]));
    let mut cache = WalkCache::default();
    let mut reads = |page| cache.walk(&b.table, &mut b.mem, Vpn(page), false).1;
    assert_eq!((reads(0), reads(2 * PUD)), (vec![5, 3, 1], vec![1]), "the base serves all 512 GiB");
}

#[test]
fn the_root_can_be_in_a_node_of_three_levels() {
    let mut b = Bench::new(4, CompendiaDesc { merge_levels: vec![3], ..three_levels(4) });
    for at in 0..3 {
        (0..3).for_each(|child| _ = b.map(at * PGD + child * PUD, P2M));
        (0..3).for_each(|child| _ = b.map(at * PGD + child * PUD + PMD, P4K));
    }
    assert_eq!((b.walk(0), b.walk(PGD + PMD)), (vec![2], vec![2, 1]), "a huge page in one read");
}

#[test]
fn pages_of_all_sizes_are_found_in_a_node_of_three_levels() {
    let mut b = Bench::new(4, three_levels(3));
    b.map(5 * PUD, P1G);
    b.map(3 * PMD, P2M);
    for gib in 0..3 {
        (0..3).for_each(|child| _ = b.map(gib * PUD + child * PMD, P4K));
    }
    b.map(6 * PUD, P1G);
    b.map(7 * PUD + PMD, P2M);
    for page in [3 * PMD + 77, 5 * PUD + 99_999, 6 * PUD, 7 * PUD + PMD] {
        assert_eq!(b.walk(page), [4, 1]);
        assert_eq!(hardware(&b.table, &b.mem, Vpn(page)).0, b.table.lookup(&b.mem, Vpn(page)).map(|found| found.1));
    }
    b.table.split(&mut b.mem, &mut b.frames, Vpn(6 * PUD)).unwrap().lazy("no TLB here");
    b.unmap(6 * PUD + 5 * PMD, P2M);
    assert!(hardware(&b.table, &b.mem, Vpn(6 * PUD + 5 * PMD)).0.is_none());
    assert!(hardware(&b.table, &b.mem, Vpn(6 * PUD + 4 * PMD)).0.is_some_and(|leaf| leaf.order == P2M));
}

#[test]
fn without_a_gibibyte_two_levels_stay_merged() {
    let mut b = Bench::new(4, three_levels(3));
    b.frames.largest = Some(P2M);
    for gib in 0..4 {
        (0..3).for_each(|child| _ = b.map(gib * PUD + child * PMD, P4K));
    }
    assert_eq!((b.walk(0), b.frames.count(|e| *e == TableEvent::NoBlock { level: 3 })), (vec![4, 3, 1], 3));
    b.frames.largest = None;
    (0..3).for_each(|child| _ = b.map(4 * PUD + child * PMD, P4K));
    assert_eq!(b.walk(0), [4, 1], "tried again with the next");
    // There is no room to take it apart, and so it stays until it is empty.
    b.frames.limit = Some(b.frames.out);
    for gib in 0..5 {
        assert_eq!(b.walk(4 * PUD), [4, 1]);
        (0..3).for_each(|child| b.unmap(gib * PUD + child * PMD, P4K));
    }
    assert!(b.frames.count(|e| *e == TableEvent::NoFrames { level: 3 }) > 0);
    assert_eq!((b.frames.out, b.table.table_frames()), (1, 1));
}

#[test]
fn what_is_asked_for_at_once_is_merged_at_once() {
    let range = |first: u64, pages: u64| VirtRange::sized(Vpn(first).addr(), pages << 12);
    let desc = |request| CompendiaDesc { request: Some(Bytes(request)), ..CompendiaDesc::default() };
    // 128 MiB are 64 entries of a PMD table.
    let mut b = Bench::new(4, desc(128 << 20));
    b.table.requested(range(0, 64 * PMD - 1));
    b.table.requested(range(PUD, 64 * PMD));
    b.table.requested(range(2 * PUD + 1, 64 * PMD));
    b.table.requested(range(3 * PUD, 64 * PMD));
    b.table.forgotten(range(3 * PUD, PMD));
    let merged = [0, 1, 2, 3].map(|gib| b.map(gib * PUD + 70 * PMD, P4K));
    assert_eq!(merged, [false, true, true, false], "too small; just large enough; the same; no longer all of it");
    assert_eq!(b.walk(PUD + 70 * PMD), [4, 3, 1]);
    // It stays while something is there, and huge pages still gain nothing.
    b.map(PUD, P4K);
    b.unmap(PUD + 70 * PMD, P4K);
    assert_eq!(b.walk(PUD), [4, 3, 1]);
    b.unmap(PUD, P4K);
    b.map(PUD, P2M);
    assert_eq!(b.walk(PUD), [4, 3, 2]);
    // 64 GiB are 64 entries of a PUD table.
    let mut b = Bench::new(4, CompendiaDesc { merge_three: Some(3), ..desc(1 << 30) });
    b.table.requested(range(0, 64 * PUD));
    assert!(b.map(5 * PMD, P4K));
    assert_eq!((b.walk(5 * PMD), b.table.table_frames()), (vec![4, 1], 1 + PUD));
}

/// Random edits and walks with a walk cache that forgets only what it is told to, against a flat map.
fn long_run(desc: &TableDesc, steps: u32, seed: u64) -> Counter {
    let (mut mem, mut frames) = (PhysMem::new(1 << 40), Counter::default());
    let mut table = Table::new(desc, &mut mem, &mut frames).unwrap();
    let format = table.format();
    let (mut model, mut cache) = (Model::new(), WalkCache::default());
    // Pages of 64 KiB have neighbours too.
    let near = if desc.has_leaf(PageOrder::P64K) { 7 } else { 1 };
    let large = [PageOrder::P64K, PageOrder::P32M].into_iter().filter(|&order| desc.has_leaf(order));
    let orders: Vec<_> = [P4K, P4K, P4K, P4K, P2M, P2M, P2M, P1G].into_iter().chain(large).collect();
    let mut rng = Pcg64Mcg::seed_from_u64(seed);
    for step in 0..steps {
        let r = rng.next_u64();
        let part = |shift: u32, n: u64| (r >> shift & 0xff) % n;
        let page = part(0, 3) * PGD + part(8, 4) * PUD + part(16, 5) * PMD + part(24, 3) * near;
        // Memory runs short now and then.
        frames.limit = (step % 1024 < 64).then_some(frames.out + 3);
        // Now and then all but a page goes, so that everything is unmerged again.
        if step % 2048 == 2047 {
            frames.limit = None;
            while model.len() > 1 {
                let (first, there) = model.pop_first().expect("there are two");
                cache.flush(format, table.unmap(&mut mem, &mut frames, Vpn(first), there.order).1);
            }
        }
        match part(32, 16) {
            0..=5 => {
                let order = orders[part(40, orders.len() as u64) as usize];
                let vpn = Vpn(page).align_down(order);
                let new = leaf(vpn.0, order, Prot::RW);
                let free =
                    holder(&model, vpn.0).is_none() && model.range(vpn.0..vpn.0 + order.base_pages()).next().is_none();
                if let Ok(flush) = table.map(&mut mem, &mut frames, vpn, new) {
                    assert!(free);
                    cache.flush(format, flush);
                    model.insert(vpn.0, new);
                } else {
                    assert!(!free || frames.limit.is_some());
                }
            }
            6..=9 => {
                // A page near, if there is one: most of what is asked for is there.
                let Some((&first, &there)) = model.range(page..).next() else { continue };
                let (was, flush) = table.unmap(&mut mem, &mut frames, Vpn(first), there.order);
                assert_eq!(was, Some(there));
                cache.flush(format, flush);
                model.remove(&first);
            }
            10 => {
                let Some((first, there)) = holder(&model, page) else { continue };
                let new = Leaf { pfn: Pfn(there.pfn.0 ^ 1 << 30), accessed: false, dirty: false, ..there };
                cache.flush(format, table.set(&mut mem, Vpn(first), new));
                model.insert(first, new);
            }
            11 if part(48, 16) == 0 => {
                let Some((first, large)) = holder(&model, page).filter(|(_, l)| l.order > P4K) else { continue };
                let Ok(flush) = table.split(&mut mem, &mut frames, Vpn(first)) else { continue };
                cache.flush(format, flush);
                let (order, parts) = common::parts(table.format(), large.order);
                for i in (0..parts).map(|i| i * order.base_pages()) {
                    model.insert(first + i, Leaf { pfn: Pfn(large.pfn.0 + i), order, ..large });
                }
            }
            _ => {
                let store = part(48, 2) == 0;
                let (found, _) = cache.walk(&table, &mut mem, Vpn(page), store);
                let expected = holder(&model, page);
                let place = |l: Leaf| (l.pfn, l.order, l.prot);
                assert_eq!(found.map(place), expected.map(|(_, l)| place(l)), "step {step}, page {page:#x}");
                if let Some((first, l)) = expected {
                    model.insert(first, Leaf { accessed: true, dirty: l.dirty | store, ..l });
                    assert_eq!(table.lookup(&mem, Vpn(page)), Some((Vpn(first), model[&first])), "step {step}");
                }
            }
        }
        assert_eq!(table.table_frames(), frames.out, "step {step}");
        if step % 4096 == 0 {
            let mut seen = Model::new();
            let all = VirtRange { start: VirtAddr::new(0), end: VirtAddr::new(1 << 46) };
            table.for_each_leaf(&mem, all, |v, l| _ = seen.insert(v.0, l));
            assert_eq!(seen, model, "step {step}");
        }
    }
    frames.limit = None;
    table.free(&mut mem, &mut frames);
    assert_eq!((frames.out, mem.resident_frames()), (0, 0));
    frames
}

#[test]
fn long_runs_translate_like_a_flat_map() {
    for (levels, merge, unmerge, seed) in [(4, 2, 1, 1), (4, 3, 2, 2), (5, 2, 2, 3)] {
        let desc = TableDesc::of_compendia(levels, entries(merge, unmerge)).unwrap();
        let frames = long_run(&desc, 200_000, seed);
        for level in 2..=4 {
            let (merged, unmerged) = frames.merges(level);
            assert!(merged > 20 && unmerged > 20, "level {level}: {merged} merges, {unmerged} unmerges");
        }
        assert!(frames.count(|e| matches!(e, TableEvent::NoBlock { .. })) > 0);
    }
    let base = |merge, unmerge| CompendiaDesc { marks: Marks::FrameIndex, ..entries(merge, unmerge) };
    for (levels, three, desc, seed) in [(4, 3, base(2, 1), 7), (5, 3, base(2, 2), 8), (4, 4, base(2, 1), 9)] {
        let desc = CompendiaDesc { merge_three: Some(three), ..desc };
        let desc = if three == 4 { CompendiaDesc { merge_levels: vec![3, 4], ..desc } } else { desc };
        let frames = long_run(&TableDesc::of_compendia(levels, desc).unwrap(), 30_000, seed);
        let merged = frames.count(|e| matches!(e, TableEvent::Merged { levels: 3, .. }));
        let unmerged = frames.count(|e| matches!(e, TableEvent::Unmerged { levels: 3, .. }));
        assert!(merged > 10 && unmerged > 10, "{levels} levels: {merged} merges, {unmerged} unmerges");
    }
    for (kind, levels, seed) in [(TableKind::X86, 4, 4), (TableKind::Riscv, 4, 5), (TableKind::Arm, 4, 6)] {
        long_run(&TableDesc::new(kind, levels).unwrap(), 200_000, seed);
    }
}
