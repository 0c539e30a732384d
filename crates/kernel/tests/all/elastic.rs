//! CoalaKhugepaged, hints of page sizes and fault sizes by reach (Elastic Translations, paper 3, IV-B to IV-D).

use crate::common::*;
use mmulab_addr::{Access, PageOrder, Pfn, Pid, Prot, VirtAddr, VirtRange};
use mmulab_frames::{Fragment, HeldPages};
use mmulab_kernel::{Effects, EventKind, KernelDesc, KernelError, Note, Refusal};
use mmulab_trace::{Advice, Event};
use proptest::prelude::*;

const P64K: PageOrder = PageOrder::P64K;
const P2M: PageOrder = PageOrder::P2M;
const P32M: PageOrder = PageOrder::P32M;
const HUGE: u64 = 2 << 20;
const GIANT: u64 = 32 << 20;
const OTHER: u64 = 4 << 30;

const DAEMON: &str = "placement.frames = \"coala\"\nlinux.zero_page = false\nhints.from = \"page-sizes\"\n\
                      promotion = { when = \"daemon\", by = \"coala-khugepaged\", daemon = { max_ptes_none = 511 } }\n";

fn elastic(sections: &str, mebibytes: u64) -> World {
    let mut desc: KernelDesc = desc(parts(sections), mebibytes);
    desc.memory.max_order = 13;
    World::new(&desc, mebibytes)
}

fn hint(w: &mut World, pid: u32, addr: u64, len: u64, size: PageOrder) {
    w.event(pid, &Event::Madvise { addr: VirtAddr::new(addr), len, advice: Advice::PageSize(size) });
}

fn happened(w: &World, what: EventKind) -> u64 {
    w.kernel.counts().events.get(what)
}

fn refused(w: &World, why: Refusal) -> u64 {
    w.kernel.counts().refusals.get(why)
}

/// Lets the daemons run; the ranges promoted, in order.
fn tick(w: &mut World, pid: u32) -> Vec<(u64, PageOrder)> {
    w.effects.clear();
    w.kernel.event(&mut w.mem, actor(pid), &Event::Tick, &mut w.effects).unwrap();
    let told = w.effects.notes.iter();
    let promoted =
        told.filter_map(|t| if let Note::Assembled { va, size, .. } = t { Some((va.raw(), *size)) } else { None });
    let promoted = promoted.collect();
    w.flush();
    promoted
}

/// Whether the pages from `start` on lie in an aligned block of `order`, each in its place.
fn lies_together(w: &mut World, pid: u32, start: u64, order: PageOrder) -> bool {
    let Some(head) = w.frame(pid, start) else { return false };
    head.0.is_multiple_of(order.base_pages())
        && (0..order.base_pages()).all(|i| w.frame(pid, start + i * PAGE).is_some_and(|pfn| pfn.0 == head.0 + i))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    /// S2-020: with k of 16 pages in place, exactly the other 16 - k move; contents stay what they were.
    #[test]
    fn only_misplaced_pages_move(misplaced in prop::collection::btree_set(0u64..16, 0..15)) {
        let mut w = elastic(DAEMON, 128);
        w.event(1, &mmap(BASE, 1 << 20, Prot::RW));
        w.event(1, &mmap(OTHER, 1 << 20, Prot::RW));
        // Misplaced pages come from elsewhere, by mremap: from the page next to their own.
        for &page in &misplaced {
            let from = OTHER + page * 0x10000 + (page + 1) % 16 * PAGE;
            w.store(1, from, 100 + page).unwrap();
            w.event(1, &Event::Mremap {
                old: VirtAddr::new(from),
                old_len: PAGE,
                new: VirtAddr::new(BASE + page * PAGE),
                new_len: PAGE,
                keep_old: false,
            });
        }
        // The block is that of the pages that fault.
        for page in (0..16).filter(|page| !misplaced.contains(page)) {
            w.store(1, BASE + page * PAGE, 100 + page).unwrap();
        }
        let frames: Vec<_> = (0..16).map(|page| w.frame(1, BASE + page * PAGE).unwrap()).collect();
        let block = |page: usize| frames[page].0.checked_sub(page as u64).filter(|head| head % 16 == 0);
        let in_place = (0..16).filter_map(block).fold(std::collections::BTreeMap::new(), |mut n, head| {
            *n.entry(head).or_insert(0u64) += 1;
            n
        });
        let k = in_place.values().copied().max().unwrap_or(0);
        hint(&mut w, 1, BASE, 0x10000, P64K);
        let promoted = tick(&mut w, 1);
        prop_assert!(lies_together(&mut w, 1, BASE, P64K));
        prop_assert_eq!(promoted.len(), usize::from(k < 16));
        prop_assert_eq!(happened(&w, EventKind::CoalaMoved), 16 - k);
        for page in 0..16 {
            prop_assert_eq!(w.load(1, BASE + page * PAGE), Ok(100 + page));
        }
        // Once is enough.
        prop_assert_eq!(tick(&mut w, 1), vec![]);
    }
}

/// Two ranges whose pages sit in each other's places: the pages of the other range make room, whoever comes first.
#[test]
fn what_is_in_the_way_makes_room() {
    let mut w = elastic(DAEMON, 128);
    w.event(1, &mmap(BASE, 0x20000, Prot::RW));
    for page in 0..32 {
        w.store(1, BASE + page * PAGE, page).unwrap();
    }
    // Eight pages of each change places: their frames stay in the other range's block.
    let mv = |w: &mut World, from: u64, to: u64| {
        let (old, new) = (VirtAddr::new(from), VirtAddr::new(to));
        w.event(1, &Event::Mremap { old, old_len: 8 * PAGE, new, new_len: 8 * PAGE, keep_old: false });
    };
    w.event(1, &mmap(OTHER, 0x10000, Prot::RW));
    mv(&mut w, BASE, OTHER);
    mv(&mut w, BASE + 0x10000, BASE);
    mv(&mut w, OTHER, BASE + 0x10000);
    hint(&mut w, 1, BASE, 0x20000, P64K);
    assert_eq!(tick(&mut w, 1), [(BASE, P64K), (BASE + 0x10000, P64K)]);
    // The lowest page decides between two blocks with eight pages in place each, and the eight others come to it.
    assert_eq!(happened(&w, EventKind::CoalaMoved), 16);
    assert_eq!(happened(&w, EventKind::CoalaDisplaced), 8, "the second range finds its block free");
    assert!(lies_together(&mut w, 1, BASE, P64K) && lies_together(&mut w, 1, BASE + 0x10000, P64K));
    let found: Vec<u64> = (0..32).map(|page| w.load(1, BASE + page * PAGE).unwrap()).collect();
    let expected: Vec<u64> = (16..24).chain(8..16).chain(0..8).chain(24..32).collect();
    assert_eq!(found, expected);
}

/// S2-021: frames 0 to 255 are the machine's and cannot move, so a range with pages beside them moves whole.
#[test]
fn a_range_whose_block_holds_what_cannot_move_moves_whole() {
    let mut w = elastic(&DAEMON.replace("coala\"\nlinux", "buddy\"\nlinux"), 128);
    w.event(1, &mmap(BASE, 2 * HUGE, Prot::RW));
    // Linux begins with frame 256; page 256 of the range is in place there.
    let mut page = 256;
    while w.frame(1, BASE + 256 * PAGE).is_none_or(|pfn| pfn.0 != 256) {
        w.event(1, &Event::Madvise { addr: VirtAddr::new(BASE), len: 2 * HUGE, advice: Advice::Dontneed });
        w.event(1, &mmap(OTHER + page * HUGE, PAGE, Prot::RW));
        if w.kernel.frames().free_frames() < 1000 {
            panic!("frame 256 never came");
        }
        w.store(1, BASE + 256 * PAGE, 7).unwrap();
        if w.frame(1, BASE + 256 * PAGE).unwrap().0 != 256 {
            w.store(1, OTHER + page * HUGE, 1).unwrap();
        }
        page += 1;
    }
    w.store(1, BASE + 300 * PAGE, 8).unwrap();
    hint(&mut w, 1, BASE, HUGE, P2M);
    let before = happened(&w, EventKind::Migrated);
    assert_eq!(tick(&mut w, 1), [(BASE, P2M)]);
    assert_eq!(refused(&w, Refusal::CoalaUnmovable), 1);
    assert_eq!((happened(&w, EventKind::CoalaMovedWhole), happened(&w, EventKind::Migrated) - before), (1, 2));
    assert_eq!(happened(&w, EventKind::CoalaFilled), 510);
    assert_eq!((w.load(1, BASE + 256 * PAGE), w.load(1, BASE + 300 * PAGE)), (Ok(7), Ok(8)));
}

/// S2-021 for 32 MiB: the first page of the block lies where frames 0 to 255 are the machine's, so the range moves
/// whole.
#[test]
fn a_range_of_32_mebibytes_whose_block_holds_what_cannot_move_moves_whole() {
    let sections = format!("{}fault = {{ sizes = [\"2M\"] }}\n", DAEMON.replace("coala\"\nlinux", "buddy\"\nlinux"));
    let mut w = elastic(&sections.replace("511 }", "511, pages_to_scan = 100000 }"), 256);
    w.event(1, &mmap(BASE, GIANT, Prot::RW));
    for huge in 1..4 {
        w.store(1, BASE + huge * HUGE, huge).unwrap();
    }
    assert_eq!(w.frame(1, BASE + HUGE), Some(Pfn(512)), "in place for a block that begins with frame 0");
    hint(&mut w, 1, BASE, GIANT, P32M);
    assert_eq!(tick(&mut w, 1), [(BASE, P32M)]);
    assert!(lies_together(&mut w, 1, BASE, P32M));
    assert_eq!(refused(&w, Refusal::CoalaUnmovable), 1);
    assert_eq!((happened(&w, EventKind::CoalaMovedWhole), happened(&w, EventKind::CoalaInPlace)), (1, 0));
    assert_eq!((happened(&w, EventKind::CoalaMoved), happened(&w, EventKind::CoalaFilled)), (3 * 512, 13 * 512));
    assert!((1..4).all(|huge| w.load(1, BASE + huge * HUGE) == Ok(huge)));
}

/// S2-022, S2-027: the order of hints, not of addresses, and processes in turns.
#[test]
fn hints_are_followed_in_their_order_and_processes_in_turns() {
    let mut w = elastic(&DAEMON.replace("coala\"\nlinux", "buddy\"\nlinux"), 128);
    for pid in 1..3 {
        w.event(pid, &mmap(BASE, 8 * HUGE, Prot::RW));
        for page in [0, 1, 2, 5].map(|huge| huge * 512) {
            w.store(pid, BASE + page * PAGE, 1).unwrap();
        }
    }
    let (a, b) = ([5, 1, 2], [0, 5, 1]);
    for (pid, order) in [(1, a), (2, b)] {
        for huge in order {
            hint(&mut w, pid, BASE + huge * HUGE, HUGE, P2M);
        }
    }
    let mut seen = Vec::new();
    for _ in 0..3 {
        seen.extend(tick(&mut w, 1).into_iter().map(|(va, _)| (va - BASE) / HUGE));
    }
    assert_eq!(&seen[..6], [5, 0, 1, 5, 2, 1], "process 1 and 2 in turns, each in the order of its hints");
}

/// S2-056: a hot spot at the end of the address space. With a budget of one region a scan, hints come to it first, the
/// linear scan last.
#[test]
fn a_hot_tail_is_promoted_first_with_hints_and_last_without() {
    let budget = "daemon = { pages_to_scan = 512, max_ptes_none = 511 }";
    let linear = format!("promotion = {{ when = \"daemon\", {budget} }}");
    let hinted = format!(
        "hints.from = \"page-sizes\"\npromotion = {{ when = \"daemon\", by = \"coala-khugepaged\", {budget} }}"
    );
    let scans = |sections: &str, hints: bool| {
        let mut w = elastic(sections, 128);
        w.event(1, &mmap(BASE, 16 * HUGE, Prot::RW));
        for huge in 0..16 {
            w.store(1, BASE + huge * HUGE, 1).unwrap();
        }
        if hints {
            hint(&mut w, 1, BASE + 15 * HUGE, HUGE, P2M);
        }
        let tail = BASE + 15 * HUGE;
        (1..40).find(|_| {
            w.event(1, &Event::Tick);
            w.walk(1, tail, None).is_some_and(|leaf| leaf.order == P2M)
        })
    };
    assert_eq!((scans(&hinted, true), scans(&linear, false)), (Some(1), Some(16)));
}

/// Sixteen pages of 2 MiB, base pages and holes become 32 MiB; pages of 2 MiB move whole.
#[test]
fn thirty_two_mebibytes_are_brought_together() {
    let sections = format!("{DAEMON}fault = {{ sizes = [\"2M\"] }}\n");
    let mut w = elastic(&sections.replace("511 }", "511, pages_to_scan = 100000 }"), 256);
    w.event(1, &mmap(BASE, GIANT, Prot::RW));
    w.event(1, &mmap(OTHER, 2 * GIANT, Prot::RW));
    // Fourteen pages of 2 MiB, of which two come from elsewhere; one part of base pages; one hole.
    for huge in 0..12 {
        w.store(1, BASE + huge * HUGE, huge).unwrap();
    }
    for huge in [12, 13] {
        w.store(1, OTHER + (huge + 3) * HUGE, huge).unwrap();
        let (old, new) = (VirtAddr::new(OTHER + (huge + 3) * HUGE), VirtAddr::new(BASE + huge * HUGE));
        w.event(1, &Event::Mremap { old, old_len: HUGE, new, new_len: HUGE, keep_old: false });
    }
    w.event(1, &Event::Madvise { addr: VirtAddr::new(BASE + 14 * HUGE), len: HUGE, advice: Advice::Nohugepage });
    for page in 0..512 {
        w.store(1, BASE + 14 * HUGE + page * PAGE, 1000 + page).unwrap();
    }
    w.event(1, &Event::Madvise { addr: VirtAddr::new(BASE), len: GIANT, advice: Advice::Hugepage });
    hint(&mut w, 1, BASE, GIANT, P32M);
    let promoted = tick(&mut w, 1);
    assert_eq!(promoted.last(), Some(&(BASE, P32M)));
    assert!(lies_together(&mut w, 1, BASE, P32M));
    assert!((0..16).all(|huge| w.walk(1, BASE + huge * HUGE, None).is_some_and(|leaf| leaf.order >= P2M)));
    assert_eq!((happened(&w, EventKind::CoalaInPlace), happened(&w, EventKind::CoalaPromoted32M)), (1, 1));
    assert_eq!(happened(&w, EventKind::CoalaMoved), 3 * 512);
    assert_eq!(happened(&w, EventKind::CoalaFilled), 512);
    for huge in 0..14 {
        assert_eq!(w.load(1, BASE + huge * HUGE), Ok(huge));
    }
    for page in 0..512 {
        assert_eq!(w.load(1, BASE + 14 * HUGE + page * PAGE), Ok(1000 + page));
    }
    w.event(1, &Event::Exit { status: 0 });
    assert_eq!((w.usage().private_bytes, w.usage().mapped.total()), (0, 0));
}

/// Compaction makes a block of 32 MiB out of scattered base pages.
#[test]
fn memory_is_compacted_for_thirty_two_mebibytes() {
    let sections = DAEMON.replace("coala\"\nlinux", "buddy\"\nlinux").replace("511 }", "511, pages_to_scan = 100000 }");
    let mut w = elastic(&sections, 128);
    w.event(1, &mmap(OTHER, 128 << 20, Prot::RW));
    let pages = w.usage().free_bytes / PAGE - 600;
    for page in 0..pages {
        w.store(1, OTHER + page * PAGE, page).unwrap();
    }
    for page in (0..pages).filter(|page| page % 4 != 0) {
        w.event(1, &Event::Madvise { addr: VirtAddr::new(OTHER + page * PAGE), len: PAGE, advice: Advice::Dontneed });
    }
    assert!(!w.kernel.frames().has_block(P32M));
    w.event(1, &mmap(BASE, GIANT, Prot::RW));
    for page in 0..16 {
        // Misaligned with its frame wherever that is, so that nothing is in place.
        w.store(1, BASE + page * HUGE + page * PAGE, page).unwrap();
    }
    hint(&mut w, 1, BASE, GIANT, P32M);
    for _ in 0..3 {
        tick(&mut w, 1);
    }
    assert_eq!(happened(&w, EventKind::CoalaPromoted32M), 1);
    assert!(lies_together(&mut w, 1, BASE, P32M));
    for page in (0..pages).step_by(4) {
        assert_eq!(w.load(1, OTHER + page * PAGE), Ok(page));
    }
}

/// For a block of 32 MiB whole pages of 2 MiB move as well: eight of the lowest 32 MiB that can be empty.
#[test]
fn pages_of_2_mebibytes_move_for_thirty_two() {
    let sections = format!("{}fault = {{ sizes = [\"2M\"] }}\n", DAEMON.replace("coala\"\nlinux", "buddy\"\nlinux"));
    let mut w = elastic(&sections.replace("511 }", "511, pages_to_scan = 100000 }"), 256);
    w.event(1, &mmap(OTHER, 256 << 20, Prot::RW));
    let mut pages = 0;
    while w.kernel.frames().has_block(P2M) {
        w.store(1, OTHER + pages * HUGE, pages).unwrap();
        pages += 1;
    }
    for page in (1..pages).step_by(2) {
        w.event(1, &Event::Madvise { addr: VirtAddr::new(OTHER + page * HUGE), len: HUGE, advice: Advice::Dontneed });
    }
    w.event(1, &mmap(BASE, GIANT, Prot::RW));
    w.event(1, &Event::Madvise { addr: VirtAddr::new(BASE), len: GIANT, advice: Advice::Nohugepage });
    for page in 0..16 {
        // Out of step with its frame wherever that is, so that nothing is in place.
        w.store(1, BASE + page * HUGE + page * PAGE, page).unwrap();
    }
    w.event(1, &Event::Madvise { addr: VirtAddr::new(BASE), len: GIANT, advice: Advice::Hugepage });
    assert!(w.kernel.frames().has_block(P2M) && !w.kernel.frames().has_block(P32M));
    hint(&mut w, 1, BASE, GIANT, P32M);
    tick(&mut w, 1);
    assert_eq!((happened(&w, EventKind::Compaction), happened(&w, EventKind::CoalaPromoted32M)), (1, 1));
    assert!(lies_together(&mut w, 1, BASE, P32M));
    assert_eq!(happened(&w, EventKind::Migrated) - happened(&w, EventKind::CoalaMoved), 8 * 512);
    for page in (0..pages).step_by(2) {
        assert_eq!(w.load(1, OTHER + page * HUGE), Ok(page));
        assert_eq!(w.walk(1, OTHER + page * HUGE, None).map(|leaf| leaf.order), Some(P2M));
    }
}

/// Memory of which `free` is free, in a chunk at the beginning of each 2 MiB, and the rest held by others.
fn held(sections: &str, mebibytes: u64, free: &str, held: HeldPages) -> World {
    let mut desc: KernelDesc = desc(parts(sections), mebibytes);
    desc.memory.max_order = 13;
    desc.memory.fragment = Fragment::Fmfi { target: 1.0, free: free.into(), order: P2M, held };
    World::new(&desc, mebibytes)
}

fn occupants(w: &World) -> u64 {
    w.kernel.frames().occupants(Pfn(0), w.kernel.frames().total_frames()).map(|run| run.1).sum()
}

/// A page of others in the way of a range makes room, if it can move. If it cannot, no block of 64 KiB is free either.
#[test]
fn pages_of_others_make_room_for_a_range() {
    for held_pages in [HeldPages::Movable, HeldPages::Pinned] {
        // Of each 2 MiB eight pages are free.
        let sections = DAEMON.replace("coala\"\nlinux", "buddy\"\nlinux");
        let mut w = held(&sections, 64, "992K", held_pages);
        w.event(1, &mmap(BASE, 0x10000, Prot::RW));
        w.store(1, BASE, 1).unwrap();
        let place = w.frame(1, BASE).unwrap().0 % 16;
        if place != 0 {
            // The frame that was freed last goes out next.
            w.event(1, &Event::Madvise { addr: VirtAddr::new(BASE), len: PAGE, advice: Advice::Dontneed });
            w.store(1, BASE + place * PAGE, 1).unwrap();
        }
        let head = w.frame(1, BASE + place * PAGE).unwrap().0 - place;
        let before = (occupants(&w), w.usage().free_bytes);
        hint(&mut w, 1, BASE, 0x10000, P64K);
        let promoted = tick(&mut w, 1);
        assert_eq!(w.load(1, BASE + place * PAGE), Ok(1));
        if held_pages == HeldPages::Movable {
            assert_eq!(promoted, [(BASE, P64K)]);
            assert_eq!(w.frame(1, BASE), Some(Pfn(head)));
            assert!(lies_together(&mut w, 1, BASE, P64K));
            assert_eq!((happened(&w, EventKind::CoalaInPlace), happened(&w, EventKind::CoalaDisplaced)), (1, 8));
        } else {
            assert_eq!(promoted, []);
            assert_eq!((refused(&w, Refusal::CoalaUnmovable), refused(&w, Refusal::CoalaNoBlock)), (1, 1));
        }
        assert_eq!(occupants(&w), before.0, "none of them is lost");
        let filled = happened(&w, EventKind::CoalaFilled) * PAGE;
        assert_eq!(w.usage().free_bytes + filled, before.1);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever faults, daemons and compaction do to memory that others hold, none of their pages is lost, and none of
    /// their frames is a program's. Every frame is accounted for, and the program finds what it stored.
    #[test]
    fn pages_of_others_are_never_lost(
        chunk in 8u64..250,
        stores in prop::collection::vec((0u64..4096, any::<bool>()), 1..150),
        hints in prop::collection::vec((0u64..256, prop::sample::select(vec![P64K, P2M])), 1..12),
    ) {
        let free = format!("{}K", 63 * chunk * 4);
        let mut w = held(DAEMON, 128, &free, HeldPages::Movable);
        let all = occupants(&w);
        w.event(1, &mmap(BASE, 16 << 20, Prot::RW));
        for (start, size) in hints {
            let at = (BASE + start * 0x10000) & !(size.bytes() - 1);
            hint(&mut w, 1, at, size.bytes(), size);
        }
        let mut kept = std::collections::BTreeMap::new();
        for (n, (page, ticks)) in stores.into_iter().enumerate() {
            if w.store(1, BASE + page * PAGE, n as u64 + 1).is_err() {
                break;
            }
            kept.insert(page, n as u64 + 1);
            if ticks {
                tick(&mut w, 1);
            }
        }
        prop_assert_eq!(occupants(&w), all);
        for (page, n) in kept {
            prop_assert_eq!(w.load(1, BASE + page * PAGE), Ok(n));
            let pfn = w.frame(1, BASE + page * PAGE).expect("mapped");
            prop_assert!(!w.kernel.frames().is_occupant(pfn));
        }
        let usage = w.usage();
        // Beside the program's pages and tables, the kernel has the page of zeros and the 256 frames of the machine.
        let used = (usage.private_bytes + usage.table_bytes + usage.free_bytes) / PAGE + all + 1 + 256;
        prop_assert_eq!(used, w.kernel.frames().total_frames());
    }
}

/// A profiler's hints for a process that has ended meanwhile are refused by their name.
#[test]
fn hints_for_a_process_that_ended_are_counted() {
    let mut w = elastic(DAEMON, 128);
    w.event(1, &mmap(BASE, HUGE, Prot::RW));
    let hints = [(VirtRange::sized(VirtAddr::new(BASE), HUGE), P2M)];
    let rehint = |w: &mut World| w.kernel.rehint(&mut w.mem, Pid(1), &hints, &mut w.effects);
    rehint(&mut w);
    assert_eq!((happened(&w, EventKind::HintTaken), refused(&w, Refusal::HintEnded)), (1, 0));
    w.event(1, &Event::Exit { status: 0 });
    rehint(&mut w);
    assert_eq!((happened(&w, EventKind::HintTaken), refused(&w, Refusal::HintEnded)), (1, 1));
}

/// Without hints the daemon scans from the lowest address on, in ranges of 32 MiB, and of 2 MiB behind them.
#[test]
fn without_hints_ranges_of_32_mebibytes_come_first() {
    let sections = "promotion = { when = \"daemon\", by = \"coala-khugepaged\", serves = \"all\", \
                    daemon = { pages_to_scan = 20000 } }";
    let mut w = elastic(sections, 256);
    w.event(1, &mmap(BASE, 2 * GIANT + HUGE, Prot::RW));
    for huge in 0..33 {
        w.store(1, BASE + huge * HUGE, huge).unwrap();
    }
    assert_eq!(tick(&mut w, 1), [(BASE, P32M), (BASE + GIANT, P32M), (BASE + 2 * GIANT, P2M)]);
    assert_eq!((happened(&w, EventKind::CoalaMovedWhole) > 0, happened(&w, EventKind::KhugepagedCollapse)), (true, 0));
    for huge in 0..33 {
        assert_eq!(w.load(1, BASE + huge * HUGE), Ok(huge));
    }
}

/// M030: only processes with hints are the daemon's; khugepaged's scan serves the others.
#[test]
fn a_hint_turns_the_daemon_on_for_its_process() {
    let mut w = elastic(&DAEMON.replace("coala\"\nlinux", "buddy\"\nlinux"), 128);
    for pid in [1, 2] {
        w.event(pid, &mmap(BASE, HUGE, Prot::RW));
        w.store(pid, BASE, 1).unwrap();
    }
    hint(&mut w, 1, BASE + 0x100000, 0x10000, P64K);
    tick(&mut w, 1);
    assert!(w.walk(1, BASE, None).is_some_and(|leaf| leaf.order < P2M), "its hint does not name this memory");
    assert!(w.walk(2, BASE, None).is_some_and(|leaf| leaf.order == P2M));
    assert_eq!(happened(&w, EventKind::KhugepagedCollapse), 1);
}

/// Hints that make no sense are counted under their names, and change nothing.
#[test]
fn senseless_hints_have_names() {
    let mut w = elastic(DAEMON, 128);
    w.event(1, &mmap(BASE, HUGE, Prot::RW));
    w.event(1, &mmap_file(OTHER, HUGE, Prot::RW, false, "/a", 0));
    hint(&mut w, 1, BASE, HUGE, PageOrder::P1G);
    hint(&mut w, 1, BASE, HUGE, PageOrder::P16K);
    assert_eq!(refused(&w, Refusal::HintSize), 2);
    hint(&mut w, 1, BASE + PAGE, 0x10000, P64K);
    assert_eq!(refused(&w, Refusal::HintTooSmall), 1);
    assert_eq!(happened(&w, EventKind::HintTaken), 0);
    hint(&mut w, 1, OTHER, 0x10000, P64K);
    hint(&mut w, 1, 8 * BASE, 0x10000, P64K);
    hint(&mut w, 1, BASE + HUGE - 0x10000, HUGE, P64K);
    hint(&mut w, 1, BASE + HUGE - 0x20000, 0x20000, P64K);
    assert_eq!((happened(&w, EventKind::HintTaken), happened(&w, EventKind::HintReplaced)), (4, 1));
    tick(&mut w, 1);
    assert_eq!(refused(&w, Refusal::HintNotAnonymous), 1);
    assert_eq!(refused(&w, Refusal::HintUnmapped), 1);
    assert_eq!(refused(&w, Refusal::KhugepagedEmpty), 2);
    // Memory that is to have no huge pages keeps its base pages.
    let mut w = elastic(DAEMON, 128);
    w.event(1, &mmap(BASE, HUGE, Prot::RW));
    w.event(1, &Event::Madvise { addr: VirtAddr::new(BASE), len: HUGE, advice: Advice::Nohugepage });
    w.store(1, BASE, 1).unwrap();
    hint(&mut w, 1, BASE, HUGE, P2M);
    assert!(tick(&mut w, 1).is_empty());
    assert_eq!(refused(&w, Refusal::HintNotEligible), 1);
    // Nobody listens under another policy.
    let mut w = elastic("placement.frames = \"coala\"", 128);
    hint(&mut w, 1, BASE, HUGE, P2M);
    assert_eq!(refused(&w, Refusal::HintIgnored), 1);
}

/// Hints loaded ahead hold for the program that a process starts later; senseless ones are refused with a reason.
#[test]
fn hints_are_loaded_ahead_of_the_program() {
    let mut w = elastic(DAEMON, 128);
    let range = |start: u64, len: u64| VirtRange::sized(VirtAddr::new(start), len);
    let mut effects = Effects::default();
    let load =
        |w: &mut World, range, size, effects: &mut Effects| w.kernel.hint(&mut w.mem, Pid(1), range, size, effects);
    load(&mut w, range(BASE, HUGE), P2M, &mut effects).unwrap();
    let wrong = |result: Result<(), KernelError>| result.expect_err("refused").to_string();
    let error = wrong(load(&mut w, range(BASE, HUGE), PageOrder::P1G, &mut effects));
    assert!(error.starts_with("hints: the hint of 1G at 0x40000000..0x40200000: the page table has no such size"));
    assert!(wrong(load(&mut w, range(BASE, 0x10000), P2M, &mut effects)).contains("holds no aligned page of 2M"));
    assert!(wrong(load(&mut w, range(BASE + 1, HUGE), P64K, &mut effects)).contains("multiple of 4K"));
    let mut deaf = elastic("placement.frames = \"coala\"", 128);
    assert!(wrong(load(&mut deaf, range(BASE, HUGE), P2M, &mut effects)).contains("hints.from = \"page-sizes\""));
    for path in ["/bin/a", "/bin/b"] {
        w.event(1, &Event::Exec { path: path.into() });
        w.event(1, &mmap(BASE, HUGE, Prot::RW));
        w.store(1, BASE, 1).unwrap();
        assert_eq!(tick(&mut w, 1), [(BASE, P2M)]);
    }
}

/// S2-019: within the reach of the TLBs, base pages come to lie together in 64 KiB. Beyond it, pages of 2 MiB come to
/// lie together in 32 MiB, and pages are smaller if no block is free.
#[test]
fn the_size_of_a_mapping_chooses_between_base_pages_and_huge_ones() {
    let sections = "placement.frames = \"coala\"\nfault = { sizes = [\"2M\"], reach = \"80M\" }";
    for (mebibytes, is_huge) in [(80u64, false), (82, true)] {
        let mut w = elastic(sections, 256);
        w.event(1, &mmap(BASE, mebibytes << 20, Prot::RW));
        for page in (0..16).rev() {
            let order = if is_huge { HUGE } else { PAGE };
            w.access(1, BASE + page * order, Access::Write).unwrap();
        }
        assert!(lies_together(&mut w, 1, BASE, if is_huge { P32M } else { P64K }), "{mebibytes} MiB");
        assert_eq!(w.kernel.counts().huge_faults, if is_huge { 16 } else { 0 });
        assert_eq!(w.usage().private_bytes, 16 * if is_huge { HUGE } else { PAGE });
    }
    // No block of 2 MiB is left: 64 KiB of base pages; and no block of 64 KiB: a base page.
    let mut w = elastic(sections, 32);
    w.event(1, &mmap(OTHER, 64 << 20, Prot::RW));
    w.event(1, &Event::Madvise { addr: VirtAddr::new(OTHER), len: 64 << 20, advice: Advice::Nohugepage });
    w.event(1, &mmap(BASE, 96 << 20, Prot::RW));
    let mut page = 0;
    while w.kernel.frames().has_block(P2M) {
        w.access(1, OTHER + page * PAGE, Access::Write).unwrap();
        page += 1;
    }
    for page in 0..16 {
        w.access(1, BASE + page * PAGE, Access::Write).unwrap();
    }
    assert!(lies_together(&mut w, 1, BASE, P64K));
    assert_eq!((w.kernel.counts().huge_faults, refused(&w, Refusal::ThpNoBlock) > 0), (0, true));
}

/// S2-027: hints that guide faults override the size of the mapping, in both directions.
#[test]
fn hints_guide_faults_where_the_policy_says_so() {
    for at_faults in [true, false] {
        let mut w = elastic(
            &format!(
                "placement.frames = \"coala\"\nfault = {{ sizes = [\"2M\"], reach = \"80M\" }}\n\
                 promotion = {{ when = \"daemon\", by = \"coala-khugepaged\" }}\n\
                 hints = {{ from = \"page-sizes\", at_faults = {at_faults} }}"
            ),
            256,
        );
        w.event(1, &mmap(BASE, 8 << 20, Prot::RW));
        w.event(1, &mmap(OTHER, 100 << 20, Prot::RW));
        hint(&mut w, 1, BASE + HUGE, HUGE, P2M);
        hint(&mut w, 1, OTHER, HUGE, P64K);
        let mut size = |va: u64| {
            w.access(1, va, Access::Write).unwrap();
            w.walk(1, va, None).unwrap().order
        };
        let small = PageOrder::P4K;
        let expected = if at_faults { [P2M, small, small, small] } else { [small, small, P2M, P2M] };
        assert_eq!([size(BASE + HUGE), size(BASE), size(OTHER), size(OTHER + 8 * HUGE)], expected);
    }
}

/// Parts that contradict each other are refused under the key to change.
#[test]
fn contradictions_name_the_key() {
    let key = |sections: &str| refused_key(parts(sections), 128);
    let coala = "promotion = { when = \"daemon\", by = \"coala-khugepaged\" }";
    assert_eq!(key(coala), "promotion.serves");
    assert_eq!(key("hints.from = \"page-sizes\""), "hints.from");
    assert_eq!(key("hints.at_faults = true\nfault.sizes = [\"2M\"]"), "hints.at_faults");
    assert_eq!(key("hints = { from = \"page-sizes\", at_faults = true }"), "hints.at_faults");
    assert_eq!(key("fault.reach = \"80M\""), "fault.reach");
    assert_eq!(key("fault = { sizes = [\"2M\"], reach = \"0\" }"), "fault.reach");
    assert_eq!(key("promotion.by = \"coala-khugepaged\""), "promotion.by");
    assert_eq!(key("promotion = { when = \"daemon\", serves = \"all\" }"), "promotion.serves");
    let copy = "promotion = { when = \"daemon\", by = \"coala-khugepaged\", serves = \"all\", how = \"copy\" }";
    assert_eq!(key(copy), "promotion.how");
}

/// Hints of 1 GiB (left open by paper 3, section VI) are refused unless the policy sets `giant`. With `giant`, the
/// mapped pages are copied into a free GiB.
#[test]
fn a_hint_of_a_gibibyte_is_taken_where_the_policy_says_so() {
    for giant in [false, true] {
        let policy = parts(&format!(
            "linux.zero_page = false\npromotion = {{ when = \"daemon\", by = \"coala-khugepaged\" }}\n\
             hints = {{ from = \"page-sizes\", giant = {giant} }}"
        ));
        let mut w = World::new(&desc(policy, 3 << 10), 3 << 10);
        w.event(1, &mmap(BASE, 1 << 30, Prot::RW));
        for page in (0..512).map(|region| region * 512) {
            w.access(1, BASE + page * PAGE, Access::Write).unwrap();
        }
        let advice = Advice::PageSize(PageOrder::P1G);
        w.event(1, &Event::Madvise { addr: VirtAddr::new(BASE), len: 1 << 30, advice });
        w.event(1, &Event::Tick);
        // A process whose hint was refused has none: the linear scan of khugepaged serves it.
        let expected = if giant { PageOrder::P1G } else { PageOrder::P2M };
        assert_eq!(w.walk(1, BASE, None).map(|leaf| leaf.order), Some(expected));
        assert_eq!(refused(&w, Refusal::HintSize), u64::from(!giant));
        assert_eq!(happened(&w, EventKind::CoalaPromoted1G), u64::from(giant));
    }
}

/// Demotion by hints (left open by paper 3): a hint of a smaller size takes pages apart, if the policy says so, once.
#[test]
fn a_hint_of_a_smaller_size_takes_pages_apart() {
    for (demote, hinted, expected) in [
        (true, PageOrder::P4K, 512),
        (true, PageOrder::P64K, 512),
        (true, PageOrder::P2M, 1),
        (false, PageOrder::P4K, 1),
    ] {
        let policy = parts(&format!(
            "fault.sizes = [\"2M\"]\npromotion = {{ when = \"daemon\", by = \"coala-khugepaged\" }}\n\
             hints = {{ from = \"page-sizes\", demote = {demote} }}"
        ));
        let mut w = World::new(&desc(policy, 64), 64);
        w.event(1, &mmap(BASE, 4 << 20, Prot::RW));
        w.store(1, BASE, 7).unwrap();
        w.store(1, BASE + (2 << 20), 8).unwrap();
        let advice = Advice::PageSize(hinted);
        w.event(1, &Event::Madvise { addr: VirtAddr::new(BASE), len: 2 << 20, advice });
        w.event(1, &Event::Tick);
        let leaves = |w: &mut World, from: u64| {
            let orders = (0..512).map(|i| w.walk(1, from + i * PAGE, None).unwrap().order.base_pages());
            512 / orders.min().unwrap()
        };
        assert_eq!(leaves(&mut w, BASE), expected, "{demote} {hinted}");
        assert_eq!(leaves(&mut w, BASE + (2 << 20)), 1, "outside the hint");
        assert_eq!((w.load(1, BASE), w.load(1, BASE + (2 << 20))), (Ok(7), Ok(8)));
        let times = happened(&w, EventKind::HintDemoted);
        w.event(1, &Event::Tick);
        assert_eq!(happened(&w, EventKind::HintDemoted), times, "nothing is left to take apart");
    }
}

/// The hints that the last event or fault handed on: first frame and size of each block.
fn handed_on(w: &mut World) -> Vec<(u64, PageOrder)> {
    std::mem::take(&mut w.effects.hinted).iter().map(|block| (block.first.0, block.size)).collect()
}

/// A hint of 32M, which no fault maps at once, is handed on by the fault that completes its block. The daemon finds the
/// block made, and hands nothing on a second time.
#[test]
fn a_hint_that_faults_follow_step_by_step_is_handed_on() {
    let mut w = elastic(&format!("{}hints.at_faults = true\nfault = {{ sizes = [\"2M\"] }}\n", DAEMON), 256);
    w.kernel.tell_hinted();
    w.event(1, &mmap(BASE, 2 * GIANT, Prot::RW));
    hint(&mut w, 1, BASE, GIANT, P32M);
    // The middle comes last, so that no end says what is missing.
    for huge in (0..16).filter(|huge| *huge != 7) {
        w.store(1, BASE + huge * HUGE, huge).unwrap();
        assert_eq!(handed_on(&mut w), [], "{huge}");
    }
    w.store(1, BASE + 7 * HUGE, 7).unwrap();
    let head = w.frame(1, BASE).unwrap();
    assert!(lies_together(&mut w, 1, BASE, P32M));
    assert_eq!(handed_on(&mut w), [(head.0, P32M)]);
    tick(&mut w, 1);
    assert_eq!(handed_on(&mut w), [], "the host has it");
    // Memory that no hint names.
    w.store(1, BASE + GIANT, 1).unwrap();
    assert_eq!(handed_on(&mut w), []);
}

/// Where hints do not guide faults, the daemon hands on the blocks that it finds made as a hint asks.
#[test]
fn a_block_that_the_daemon_finds_made_is_handed_on() {
    let mut w = elastic(&format!("{DAEMON}fault = {{ sizes = [\"2M\"] }}\n"), 256);
    w.kernel.tell_hinted();
    w.event(1, &mmap(BASE, GIANT, Prot::RW));
    for huge in 0..16 {
        w.store(1, BASE + huge * HUGE, huge).unwrap();
    }
    tick(&mut w, 1);
    assert_eq!(handed_on(&mut w), [], "no hint");
    let head = w.frame(1, BASE).unwrap().0;
    hint(&mut w, 1, BASE, GIANT, P32M);
    assert_eq!((tick(&mut w, 1), handed_on(&mut w)), (vec![], vec![(head, P32M)]));
    tick(&mut w, 1);
    assert_eq!(handed_on(&mut w), []);
    // The host would forget its hint for one of another size.
    hint(&mut w, 1, BASE, HUGE, P2M);
    tick(&mut w, 1);
    assert_eq!(handed_on(&mut w), [(head, P2M)]);
    hint(&mut w, 1, BASE, GIANT, P32M);
    tick(&mut w, 1);
    assert_eq!(handed_on(&mut w), [(head, P32M)]);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    /// Pages come and go in any order. A fault hands a hint on if its block lies together after it and the host does
    /// not have the hint. The model looks at every page of the block.
    #[test]
    fn hints_are_handed_on_when_their_blocks_are_whole(
        steps in prop::collection::vec(
            (0u64..40, prop::sample::select(vec!["store", "store", "store", "load", "drop"])),
            0..250,
        ),
        zero_page in any::<bool>(),
    ) {
        let sections = DAEMON.replace("linux.zero_page = false", &format!("linux.zero_page = {zero_page}"));
        let mut w = elastic(&format!("{sections}hints.at_faults = true\nfault = {{ sizes = [\"2M\"] }}\n"), 128);
        w.kernel.tell_hinted();
        w.event(1, &mmap(BASE, 1 << 20, Prot::RW));
        // The third block has no hint.
        hint(&mut w, 1, BASE, 2 * P64K.bytes(), P64K);
        let mut host = std::collections::BTreeSet::new();
        // Both blocks fill up, in another order than that of their addresses. A page without a hint would take a frame
        // between theirs.
        let fill = (0..32).map(|page| (page * 11 % 32, "store"));
        for (page, what) in fill.chain(steps) {
            let at = BASE + page * PAGE;
            match what {
                "store" => drop(w.store(1, at, page).unwrap()),
                "load" => drop(w.load(1, at).unwrap()),
                _ => w.event(1, &Event::Madvise { addr: VirtAddr::new(at), len: PAGE, advice: Advice::Dontneed }),
            }
            let told = handed_on(&mut w);
            let block = BASE + page / 16 * P64K.bytes();
            let mut expected = vec![];
            if what != "drop" && page < 32 && lies_together(&mut w, 1, block, P64K) {
                let head = w.frame(1, block).unwrap().0;
                if host.insert(head) {
                    expected.push((head, P64K));
                }
            }
            prop_assert_eq!(told, expected, "{} {}", what, page);
        }
        prop_assert!(host.len() >= 2, "both blocks were whole once");
    }
}
