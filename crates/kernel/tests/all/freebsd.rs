//! What FreeBSD's memory manager does, rule by rule.

use crate::common::*;
use mmulab_addr::{Access, PageOrder, Pid, Prot, VirtAddr};
use mmulab_kernel::{
    EventKind, FaultKind, FreebsdDesc, Padding, PageCache, PolicyDesc, QuicksilverDesc, Refusal, Threshold,
};
use mmulab_trace::{Advice, Event};
use proptest::prelude::*;

const HUGE: u64 = 2 << 20;

fn policy(change: impl FnOnce(&mut FreebsdDesc)) -> PolicyDesc {
    let mut policy = PolicyDesc::freebsd();
    change(policy.freebsd.as_mut().unwrap());
    policy
}

fn world(change: impl FnOnce(&mut FreebsdDesc)) -> World {
    sized(change, 128)
}

fn sized(change: impl FnOnce(&mut FreebsdDesc), mebibytes: u64) -> World {
    World::new(&desc(policy(change), mebibytes), mebibytes)
}

fn happened(w: &World, what: EventKind) -> u64 {
    w.kernel.counts().events.get(what)
}

fn refused(w: &World, why: Refusal) -> u64 {
    w.kernel.counts().refusals.get(why)
}

fn write_all(w: &mut World, pid: u32, start: u64, end: u64) {
    for va in (start..end).step_by(PAGE as usize) {
        w.access(pid, va, Access::Write).unwrap();
    }
}

fn order(w: &mut World, va: u64) -> Option<PageOrder> {
    w.walk(1, va, None).map(|leaf| leaf.order)
}

/// S0-043: the first fault reserves 2 MiB and maps one page.
#[test]
fn the_first_fault_reserves_two_mebibytes_and_maps_a_page() {
    let mut w = world(|_| {});
    w.event(1, &mmap(BASE, 4 * HUGE, Prot::RW));
    w.access(1, BASE + 5 * PAGE, Access::Write).unwrap();
    let usage = w.usage();
    assert_eq!((usage.mapped.total(), usage.private_bytes), (PAGE, PAGE));
    assert_eq!(usage.reserved_bytes, HUGE - PAGE);
    assert_eq!(happened(&w, EventKind::ReservMade), 1);
    w.access(1, BASE + 9 * PAGE, Access::Write).unwrap();
    assert_eq!(happened(&w, EventKind::ReservMade), 1);
    w.event(1, &Event::Munmap { addr: VirtAddr::new(BASE), len: 4 * HUGE });
    assert_eq!((w.usage().reserved_bytes, happened(&w, EventKind::ReservFreed)), (0, 1));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    /// S0-045: pages and frames agree modulo 512 in any order of first touches. This holds in mappings, and in a heap
    /// that grows under way and never reaches 2 MiB.
    #[test]
    fn pages_and_frames_agree_in_any_order(
        touches in prop::collection::vec((0u64..1200, any::<bool>()), 1..200),
        grown in 1u64..400,
    ) {
        let mut w = world(|f| f.promotion = false);
        let heap = BASE + (1 << 30);
        w.event(1, &mmap(BASE, 1200 * PAGE, Prot::RW));
        let end = |pages: u64| Event::Brk { start: VirtAddr::new(heap), end: VirtAddr::new(heap + pages * PAGE) };
        w.event(1, &end(grown));
        for (i, &(page, store)) in touches.iter().enumerate() {
            if i == touches.len() / 2 {
                w.event(1, &end(grown + 100));
            }
            let access = if store { Access::Write } else { Access::Read };
            for va in [BASE + page * PAGE, heap + page % grown * PAGE] {
                let (pfn, _) = w.access(1, va, access).unwrap();
                prop_assert_eq!(pfn.0 % 512, (va >> 12) % 512);
            }
        }
    }
}

#[test]
fn without_reservations_frames_lie_as_the_allocator_hands_them_out() {
    let mut w = world(|f| (f.levels, f.promotion, f.bucket) = (Vec::new(), false, 2));
    w.event(1, &mmap(BASE, HUGE, Prot::RW));
    let frames: Vec<u64> = (0..4).map(|i| w.access(1, BASE + i * PAGE, Access::Write).unwrap().0.0).collect();
    assert_eq!((frames[0], frames[2]), (frames[1] + 1, frames[3] + 1), "pairs, each from its end");
    assert_eq!((happened(&w, EventKind::ReservMade), w.kernel.counts().refusals.total()), (0, 0));
}

/// S0-047: reservations for files larger than 2 MiB, and for their last part if they are a multiple of 2 MiB.
#[test]
fn files_are_reserved_in_whole_parts() {
    for (kib, reservations, refusal) in [(1900, 0, true), (2048, 1, false), (3072, 1, true), (4096, 2, false)] {
        let mut w = world(|_| {});
        w.event(1, &mmap_file(BASE, kib << 10, Prot::R, false, "/f", 0));
        for va in (BASE..BASE + (kib << 10)).step_by(PAGE as usize) {
            w.access(1, va, Access::Read).unwrap();
        }
        assert_eq!(happened(&w, EventKind::ReservMade), reservations, "{kib}K");
        assert_eq!(refused(&w, Refusal::ReservPastEnd) > 0, refusal, "{kib}K");
    }
}

#[test]
fn a_mapping_that_begins_inside_two_mebibytes_has_no_reservation_there() {
    let mut w = world(|_| {});
    w.event(1, &mmap(BASE + PAGE, 2 * HUGE, Prot::RW));
    w.access(1, BASE + 2 * PAGE, Access::Write).unwrap();
    assert_eq!(refused(&w, Refusal::ReservBeforeObject), 1);
    // The tail may grow, so it has one.
    w.access(1, BASE + 2 * HUGE, Access::Write).unwrap();
    assert_eq!(happened(&w, EventKind::ReservMade), 1);
    let flags = mmulab_trace::MapFlags { grows_down: true, ..Default::default() };
    let backing = mmulab_trace::Backing::Anon;
    w.event(1, &Event::Mmap { addr: VirtAddr::new(8 * BASE), len: HUGE, prot: Prot::RW, flags, backing });
    w.access(1, 8 * BASE, Access::Write).unwrap();
    assert_eq!(refused(&w, Refusal::ReservStack), 1);
}

#[test]
fn pages_in_memory_keep_a_reservation_away() {
    // Memory so full that no reservation can be had first, then can.
    let mut w = sized(|_| {}, 16);
    w.event(1, &mmap(BASE, 8 << 20, Prot::RW));
    w.event(1, &mmap(2 * BASE, 8 << 20, Prot::RW));
    for part in 0..7 {
        let at = if part < 4 { BASE + part * HUGE } else { 2 * BASE + (part - 4) * HUGE };
        w.access(1, at, Access::Write).unwrap();
    }
    let at = 2 * BASE + 3 * HUGE;
    w.access(1, at, Access::Write).unwrap();
    assert!(refused(&w, Refusal::ReservNoBlock) > 0);
    w.event(1, &Event::Munmap { addr: VirtAddr::new(BASE), len: 8 << 20 });
    w.access(1, at + PAGE, Access::Write).unwrap();
    assert_eq!(refused(&w, Refusal::ReservPopulated), 1);
}

/// S0-054: all 512 pages are asked for, all alike.
#[test]
fn a_full_region_of_equal_pages_is_promoted() {
    let mut w = world(|_| {});
    w.event(1, &mmap(BASE, HUGE, Prot::RW));
    write_all(&mut w, 1, BASE, BASE + HUGE - PAGE);
    assert_eq!(order(&mut w, BASE), Some(PageOrder::P4K));
    let fault = w.access(1, BASE + HUGE - PAGE, Access::Write).unwrap();
    assert_eq!((fault.1, order(&mut w, BASE)), (vec![FaultKind::Anon], Some(PageOrder::P2M)));
    assert_eq!(happened(&w, EventKind::Promotion), 1);
    assert_eq!(w.usage().reserved_bytes, 0);
}

#[test]
fn clean_and_dirty_pages_are_promoted_once_all_are_dirty() {
    let mut w = world(|_| {});
    w.event(1, &mmap(BASE, HUGE, Prot::RW));
    w.access(1, BASE, Access::Read).unwrap();
    write_all(&mut w, 1, BASE + PAGE, BASE + HUGE);
    assert_eq!((refused(&w, Refusal::PromoteMixed), happened(&w, EventKind::Promotion)), (1, 0));
    // The clean page lost its right, so its store faults, and that promotes.
    assert_eq!(w.access(1, BASE, Access::Write).unwrap().1, [FaultKind::Reuse]);
    assert_eq!(order(&mut w, BASE), Some(PageOrder::P2M));
}

#[test]
fn a_clean_superpage_is_broken_by_a_store_and_back_when_all_is_dirty() {
    let mut w = world(|_| {});
    w.event(1, &mmap(BASE, HUGE, Prot::RW));
    for i in 0..512 {
        w.access(1, BASE + i * PAGE, Access::Read).unwrap();
    }
    let leaf = w.walk(1, BASE, None).unwrap();
    assert_eq!((leaf.order, leaf.prot.has(Prot::W), leaf.dirty), (PageOrder::P2M, false, false));
    w.access(1, BASE, Access::Write).unwrap();
    assert_eq!((order(&mut w, BASE), happened(&w, EventKind::Split)), (Some(PageOrder::P4K), 1));
    write_all(&mut w, 1, BASE, BASE + HUGE);
    assert_eq!(order(&mut w, BASE), Some(PageOrder::P2M));
}

#[test]
fn changed_rights_of_a_part_demote() {
    let mut w = world(|_| {});
    w.event(1, &mmap(BASE, HUGE, Prot::RW));
    write_all(&mut w, 1, BASE, BASE + HUGE);
    w.event(1, &Event::Mprotect { addr: VirtAddr::new(BASE + PAGE), len: PAGE, prot: Prot::R });
    assert_eq!((order(&mut w, BASE), happened(&w, EventKind::Split)), (Some(PageOrder::P4K), 1));
}

#[test]
fn accessed_bits_are_asked_for_if_told() {
    let mut w = world(|f| f.promotion_needs_accessed = true);
    w.event(1, &mmap_file(BASE, HUGE, Prot::R, false, "/f", 0));
    for va in (BASE..BASE + HUGE).step_by(64 << 10) {
        w.access(1, va, Access::Read).unwrap();
    }
    assert!(refused(&w, Refusal::PromoteNotAccessed) > 0);
    assert_eq!(happened(&w, EventKind::Promotion), 0);
    let mut w = world(|_| {});
    w.event(1, &mmap_file(BASE, HUGE, Prot::R, false, "/f", 0));
    for va in (BASE..BASE + HUGE).step_by(64 << 10) {
        w.access(1, va, Access::Read).unwrap();
    }
    assert_eq!(order(&mut w, BASE), Some(PageOrder::P2M));
}

/// S0-M036: a fault reads 64 KiB, aligned in the file, and maps it all; only the page that faulted has A set.
#[test]
fn a_file_fault_maps_its_cluster_without_accessed_bits() {
    for preset in [false, true] {
        let mut w = world(|f| f.prefaulted_accessed = preset);
        w.event(1, &mmap_file(BASE + 3 * PAGE, 1 << 20, Prot::RX, false, "/f", 0x3000));
        let (_, kinds) = w.access(1, BASE + 20 * PAGE, Access::Fetch).unwrap();
        assert_eq!(kinds, [FaultKind::FileRead]);
        let accessed: Vec<Option<bool>> =
            (14..34).map(|i| w.walk(1, BASE + i * PAGE, None).map(|leaf| leaf.accessed)).collect();
        // Pages 16 to 31 of the file lie at 16 to 31 here.
        let expected = (14..34).map(|i| (16..32).contains(&i).then_some(preset || i == 20)).collect::<Vec<_>>();
        assert_eq!(accessed, expected);
        assert_eq!(happened(&w, EventKind::FaultAround), 15);
        // The mapping begins at page 3 of the file: no page before it is read.
        w.access(1, BASE + 5 * PAGE, Access::Fetch).unwrap();
        assert_eq!(happened(&w, EventKind::PagesRead), 16 + 13);
    }
}

#[test]
fn what_is_in_memory_is_mapped_four_pages_to_each_side() {
    let mut policy = policy(|_| {});
    policy.linux.page_cache = PageCache::Warm;
    let mut w = World::new(&desc(policy, 128), 128);
    w.event(1, &mmap_file(BASE, 1 << 20, Prot::R, false, "/f", 0));
    w.access(1, BASE + 8 * PAGE, Access::Read).unwrap();
    let mapped: Vec<u64> = (0..20).filter(|i| w.walk(1, BASE + i * PAGE, None).is_some()).collect();
    assert_eq!(mapped, [4, 5, 6, 7, 8, 9, 10, 11, 12]);
    assert_eq!(happened(&w, EventKind::PagesRead), 0);
}

/// S0-M038: who has mapped a file before it is promoted gets the superpage with its first fault.
#[test]
fn a_second_process_maps_a_full_reservation_at_once() {
    let mut w = world(|_| {});
    w.event(1, &mmap_file(BASE, 2 * HUGE, Prot::RX, false, "/lib", 0));
    w.event(2, &mmap_file(8 * BASE, 2 * HUGE, Prot::RX, false, "/lib", 0));
    w.event(3, &mmap_file(BASE + PAGE, HUGE, Prot::RX, false, "/lib", 0));
    for va in (BASE..BASE + HUGE).step_by(64 << 10) {
        w.access(1, va, Access::Fetch).unwrap();
    }
    let (pfn, kinds) = w.access(2, 8 * BASE + 7 * PAGE, Access::Fetch).unwrap();
    assert_eq!((kinds, happened(&w, EventKind::SuperpageMapped)), (vec![FaultKind::FileCached], 1));
    assert_eq!(Some(pfn), w.frame(1, BASE + 7 * PAGE));
    assert_eq!(w.walk(2, 8 * BASE, None).unwrap().order, PageOrder::P2M);
    // Out of phase by a page: neither congruent frames nor superpages (S0-039, S0-042).
    let (pfn, _) = w.access(3, BASE + PAGE, Access::Fetch).unwrap();
    assert_ne!(pfn.0 % 4, ((BASE + PAGE) >> 12) % 4);
    assert_eq!(w.walk(3, BASE + PAGE, None).unwrap().order, PageOrder::P4K);
    assert!(refused(&w, Refusal::PromoteMisaligned) > 0);
}

/// S0-M041: MADV_FREE demotes; the next round of stores promotes again. `nomdv` leaves the superpage alone.
#[test]
fn madv_free_demotes_and_nomdv_does_not() {
    for obeyed in [true, false] {
        let mut w = world(|f| f.madv_free = obeyed);
        w.event(1, &mmap(BASE, HUGE, Prot::RW));
        write_all(&mut w, 1, BASE, BASE + HUGE);
        let (addr, len, advice) = (VirtAddr::new(BASE + 16 * PAGE), 16 * PAGE, Advice::Free);
        w.event(1, &Event::Madvise { addr, len, advice });
        if !obeyed {
            assert_eq!(order(&mut w, BASE), Some(PageOrder::P2M));
            assert_eq!(happened(&w, EventKind::FreeSuppressed), 1);
            continue;
        }
        let bits = |leaf: mmulab_pagetable::Leaf| (leaf.accessed, leaf.dirty);
        assert_eq!(w.walk(1, BASE, None).map(bits), Some((true, true)));
        assert_eq!(w.walk(1, BASE + 30 * PAGE, None).map(bits), Some((false, false)));
        assert_eq!(w.walk(1, BASE + 31 * PAGE, None), None, "the last page is taken out");
        let frames = w.usage().private_bytes;
        let (_, kinds) = w.access(1, BASE + 31 * PAGE, Access::Write).unwrap();
        assert_eq!((kinds, w.usage().private_bytes), (vec![FaultKind::Resident], frames));
        assert_eq!(order(&mut w, BASE), Some(PageOrder::P4K), "15 pages are clean");
        write_all(&mut w, 1, BASE + 16 * PAGE, BASE + 32 * PAGE);
        assert_eq!(order(&mut w, BASE), Some(PageOrder::P2M));
        assert_eq!(happened(&w, EventKind::Promotion), 2);
    }
}

/// CHANGELOG number 13: FreeBSD flushes each mapping that MADV_FREE meets by itself (`vm_map_madvise`).
#[test]
fn madv_free_flushes_mapping_by_mapping() {
    let mut w = world(|_| {});
    for n in [0, 2] {
        w.event(1, &mmap(BASE + n * PAGE, PAGE, Prot::RW));
        w.access(1, BASE + n * PAGE, Access::Write).unwrap();
    }
    w.effects.clear();
    let event = Event::Madvise { addr: VirtAddr::new(BASE), len: 3 * PAGE, advice: Advice::Free };
    w.kernel.event(&mut w.mem, actor(1), &event, &mut w.effects).unwrap();
    let flushed: Vec<u64> = (w.effects.invalidations.iter())
        .map(|what| match what {
            mmulab_pagetable::Invalidate::Page { va, .. } => va.raw(),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(flushed, [BASE, BASE + 2 * PAGE]);
}

/// S0-M039: reservations break only when memory is short, the one that changed longest ago first.
#[test]
fn the_reservation_changed_longest_ago_breaks_first() {
    let mut w = sized(|_| {}, 32);
    w.event(1, &mmap(BASE, 64 << 20, Prot::RW));
    let mut part = 0;
    while refused(&w, Refusal::ReservNoBlock) == 0 {
        w.access(1, BASE + part * HUGE, Access::Write).unwrap();
        part += 1;
    }
    // The first is made the youngest.
    w.access(1, BASE + PAGE, Access::Write).unwrap();
    assert_eq!(happened(&w, EventKind::ReservBroken), 0);
    let mut at = BASE + (part - 1) * HUGE;
    while happened(&w, EventKind::ReservBroken) == 0 {
        at += PAGE;
        w.access(1, at, Access::Write).unwrap();
    }
    let frame = |w: &mut World, va| w.frame(1, va).unwrap().0;
    let (_, _) = w.access(1, BASE + 2 * PAGE, Access::Write).unwrap();
    assert_eq!(frame(&mut w, BASE + 2 * PAGE), frame(&mut w, BASE) + 2, "the first still has its reservation");
    w.access(1, BASE + HUGE + PAGE, Access::Write).unwrap();
    assert_ne!(frame(&mut w, BASE + HUGE + PAGE), frame(&mut w, BASE + HUGE) + 1, "the second has none");
}

/// Quicksilver: 64 pages are enough, and the rest is zeroed and mapped.
#[test]
fn an_early_promotion_fills_what_is_missing() {
    let mut w = world(|f| f.promotion_threshold = 64);
    w.event(1, &mmap(BASE, HUGE, Prot::RW));
    for i in 0..63 {
        w.store(1, BASE + 8 * i * PAGE, 7).unwrap();
    }
    assert_eq!(order(&mut w, BASE), Some(PageOrder::P4K));
    w.store(1, BASE + 511 * PAGE, 9).unwrap();
    assert_eq!((order(&mut w, BASE), happened(&w, EventKind::PromotionFill)), (Some(PageOrder::P2M), 448));
    assert_eq!((w.load(1, BASE + 8 * PAGE), w.load(1, BASE + PAGE)), (Ok(7), Ok(0)));
    assert_eq!((w.usage().private_bytes, w.usage().reserved_bytes), (HUGE, 0));
}

fn quicksilver(f: &mut FreebsdDesc, fill_threshold: Option<u32>, inactive_ms: Option<u64>) {
    f.daemon = Some(QuicksilverDesc { fill_threshold, inactive_ms, ..QuicksilverDesc::default() });
}

/// Quicksilver, asynchronous. Below the threshold nothing happens. From it on the daemon zeroes the rest, and the next
/// fault maps one page, of clean and dirty pages alike.
#[test]
fn quicksilvers_daemon_fills_from_its_threshold_on() {
    for (stores, filled) in [(63, 0), (64, 1), (65, 1)] {
        let mut w = world(|f| quicksilver(f, Some(64), None));
        w.event(1, &mmap(BASE, HUGE, Prot::RW));
        for i in 0..stores {
            w.store(1, BASE + 4 * i * PAGE, i + 1).unwrap();
        }
        w.event(1, &Event::Tick);
        assert_eq!(happened(&w, EventKind::QuicksilverFilled), filled, "{stores}");
        assert_eq!(happened(&w, EventKind::QuicksilverZeroed), filled * (512 - stores));
        assert_eq!(
            (order(&mut w, BASE), order(&mut w, BASE + PAGE)),
            (Some(PageOrder::P4K), None),
            "nothing is mapped"
        );
        assert_eq!(w.load(1, BASE + PAGE), Ok(0));
        let expected = if filled == 1 { PageOrder::P2M } else { PageOrder::P4K };
        assert_eq!(order(&mut w, BASE), Some(expected));
        assert!((0..stores).all(|i| w.load(1, BASE + 4 * i * PAGE) == Ok(i + 1)), "the stores are there");
        w.event(1, &Event::Munmap { addr: VirtAddr::new(BASE), len: HUGE });
        assert_eq!((w.usage().private_bytes, w.usage().reserved_bytes), (0, 0));
    }
}

/// A child shares the pages that were filled in: none of the two may make one page of them.
#[test]
fn what_quicksilver_filled_is_shared_by_fork() {
    let mut w = world(|f| quicksilver(f, Some(1), None));
    w.event(1, &mmap(BASE, HUGE, Prot::RW));
    w.store(1, BASE, 7).unwrap();
    w.event(1, &Event::Tick);
    w.event(1, &Event::Fork { child: Pid(2), shares_memory: false });
    w.store(2, BASE + PAGE, 5).unwrap();
    assert_eq!((w.load(1, BASE + PAGE), w.load(2, BASE + PAGE), w.load(2, BASE)), (Ok(0), Ok(5), Ok(7)));
    assert_eq!((order(&mut w, BASE), happened(&w, EventKind::Promotion)), (Some(PageOrder::P4K), 0));
}

/// A reservation that has not changed for the time given is emptied, and its block of 2 MiB is free again. One that
/// changed since stays.
#[test]
fn quicksilvers_daemon_empties_what_is_out_of_use() {
    let mut w = world(|f| quicksilver(f, None, Some(3000)));
    w.event(1, &mmap(BASE, 2 * HUGE, Prot::RW));
    for i in [0, 7, 300] {
        w.store(1, BASE + i * PAGE, i + 1).unwrap();
    }
    w.store(1, BASE + HUGE, 9).unwrap();
    for second in 1..4 {
        w.event(1, &Event::Tick);
        w.store(1, BASE + HUGE + second * PAGE, second).unwrap();
    }
    assert_eq!(happened(&w, EventKind::Migrated), 0);
    w.event(1, &Event::Tick);
    assert_eq!((happened(&w, EventKind::QuicksilverEvicted), happened(&w, EventKind::Migrated)), (1, 3));
    assert_eq!(w.usage().reserved_bytes, HUGE - 4 * PAGE, "the reservation in use stays");
    assert!([0, 7, 300].iter().all(|&i| w.load(1, BASE + i * PAGE) == Ok(i + 1)));
    w.access(1, BASE + PAGE, Access::Write).unwrap();
    assert_eq!(refused(&w, Refusal::ReservPopulated), 1);
}

/// S0-055, S0-056: smaller reservations serve what 2 MiB ones cannot.
#[test]
fn smaller_reservations_serve_small_files() {
    let mut w = world(|f| f.levels = [2, 4, 9].map(PageOrder::new).to_vec());
    w.event(1, &mmap_file(BASE, 84 << 10, Prot::R, false, "/small", 0));
    for i in (0..21).rev() {
        w.access(1, BASE + i * PAGE, Access::Read).unwrap();
    }
    // 64 KiB, then 16 KiB, then a page that no reservation holds.
    assert_eq!(happened(&w, EventKind::ReservMade), 2);
    for i in 0..20 {
        let frame = w.frame(1, BASE + i * PAGE).unwrap().0;
        assert_eq!(frame % if i < 16 { 16 } else { 4 }, i % if i < 16 { 16 } else { 4 });
    }
}

#[test]
fn a_forked_child_gets_reservations_of_its_own() {
    let mut w = world(|_| {});
    w.event(1, &mmap(BASE, HUGE, Prot::RW));
    write_all(&mut w, 1, BASE, BASE + HUGE);
    w.event(1, &Event::Fork { child: Pid(2), shares_memory: false });
    write_all(&mut w, 2, BASE, BASE + HUGE);
    assert_eq!(happened(&w, EventKind::ReservMade), 2);
    let leaf = w.walk(2, BASE, None).unwrap();
    assert_eq!((leaf.order, leaf.pfn.0 % 512), (PageOrder::P2M, 0));
    assert_ne!(w.frame(1, BASE), w.frame(2, BASE));
    // The parent, alone again, stores to its own pages.
    w.event(2, &Event::Exit { status: 0 });
    write_all(&mut w, 1, BASE, BASE + HUGE);
    assert_eq!(order(&mut w, BASE), Some(PageOrder::P2M));
    w.event(1, &Event::Exit { status: 0 });
    assert_eq!(w.usage().reserved_bytes, 0);
}

/// CHANGELOG number 25: if memory was full, reading a cluster reclaimed the very page that had faulted, because no
/// process mapped it yet. The frame went to a page beside it.
#[test]
fn a_page_that_faulted_stays_while_its_cluster_is_read() {
    // Some of these leave memory full in the middle of a cluster.
    for stored in 3600..3640 {
        let mut w = sized(|f| f.promotion = false, 16);
        w.event(1, &mmap(BASE, 16 << 20, Prot::RW));
        w.event(2, &mmap_file(BASE, 8 << 20, Prot::R, false, "/f", 0));
        write_all(&mut w, 1, BASE, BASE + stored * PAGE);
        let pages = (BASE..BASE + (8 << 20)).step_by(PAGE as usize);
        pages.clone().take_while(|&va| w.access(2, va, Access::Read).is_ok()).for_each(drop);
        let mut frames: Vec<_> = pages.filter_map(|va| w.walk(2, va, None)).map(|leaf| leaf.pfn).collect();
        let mapped = frames.len();
        assert!(mapped > 100);
        frames.sort_unstable();
        frames.dedup();
        assert_eq!(frames.len(), mapped);
    }
}

#[test]
fn impossible_descriptions_are_refused_by_name() {
    let key = |policy: PolicyDesc| refused_key(policy, 128);
    assert_eq!(key(policy(|f| f.levels = vec![PageOrder::new(13), PageOrder::P2M])), "freebsd.levels");
    assert_eq!(key(policy(|f| f.levels = vec![PageOrder::P4K])), "freebsd.levels");
    assert_eq!(key(policy(|f| f.levels = vec![PageOrder::P2M, PageOrder::P2M])), "freebsd.levels");
    assert_eq!(key(policy(|f| f.levels = Vec::new())), "freebsd.levels");
    assert_eq!(key(policy(|f| f.levels = vec![PageOrder::new(4)])), "freebsd.promotion");
    assert_eq!(key(policy(|f| f.promotion_threshold = 513)), "freebsd.promotion_threshold");
    assert_eq!(key(policy(|f| f.daemon = Some(QuicksilverDesc::default()))), "freebsd.daemon");
    assert_eq!(key(policy(|f| quicksilver(f, Some(512), None))), "freebsd.daemon.fill_threshold");
    assert_eq!(
        key(policy(|f| {
            f.promotion = false;
            quicksilver(f, Some(1), None);
        })),
        "freebsd.daemon.fill_threshold"
    );
    assert_eq!(key(policy(|f| quicksilver(f, None, Some(0)))), "freebsd.daemon.inactive_ms");
    assert_eq!(key(policy(|f| f.cluster = mmulab_kernel::Bytes(5000))), "freebsd.cluster");
    assert_eq!(key(policy(|f| f.bucket = 0)), "freebsd.bucket");
    assert_eq!(key(PolicyDesc { thp: Some(Default::default()), ..PolicyDesc::freebsd() }), "thp");
    let mut linux = PolicyDesc::freebsd();
    linux.linux.zero_page = false;
    assert_eq!(key(linux), "linux.zero_page");
    assert_eq!(key(PolicyDesc { freebsd: Some(Default::default()), ..PolicyDesc::linux_4k() }), "freebsd");
    let large = desc(policy(|f| f.levels = vec![PageOrder::new(12)]), 16);
    assert!(refusal(&large, 16).contains("more than half of memory"));
}

/// What TLBs that coalesce can use: all of it under reservations, nothing without.
#[test]
fn contiguity_is_counted() {
    let counted = |levels: Vec<PageOrder>| {
        let mut w = world(|f| (f.levels, f.promotion, f.bucket) = (levels, false, 2));
        w.event(1, &mmap(BASE, HUGE, Prot::RW));
        for i in [3, 0, 1, 2, 7, 8, 9, 10, 11, 12, 13, 14, 15, 17] {
            w.access(1, BASE + i * PAGE, Access::Write).unwrap();
        }
        let live = w.usage().contiguity;
        w.event(1, &Event::Exit { status: 0 });
        assert_eq!(w.usage().contiguity, live, "those of the dead are kept");
        live
    };
    // Pages 0 to 3, 7 to 15 and 17: groups 0, 2 and 3 of four, 1 of eight, none of sixteen.
    let reserved = counted(vec![PageOrder::P2M]);
    assert_eq!((reserved.pages, reserved.runs, reserved.grouped), (14, 3, [12, 8, 0]));
    assert!((reserved.average_run() - 14.0 / 3.0).abs() < 1e-9);
    assert_eq!(counted(Vec::new()).grouped, [0, 0, 0]);
}

fn code(change: impl FnOnce(&mut mmulab_kernel::CodeDesc)) -> World {
    world(|f| change(&mut f.code))
}

const CLUSTER: u64 = 64 << 10;

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, failure_persistence: None, ..ProptestConfig::default() })]

    /// S1-008, S1-018, S1-M013: in any order of first touches, 2 MiB of code is whole as soon as it has as many
    /// clusters as the threshold. `strict` asks for one more. Pages count sixteen to a cluster.
    #[test]
    fn code_is_whole_from_its_threshold_on(
        order_of_touch in Just((0u64..32).collect::<Vec<_>>()).prop_shuffle(),
        threshold in 1u64..32,
        strict in any::<bool>(),
        in_pages in any::<bool>(),
    ) {
        let wanted = threshold + u64::from(strict && !in_pages);
        let mut w = code(|c| {
            c.threshold = if in_pages { Threshold::Pages(16 * threshold) } else { Threshold::Clusters(threshold) };
            c.strict = strict && !in_pages;
        });
        w.event(1, &mmap_file(BASE, HUGE, Prot::RX, false, "/bin/p", 0));
        for (i, cluster) in order_of_touch.iter().enumerate().take(wanted as usize) {
            let is_base = order(&mut w, BASE + cluster * CLUSTER).is_none();
            prop_assert!(is_base, "touch {i}: nothing of the cluster is mapped before");
            w.access(1, BASE + cluster * CLUSTER, Access::Fetch).unwrap();
        }
        prop_assert_eq!(order(&mut w, BASE), Some(PageOrder::P2M));
        prop_assert_eq!(happened(&w, EventKind::Promotion), 1);
        prop_assert_eq!(happened(&w, EventKind::PagesRead), 512);
        prop_assert_eq!(happened(&w, EventKind::PromotionFill), 512 - 16 * wanted);
    }
}

/// S1-M016: of each 2 MiB that code shows, the clusters and pages in memory; at its ends a part of one is shown.
#[test]
fn residency_of_code_is_told_by_file() {
    let mut w = code(|c| c.threshold = Threshold::Clusters(3));
    w.event(1, &mmap_file(BASE, HUGE + 20 * PAGE, Prot::RX, false, "/bin/p", 0));
    w.event(1, &mmap_file(BASE + 4 * HUGE, PAGE, Prot::R, false, "/bin/q", 0));
    for cluster in [0, 7] {
        w.access(1, BASE + cluster * CLUSTER, Access::Fetch).unwrap();
    }
    w.access(1, BASE + HUGE, Access::Fetch).unwrap();
    w.access(1, BASE + 4 * HUGE, Access::Read).unwrap();
    let told = |w: &World| -> Vec<(i64, u64, u64, u64, bool)> {
        let rows = w.kernel.code_residency(&w.mem).into_iter();
        rows.map(|row| (row.offset, row.mapped_pages, row.clusters, row.pages, row.is_whole)).collect()
    };
    let residual = (HUGE as i64, 20, 1, 16, false);
    assert_eq!(told(&w), [(0, 512, 2, 32, false), residual], "data are no code");
    w.access(1, BASE + 9 * CLUSTER, Access::Fetch).unwrap();
    assert_eq!(told(&w), [(0, 512, 32, 512, true), residual]);
    // The same file elsewhere, in another process, is the same; so it is when all processes have gone.
    w.event(2, &mmap_file(BASE + 8 * HUGE, HUGE + 20 * PAGE, Prot::RX, false, "/bin/p", 0));
    for pid in [1, 2] {
        w.event(pid, &Event::Exit { status: 0 });
    }
    assert_eq!(told(&w), [(0, 512, 32, 512, true), residual]);
}

/// A mapping that begins in the middle of 2 MiB, and in the middle of its file.
#[test]
fn residency_counts_from_where_two_mebibytes_begin() {
    let mut w = code(|_| {});
    w.event(1, &mmap_file(BASE + 5 * CLUSTER, HUGE, Prot::RX, false, "/bin/p", CLUSTER));
    w.access(1, BASE + 5 * CLUSTER, Access::Fetch).unwrap();
    let rows = w.kernel.code_residency(&w.mem);
    let told: Vec<_> = rows.iter().map(|row| (row.offset, row.mapped_pages, row.clusters)).collect();
    let begin = -4 * CLUSTER as i64;
    assert_eq!(told, [(begin, 512 - 80, 1), (begin + HUGE as i64, 80, 0)]);
}

/// S1-M015: neither a full reservation nor a second process gets a superpage of code; data do.
#[test]
fn code_superpages_are_off_alone() {
    let mut w = code(|c| c.superpages = false);
    w.event(1, &mmap_file(BASE, HUGE, Prot::RX, false, "/bin/p", 0));
    w.event(1, &mmap_file(2 * BASE, HUGE, Prot::R, false, "/data", 0));
    for va in (0..HUGE).step_by(CLUSTER as usize) {
        w.access(1, BASE + va, Access::Fetch).unwrap();
        w.access(1, 2 * BASE + va, Access::Read).unwrap();
    }
    w.event(2, &mmap_file(BASE, HUGE, Prot::RX, false, "/bin/p", 0));
    w.access(2, BASE, Access::Fetch).unwrap();
    assert_eq!((order(&mut w, BASE), order(&mut w, 2 * BASE)), (Some(PageOrder::P4K), Some(PageOrder::P2M)));
    assert_eq!(w.walk(2, BASE, None).unwrap().order, PageOrder::P4K);
}

/// S1-M019: the rules for code hold for memory that may be executed and has no file, if the policy says so.
#[test]
fn anonymous_code_follows_the_threshold_and_can_be_left_on_base_pages() {
    let rwx = Prot::RW.with(Prot::X);
    let touched = |clusters: u64, prot: Prot, change: &dyn Fn(&mut mmulab_kernel::CodeDesc)| {
        let mut w = code(change);
        w.event(1, &mmap(BASE, HUGE, prot));
        for cluster in 0..clusters {
            w.access(1, BASE + cluster * CLUSTER, Access::Write).unwrap();
        }
        w
    };
    let early = |c: &mut mmulab_kernel::CodeDesc| (c.anonymous, c.threshold) = (true, Threshold::Clusters(18));
    let mut w = touched(17, rwx, &early);
    assert_eq!(order(&mut w, BASE), Some(PageOrder::P4K));
    let told = |w: &World| -> Vec<_> {
        let rows = w.kernel.code_residency(&w.mem).into_iter();
        rows.map(|row| (row.file.to_string(), row.mapped_pages, row.clusters, row.pages, row.is_whole)).collect()
    };
    assert_eq!(told(&w), [("anon rwx".to_owned(), 512, 17, 17, false)]);
    w.access(1, BASE + 17 * CLUSTER, Access::Fetch).unwrap();
    assert_eq!(order(&mut w, BASE), Some(PageOrder::P2M));
    assert_eq!((happened(&w, EventKind::PromotionFill), w.usage().private_bytes), (512 - 18, HUGE));
    assert_eq!(told(&w), [("anon rwx".to_owned(), 512, 32, 512, true)]);
    // Data, and a policy that says nothing of it, are as FreeBSD has them.
    let mut data = touched(32, Prot::RW, &early);
    assert_eq!(order(&mut data, BASE), Some(PageOrder::P4K));
    let mut plain = touched(32, rwx, &|c| c.threshold = Threshold::Clusters(18));
    assert_eq!((order(&mut plain, BASE), told(&plain).len()), (Some(PageOrder::P4K), 0));
    // Code on base pages alone: data of the same size are promoted when all of them are in use.
    for (prot, expected) in [(rwx, PageOrder::P4K), (Prot::RW, PageOrder::P2M)] {
        let mut w = code(|c| (c.anonymous, c.superpages) = (true, false));
        w.event(1, &mmap(BASE, HUGE, prot));
        write_all(&mut w, 1, BASE, BASE + HUGE);
        assert_eq!(order(&mut w, BASE), Some(expected));
    }
}

/// S1-014, S1-M018: a promotion frees the table of base pages of each process that had one.
#[test]
fn a_promotion_saves_a_page_of_the_page_table_in_each_process() {
    let tables = |threshold: u64| {
        let mut w = code(|c| c.threshold = Threshold::Clusters(threshold));
        for pid in 1..=3 {
            w.event(pid, &mmap_file(BASE, HUGE, Prot::RX, false, "/bin/p", 0));
            w.access(pid, BASE, Access::Fetch).unwrap();
        }
        w.usage().table_bytes
    };
    assert_eq!(tables(32) - tables(1), 3 * PAGE);
}

/// S1-042, S1-044, S1-045, S1-046: PostgreSQL's layout, Table V. The padding costs no memory once the data are touched.
#[test]
fn padding_ends_where_table_v_says_and_takes_no_memory() {
    let run = |padding: Padding| {
        let mut w = code(|c| (c.threshold, c.padding) = (Threshold::Clusters(1), padding));
        w.event(1, &mmap_file(0x40_0000, 0x5f_4000, Prot::RX, false, "/bin/postgres", 0));
        w.event(1, &mmap_file(0xbf_4000, 0xc000, Prot::RW, false, "/bin/postgres", 0x5f_4000));
        for va in (0x40_0000..0x9f_4000).step_by(PAGE as usize) {
            w.access(1, va, Access::Fetch).unwrap();
        }
        for va in (0xbf_4000..0xc0_0000).step_by(PAGE as usize) {
            w.access(1, va, Access::Read).unwrap();
        }
        w
    };
    let (without, mut with) = (run(Padding::None), run(Padding::Kernel));
    assert_eq!(with.usage().mapped.bytes(PageOrder::P2M) / HUGE, 3);
    assert_eq!(without.usage().mapped.bytes(PageOrder::P2M) / HUGE, 2);
    assert_eq!(with.usage().page_cache_bytes, without.usage().page_cache_bytes);
    assert_eq!(without.usage().table_bytes - with.usage().table_bytes, PAGE);
    assert_eq!(with.walk(1, 0x9f_f000, None).map(|leaf| leaf.order), Some(PageOrder::P2M));
    assert!(with.access(1, 0xa0_0000, Access::Fetch).is_err(), "the padding ends at 0xa00000");
    // Who unmaps the code knows nothing of the padding: it goes, too.
    with.event(1, &Event::Munmap { addr: VirtAddr::new(0x40_0000), len: 0x5f_4000 });
    assert!(with.access(1, 0x9f_f000, Access::Fetch).is_err());
    assert!(with.access(1, 0xbf_4000, Access::Read).is_ok());
}

#[test]
fn what_is_mapped_into_padding_later_stays_when_the_code_goes() {
    let mut w = code(|c| (c.threshold, c.padding) = (Threshold::Clusters(1), Padding::Kernel));
    w.event(1, &mmap_file(BASE, HUGE + 4 * PAGE, Prot::RX, false, "/bin/p", 0));
    w.access(1, BASE + HUGE, Access::Fetch).unwrap();
    assert_eq!(order(&mut w, BASE + HUGE), Some(PageOrder::P2M));
    w.event(1, &mmap(BASE + HUGE + 4 * PAGE, PAGE, Prot::RW));
    w.access(1, BASE + HUGE + 4 * PAGE, Access::Write).unwrap();
    assert_eq!(order(&mut w, BASE + HUGE), Some(PageOrder::P4K), "the superpage is taken apart");
    w.event(1, &Event::Munmap { addr: VirtAddr::new(BASE), len: HUGE + 4 * PAGE });
    assert!(w.access(1, BASE + HUGE + 4 * PAGE, Access::Write).is_ok());
}

#[test]
fn impossible_code_sections_are_refused_by_key() {
    let error = |change: &dyn Fn(&mut FreebsdDesc)| refused_key(policy(|f| change(f)), 128);
    for threshold in [Threshold::Clusters(0), Threshold::Clusters(33), Threshold::Pages(513)] {
        assert!(error(&|f| f.code.threshold = threshold).contains("freebsd.code.threshold"), "{threshold}");
    }
    let off = |f: &mut FreebsdDesc| (f.promotion, f.code.padding) = (false, Padding::Kernel);
    assert!(error(&off).contains("freebsd.code"));
    let nothing_to_pad = |f: &mut FreebsdDesc| (f.code.superpages, f.code.padding) = (false, Padding::Kernel);
    assert!(error(&nothing_to_pad).contains("freebsd.code.padding"));
}
