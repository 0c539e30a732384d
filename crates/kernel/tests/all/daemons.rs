//! Linux's larger pages that come later or in other sizes: mTHP, khugepaged, compaction.

use crate::common::*;
use mmulab_addr::{Access, PageOrder, Pid, Prot, VirtAddr};
use mmulab_frames::{Fragment, HeldPages};
use mmulab_kernel::{
    Defrag, EventKind, FaultKind, KernelDesc, KhugepagedDesc, PolicyDesc, Refusal, ThpDesc, ThpEnabled, ThpSize,
    WorkKind,
};
use mmulab_trace::{Advice, Backing, Event, MapFlags};

const HUGE: u64 = 2 << 20;
const P64K: PageOrder = PageOrder::new(4);
const MS: u64 = 1_000_000;

fn policy(change: impl FnOnce(&mut ThpDesc)) -> PolicyDesc {
    let mut policy = PolicyDesc::linux_thp();
    change(policy.thp.as_mut().unwrap());
    policy
}

fn world(change: impl FnOnce(&mut ThpDesc)) -> World {
    World::new(&desc(policy(change), 128), 128)
}

/// Half of 64 MiB in small chunks: no block of 2 MiB is free, though much memory is.
fn fragmented(change: impl FnOnce(&mut ThpDesc)) -> World {
    let mut desc: KernelDesc = desc(policy(change), 64);
    desc.memory.fragment = memhog(40.0, "2M");
    World::new(&desc, 64)
}

fn happened(w: &World, what: EventKind) -> u64 {
    w.kernel.counts().events.get(what)
}

fn refused(w: &World, why: Refusal) -> u64 {
    w.kernel.counts().refusals.get(why)
}

fn khugepaged(thp: &mut ThpDesc) {
    thp.khugepaged = Some(KhugepagedDesc::default());
}

fn mapped(w: &mut World, start: u64, end: u64) -> u64 {
    (start..end).step_by(PAGE as usize).filter(|&va| w.walk(1, va, None).is_some()).count() as u64
}

fn is_huge(w: &mut World, va: u64) -> bool {
    w.walk(1, va, None).is_some_and(|leaf| leaf.order == PageOrder::P2M)
}

#[test]
fn a_fault_maps_the_largest_size_that_fits() {
    let sizes = [(PageOrder::P2M, ThpSize::Inherit), (P64K, ThpSize::Always)];
    let mut w = world(|t| t.sizes = sizes.into());
    w.event(1, &mmap(BASE, HUGE + (64 << 10) + 2 * PAGE, Prot::RW));
    w.access(1, BASE, Access::Write).unwrap();
    assert!(is_huge(&mut w, BASE));
    let (pfn, _) = w.access(1, BASE + HUGE + 5 * PAGE, Access::Write).unwrap();
    assert_eq!((pfn.0 % 16, mapped(&mut w, BASE + HUGE, BASE + HUGE + (80 << 10))), (5, 16));
    let leaf = w.walk(1, BASE + HUGE, None).unwrap();
    assert!(leaf.accessed && leaf.dirty, "all sixteen entries are young and dirty");
    // The last two pages are no whole 64K.
    w.access(1, BASE + HUGE + (64 << 10), Access::Write).unwrap();
    assert_eq!(refused(&w, Refusal::MthpOutsideVma), 1);
    assert_eq!((happened(&w, EventKind::MthpFault), happened(&w, EventKind::MthpPages)), (1, 16));
    w.event(1, &Event::Munmap { addr: VirtAddr::new(BASE), len: 2 * HUGE });
    assert_eq!(w.usage().private_bytes, 0);
}

/// Every setting of a size, with and without advice, under every setting for all sizes.
#[test]
fn each_size_is_chosen_as_its_own_setting_says() {
    for (size, all, advised, expected) in [
        (ThpSize::Always, ThpEnabled::Never, false, true),
        (ThpSize::Madvise, ThpEnabled::Always, false, false),
        (ThpSize::Madvise, ThpEnabled::Never, true, true),
        (ThpSize::Inherit, ThpEnabled::Always, false, true),
        (ThpSize::Inherit, ThpEnabled::Madvise, false, false),
        (ThpSize::Inherit, ThpEnabled::Madvise, true, true),
        (ThpSize::Inherit, ThpEnabled::Never, true, false),
        (ThpSize::Never, ThpEnabled::Always, true, false),
    ] {
        let sizes = [(PageOrder::P2M, ThpSize::Never), (P64K, size)];
        let mut w = world(|t| (t.enabled, t.sizes) = (all, sizes.into()));
        w.event(1, &mmap(BASE, 1 << 20, Prot::RW));
        if advised {
            w.event(1, &Event::Madvise { addr: VirtAddr::new(BASE), len: 1 << 20, advice: Advice::Hugepage });
        }
        w.access(1, BASE, Access::Write).unwrap();
        assert_eq!(mapped(&mut w, BASE, BASE + (1 << 20)) == 16, expected, "{size:?} {all:?} {advised}");
    }
}

#[test]
fn a_block_with_a_page_in_it_gives_way_to_a_smaller_one() {
    let sizes = [(P64K, ThpSize::Always), (PageOrder::new(2), ThpSize::Always)];
    let mut w = world(|t| (t.enabled, t.sizes) = (ThpEnabled::Never, sizes.into()));
    w.event(1, &mmap(BASE, 1 << 20, Prot::RW));
    w.access(1, BASE, Access::Read).unwrap();
    assert_eq!(mapped(&mut w, BASE, BASE + (1 << 20)), 1, "a load maps the zero page, alone");
    w.access(1, BASE + 4 * PAGE, Access::Write).unwrap();
    assert_eq!(mapped(&mut w, BASE, BASE + (1 << 20)), 1 + 4);
    w.access(1, BASE + PAGE, Access::Write).unwrap();
    assert_eq!((mapped(&mut w, BASE, BASE + (1 << 20)), refused(&w, Refusal::MthpPopulated)), (6, 1));
}

#[test]
fn khugepaged_copies_what_its_limits_allow() {
    for (none, pages, expected) in
        [(511, 1, true), (0, 512, true), (0, 511, false), (100, 412, true), (100, 411, false)]
    {
        let mut w = world(|t| {
            t.sizes = [(PageOrder::P2M, ThpSize::Madvise)].into();
            t.khugepaged = Some(KhugepagedDesc { max_ptes_none: none, ..KhugepagedDesc::default() });
        });
        w.event(1, &mmap(BASE, HUGE, Prot::RW));
        for i in 0..pages {
            w.store(1, BASE + i * PAGE, i).unwrap();
        }
        w.event(1, &Event::Madvise { addr: VirtAddr::new(BASE), len: HUGE, advice: Advice::Hugepage });
        w.event(1, &Event::Tick);
        assert_eq!(is_huge(&mut w, BASE), expected, "{none} {pages}");
        assert_eq!(happened(&w, EventKind::KhugepagedCollapse), u64::from(expected));
        assert_eq!(refused(&w, Refusal::KhugepagedNone), u64::from(!expected));
    }
}

#[test]
fn khugepaged_passes_over_what_is_idle_read_only_shared_or_empty() {
    let unhuge = |t: &mut ThpDesc| {
        khugepaged(t);
        t.defrag = Defrag::Never;
    };
    let advise = |advice| Event::Madvise { addr: VirtAddr::new(BASE), len: HUGE, advice };
    // Base pages first: no huge pages until the advice is taken back.
    let mut w = world(unhuge);
    w.event(1, &mmap(BASE, HUGE, Prot::RW));
    w.event(1, &advise(Advice::Nohugepage));
    for i in 0..300 {
        w.access(1, BASE + i * PAGE, Access::Write).unwrap();
    }
    w.event(1, &Event::Tick);
    assert_eq!(happened(&w, EventKind::KhugepagedScanned), 0, "not eligible");
    w.event(1, &advise(Advice::Hugepage));
    w.event(1, &advise(Advice::Free));
    w.event(1, &Event::Tick);
    assert_eq!(refused(&w, Refusal::KhugepagedIdle), 1);
    w.access(1, BASE, Access::Write).unwrap();
    w.event(1, &Event::Fork { child: Pid(2), shares_memory: false });
    w.event(1, &Event::Tick);
    assert!(refused(&w, Refusal::KhugepagedShared) > 0, "300 pages are shared");
    w.event(2, &Event::Exit { status: 0 });
    w.event(1, &Event::Tick);
    assert!(refused(&w, Refusal::KhugepagedReadOnly) > 0, "fork took the right to store");
    w.access(1, BASE, Access::Write).unwrap();
    w.event(1, &Event::Tick);
    assert!(is_huge(&mut w, BASE));
    w.event(1, &mmap(2 * BASE, HUGE, Prot::RW));
    w.event(1, &Event::Tick);
    assert!(refused(&w, Refusal::KhugepagedEmpty) > 0);
}

#[test]
fn khugepaged_runs_on_simulated_time_and_backs_off() {
    let mut w = fragmented(|t| {
        t.sizes = [(PageOrder::P2M, ThpSize::Madvise)].into();
        t.khugepaged = Some(KhugepagedDesc { defrag: false, ..KhugepagedDesc::default() });
    });
    w.event(1, &mmap(BASE, HUGE, Prot::RW));
    w.access(1, BASE, Access::Write).unwrap();
    w.event(1, &Event::Madvise { addr: VirtAddr::new(BASE), len: HUGE, advice: Advice::Hugepage });
    // Take what whole blocks there are, and enough of the rest that none comes back from per-CPU lists.
    w.event(1, &mmap(4 * BASE, 64 << 20, Prot::RW));
    for i in 0..w.usage().free_bytes / PAGE - 100 {
        w.access(1, 4 * BASE + i * PAGE, Access::Write).unwrap();
    }
    assert_eq!(w.kernel.wakes_at(), Some(10_000 * MS));
    let run = |w: &mut World, now: u64| {
        w.effects.clear();
        w.kernel.run_daemons(&mut w.mem, now, &mut w.effects).unwrap();
        w.kernel.wakes_at().unwrap()
    };
    assert_eq!(run(&mut w, 10_000 * MS), 70_000 * MS, "the first failure waits for memory");
    assert_eq!(run(&mut w, 70_000 * MS), 80_000 * MS, "the second ends the scan");
    assert_eq!(w.kernel.counts().refusals.get(Refusal::ThpNoBlock), 2);
}

/// Pages move, a block comes free, and what the program stored is where it was.
#[test]
fn compaction_makes_blocks_and_loses_nothing() {
    for (defrag, advised) in
        [(Defrag::Always, false), (Defrag::Madvise, true), (Defrag::Madvise, false), (Defrag::Defer, false)]
    {
        let mut w = World::new(&desc(policy(|t| t.defrag = defrag), 32), 32);
        // Base pages everywhere, of which every second goes again.
        w.event(1, &mmap(BASE, 32 << 20, Prot::RW));
        w.event(1, &Event::Madvise { addr: VirtAddr::new(BASE), len: 32 << 20, advice: Advice::Nohugepage });
        let pages = w.usage().free_bytes / PAGE - 200;
        for i in 0..pages {
            w.store(1, BASE + i * PAGE, i).unwrap();
        }
        for i in (0..pages).step_by(2) {
            let (addr, len, advice) = (VirtAddr::new(BASE + i * PAGE), PAGE, Advice::Dontneed);
            w.event(1, &Event::Madvise { addr, len, advice });
        }
        assert!(!w.kernel.frames().has_block(PageOrder::P2M));
        w.event(1, &mmap(8 * BASE, 4 * HUGE, Prot::RW));
        if advised {
            w.event(1, &Event::Madvise { addr: VirtAddr::new(8 * BASE), len: 4 * HUGE, advice: Advice::Hugepage });
        }
        w.store(1, 8 * BASE, 1).unwrap();
        w.store(1, 8 * BASE + HUGE, 1).unwrap();
        let compacts = defrag != Defrag::Madvise || advised;
        assert_eq!(is_huge(&mut w, 8 * BASE), compacts && defrag != Defrag::Defer, "{defrag:?}");
        assert_eq!(is_huge(&mut w, 8 * BASE + HUGE), compacts, "{defrag:?}");
        assert_eq!(happened(&w, EventKind::Migrated) > 0, compacts);
        for i in (1..pages).step_by(2) {
            assert_eq!(w.load(1, BASE + i * PAGE), Ok(i));
        }
    }
}

#[test]
fn compaction_that_fails_is_put_off_twice_as_long_each_time() {
    let mut w = fragmented(|t| t.defrag = Defrag::Always);
    // All that is free is taken, so nothing can be moved anywhere.
    w.event(1, &mmap(BASE, 64 << 20, Prot::RW));
    w.event(1, &Event::Madvise { addr: VirtAddr::new(BASE), len: 64 << 20, advice: Advice::Nohugepage });
    for i in 0..w.usage().free_bytes / PAGE - 100 {
        w.access(1, BASE + i * PAGE, Access::Write).unwrap();
    }
    w.event(1, &mmap(8 * BASE, 16 * HUGE, Prot::RW));
    let mut runs = Vec::new();
    for i in 0..8 {
        w.access(1, 8 * BASE + i * HUGE, Access::Write).unwrap();
        runs.push(happened(&w, EventKind::Compaction));
    }
    // A run, then one after 1 more request (2 with it), then after 3 more (4 with it).
    assert_eq!(runs, [1, 1, 2, 2, 2, 2, 3, 3]);
    assert_eq!(refused(&w, Refusal::CompactionDeferred), 5);
    assert_eq!(refused(&w, Refusal::CompactionFailed), 3);
}

#[test]
fn impossible_sizes_and_limits_are_refused_by_name() {
    let key = |change: fn(&mut ThpDesc)| refused_key(policy(change), 128);
    assert_eq!(key(|t| t.sizes = [(PageOrder::new(1), ThpSize::Always)].into()), "thp.sizes");
    assert_eq!(key(|t| t.sizes = [(PageOrder::P1G, ThpSize::Always)].into()), "thp.sizes");
    let daemon = |change: fn(&mut KhugepagedDesc)| {
        let mut daemon = KhugepagedDesc::default();
        change(&mut daemon);
        refused_key(policy(|t| t.khugepaged = Some(daemon)), 128)
    };
    assert_eq!(daemon(|d| d.max_ptes_none = 512), "thp.khugepaged.max_ptes_none");
    assert_eq!(daemon(|d| d.max_ptes_shared = 600), "thp.khugepaged.max_ptes_shared");
    assert_eq!(daemon(|d| d.pages_to_scan = 0), "thp.khugepaged");
}

/// Pages put together of parts, with a daemon that looks at everything each second.
fn with_daemon(by: &str, memory: u64, fragment: Fragment) -> World {
    let sections = format!(
        "linux.zero_page = false\npromotion = {{ when = \"daemon\", by = \"{by}\", daemon = {{ scan_sleep_ms = 1000, \
         pages_to_scan = 1024 }} }}"
    );
    let mut desc = desc(parts(&sections), memory);
    desc.memory.fragment = fragment;
    World::new(&desc, memory)
}

fn store_pages(w: &mut World, start: u64, pages: u64) {
    (0..pages).for_each(|page| drop(w.store(1, start + page * PAGE, 1).expect("memory is left")));
}

fn run_until(w: &mut World, ms: u64) {
    while let Some(wake) = w.kernel.wakes_at().filter(|&wake| wake <= ms * MS) {
        w.kernel.run_daemons(&mut w.mem, wake, &mut w.effects).unwrap();
        w.flush();
    }
}

/// Memory of which half of each 2 MiB is held by others: compaction makes a huge page of it if their pages can move.
#[test]
fn compaction_moves_pages_of_others_unless_they_are_pinned() {
    for (held, is_made) in [(HeldPages::Movable, true), (HeldPages::Pinned, false)] {
        let mut desc: KernelDesc = desc(policy(|thp| thp.defrag = Defrag::Always), 64);
        desc.memory.fragment = Fragment::Fmfi { target: 1.0, free: "31M".into(), order: PageOrder::P2M, held };
        let mut w = World::new(&desc, 64);
        let occupants =
            |w: &World| w.kernel.frames().occupants(mmulab_addr::Pfn(0), 64 << 8).map(|run| run.1).sum::<u64>();
        let before = occupants(&w);
        w.event(1, &mmap(BASE, 2 * HUGE, Prot::RW));
        w.access(1, BASE, Access::Write).unwrap();
        assert_eq!((is_huge(&mut w, BASE), occupants(&w)), (is_made, before));
        assert_eq!(
            (happened(&w, EventKind::Compaction), refused(&w, Refusal::CompactionFailed)),
            (1, u64::from(!is_made))
        );
        // The machine's own frames keep the first 2 MiB from being free; the 256 pages beside them move for nothing.
        assert_eq!(happened(&w, EventKind::Migrated), if is_made { 512 } else { 0 });
    }
}

/// Ingens promotes a region with one page in use while memory has huge blocks. In fragmented memory, half or more of
/// which is unusable for huge pages, 461 of 512 pages must be in use.
#[test]
fn ingens_asks_for_utilisation_where_memory_is_fragmented() {
    let mut w = with_daemon("ingens", 64, Fragment::None);
    w.event(1, &mmap(BASE, 2 * HUGE, Prot::RW));
    store_pages(&mut w, BASE, 1);
    assert!(!is_huge(&mut w, BASE), "faults map base pages");
    run_until(&mut w, 1000);
    assert!(is_huge(&mut w, BASE));

    let mut w = with_daemon(
        "ingens",
        64,
        Fragment::Fmfi { target: 0.6, free: "24M".into(), order: PageOrder::P2M, held: HeldPages::Pinned },
    );
    w.event(1, &mmap(BASE, 2 * HUGE, Prot::RW));
    store_pages(&mut w, BASE, 460);
    store_pages(&mut w, BASE + HUGE, 461);
    run_until(&mut w, 1000);
    assert_eq!([BASE, BASE + HUGE].map(|va| is_huge(&mut w, va)), [false, true]);
    store_pages(&mut w, BASE + 460 * PAGE, 1);
    run_until(&mut w, 2000);
    assert!(is_huge(&mut w, BASE));
}

/// Two processes with equal memory take turns under fair shares, where the linear scan serves the first one to its end.
/// A process with more memory gets more: of 8 and 2 regions, 5 of the first before both of the second.
#[test]
fn ingens_gives_processes_fair_shares() {
    let huge = |w: &mut World, pid, regions| {
        let at = |region| BASE + region * HUGE;
        (0..regions).filter(|&r| w.walk(pid, at(r), None).is_some_and(|leaf| leaf.order == PageOrder::P2M)).count()
    };
    for (fair, regions, after) in [
        (false, [4, 4], [[1, 0], [2, 0], [3, 0], [4, 0], [4, 1], [4, 2], [4, 3], [4, 4]].as_slice()),
        // 400 to 400: the first, with 0 and with 1 huge page; with 2 it has 200. Then the second likewise.
        (true, [4, 4], [[1, 0], [2, 0], [2, 1], [2, 2], [3, 2], [3, 3], [4, 3], [4, 4]].as_slice()),
        // 800, 800, 400, 266, 200 to 200; then 160 to 200, 160 to 200, 160 to 100.
        (true, [8, 2], [[1, 0], [2, 0], [3, 0], [4, 0], [5, 0], [5, 1], [5, 2], [6, 2]].as_slice()),
    ] {
        let policy = parts(&format!(
            "linux.zero_page = false\npromotion = {{ when = \"daemon\", by = \"ingens\", fair = {fair}, \
             daemon = {{ scan_sleep_ms = 1000, pages_to_scan = 512 }} }}"
        ));
        let mut w = World::new(&desc(policy, 64), 64);
        for (pid, regions) in [(1, regions[0]), (2, regions[1])] {
            w.event(pid, &mmap(BASE, regions * HUGE, Prot::RW));
            (0..regions * 512).for_each(|page| drop(w.store(pid, BASE + page * PAGE, 1).unwrap()));
        }
        for (second, &expected) in (1..).zip(after) {
            run_until(&mut w, second * 1000);
            assert_eq!([huge(&mut w, 1, regions[0]), huge(&mut w, 2, regions[1])], expected, "{fair} {regions:?}");
        }
    }
}

/// Of three regions the one with most pages accessed within a second goes first, though it is the last in the address
/// space. No region goes before accessed bits were looked at.
#[test]
fn hawkeye_promotes_what_is_accessed_most_first() {
    let mut w = with_daemon("hawkeye", 64, Fragment::None);
    w.event(1, &mmap(BASE, 4 * HUGE, Prot::RW));
    (0..3).for_each(|region| store_pages(&mut w, BASE + region * HUGE, 512));
    run_until(&mut w, 29_000);
    let huge = |w: &mut World| [0, 1, 2].map(|region| is_huge(w, BASE + region * HUGE));
    assert_eq!(huge(&mut w), [false; 3], "nothing is known yet");
    // Accessed bits were cleared. TLBs of a real machine may still have the pages; this one has none.
    for (region, pages) in [(0, 60), (1, 20), (2, 300)] {
        (0..pages).for_each(|page| drop(w.access(1, BASE + region * HUGE + page * PAGE, Access::Read)));
    }
    assert_eq!(w.kernel.wakes_at(), Some(30_000 * MS));
    // Each scan looks at 1024 pages: two regions, the best first.
    w.kernel.run_daemons(&mut w.mem, 30_000 * MS, &mut w.effects).unwrap();
    w.flush();
    assert_eq!(huge(&mut w), [true, false, true]);
    run_until(&mut w, 31_000);
    assert_eq!(huge(&mut w), [true; 3]);
    assert_eq!(happened(&w, EventKind::KhugepagedCollapse), 3);
}

/// Two processes whose best regions lie in one bucket take turns.
#[test]
fn hawkeye_lets_processes_take_turns() {
    let mut w = with_daemon("hawkeye", 64, Fragment::None);
    for pid in [1, 2] {
        w.event(pid, &mmap(BASE, 2 * HUGE, Prot::RW));
        (0..1024).for_each(|page| drop(w.store(pid, BASE + page * PAGE, 1).expect("memory is left")));
    }
    run_until(&mut w, 29_000);
    for pid in [1, 2] {
        (0..1024).for_each(|page| drop(w.access(pid, BASE + page * PAGE, Access::Read)));
    }
    w.kernel.run_daemons(&mut w.mem, 30_000 * MS, &mut w.effects).unwrap();
    w.flush();
    let huge = |w: &mut World, pid| {
        [BASE, BASE + HUGE]
            .into_iter()
            .filter(|&va| w.walk(pid, va, None).is_some_and(|l| l.order == PageOrder::P2M))
            .count()
    };
    assert_eq!([huge(&mut w, 1), huge(&mut w, 2)], [1, 1], "two regions a scan, one of each");
}

/// HawkEye with recovery from bloat, on huge pages that faults map.
fn recovering(memory: u64, recovery: &str, pace: &str) -> World {
    let policy = parts(&format!(
        "linux.zero_page = false\nfault.sizes = [\"2M\"]\npromotion = {{ when = \"daemon\", by = \"hawkeye\", \
         recovery = {{ {recovery} }}, daemon = {{ {pace} }} }}"
    ));
    World::new(&desc(policy, memory), memory)
}

/// Memory is always short.
const ALWAYS: &str = "above_percent = 0, below_percent = 0";
/// A scan a second, of two huge pages.
const TWO_A_SECOND: &str = "scan_sleep_ms = 1000, pages_to_scan = 1024";

fn count_huge(w: &mut World, pages: u64) -> u64 {
    (0..pages).filter(|&page| is_huge(w, BASE + page * HUGE)).count() as u64
}

/// 28 huge pages of 64 MiB are 87.5 % of memory, and each has one page that was stored to. Two of them are taken apart
/// each second. Without the zeros of five 71.9 % are used, without those of six 68.8 %, and little more with the
/// kernel's own frames: less than 71, where it ends here. Every store is still there, and unmapping frees every frame.
#[test]
fn recovery_gives_back_pages_of_zeros_between_its_watermarks() {
    let mut w = recovering(64, "below_percent = 71", TWO_A_SECOND);
    let free = w.usage().free_bytes;
    w.event(1, &mmap(BASE, 28 * HUGE, Prot::RW));
    for i in 0..28 {
        w.store(1, BASE + i * HUGE + i * PAGE, 100 + i).unwrap();
    }
    for (ms, apart) in [(999, 0), (1000, 2), (2000, 4), (3000, 6), (9000, 6)] {
        run_until(&mut w, ms);
        assert_eq!(count_huge(&mut w, 28), 28 - apart, "after {ms} ms");
        assert_eq!(w.usage().private_bytes, 28 * HUGE - apart * 511 * PAGE);
    }
    assert_eq!((happened(&w, EventKind::RecoveryScanned), happened(&w, EventKind::RecoveryShared)), (6, 6 * 511));
    assert_eq!(w.kernel.counts().work.get(WorkKind::ScanBytes), 6 * (511 * PAGE + 10));
    for i in 0..28 {
        for page in 0..40 {
            let value = if page == i { 100 + i } else { 0 };
            assert_eq!(w.load(1, BASE + i * HUGE + page * PAGE), Ok(value));
        }
    }
    // A store to a page of zeros takes a frame again; one to a page that was kept does not.
    assert_eq!(w.store(1, BASE + 5 * PAGE, 7), Ok(vec![FaultKind::ZeroPageWrite]));
    assert_eq!(w.store(1, BASE, 8), Ok(vec![]));
    assert_eq!([0, 5, 6].map(|page| w.load(1, BASE + page * PAGE).unwrap()), [8, 7, 0]);
    w.event(1, &Event::Munmap { addr: VirtAddr::new(BASE), len: 28 * HUGE });
    assert_eq!((w.usage().private_bytes, w.usage().free_bytes + w.usage().table_bytes), (0, free));
}

/// A region that was taken apart is not promoted while memory is short, and again afterwards.
#[test]
fn what_recovery_took_apart_is_promoted_once_memory_is_not_short_any_more() {
    for (recovery, is_promoted) in [(ALWAYS, false), ("", true)] {
        let mut w = recovering(64, recovery, TWO_A_SECOND);
        w.event(1, &mmap(BASE, 28 * HUGE, Prot::RW));
        (0..28).for_each(|i| drop(w.store(1, BASE + i * HUGE, 1).unwrap()));
        run_until(&mut w, 29_000);
        assert!(!is_huge(&mut w, BASE));
        store_pages(&mut w, BASE, 512);
        run_until(&mut w, 30_000);
        assert_eq!(is_huge(&mut w, BASE), is_promoted);
    }
}

/// The process whose best region has the lowest access coverage loses memory first, though it was made last.
#[test]
fn recovery_begins_with_the_process_of_the_lowest_coverage() {
    let mut w = recovering(64, ALWAYS, "scan_sleep_ms = 40000, pages_to_scan = 512");
    for pid in [1, 2] {
        w.event(pid, &mmap(BASE, HUGE, Prot::RW));
        w.store(pid, BASE, 1).unwrap();
    }
    // Process 1 has a region of base pages, too: its first page was there before the others.
    let busy = BASE + 4 * HUGE;
    w.event(1, &mmap(busy, PAGE, Prot::RW));
    w.store(1, busy, 1).unwrap();
    w.event(1, &mmap(busy + PAGE, HUGE - PAGE, Prot::RW));
    store_pages(&mut w, busy, 512);
    run_until(&mut w, 29_000);
    (0..512).for_each(|page| drop(w.access(1, busy + page * PAGE, Access::Read).unwrap()));
    run_until(&mut w, 40_000);
    let huge = |w: &mut World, pid| w.walk(pid, BASE, None).is_some_and(|leaf| leaf.order == PageOrder::P2M);
    assert_eq!([1, 2].map(|pid| huge(&mut w, pid)), [true, false]);
    run_until(&mut w, 80_000);
    assert_eq!([1, 2].map(|pid| huge(&mut w, pid)), [false, false]);
}

/// Huge pages stay whole that are shared after a fork, that may be executed, that were populated, or that have fewer
/// zeros than asked for. All of them stay whole if nobody reports the stores of programs.
#[test]
fn recovery_leaves_what_it_cannot_gain_from() {
    let loaded = |w: &mut World, prot| {
        w.event(1, &mmap(BASE, HUGE, prot));
        w.access(1, BASE, Access::Read).unwrap();
    };
    let mut w = recovering(64, ALWAYS, TWO_A_SECOND);
    loaded(&mut w, Prot::RW);
    run_until(&mut w, 1000);
    assert!(is_huge(&mut w, BASE), "no store was reported");
    w.store(1, BASE, 1).unwrap();
    w.event(1, &Event::Fork { child: Pid(2), shares_memory: false });
    run_until(&mut w, 2000);
    assert!(is_huge(&mut w, BASE), "shared");
    w.event(2, &Event::Exit { status: 0 });
    run_until(&mut w, 3000);
    assert!(!is_huge(&mut w, BASE));
    assert_eq!([0, 1].map(|page| w.load(1, BASE + page * PAGE).unwrap()), [1, 0]);

    let mut w = recovering(64, ALWAYS, TWO_A_SECOND);
    loaded(&mut w, Prot::RW.with(Prot::X));
    w.store(1, BASE, 1).unwrap();
    run_until(&mut w, 1000);
    assert!(is_huge(&mut w, BASE), "code");

    let mut w = recovering(64, ALWAYS, TWO_A_SECOND);
    let (addr, flags) = (VirtAddr::new(BASE), MapFlags { populate: true, ..MapFlags::default() });
    w.event(1, &Event::Mmap { addr, len: HUGE, prot: Prot::RW, flags, backing: Backing::Anon });
    w.store(1, BASE, 1).unwrap();
    run_until(&mut w, 1000);
    assert!(is_huge(&mut w, BASE), "populated");

    for (stored, stays) in [(413, true), (412, false)] {
        let mut w = recovering(64, &format!("{ALWAYS}, zero_pages = 100"), TWO_A_SECOND);
        loaded(&mut w, Prot::RW);
        store_pages(&mut w, BASE, stored);
        run_until(&mut w, 1000);
        assert_eq!(is_huge(&mut w, BASE), stays, "{stored} pages stored to");
    }
}

/// Marks follow the memory: pages that were unmapped or dropped are new, those that moved or were copied are not.
#[test]
fn stores_are_remembered_for_as_long_as_the_page_lives() {
    let zeros = |w: &mut World, start: u64| {
        let before = happened(w, EventKind::RecoveryShared);
        let wake = w.kernel.wakes_at().unwrap();
        w.kernel.run_daemons(&mut w.mem, wake, &mut w.effects).unwrap();
        w.flush();
        assert!(!is_huge(w, start));
        happened(w, EventKind::RecoveryShared) - before
    };
    let world = || {
        let mut w = recovering(64, ALWAYS, TWO_A_SECOND);
        w.event(1, &mmap(BASE, HUGE, Prot::RW));
        store_pages(&mut w, BASE, 10);
        w
    };
    assert_eq!(zeros(&mut world(), BASE), 502);
    // MADV_DONTNEED of all: the next fault maps a new huge page.
    let mut w = world();
    w.event(1, &Event::Madvise { addr: VirtAddr::new(BASE), len: HUGE, advice: Advice::Dontneed });
    w.access(1, BASE, Access::Read).unwrap();
    assert_eq!(zeros(&mut w, BASE), 512);
    // Unmapped, and mapped again.
    let mut w = world();
    w.event(1, &Event::Munmap { addr: VirtAddr::new(BASE), len: HUGE });
    w.event(1, &mmap(BASE, HUGE, Prot::RW));
    w.store(1, BASE + 100 * PAGE, 1).unwrap();
    assert_eq!(zeros(&mut w, BASE), 511);
    // Moved whole.
    let mut w = world();
    let (old, new) = (VirtAddr::new(BASE), VirtAddr::new(BASE + 8 * HUGE));
    w.event(1, &Event::Mremap { old, old_len: HUGE, new, new_len: HUGE, keep_old: false });
    assert_eq!(zeros(&mut w, new.raw()), 502);
    // A child has the marks of its parent, and its own.
    let mut w = world();
    w.event(1, &Event::Fork { child: Pid(2), shares_memory: false });
    w.event(1, &Event::Exit { status: 0 });
    let wake = w.kernel.wakes_at().unwrap();
    w.kernel.run_daemons(&mut w.mem, wake, &mut w.effects).unwrap();
    w.flush();
    assert_eq!(happened(&w, EventKind::RecoveryShared), 502);
    assert_eq!([0, 9, 10].map(|page| w.load(2, BASE + page * PAGE).unwrap()), [1, 1, 0]);
}

fn by_daemon(by: &str, more: &str) -> PolicyDesc {
    parts(&format!("linux.zero_page = false\npromotion = {{ when = \"daemon\", by = \"{by}\"{more} }}"))
}

/// Translation Ranger (S2-M023): pages that are scattered over memory come to follow each other, whoever had their
/// frames before. Every store is still there, and nothing is left to do afterwards.
#[test]
fn ranger_brings_the_pages_of_two_processes_together() {
    let policy = by_daemon("ranger", ", smallest_mapping = \"64K\", daemon.pages_to_scan = 100000");
    let mut w = World::new(&desc(policy, 64), 64);
    let pages = 3000;
    w.event(1, &mmap(BASE, pages * PAGE, Prot::RW));
    w.event(2, &Event::Exec { path: "other".into() });
    w.event(2, &mmap(BASE, pages * PAGE, Prot::RW));
    // Each order of touches is a permutation: 7 and 11 have no factor in common with 3000.
    for i in 0..pages {
        w.store(1, BASE + i * 7 % pages * PAGE, i * 7 % pages + 1).unwrap();
        w.store(2, BASE + i * 11 % pages * PAGE, i * 11 % pages + 5000).unwrap();
    }
    let together = |w: &mut World, pid| {
        (1..pages)
            .filter(|i| w.frame(pid, BASE + i * PAGE).unwrap().0 == w.frame(pid, BASE + (i - 1) * PAGE).unwrap().0 + 1)
            .count()
    };
    assert!(together(&mut w, 1) < 100, "scattered at first");
    w.event(1, &Event::Tick);
    // The lowest anchor, that of the first process, begins with frame 0. Linux's own frames, and free ones among page
    // tables, keep some of its pages away. The second anchor is all movable.
    let misplaced = (0..pages).filter(|i| w.frame(1, BASE + i * PAGE).unwrap().0 != *i).count() as u64;
    assert!((256..2000).contains(&misplaced), "{misplaced}");
    assert_eq!(refused(&w, Refusal::RangerUnmovable), misplaced);
    assert_eq!(together(&mut w, 2), 2999);
    assert!(happened(&w, EventKind::RangerExchanged) > 0, "memory there is in use");
    for i in 0..pages {
        assert_eq!((w.load(1, BASE + i * PAGE), w.load(2, BASE + i * PAGE)), (Ok(i + 1), Ok(i + 5000)));
    }
    let before = happened(&w, EventKind::Migrated);
    w.event(1, &Event::Tick);
    assert_eq!(happened(&w, EventKind::Migrated), before, "the second scan moves nothing");
}

/// The part of a mapping whose frames cannot be had stays: the kernel's own frames are in the way, and are counted.
#[test]
fn ranger_leaves_what_cannot_move() {
    let policy = by_daemon("ranger", ", smallest_mapping = \"64K\"");
    let mut w = World::new(&desc(policy, 64), 64);
    w.event(1, &mmap(BASE, 300 * PAGE, Prot::RW));
    for i in 0..300 {
        w.store(1, BASE + i * PAGE, i).unwrap();
    }
    w.event(1, &Event::Tick);
    // The anchor is the lowest area of memory, whose first 256 frames are Linux's own.
    assert_eq!(refused(&w, Refusal::RangerUnmovable), 256);
    assert!((0..300).all(|i| w.load(1, BASE + i * PAGE) == Ok(i)));
}

const GIB: u64 = 1 << 30;

/// Trident (S2-M023): 1 GiB is promoted to where a free GiB is; the limits are khugepaged's, in proportion.
#[test]
fn trident_promotes_to_a_gibibyte() {
    let policy = parts("fault.sizes = [\"2M\"]\npromotion = { when = \"daemon\", by = \"trident\" }");
    let mut w = World::new(&desc(policy, 3 << 10), 3 << 10);
    w.event(1, &mmap(GIB, GIB + HUGE, Prot::RW));
    w.store(1, GIB + 5 * HUGE, 7).unwrap();
    w.store(1, 2 * GIB, 9).unwrap();
    w.event(1, &Event::Tick);
    assert_eq!(w.walk(1, GIB, None).map(|leaf| leaf.order), Some(PageOrder::P1G));
    assert_eq!((happened(&w, EventKind::TridentPromoted1G), happened(&w, EventKind::SmartCompaction)), (1, 0));
    assert_eq!(w.load(1, 2 * GIB), Ok(9));
    assert!(is_huge(&mut w, 2 * GIB), "what is left of the mapping keeps its pages");
}

/// Smart compaction empties the region that takes the fewest moves, and none that holds what cannot move. Where it
/// cannot, pages of 2 MiB are the fallback.
#[test]
fn trident_empties_the_region_with_the_fewest_pages() {
    for (gibibytes, expected) in [(4, 1), (1, 0)] {
        let policy = parts("fault.sizes = [\"2M\"]\npromotion = { when = \"daemon\", by = \"trident\" }");
        let mut w = World::new(&desc(policy, gibibytes << 10), gibibytes << 10);
        w.event(1, &mmap(GIB, GIB, Prot::RW));
        w.store(1, GIB, 1).unwrap();
        // Memory but for 80 MiB is filled; then one page of 2 MiB in 16 is left, and one in 64 in the second region.
        let (far, pages) = (64 * GIB, (gibibytes << 9) - 40);
        w.event(1, &mmap(far, pages * HUGE, Prot::RW));
        for i in 0..pages {
            w.store(1, far + i * HUGE, i).unwrap();
            assert!(is_huge(&mut w, far + i * HUGE), "page {i}");
        }
        let regions: Vec<u64> = (0..pages).map(|i| w.frame(1, far + i * HUGE).unwrap().0 >> 18).collect();
        let is_kept = |i: &u64| i.is_multiple_of(if regions[*i as usize] == 1 { 64 } else { 16 });
        for i in (0..pages).filter(|i| !is_kept(i)) {
            w.event(1, &Event::Munmap { addr: VirtAddr::new(far + i * HUGE), len: HUGE });
        }
        w.event(1, &Event::Tick);
        assert_eq!(happened(&w, EventKind::TridentPromoted1G), expected);
        assert_eq!(happened(&w, EventKind::SmartCompaction), expected);
        assert_eq!(refused(&w, Refusal::SmartNoRegion), 1 - expected);
        assert_eq!(refused(&w, Refusal::GiantNoBlock), 1 - expected);
        if expected == 1 {
            assert_eq!(w.frame(1, GIB).map(|pfn| pfn.0 >> 18), Some(1), "the region with the fewest pages is empty");
            let moved = happened(&w, EventKind::Migrated);
            assert!((7 * 512..=10 * 512).contains(&moved), "the few pages that the region held: {moved}");
        } else {
            assert!(is_huge(&mut w, GIB), "the fallback");
        }
        assert!((0..pages).filter(is_kept).all(|i| w.load(1, far + i * HUGE) == Ok(i)));
    }
}
