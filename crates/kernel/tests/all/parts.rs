//! Policies put together of parts: what they do, and which of them are refused by name.

use crate::common::{BASE, PAGE, World, desc, mmap, mmap_file, parts};
use mmulab_addr::{Access, PageOrder, Prot, VirtAddr};
use mmulab_frames::PhysMem;
use mmulab_kernel::{EventKind, Kernel, KernelDesc, KernelError, PolicyDesc, Refusal, WorkKind};
use mmulab_pagetable::{Leaf, TableDesc, TableKind};

/// Private anonymous memory.
fn anon(addr: u64, len: u64) -> mmulab_trace::Event {
    mmap(addr, len, Prot::RW)
}

fn touch(w: &mut World, va: u64, access: Access) {
    w.access(1, va, access).expect("mapped, and memory is left");
}

fn leaf(w: &mut World, va: u64) -> Leaf {
    w.walk(1, va, None).expect("mapped")
}

/// The key under which a policy is refused, and the message.
fn refused(policy: PolicyDesc, table: TableDesc) -> (String, String) {
    match Kernel::new(&KernelDesc { table, ..desc(policy, 64) }, &mut PhysMem::new(64 << 20)) {
        Err(KernelError::Description { key, message }) => (key, message),
        Err(other) => panic!("refused otherwise: {other}"),
        Ok(_) => panic!("not refused"),
    }
}

#[test]
fn parts_that_contradict_each_other_are_refused_by_name() {
    let reserved = "placement = { frames = \"reservation\", levels = [\"2M\"] }";
    let cases = [
        ("fault.sizes = [\"4K\"]", "fault.sizes", "is the base page"),
        ("fault.sizes = [\"32M\"]", "fault.sizes", "no page of 32M"),
        ("fault.sizes = [\"64K\", \"64K\"]", "fault.sizes", "given twice"),
        (&format!("fault.sizes = [\"64K\"]\n{reserved}"), "fault.sizes", "one by one"),
        ("fault = { by = \"base\", sizes = [\"2M\"] }", "fault.sizes", "maps base pages only"),
        ("fault = { by = \"by-reach\", sizes = [\"2M\"] }", "fault.reach", "needs it"),
        (
            "fault = { by = \"listed\", sizes = [\"2M\"], reach = \"80M\" }",
            "fault.reach",
            "only by = \"by-reach\" reads it",
        ),
        ("fault = { by = \"thp\", sizes = [\"2M\"] }", "fault.by", "set kind to that"),
        ("fault = { by = \"pool\", sizes = [\"2M\"] }", "fault.by", "set kind to that"),
        ("fault.by = \"listed\"", "fault.by", "which are none"),
        ("placement.levels = [\"2M\"]", "placement.levels", "only frames = \"reservation\""),
        ("placement.frames = \"reservation\"", "placement.levels", "need sizes"),
        ("placement = { frames = \"reservation\", levels = [\"4K\"] }", "placement.levels", "cannot be"),
        ("promotion.when = \"full\"", "promotion.when", "needs frames that lie together"),
        (
            "placement = { frames = \"reservation\", levels = [\"64K\"] }\npromotion.when = \"full\"",
            "promotion.when",
            "placement.levels = [\"2M\"]",
        ),
        (&format!("promotion.when = \"daemon\"\n{reserved}"), "promotion.when", "promoted in place"),
        ("promotion = { when = \"daemon\", size = \"64K\" }", "promotion.size", "only faults promote to 64K"),
        (
            "placement = { frames = \"reservation\", levels = [\"2M\"] }\n\
             promotion = { when = \"full\", size = \"64K\" }",
            "promotion.size",
            "has no page of 64K",
        ),
        ("zeroing.sleep_ms = 5", "zeroing.sleep_ms", "set when = \"ahead\""),
        ("zeroing.pages_per_wake = 5", "zeroing.pages_per_wake", "set when = \"ahead\""),
        ("zeroing = { when = \"ahead\", pages_per_wake = 0 }", "zeroing.pages_per_wake", "at least 1"),
        ("reclaim.scale_factor = 20", "reclaim.scale_factor", "set when = \"watermarks\""),
        ("promotion = { when = \"daemon\", how = \"in-place\" }", "promotion.how", "faults promote in place"),
        ("promotion.how = \"copy\"", "promotion.how", "a daemon promotes by copy"),
        ("promotion.daemon = {}", "promotion.daemon", "no daemon runs"),
        ("promotion = { when = \"daemon\", fair = true }", "promotion.fair", "only ingens has fair shares"),
        ("promotion = { when = \"daemon\", recovery = {} }", "promotion.recovery", "only hawkeye recovers"),
        (
            "promotion = { when = \"daemon\", by = \"hawkeye\", recovery.above_percent = 101 }",
            "promotion.recovery.above_percent",
            "0 to 100",
        ),
        (
            "promotion = { when = \"daemon\", by = \"hawkeye\", recovery.above_percent = 69 }",
            "promotion.recovery.below_percent",
            "at most above_percent, which is 69",
        ),
        (
            "promotion = { when = \"daemon\", by = \"hawkeye\", recovery.zero_pages = 513 }",
            "promotion.recovery.zero_pages",
            "1 to 512",
        ),
        (
            "promotion = { when = \"daemon\", daemon = { max_ptes_none = 512 } }",
            "promotion.daemon.max_ptes_none",
            "511",
        ),
        ("promotion.when = \"threshold\"", "promotion.threshold", "needs it"),
        ("promotion = { when = \"daemon\", threshold = 9 }", "promotion.threshold", "goes with"),
        ("promotion = { when = \"daemon\", needs_accessed = true }", "promotion.needs_accessed", "only when"),
        ("promotion.enabled = \"madvise\"", "promotion.enabled", "where a daemon looks"),
        (
            "fault = { sizes = [\"64K\"], enabled = \"madvise\" }\nhints.from = \"none\"",
            "fault.enabled",
            "nobody gives",
        ),
        (
            "promotion = { when = \"daemon\", enabled = \"madvise\" }\nhints.from = \"none\"",
            "promotion.enabled",
            "nobody gives",
        ),
        ("thp = {}", "thp", "another kind"),
    ];
    for (sections, key, words) in cases {
        let found = refused(parts(sections), TableDesc::default());
        assert_eq!(found.0, key, "{sections}: {}", found.1);
        assert!(found.1.contains(words), "{sections}: {}", found.1);
    }
    let early = "placement = { frames = \"reservation\", levels = [\"2M\"] }\n\
                 promotion = { when = \"threshold\", threshold = 16, size = \"64K\" }";
    let arm = TableDesc::new(TableKind::Arm, 4).expect("four levels");
    let (key, message) = refused(parts("fault.sizes = [\"32M\"]"), arm.clone());
    assert!(key == "fault.sizes" && message.contains("memory.max_order is 10: set it to 13"), "{key}: {message}");
    let (key, message) = refused(parts(early), arm);
    assert!(key == "promotion.threshold" && message.contains("1 to 15 pages"), "{key}: {message}");
    let mut freebsd = PolicyDesc::freebsd();
    freebsd.linux.implicit_vma = mmulab_kernel::Bytes(3 << 10);
    assert_eq!(refused(freebsd, TableDesc::default()).0, "linux.implicit_vma");
    let stray = PolicyDesc { fault: parts("fault.sizes = [\"64K\"]").fault, ..PolicyDesc::linux_4k() };
    assert_eq!(refused(stray, TableDesc::default()).0, "fault");
}

#[test]
fn a_listed_size_is_one_leaf_where_the_table_has_it() {
    let eager = "linux.zero_page = false\nfault.sizes = [\"64K\"]";
    let mapped = |table| {
        let mut w = World::new(&KernelDesc { table, ..desc(parts(eager), 64) }, 64);
        w.event(1, &anon(BASE, 32 * PAGE));
        touch(&mut w, BASE + 5 * PAGE, Access::Read);
        w.usage().mapped.iter().map(|(order, now, _)| (order, now)).collect::<Vec<_>>()
    };
    assert_eq!(mapped(TableDesc::default()), [(PageOrder::P4K, 65536)], "sixteen base pages");
    let arm = TableDesc::new(TableKind::Arm, 4).expect("four levels");
    assert_eq!(mapped(arm), [(PageOrder::P64K, 65536)], "one leaf of contiguous entries");
}

#[test]
fn listed_sizes_are_tried_from_the_largest_down_and_one_reason_is_counted_for_each_family() {
    let mut w = World::new(&desc(parts("fault.sizes = [\"16K\", \"2M\", \"64K\"]"), 64), 64);
    w.event(1, &anon(BASE, (2 << 20) + 8 * PAGE));
    touch(&mut w, BASE, Access::Write);
    assert_eq!(w.usage().mapped.bytes(PageOrder::P2M), 2 << 20);
    // 32 KiB behind it: 2M and 64K reach outside, 16K fits.
    touch(&mut w, BASE + (2 << 20), Access::Write);
    assert_eq!(w.usage().mapped.bytes(PageOrder::P4K), 16 << 10);
    let refusals = &w.kernel.counts().refusals;
    assert_eq!((refusals.get(Refusal::ThpOutsideVma), refusals.get(Refusal::MthpOutsideVma)), (1, 0));
}

#[test]
fn hints_that_nobody_gives_are_ignored() {
    let huge = |hints: &str| {
        let sections = format!("linux.zero_page = false\nfault.sizes = [\"2M\"]\nhints.from = \"{hints}\"");
        let mut w = World::new(&desc(parts(&sections), 64), 64);
        w.event(1, &anon(BASE, 2 << 20));
        w.event(
            1,
            &mmulab_trace::Event::Madvise {
                addr: VirtAddr::new(BASE),
                len: 2 << 20,
                advice: mmulab_trace::Advice::Nohugepage,
            },
        );
        touch(&mut w, BASE, Access::Write);
        w.usage().mapped.bytes(PageOrder::P2M) > 0
    };
    assert!(huge("none") && !huge("madvise"));
}

/// The first frame of each run of pages from `BASE` on, and its length.
fn runs(w: &mut World, pages: u64) -> Vec<(u64, u64)> {
    let mut runs: Vec<(u64, u64)> = Vec::new();
    for page in 0..pages {
        let pfn = leaf(w, BASE + page * PAGE).pfn.0;
        match runs.last_mut() {
            Some((first, length)) if *first + *length == pfn => *length += 1,
            _ => runs.push((pfn, 1)),
        }
    }
    runs
}

#[test]
fn neighbours_lie_beside_each_other_whatever_the_order_of_faults() {
    let orders: [fn(u64) -> u64; 3] = [|i| i, |i| 63 - i, |i| i * 37 % 64];
    for (frames, whole) in [("neighbour", true), ("buddy", false)] {
        for order in orders {
            let policy = parts(&format!("placement.frames = \"{frames}\""));
            let mut w = World::new(&desc(policy, 64), 64);
            w.event(1, &anon(BASE, 64 * PAGE));
            // Another mapping, far away, faults in turn.
            w.event(1, &anon(BASE + (64 << 20), 64 * PAGE));
            for i in 0..64 {
                touch(&mut w, BASE + order(i) * PAGE, Access::Write);
                touch(&mut w, BASE + (64 << 20) + i * PAGE, Access::Write);
            }
            let found = runs(&mut w, 64);
            assert_eq!(found.len() == 1, whole, "{frames}: {found:?}");
            assert!(!whole || found[0].0 % 512 == (BASE / PAGE) % 512, "{found:?}: each page at its own offset");
        }
    }
}

#[test]
fn scattered_pages_lie_apart_whatever_the_order_of_faults() {
    let frames_of = |pid: u32, order: fn(u64) -> u64| -> Vec<u64> {
        let mut w = World::new(&desc(parts("placement.frames = \"scattered\""), 64), 64);
        w.event(pid, &anon(BASE, 64 * PAGE));
        (0..64).for_each(|i| drop(w.access(pid, BASE + order(i) * PAGE, Access::Write).unwrap()));
        (0..64).map(|page| w.frame(pid, BASE + page * PAGE).expect("mapped").0).collect()
    };
    let found = frames_of(1, |i| i);
    assert!(found.windows(2).all(|pair| pair[0].abs_diff(pair[1]) > 1), "{found:?}");
    assert_eq!(found, frames_of(1, |i| 63 - i), "the order of faults does not matter");
    let other = frames_of(2, |i| i);
    assert!(found.iter().zip(&other).all(|(one, two)| one != two), "another process has other frames");
}

/// Paper 3, section IV-B (S2-012, S2-015, S2-017): whatever the order of faults, and whoever else faults in between.
#[test]
fn coalapaging_puts_sixteen_pages_into_a_block_of_their_own() {
    let orders: [fn(u64) -> u64; 4] = [|i| i, |i| 15 - i, |i| i * 7 % 16, |i| i ^ 5];
    for order in orders {
        let mut w = World::new(&desc(parts("placement.frames = \"coala\""), 64), 64);
        w.event(1, &anon(BASE, 16 * PAGE));
        w.event(2, &mmap(2 * BASE, 16 * PAGE, Prot::RW));
        for i in 0..16 {
            touch(&mut w, BASE + order(i) * PAGE, Access::Write);
            w.access(2, 2 * BASE + i * PAGE, Access::Write).expect("memory is left");
        }
        let [mine, other] = [(1, BASE), (2, 2 * BASE)].map(|(pid, base)| {
            let frames: Vec<u64> =
                (0..16).map(|page| w.walk(pid, base + page * PAGE, None).expect("mapped").pfn.0).collect();
            assert!(frames.windows(2).all(|pair| pair[0] + 1 == pair[1]) && frames[0].is_multiple_of(16), "{frames:?}");
            frames[0]
        });
        assert_ne!(mine, other);
    }
}

#[test]
fn coalapaging_reserves_nothing_and_takes_any_frame_where_the_block_is_gone() {
    let mut w = World::new(&desc(parts("placement.frames = \"coala\""), 64), 64);
    w.event(1, &anon(BASE, 16 * PAGE));
    let free = |w: &World| w.usage().free_bytes / PAGE;
    touch(&mut w, BASE + 3 * PAGE, Access::Write);
    let before = free(&w);
    touch(&mut w, BASE + 9 * PAGE, Access::Write);
    assert_eq!(before - free(&w), 1, "one page of the block is taken, the others are free");
    // A page that moves elsewhere is no anchor in its place: the next one falls back.
    let mut w = World::new(&desc(parts("placement.frames = \"coala\""), 64), 64);
    w.event(1, &anon(BASE, 16 * PAGE));
    w.event(1, &anon(BASE + (1 << 20), 16 * PAGE));
    touch(&mut w, BASE + (1 << 20) + 3 * PAGE, Access::Write);
    let moved = mmulab_trace::Event::Mremap {
        old: VirtAddr::new(BASE + (1 << 20) + 3 * PAGE),
        old_len: PAGE,
        new: VirtAddr::new(BASE),
        new_len: PAGE,
        keep_old: false,
    };
    w.event(1, &moved);
    touch(&mut w, BASE + PAGE, Access::Write);
    let (anchor, next) = (leaf(&mut w, BASE).pfn.0, leaf(&mut w, BASE + PAGE).pfn.0);
    assert_eq!(anchor % 16, 3);
    assert_ne!(next, anchor + 1 - 3, "not where the anchor's block has its second frame");
}

/// Huge pages: blocks of order 13, which the allocator must keep (S2-013).
#[test]
fn coalapaging_puts_sixteen_huge_pages_into_32_mib() {
    let found = |max_order: u8| {
        let mut desc =
            desc(parts("linux.zero_page = false\nplacement.frames = \"coala\"\nfault.sizes = [\"2M\"]"), 256);
        desc.memory.max_order = max_order;
        let mut w = World::new(&desc, 256);
        w.event(1, &anon(BASE, 32 << 20));
        w.event(2, &mmap(2 * BASE, 32 << 20, Prot::RW));
        for i in 0..16u64 {
            touch(&mut w, BASE + ((i * 7 % 16) << 21), Access::Write);
            w.access(2, 2 * BASE + (i << 21), Access::Read).expect("memory is left");
        }
        [(1, BASE), (2, 2 * BASE)].map(|(pid, base)| {
            let frames: Vec<u64> =
                (0..16).map(|i| w.walk(pid, base + (i << 21), None).expect("mapped").pfn.0).collect();
            frames.windows(2).all(|pair| pair[0] + 512 == pair[1]) && frames[0].is_multiple_of(1 << 13)
        })
    };
    assert_eq!(found(13), [true, true]);
    assert_eq!(found(10), [false, false], "no block of 32 MiB is kept: huge pages anywhere");
}

#[test]
fn no_frame_is_taken_twice_and_huge_pages_lie_in_a_row() {
    let mut w = World::new(&desc(parts("placement.frames = \"neighbour\""), 64), 64);
    // Both mappings want frame 0 of a block, and the second one frames up to the next block.
    w.event(1, &anon(BASE, PAGE));
    w.event(1, &anon(BASE + (1 << 30), 512 * PAGE));
    touch(&mut w, BASE, Access::Write);
    for page in 0..512 {
        touch(&mut w, BASE + (1 << 30) + page * PAGE, Access::Write);
    }
    let first = leaf(&mut w, BASE).pfn.0;
    let found: Vec<u64> = (0..512).map(|page| leaf(&mut w, BASE + (1 << 30) + page * PAGE).pfn.0).collect();
    let breaks = found.windows(2).filter(|pair| pair[0] + 1 != pair[1]).count();
    assert!(!found.contains(&first) && breaks <= 1, "{breaks} breaks");
    let huge = parts("placement.frames = \"neighbour\"\nfault.sizes = [\"2M\"]");
    let mut w = World::new(&desc(huge, 64), 64);
    w.event(1, &anon(BASE, 8 << 20));
    for i in 0..4 {
        touch(&mut w, BASE + (i << 21), Access::Write);
    }
    let frames: Vec<_> = (0..4).map(|i| leaf(&mut w, BASE + (i << 21)).pfn.0).collect();
    // Page tables own the block behind the first page.
    let breaks = frames.windows(2).filter(|pair| pair[0] + 512 != pair[1]).count();
    assert!(breaks <= 1, "huge pages in a row: {frames:?}");
}

#[test]
fn linux_can_reserve_and_promote_in_place() {
    let sections = "placement = { frames = \"reservation\", levels = [\"2M\"] }\npromotion.when = \"full\"";
    let mut w = World::new(&desc(parts(sections), 64), 64);
    w.event(1, &anon(BASE, 2 << 20));
    for page in (0..512).rev() {
        assert_eq!(w.usage().mapped.bytes(PageOrder::P2M), 0);
        touch(&mut w, BASE + page * PAGE, Access::Write);
    }
    assert_eq!(w.usage().mapped.bytes(PageOrder::P2M), 2 << 20);
    assert_eq!(leaf(&mut w, BASE).order, PageOrder::P2M);
}

#[test]
fn promotion_in_place_makes_any_page_that_the_table_has() {
    let arm = TableDesc::new(TableKind::Arm, 4).expect("four levels");
    let world = |promotion: &str| {
        let sections = format!("placement = {{ frames = \"reservation\", levels = [\"2M\"] }}\n{promotion}");
        let mut w = World::new(&KernelDesc { table: arm.clone(), ..desc(parts(&sections), 64) }, 64);
        w.event(1, &anon(BASE, 2 << 20));
        w
    };
    let mut w = world("promotion = { when = \"full\", size = \"64K\" }");
    for page in 16..31 {
        touch(&mut w, BASE + page * PAGE, Access::Write);
    }
    assert_eq!(w.usage().mapped.bytes(PageOrder::P64K), 0, "one page of the sixteen is missing");
    touch(&mut w, BASE + 31 * PAGE, Access::Write);
    assert_eq!(w.usage().mapped.bytes(PageOrder::P64K), 64 << 10);
    // Every page of a mapping but one: the 64 KiB around that one stay base pages.
    (0..511).for_each(|page| touch(&mut w, BASE + page * PAGE, Access::Write));
    assert_eq!(w.usage().mapped.bytes(PageOrder::P64K), 31 << 16);
    let mut w = world("promotion = { when = \"threshold\", threshold = 3, size = \"64K\" }");
    [0, 9].into_iter().for_each(|page| touch(&mut w, BASE + page * PAGE, Access::Write));
    assert_eq!(w.usage().mapped.bytes(PageOrder::P64K), 0);
    touch(&mut w, BASE + 4 * PAGE, Access::Write);
    assert_eq!(w.usage().mapped.bytes(PageOrder::P64K), 64 << 10, "thirteen pages were zeroed and mapped");
    assert_eq!(w.kernel.counts().events.get(EventKind::PromotionFill), 13);
}

#[test]
fn a_store_demotes_a_clean_page_where_the_policy_says_so() {
    let stored = |demotion: &str| {
        let sections = format!(
            "linux.zero_page = false\nplacement = {{ frames = \"reservation\", levels = [\"2M\"] }}\n\
             promotion.when = \"full\"\ndemotion.when = \"{demotion}\""
        );
        let mut w = World::new(&desc(parts(&sections), 64), 64);
        w.event(1, &anon(BASE, 2 << 20));
        (0..512).for_each(|page| touch(&mut w, BASE + page * PAGE, Access::Read));
        assert_eq!(w.usage().mapped.bytes(PageOrder::P2M), 2 << 20, "promoted while it is clean");
        touch(&mut w, BASE + 7 * PAGE, Access::Write);
        let (whole, dirty) = (w.usage().mapped.bytes(PageOrder::P2M), leaf(&mut w, BASE).dirty);
        (0..512).for_each(|page| touch(&mut w, BASE + page * PAGE, Access::Write));
        (whole, dirty, w.usage().mapped.bytes(PageOrder::P2M))
    };
    assert_eq!(stored("needed"), (2 << 20, true, 2 << 20), "one dirty bit for all of it");
    assert_eq!(stored("store"), (0, false, 2 << 20), "base pages, until all of them are dirty");
}

#[test]
fn memory_cleared_ahead_spares_the_fault_that_work() {
    let sections = "linux.zero_page = false\nfault.sizes = [\"2M\"]\n\
                    zeroing = { when = \"ahead\", sleep_ms = 10, pages_per_wake = 700 }";
    let mut w = World::new(&desc(parts(sections), 64), 64);
    w.event(1, &anon(BASE, 8 << 20));
    let zeroed = |w: &World| {
        let work = &w.kernel.counts().work;
        [WorkKind::ZeroBytes, WorkKind::ZeroBytesAhead].map(|kind| work.get(kind) / PAGE)
    };
    touch(&mut w, BASE, Access::Write);
    assert_eq!(zeroed(&w), [512, 0], "nothing was cleared yet");
    let ms = 1_000_000;
    assert_eq!(w.kernel.wakes_at(), Some(10 * ms));
    w.kernel.run_daemons(&mut w.mem, 10 * ms, &mut w.effects).expect("no table is made");
    assert_eq!((w.kernel.wakes_at(), zeroed(&w)), (Some(20 * ms), [512, 700]));
    touch(&mut w, BASE + (2 << 20), Access::Write);
    touch(&mut w, BASE + (4 << 20), Access::Write);
    assert_eq!(zeroed(&w), [512 + 1024 - 700, 700], "two huge pages, of which 700 pages were clear");
    assert_eq!(w.kernel.counts().events.get(EventKind::ZeroedAhead), 700);
    // What is freed was used: it must be cleared again.
    w.kernel.run_daemons(&mut w.mem, 20 * ms, &mut w.effects).expect("no table is made");
    w.event(1, &mmulab_trace::Event::Munmap { addr: VirtAddr::new(BASE), len: 8 << 20 });
    w.event(1, &anon(BASE, 8 << 20));
    touch(&mut w, BASE, Access::Write);
    let [at_fault, ahead] = zeroed(&w);
    assert_eq!(ahead, 1400);
    assert!(at_fault > 512 + 324, "of the pages freed, none is clear: {at_fault}");
}

/// Of 16 MiB the watermarks are 160 and 192 frames: sqrt(16384 KiB x 16) = 512 KiB, 128 frames, and a quarter of that
/// more for each.
#[test]
fn a_daemon_drops_file_pages_between_the_watermarks() {
    let run = |sections: &str| {
        let mut w = World::new(&desc(parts(sections), 16), 16);
        w.event(1, &mmap_file(BASE, 4 << 20, Prot::R, false, "/big", 0));
        (0..1024).for_each(|page| touch(&mut w, BASE + page * PAGE, Access::Read));
        w.event(1, &mmulab_trace::Event::Munmap { addr: VirtAddr::new(BASE), len: 4 << 20 });
        w.event(1, &anon(BASE, 64 << 20));
        let mut lowest = u64::MAX;
        let mut page = 0;
        while w.store(1, BASE + page * PAGE, 1).is_ok() {
            page += 1;
            if w.kernel.counts().events.get(EventKind::CacheDropped) < 1024 {
                lowest = lowest.min(w.usage().free_bytes / PAGE);
            }
        }
        let count = |what| w.kernel.counts().events.get(what);
        (lowest, count(EventKind::KswapdWake), count(EventKind::CacheDropped), page)
    };
    let (lowest, wakes, dropped, stored) = run("reclaim.when = \"end\"");
    assert_eq!((lowest, wakes, dropped), (0, 0, 1024), "used up to the last frame");
    let with_daemon = run("reclaim.when = \"watermarks\"");
    // A fault takes a frame, and at times one more for a table; the daemon begins before the next fault. So it begins
    // at 158 or 159 frames and frees 33 or 34, 31 times. Then it finds what is left of the 1024, then nothing.
    assert!((158..160).contains(&with_daemon.0), "{with_daemon:?}");
    assert!((32..=33).contains(&with_daemon.1), "{with_daemon:?}");
    assert_eq!((with_daemon.2, with_daemon.3), (1024, stored), "all of it is dropped in the end, and all memory used");
}

#[test]
fn a_tick_lets_all_daemons_run() {
    let sections = "promotion.when = \"daemon\"\nzeroing = { when = \"ahead\", sleep_ms = 10 }";
    let mut w = World::new(&desc(parts(sections), 64), 64);
    w.event(1, &anon(BASE, 2 << 20));
    touch(&mut w, BASE, Access::Write);
    w.event(1, &mmulab_trace::Event::Tick);
    let happened = |what| w.kernel.counts().events.get(what);
    assert_eq!(happened(EventKind::KhugepagedCollapse), 1);
    assert_eq!(w.kernel.counts().work.get(WorkKind::ZeroBytesAhead), 1000 * PAGE);
    assert_eq!(w.kernel.wakes_at(), Some(20_000_000), "the one that woke early sleeps from then on");
}

#[test]
fn what_a_policy_is_follows_from_its_sections() {
    let row = parts("fault.sizes = [\"64K\", \"2M\"]\nplacement.frames = \"neighbour\"\npromotion.when = \"daemon\"")
        .declared();
    assert_eq!(row.fault_sizes, [PageOrder::P2M, PageOrder::P64K, PageOrder::P4K]);
    assert_eq!((row.allocation.as_str(), row.hints.as_str()), ("neighbour", "madvise"));
    assert_eq!(row.promotion_sizes, [PageOrder::P2M]);
    assert_eq!(row.promotion, ["copy, by a daemon", "copy, on MADV_COLLAPSE"]);
    let freebsd = PolicyDesc::freebsd().declared();
    assert_eq!(freebsd.fault_sizes, [PageOrder::P4K]);
    assert_eq!((freebsd.allocation.as_str(), freebsd.hints.as_str()), ("reservation of 2M", "none"));
    assert_eq!(freebsd.promotion, ["in place, when full"]);
    assert!(PolicyDesc::linux_4k().declared().promotion.is_empty());
}

/// A run on Armv8's table, with blocks of up to 32M.
fn of_32m(sections: &str, mebibytes: u64) -> World {
    let mut desc = desc(parts(sections), mebibytes);
    desc.memory.max_order = 13;
    desc.table = TableDesc::new(TableKind::Arm, 4).expect("four levels");
    World::new(&desc, mebibytes)
}

/// Faults of 32M (paper 3, section VI: synchronous ones), and what becomes of their pages.
#[test]
fn a_fault_maps_32m_and_parts_of_it_go_by_themselves() {
    let mut w = of_32m("linux.zero_page = false\nfault.sizes = [\"32M\", \"2M\"]", 256);
    let free = w.usage().free_bytes;
    w.event(1, &anon(BASE, 66 << 20));
    touch(&mut w, BASE + (40 << 20), Access::Write);
    let whole = leaf(&mut w, BASE + (33 << 20));
    assert!(whole.order == PageOrder::new(13) && whole.pfn.0.is_multiple_of(1 << 13));
    // Behind it, 32M would reach outside the mapping: counted, and 2M are mapped.
    touch(&mut w, BASE + (65 << 20), Access::Write);
    assert_eq!(leaf(&mut w, BASE + (65 << 20)).order, PageOrder::P2M);
    assert_eq!(w.kernel.counts().refusals.get(Refusal::GiantOutsideVma), 1);
    assert_eq!(w.kernel.counts().work.get(WorkKind::ZeroBytes), 34 << 20);
    // A child's store to it copies a base page.
    w.event(1, &mmulab_trace::Event::Fork { child: mmulab_addr::Pid(2), shares_memory: false });
    w.access(2, BASE + (40 << 20), Access::Write).expect("memory is left");
    assert_eq!(w.kernel.counts().work.get(WorkKind::CopyBytes), PAGE);
    w.event(2, &mmulab_trace::Event::Exit { status: 0 });
    w.event(1, &mmulab_trace::Event::Munmap { addr: VirtAddr::new(BASE + (32 << 20)), len: PAGE });
    assert_eq!(w.usage().private_bytes, (34 << 20) - PAGE, "the page that was unmapped is given back by itself");
    w.event(1, &mmulab_trace::Event::Exit { status: 0 });
    assert_eq!(w.usage().free_bytes, free);
}

/// Where no block is free, the reason is counted and the next size serves.
#[test]
fn faults_above_2m_fall_back() {
    let mut w = of_32m("linux.zero_page = false\nfault.sizes = [\"32M\", \"2M\"]", 128);
    w.event(1, &anon(BASE, 128 << 20));
    for at in 0..3 {
        touch(&mut w, BASE + (at << 25), Access::Write);
    }
    // Four blocks: boot took frames of one, and the tables of this program made another theirs.
    assert_eq!(w.usage().mapped.bytes(PageOrder::new(13)), 64 << 20);
    assert_eq!(w.usage().mapped.bytes(PageOrder::P2M), 2 << 20);
    assert_eq!(w.kernel.counts().refusals.get(Refusal::GiantNoBlock), 1);
}

/// 1G is larger than any block of the allocator: free blocks that lie together serve, as for gigantic pages at boot.
#[test]
fn a_fault_maps_1g_out_of_blocks_that_lie_together() {
    let policy = parts("linux.zero_page = false\nfault.sizes = [\"1G\", \"2M\"]");
    let mut w = World::new(&desc(policy, 3 << 10), 3 << 10);
    let free = w.usage().free_bytes;
    w.event(1, &anon(BASE, 3 << 30));
    for at in 0..3 {
        touch(&mut w, BASE + (at << 30), Access::Write);
    }
    assert_eq!((w.usage().mapped.bytes(PageOrder::P1G), w.usage().mapped.bytes(PageOrder::P2M)), (2 << 30, 2 << 20));
    assert_eq!(w.kernel.counts().refusals.get(Refusal::GiantNoBlock), 1);
    w.event(1, &mmulab_trace::Event::Exit { status: 0 });
    assert_eq!(w.usage().free_bytes, free);
}

/// CA paging (Alverti and others, ISCA 2020): whatever the order of faults, a mapping lies in one run of frames.
#[test]
fn ca_paging_lays_a_mapping_into_one_region() {
    let orders: [fn(u64) -> u64; 3] = [|i| i, |i| 63 - i, |i| i * 37 % 64];
    for order in orders {
        let mut w = World::new(&desc(parts("placement.frames = \"ca\""), 64), 64);
        w.event(1, &anon(BASE, 64 * PAGE));
        w.event(2, &mmap(2 * BASE, 64 * PAGE, Prot::RW));
        for i in 0..64 {
            touch(&mut w, BASE + order(i) * PAGE, Access::Write);
            w.access(2, 2 * BASE + i * PAGE, Access::Write).expect("memory is left");
        }
        assert_eq!(runs(&mut w, 64).len(), 1);
        let happened = &w.kernel.counts().events;
        assert_eq!((happened.get(EventKind::CaPlaced), happened.get(EventKind::CaInPlace)), (2, 128));
        assert_eq!(w.kernel.counts().refusals.get(Refusal::CaTargetTaken), 0);
    }
}

/// A page of 2M whose frames are in use begins another part of its mapping, in the region that is largest now.
#[test]
fn ca_paging_begins_another_part_where_frames_are_in_use() {
    let huge = "placement.frames = \"ca\"\nfault.sizes = [\"2M\"]\nlinux.zero_page = false";
    let mut w = World::new(&desc(parts(huge), 64), 64);
    // As large as memory: the largest region is smaller, so that its last pages have no frames at their offset.
    w.event(1, &anon(BASE, 64 << 20));
    touch(&mut w, BASE, Access::Write);
    touch(&mut w, BASE + (62 << 20), Access::Write);
    let [first, last] = [0, 62 << 20].map(|at| leaf(&mut w, BASE + at).pfn.0);
    assert!(
        first.is_multiple_of(1024) && last.is_multiple_of(1024) && first != last,
        "{first}, {last}: regions begin so"
    );
    let counts = w.kernel.counts();
    let (taken, placed) = (counts.refusals.get(Refusal::CaTargetTaken), counts.events.get(EventKind::CaPlaced));
    assert_eq!((taken, placed), (1, 2));
    // Pages below the second part still go by the first.
    touch(&mut w, BASE + (2 << 20), Access::Write);
    assert_eq!(leaf(&mut w, BASE + (2 << 20)).pfn.0, first + 512);
}

/// Quicksilver's Sync-1 and Sync-64 (Zhu, Cox and Rixner, ATC 2020): the fault that reaches the threshold zeroes and
/// maps the rest of the reservation.
#[test]
fn quicksilver_fills_a_reservation_at_its_threshold() {
    for threshold in [1, 64] {
        let mut policy = PolicyDesc::freebsd();
        policy.freebsd.get_or_insert_default().promotion_threshold = threshold;
        let mut w = World::new(&desc(policy, 64), 64);
        w.event(1, &anon(BASE, 2 << 20));
        for page in 0..u64::from(threshold) {
            assert_eq!(w.usage().mapped.bytes(PageOrder::P2M), 0, "before fault {page}");
            touch(&mut w, BASE + page * PAGE, Access::Write);
        }
        assert_eq!(w.usage().mapped.bytes(PageOrder::P2M), 2 << 20);
        assert_eq!(w.kernel.counts().work.get(WorkKind::ZeroBytes), 2 << 20);
    }
}
