//! What Linux does, case by case.

use crate::common::*;
use mmulab_addr::{Access, Asid, PageOrder, Pid, Prot, Tid, VirtAddr, VirtRange};
use mmulab_kernel::{
    AdviceFlush, AppliesTo, Bytes, EventError, EventKind, FaultError, FaultKind, FreebsdDesc, HugeZeroWrite,
    HugetlbDesc, KernelDesc, KernelError, LinuxDesc, PageCache, PolicyDesc, PolicyKind, Refusal, ThpEnabled, WorkKind,
};
use mmulab_pagetable::{Invalidate, OpenDesc, TableDesc, TableKind};
use mmulab_trace::{Advice, Backing, Event, MapFlags};

const HUGE: u64 = 2 << 20;

fn base() -> World {
    World::new(&desc(PolicyDesc::linux_4k(), 256), 256)
}

fn thp() -> World {
    World::new(&desc(PolicyDesc::linux_thp(), 256), 256)
}

fn hugetlb_policy(size: PageOrder, pool: u64) -> PolicyDesc {
    let hugetlb = HugetlbDesc {
        size,
        pool: Bytes(pool),
        applies_to: AppliesTo::Anon,
        round_heap: true,
        source: String::new(),
        assumed: Default::default(),
    };
    PolicyDesc { kind: PolicyKind::Hugetlb, hugetlb: Some(hugetlb), ..PolicyDesc::linux_4k() }
}

fn madvise(addr: u64, len: u64, advice: Advice) -> Event {
    Event::Madvise { addr: VirtAddr::new(addr), len, advice }
}

fn mprotect(addr: u64, len: u64, prot: Prot) -> Event {
    Event::Mprotect { addr: VirtAddr::new(addr), len, prot }
}

fn range(start: u64, len: u64) -> VirtRange {
    VirtRange { start: VirtAddr::new(start), end: VirtAddr::new(start + len) }
}

fn munmap(addr: u64, len: u64) -> Event {
    Event::Munmap { addr: VirtAddr::new(addr), len }
}

fn fork(child: u32) -> Event {
    Event::Fork { child: Pid(child), shares_memory: false }
}

/// On Arm a program's stack lies right below 2^48; on x86-64 such addresses are nobody's.
#[test]
fn arm_programs_have_all_48_bits() {
    let address = 0xffff_f1ac_6000;
    for (kind, is_mapped) in [(TableKind::Arm, true), (TableKind::X86, false)] {
        let table = TableDesc::new(kind, 4).expect("four levels");
        let mut w = World::new(&KernelDesc { table: table.clone(), ..desc(PolicyDesc::linux_4k(), 256) }, 256);
        w.event(1, &mmap(BASE, PAGE, Prot::RW));
        w.event(1, &mmap(address, 16 * PAGE, Prot::RW));
        assert_eq!(w.access(1, address + PAGE, Access::Write).is_ok(), is_mapped, "{kind:?}");
    }
}

/// Every position of a mapping against the aligned region: huge only if the region is wholly inside.
#[test]
fn a_huge_page_needs_its_whole_region_inside_the_mapping() {
    for before in [0, PAGE, HUGE] {
        for (start_gap, len) in [(0, HUGE), (0, HUGE - PAGE), (PAGE, HUGE), (0, HUGE + PAGE), (PAGE, 2 * HUGE)] {
            let mut w = thp();
            let start = BASE + start_gap;
            w.event(1, &mmap(start, len, Prot::RW));
            if before > 0 {
                // A neighbour that agrees in everything becomes one mapping with it.
                w.event(1, &mmap(start - before, before, Prot::RW));
            }
            let fits = start - before <= BASE && start + len >= BASE + HUGE;
            let kinds = w.store(1, BASE + 5 * PAGE, 7).unwrap();
            let leaf = w.walk(1, BASE + 5 * PAGE, None).unwrap();
            assert_eq!(kinds, [FaultKind::Anon]);
            assert_eq!(leaf.order == PageOrder::P2M, fits, "before {before:#x} gap {start_gap:#x} len {len:#x}");
            assert!(leaf.accessed && leaf.dirty);
            assert_eq!(w.kernel.counts().refusals.get(Refusal::ThpOutsideVma), u64::from(!fits));
        }
    }
}

#[test]
fn advice_and_enabled_decide_as_linux_documents() {
    for (enabled, advice, expected) in [
        (ThpEnabled::Always, None, None),
        (ThpEnabled::Always, Some(Advice::Nohugepage), Some(Refusal::ThpNohugepage)),
        (ThpEnabled::Madvise, None, Some(Refusal::ThpNotAdvised)),
        (ThpEnabled::Madvise, Some(Advice::Hugepage), None),
        (ThpEnabled::Never, Some(Advice::Hugepage), Some(Refusal::ThpNever)),
    ] {
        let mut policy = PolicyDesc::linux_thp();
        policy.thp.as_mut().unwrap().enabled = enabled;
        let mut w = World::new(&desc(policy, 64), 64);
        w.event(1, &mmap(BASE, 4 * HUGE, Prot::RW));
        if let Some(advice) = advice {
            w.event(1, &madvise(BASE, 4 * HUGE, advice));
        }
        w.store(1, BASE, 1).unwrap();
        let order = w.walk(1, BASE, None).unwrap().order;
        assert_eq!(order == PageOrder::P2M, expected.is_none(), "{enabled:?} {advice:?}");
        for &refusal in <Refusal as mmulab_kernel::Name>::ALL {
            assert_eq!(w.kernel.counts().refusals.get(refusal), u64::from(Some(refusal) == expected));
        }
    }
}

#[test]
fn collapse_makes_one_page_of_many_and_keeps_the_contents() {
    let mut policy = PolicyDesc::linux_thp();
    policy.thp.as_mut().unwrap().enabled = ThpEnabled::Madvise;
    let mut w = World::new(&desc(policy, 64), 64);
    w.event(1, &mmap(BASE, HUGE, Prot::RW));
    w.store(1, BASE + 3 * PAGE, 9).unwrap();
    w.store(1, BASE + 4 * PAGE, 8).unwrap();
    let before = w.usage().table_bytes;
    w.event(1, &madvise(BASE, HUGE, Advice::Collapse));
    let leaf = w.walk(1, BASE, None).unwrap();
    assert_eq!((leaf.order, leaf.dirty), (PageOrder::P2M, true));
    assert_eq!(w.kernel.counts().events.get(EventKind::Collapse), 1);
    assert_eq!(w.kernel.counts().work.get(WorkKind::CopyBytes), 2 * PAGE);
    assert_eq!(w.usage().table_bytes, before - PAGE);
    assert_eq!(w.usage().mapped.bytes(PageOrder::P4K), 0);
}

#[test]
fn a_load_maps_the_zero_page_and_a_store_replaces_it() {
    let mut w = base();
    w.event(1, &mmap(BASE, 8 * PAGE, Prot::RW));
    let (zero, kinds) = w.access(1, BASE, Access::Read).unwrap();
    assert_eq!(kinds, [FaultKind::ZeroPage]);
    assert_eq!(w.access(1, BASE + PAGE, Access::Read).unwrap().0, zero);
    assert_eq!(w.usage().private_bytes, 0);
    assert_eq!(w.store(1, BASE, 5).unwrap(), [FaultKind::ZeroPageWrite]);
    assert_ne!(w.frame(1, BASE).unwrap(), zero);
    assert_eq!((w.load(1, BASE), w.load(1, BASE + PAGE)), (Ok(5), Ok(0)));
}

#[test]
fn a_store_to_the_huge_zero_page_makes_a_huge_page_or_splits_it() {
    for (mode, order, kind) in [
        (HugeZeroWrite::Huge, PageOrder::P2M, FaultKind::ZeroPageWrite),
        (HugeZeroWrite::Split, PageOrder::P4K, FaultKind::ZeroPageWrite),
    ] {
        let mut policy = PolicyDesc::linux_thp();
        policy.thp.as_mut().unwrap().zero_page_write = mode;
        let mut w = World::new(&desc(policy, 64), 64);
        w.event(1, &mmap(BASE, HUGE, Prot::RW));
        assert_eq!(w.load(1, BASE + PAGE), Ok(0));
        assert_eq!(w.walk(1, BASE, None).unwrap().order, PageOrder::P2M);
        assert_eq!(w.store(1, BASE + PAGE, 3).unwrap(), [kind]);
        assert_eq!(w.walk(1, BASE + PAGE, None).unwrap().order, order);
        assert_eq!((w.load(1, BASE + PAGE), w.load(1, BASE)), (Ok(3), Ok(0)));
    }
}

/// CHANGELOG number 11: `__split_huge_zero_page_pmd` maps the one small zero page 512 times, whatever splits it. It may
/// be a store, a hole, rights, or the loss of all rights.
#[test]
fn a_split_huge_zero_page_is_the_small_one_512_times() {
    type Split = fn(&mut World);
    let splits: [(&str, Split); 4] = [
        ("store", |w| drop(w.store(1, BASE + 5 * PAGE, 3).unwrap())),
        ("munmap", |w| w.event(1, &munmap(BASE + 5 * PAGE, PAGE))),
        ("mprotect", |w| w.event(1, &mprotect(BASE + 5 * PAGE, PAGE, Prot::R))),
        ("none", |w| {
            w.event(1, &mprotect(BASE, HUGE, Prot::NONE));
            w.event(1, &munmap(BASE + 5 * PAGE, PAGE));
            w.event(1, &mprotect(BASE, 5 * PAGE, Prot::RW));
            w.event(1, &mprotect(BASE + 6 * PAGE, HUGE - 6 * PAGE, Prot::RW));
        }),
    ];
    for table in [TableDesc::default(), TableDesc::of_hashed(OpenDesc { lines: 64, ..OpenDesc::default() }).unwrap()] {
        for (how, split) in splits {
            let mut policy = PolicyDesc::linux_thp();
            policy.thp.as_mut().unwrap().zero_page_write = HugeZeroWrite::Split;
            let mut w = World::new(&KernelDesc { table: table.clone(), ..desc(policy, 64) }, 64);
            // The small zero page shows itself where no huge page fits.
            w.event(1, &mmap(BASE + 4 * HUGE, PAGE, Prot::RW));
            assert_eq!(w.load(1, BASE + 4 * HUGE), Ok(0));
            let zero = w.frame(1, BASE + 4 * HUGE).unwrap();
            w.event(1, &mmap(BASE, HUGE, Prot::RW));
            assert_eq!(w.load(1, BASE), Ok(0));
            assert_eq!(w.walk(1, BASE, None).unwrap().order, PageOrder::P2M);
            split(&mut w);
            for i in (0..512).filter(|&i| i != 5) {
                let leaf = w.walk(1, BASE + i * PAGE, None).unwrap();
                assert_eq!((leaf.pfn, leaf.order), (zero, PageOrder::P4K), "{how}: page {i}");
                assert!(!leaf.prot.has(Prot::W) && !leaf.dirty, "{how}: page {i}");
            }
            // What is stored beside it stays apart.
            w.store(1, BASE + 6 * PAGE, 7).unwrap();
            assert_eq!((w.load(1, BASE + 6 * PAGE), w.load(1, BASE + 7 * PAGE)), (Ok(7), Ok(0)), "{how}");
            w.event(1, &munmap(BASE, HUGE));
            assert_eq!(w.usage().private_bytes, 0, "{how}");
        }
    }
}

/// CHANGELOG number 13: before Linux 6.16 each mapping that MADV_DONTNEED or MADV_FREE meets is flushed by itself. From
/// then on the whole call is (one range, from the first page to the last).
#[test]
fn advice_over_several_mappings_flushes_each_or_the_call() {
    let page = |n: u64| Invalidate::Page { asid: Asid(1), va: VirtAddr::new(BASE + n * PAGE), order: PageOrder::P4K };
    for advice in [Advice::Dontneed, Advice::Free] {
        for (flush, expected) in [
            (AdviceFlush::Mapping, vec![page(0), page(2), page(4)]),
            (
                AdviceFlush::Call,
                vec![Invalidate::Range { asid: Asid(1), range: range(BASE, 5 * PAGE), stride: PageOrder::P4K }],
            ),
        ] {
            let policy = PolicyDesc {
                linux: LinuxDesc { advice_flush: flush, ..LinuxDesc::default() },
                ..PolicyDesc::linux_4k()
            };
            let mut w = World::new(&desc(policy, 64), 64);
            for n in [0, 2, 4] {
                w.event(1, &mmap(BASE + n * PAGE, PAGE, Prot::RW));
                w.store(1, BASE + n * PAGE, n).unwrap();
            }
            w.effects.clear();
            let event = madvise(BASE, 5 * PAGE, advice);
            w.kernel.event(&mut w.mem, actor(1), &event, &mut w.effects).unwrap();
            assert_eq!(w.effects.invalidations, expected, "{advice:?}, {flush:?}");
        }
    }
}

#[test]
fn after_fork_the_first_store_copies_and_the_last_owner_reuses() {
    let mut w = base();
    w.event(1, &mmap(BASE, 4 * PAGE, Prot::RW));
    w.store(1, BASE, 1).unwrap();
    w.event(1, &fork(2));
    assert_eq!(w.load(2, BASE), Ok(1));
    assert_eq!(w.frame(1, BASE), w.frame(2, BASE));
    assert_eq!(w.store(2, BASE, 2).unwrap(), [FaultKind::Copy]);
    assert_eq!(w.load(1, BASE), Ok(1));
    assert_eq!(w.store(1, BASE, 3).unwrap(), [FaultKind::Reuse]);
    assert_eq!((w.load(1, BASE), w.load(2, BASE)), (Ok(3), Ok(2)));
    assert_eq!(w.kernel.counts().events.get(EventKind::Fork), 1);
}

#[test]
fn a_huge_page_shared_after_fork_is_split_by_the_store_that_copies() {
    let mut w = thp();
    w.event(1, &mmap(BASE, HUGE, Prot::RW));
    w.store(1, BASE, 1).unwrap();
    w.store(1, BASE + PAGE, 2).unwrap();
    w.event(1, &fork(2));
    assert_eq!(w.store(2, BASE, 9).unwrap(), [FaultKind::Copy]);
    assert_eq!(w.walk(2, BASE + PAGE, None).unwrap().order, PageOrder::P4K);
    assert_eq!(w.walk(1, BASE, None).unwrap().order, PageOrder::P2M);
    assert_eq!((w.load(1, BASE), w.load(2, BASE), w.load(2, BASE + PAGE)), (Ok(1), Ok(9), Ok(2)));
    // The parent's huge page is shared still: all but one of its frames have two users.
    assert_eq!(w.store(1, BASE + PAGE, 4).unwrap(), [FaultKind::Copy]);
    assert_eq!(w.load(2, BASE + PAGE), Ok(2));
    w.event(2, &Event::Exit { status: 0 });
    assert_eq!(w.store(1, BASE + 2 * PAGE, 5).unwrap(), [FaultKind::Reuse]);
}

#[test]
fn vfork_shares_until_exec() {
    let mut w = base();
    w.event(1, &mmap(BASE, PAGE, Prot::RW));
    w.event(1, &Event::Fork { child: Pid(2), shares_memory: true });
    w.store(2, BASE, 6).unwrap();
    assert_eq!(w.load(1, BASE), Ok(6));
    assert_eq!(w.kernel.context(Pid(1)), w.kernel.context(Pid(2)));
    w.event(2, &Event::Exec { path: "/bin/true".into() });
    assert!(matches!(w.load(2, BASE), Err(FaultError::Unmapped { .. })));
    assert_eq!(w.load(1, BASE), Ok(6));
    assert_ne!(w.kernel.context(Pid(1)), w.kernel.context(Pid(2)));
}

#[test]
fn partial_unmap_and_mprotect_split_huge_pages() {
    let mut w = thp();
    w.event(1, &mmap(BASE, 2 * HUGE, Prot::RW));
    w.store(1, BASE, 1).unwrap();
    w.store(1, BASE + HUGE, 2).unwrap();
    let private = w.usage().private_bytes;
    w.event(1, &munmap(BASE + PAGE, PAGE));
    assert_eq!(w.walk(1, BASE, None).unwrap().order, PageOrder::P4K);
    assert_eq!(w.usage().private_bytes, private - PAGE);
    w.event(1, &mprotect(BASE + HUGE, PAGE, Prot::R));
    assert_eq!(w.walk(1, BASE + HUGE, None).unwrap().prot, Prot::R);
    assert!(w.walk(1, BASE + HUGE + PAGE, None).unwrap().prot.has(Prot::W));
    assert_eq!(w.kernel.counts().events.get(EventKind::Split), 2);
    assert_eq!(w.usage().mapped.bytes(PageOrder::P4K), 2 * HUGE - PAGE);
    assert!(matches!(w.store(1, BASE + HUGE, 0), Err(FaultError::Protection { .. })));
}

#[test]
fn pages_without_rights_keep_their_contents() {
    let mut w = base();
    w.event(1, &mmap(BASE, 4 * PAGE, Prot::RW));
    w.store(1, BASE + PAGE, 4).unwrap();
    w.event(1, &mprotect(BASE, 4 * PAGE, Prot::NONE));
    assert!(matches!(w.load(1, BASE + PAGE), Err(FaultError::Protection { .. })));
    assert_eq!(w.usage().mapped.total(), 0);
    w.event(1, &fork(2));
    for pid in [1, 2] {
        w.event(pid, &mprotect(BASE, 4 * PAGE, Prot::RW));
        assert_eq!(w.load(pid, BASE + PAGE), Ok(4));
    }
    assert_eq!(w.store(2, BASE + PAGE, 5).unwrap(), [FaultKind::Copy]);
    assert_eq!(w.load(1, BASE + PAGE), Ok(4));
}

#[test]
fn stacks_grow_by_faults_up_to_their_limit_and_keep_a_gap() {
    let mut w = base();
    let top = BASE + (64 << 20);
    let flags = MapFlags { grows_down: true, label: Some("[stack]".into()), ..MapFlags::default() };
    let stack =
        Event::Mmap { addr: VirtAddr::new(top - PAGE), len: PAGE, prot: Prot::RW, flags, backing: Backing::Anon };
    w.event(1, &stack);
    w.store(1, top - 100 * PAGE, 1).unwrap();
    assert_eq!(w.kernel.counts().events.get(EventKind::StackGrowth), 1);
    assert!(w.store(1, top - (8 << 20), 1).is_ok());
    assert!(matches!(w.store(1, top - (8 << 20) - PAGE, 1), Err(FaultError::Unmapped { .. })));
    let region = w.kernel.region_at(Pid(1), VirtAddr::new(top - PAGE));
    assert_eq!(w.kernel.region_at(Pid(1), VirtAddr::new(top - (8 << 20))), region);
    assert_eq!(&*w.kernel.region(region).name, "[stack]");

    let mut w = base();
    w.event(1, &stack);
    w.event(1, &mmap(top - (1 << 20) - 2 * PAGE, PAGE, Prot::RW));
    assert!(w.store(1, top - PAGE, 1).is_ok());
    assert!(w.store(1, top - 2 * PAGE, 1).is_err(), "256 pages must stay free below");
}

#[test]
fn file_pages_come_in_by_windows_and_are_shared_between_processes() {
    let mut w = base();
    let file = mmap_file(BASE, 100 * PAGE, Prot::R, false, "/lib/c.so", 0);
    w.event(1, &file);
    let (first, kinds) = w.access(1, BASE + 40 * PAGE, Access::Read).unwrap();
    assert_eq!(kinds, [FaultKind::FileRead]);
    // 128 KiB centred on page 40: pages 24 to 55.
    assert_eq!(w.kernel.counts().events.get(EventKind::PagesRead), 32);
    assert_eq!(w.usage().page_cache_bytes, 32 * PAGE);
    assert!(w.frame(1, BASE + 41 * PAGE).is_none(), "the fault that reads maps one page");
    // 64 KiB around page 33: 32 to 47, of which 40 is there.
    assert_eq!(w.access(1, BASE + 33 * PAGE, Access::Read).unwrap().1, [FaultKind::FileCached]);
    assert!(w.frame(1, BASE + 47 * PAGE).is_some() && w.frame(1, BASE + 48 * PAGE).is_none());
    assert_eq!(w.kernel.counts().events.get(EventKind::FaultAround), 14);
    w.event(2, &file);
    let (shared, kinds) = w.access(2, BASE + 40 * PAGE, Access::Read).unwrap();
    assert_eq!((shared, kinds), (first, vec![FaultKind::FileCached]));
    // The file is not read beyond what any mapping showed.
    w.access(1, BASE + 99 * PAGE, Access::Read).unwrap();
    assert_eq!(w.kernel.counts().events.get(EventKind::PagesRead), 32 + 17);
}

#[test]
fn a_warm_page_cache_reads_nothing_and_maps_whole_windows() {
    let mut policy = PolicyDesc::linux_4k();
    policy.linux.page_cache = PageCache::Warm;
    let mut w = World::new(&desc(policy, 64), 64);
    w.event(1, &mmap_file(BASE, 64 * PAGE, Prot::RX, false, "/bin/x", 0));
    assert_eq!(w.access(1, BASE + 5 * PAGE, Access::Fetch).unwrap().1, [FaultKind::FileCached]);
    assert!(w.frame(1, BASE + 15 * PAGE).is_some() && w.frame(1, BASE + 16 * PAGE).is_none());
    assert_eq!(w.kernel.counts().work.get(WorkKind::ReadBytes), 0);
}

/// A request larger than the disk takes is cut (`force_page_cache_ra`), and FreeBSD reads nothing ahead of time.
#[test]
fn advice_that_a_file_is_needed_reads_its_beginning() {
    let freebsd =
        PolicyDesc { kind: PolicyKind::Freebsd, freebsd: Some(FreebsdDesc::default()), ..PolicyDesc::linux_4k() };
    let smaller = LinuxDesc { read_around: Bytes(8 * PAGE), largest_read: Bytes(3 * PAGE), ..LinuxDesc::default() };
    for (policy, expected) in
        [(PolicyDesc::linux_4k(), 320), (PolicyDesc { linux: smaller, ..PolicyDesc::linux_4k() }, 8), (freebsd, 0)]
    {
        let mut w = World::new(&desc(policy, 16), 16);
        // A file larger than any memory: what is behind the limit is not looked at.
        w.event(1, &mmap_file(BASE, 1 << 46, Prot::R, false, "/huge", 0));
        w.event(1, &madvise(BASE, 1 << 46, Advice::Willneed));
        assert_eq!(w.kernel.counts().events.get(EventKind::PagesRead), expected);
    }
}

/// MADV_POPULATE_WRITE (23, mm/gup.c, `faultin_page_range`) comes after advice, as MAP_POPULATE cannot.
#[test]
fn advised_memory_is_populated_with_huge_pages_where_they_were_advised() {
    let mut thp = PolicyDesc::linux_thp();
    thp.thp.as_mut().unwrap().enabled = mmulab_kernel::ThpEnabled::Madvise;
    let mut w = World::new(&desc(thp, 128), 128);
    w.event(1, &mmap(BASE, 2 * HUGE, Prot::RW));
    w.event(1, &madvise(BASE + HUGE, HUGE, Advice::Hugepage));
    w.event(1, &madvise(BASE, 2 * HUGE, Advice::Other(23)));
    let orders = [BASE, BASE + HUGE - PAGE, BASE + HUGE].map(|va| w.walk(1, va, None).map(|leaf| leaf.order));
    assert_eq!(orders, [Some(PageOrder::P4K), Some(PageOrder::P4K), Some(PageOrder::P2M)]);
    assert_eq!(w.usage().private_bytes, 2 * HUGE);
    // Nothing is left to fault in; numbers that there are no rules for do nothing.
    assert_eq!(w.store(1, BASE + 5 * PAGE, 7).unwrap(), []);
    w.event(1, &mmap(BASE + 8 * HUGE, HUGE, Prot::RW));
    w.event(1, &madvise(BASE + 8 * HUGE, HUGE, Advice::Other(77)));
    assert_eq!(w.usage().private_bytes, 2 * HUGE);
}

#[test]
fn stores_to_files_are_private_or_noticed() {
    let mut w = base();
    w.event(1, &mmap_file(BASE, 4 * PAGE, Prot::RW, false, "/data", 0));
    w.event(1, &mmap_file(BASE + HUGE, 4 * PAGE, Prot::RW, true, "/data", 0));
    assert_eq!(w.store(1, BASE, 1).unwrap(), [FaultKind::FilePrivate]);
    w.access(1, BASE + HUGE + PAGE, Access::Read).unwrap();
    assert_eq!(w.store(1, BASE + HUGE + PAGE, 7).unwrap(), [FaultKind::WriteNotify]);
    assert_eq!(w.frame(1, BASE + HUGE + PAGE), w.access(1, BASE + PAGE, Access::Read).map(|a| a.0).ok());
    assert_eq!(w.load(1, BASE + PAGE), Ok(7), "private and shared mappings see one page until it is stored to");
    assert_eq!(w.store(1, BASE + PAGE, 8).unwrap(), [FaultKind::Copy]);
    assert_eq!(w.load(1, BASE + HUGE + PAGE), Ok(7));
}

#[test]
fn the_pool_serves_aligned_parts_until_it_is_empty() {
    let mut w = World::new(&desc(hugetlb_policy(PageOrder::P2M, 2 * HUGE), 256), 256);
    w.event(1, &mmap(BASE + HUGE - PAGE, 3 * HUGE + 2 * PAGE, Prot::RW));
    for (offset, order) in [(HUGE - PAGE, 0), (HUGE, 9), (2 * HUGE, 9), (3 * HUGE, 0), (4 * HUGE, 0)] {
        w.store(1, BASE + offset, offset).unwrap();
        assert_eq!(w.walk(1, BASE + offset, None).unwrap().order.get(), order, "{offset:#x}");
    }
    let refusals = &w.kernel.counts().refusals;
    assert_eq!(refusals.get(Refusal::HugetlbHead), 1);
    assert_eq!(refusals.get(Refusal::HugetlbTail), 1);
    assert_eq!(refusals.get(Refusal::HugetlbPoolEmpty), 1);
    assert_eq!(w.usage().pool_used_bytes, 2 * HUGE);
    w.event(1, &munmap(BASE + HUGE + PAGE, PAGE));
    assert_eq!(w.usage().pool_used_bytes, 2 * HUGE, "half a page does not go back");
    w.event(1, &munmap(BASE + HUGE, HUGE));
    assert_eq!(w.usage().pool_used_bytes, HUGE);
}

#[test]
fn a_heap_on_huge_pages_grows_by_whole_ones() {
    let mut w = World::new(&desc(hugetlb_policy(PageOrder::P2M, 8 * HUGE), 256), 256);
    for end in [PAGE, 2 * PAGE, HUGE + PAGE] {
        w.event(1, &Event::Brk { start: VirtAddr::new(BASE), end: VirtAddr::new(BASE + end) });
        w.store(1, BASE + end - 8, end).unwrap();
    }
    assert_eq!(w.usage().mapped.bytes(PageOrder::P2M), 2 * HUGE);
    assert_eq!(w.usage().mapped.bytes(PageOrder::P4K), 0);
    let heaps = w.kernel.regions().iter().filter(|r| &*r.name == "[heap]").count();
    assert_eq!(heaps, 1);
}

#[test]
fn gigantic_pages_come_from_the_pool() {
    let mut w = World::new(&desc(hugetlb_policy(PageOrder::P1G, 1 << 30), 4096), 4096);
    w.event(1, &mmap(BASE, 1 << 30, Prot::RW));
    w.store(1, BASE + 12345 * PAGE, 1).unwrap();
    let leaf = w.walk(1, BASE, None).unwrap();
    assert_eq!(leaf.order, PageOrder::P1G);
    assert_eq!(leaf.pfn.align_down(PageOrder::P1G), leaf.pfn);
    w.event(1, &munmap(BASE + PAGE, PAGE));
    assert_eq!(w.walk(1, BASE, None).unwrap().order, PageOrder::P4K);
    assert_eq!(w.walk(1, BASE + HUGE, None).unwrap().order, PageOrder::P2M);
    w.event(1, &Event::Exit { status: 0 });
    assert_eq!(w.usage().pool_used_bytes, 0);
}

#[test]
fn explicit_huge_mappings_need_a_pool_and_alignment() {
    let flags = MapFlags { hugetlb: Some(PageOrder::P2M), ..MapFlags::default() };
    let map = |addr, len| Event::Mmap {
        addr: VirtAddr::new(addr),
        len,
        prot: Prot::RW,
        flags: flags.clone(),
        backing: Backing::Anon,
    };
    let mut w = base();
    w.event(1, &map(BASE, HUGE));
    assert_eq!(w.kernel.counts().errors.get(EventError::NoPool), 1);
    let mut policy = hugetlb_policy(PageOrder::P2M, 4 * HUGE);
    policy.hugetlb.as_mut().unwrap().applies_to = AppliesTo::Explicit;
    let mut w = World::new(&desc(policy, 64), 64);
    w.event(1, &map(BASE, PAGE));
    w.store(1, BASE + HUGE - 8, 1).unwrap();
    assert_eq!(w.walk(1, BASE, None).unwrap().order, PageOrder::P2M);
    w.event(1, &munmap(BASE + PAGE, PAGE));
    w.event(1, &map(BASE + PAGE, HUGE));
    assert_eq!(w.kernel.counts().errors.get(EventError::Invalid), 2);
    // A copy of a shared page of the pool is a page of the pool.
    w.event(1, &fork(2));
    assert_eq!(w.store(2, BASE, 2).unwrap(), [FaultKind::Copy]);
    assert_eq!(w.usage().pool_used_bytes, 2 * HUGE);
    assert_eq!((w.load(1, BASE + HUGE - 8), w.load(2, BASE + HUGE - 8), w.load(2, BASE)), (Ok(1), Ok(1), Ok(2)));
}

#[test]
fn bad_calls_are_counted_and_change_nothing() {
    let mut w = base();
    w.event(1, &mmap(BASE, 4 * PAGE, Prot::RW));
    for bad in [
        munmap(BASE + 1, PAGE),
        munmap(BASE, 0),
        mprotect(BASE + 1, PAGE, Prot::R),
        mmap(BASE, 0, Prot::RW),
        mmap(u64::MAX - 100, 1 << 30, Prot::RW),
        mmap(1 << 50, PAGE, Prot::RW),
        madvise(BASE + 8, PAGE, Advice::Dontneed),
    ] {
        let before = w.kernel.counts().errors.total();
        w.event(1, &bad);
        assert_eq!(w.kernel.counts().errors.total(), before + 1, "{bad:?}");
    }
    assert!(w.store(1, BASE + 3 * PAGE, 1).is_ok());
    w.event(1, &mprotect(BASE, 8 * PAGE, Prot::R));
    w.event(1, &madvise(BASE, 8 * PAGE, Advice::Dontneed));
    assert_eq!(w.kernel.counts().errors.get(EventError::NoMemory), 2);
}

#[test]
fn memory_that_runs_out_has_a_name_and_clean_file_pages_go_first() {
    let mut w = World::new(&desc(PolicyDesc::linux_4k(), 16), 16);
    w.event(1, &mmap_file(BASE, 4 << 20, Prot::R, false, "/big", 0));
    for page in 0..1024 {
        w.access(1, BASE + page * PAGE, Access::Read).unwrap();
    }
    w.event(1, &munmap(BASE, 4 << 20));
    w.event(1, &mmap(BASE, 64 << 20, Prot::RW));
    let error = (0..).find_map(|page| w.store(1, BASE + page * PAGE, 1).err()).unwrap();
    assert!(matches!(error, FaultError::OutOfMemory { .. }), "{error}");
    assert_eq!(w.kernel.counts().events.get(EventKind::CacheDropped), 1024);
    assert_eq!(w.kernel.counts().events.get(EventKind::OutOfMemory), 1);
}

#[test]
fn regions_are_what_the_program_asked_for() {
    let mut w = base();
    w.event(1, &mmap(BASE, 64 << 20, Prot::NONE));
    w.event(1, &mprotect(BASE, 1 << 20, Prot::RW));
    let arena = w.kernel.region_at(Pid(1), VirtAddr::new(BASE));
    assert_eq!(w.kernel.region_at(Pid(1), VirtAddr::new(BASE + (2 << 20))), arena);
    let far = BASE << 4;
    w.event(1, &mmap_file(far, 16 * PAGE, Prot::RX, false, "/usr/lib/libc.so.6", 4 * PAGE));
    let libc = w.kernel.region(w.kernel.region_at(Pid(1), VirtAddr::new(far + PAGE)));
    assert_eq!((&*libc.name, libc.offset), ("/usr/lib/libc.so.6 r-x", 4 * PAGE));
    // Mapped and unmapped in turn at one place: one region.
    let mut seen = Vec::new();
    for _ in 0..3 {
        w.event(1, &mmap(far + HUGE, HUGE, Prot::RW));
        seen.push(w.kernel.region_at(Pid(1), VirtAddr::new(far + HUGE)));
        w.event(1, &munmap(far + HUGE, HUGE));
    }
    assert!(seen.iter().all(|&id| id == seen[0]));
    assert_eq!(w.kernel.region_at(Pid(1), VirtAddr::new(far + HUGE)).index(), 0);
}

#[test]
fn references_without_mappings_can_be_mapped_on_touch() {
    let mut w = base();
    let va = BASE + 12345;
    assert!(matches!(w.load(1, va), Err(FaultError::Unmapped { .. })));
    let map =
        |w: &mut World, va| w.kernel.map_implicit(&mut w.mem, actor(1), VirtAddr::new(va), &mut w.effects).unwrap();
    map(&mut w, va);
    assert_eq!(w.load(1, BASE + HUGE - 8), Ok(0));
    map(&mut w, BASE + HUGE);
    let region = w.kernel.region_at(Pid(1), VirtAddr::new(va));
    assert_eq!(w.kernel.region_at(Pid(1), VirtAddr::new(BASE + HUGE)), region);
}

#[test]
fn a_description_that_contradicts_itself_is_refused_with_the_key() {
    let key = |policy: PolicyDesc| match mmulab_kernel::Kernel::new(
        &desc(policy, 64),
        &mut mmulab_frames::PhysMem::new(64 << 20),
    ) {
        Err(KernelError::Description { key, .. }) => key,
        Err(other) => panic!("{other}"),
        Ok(_) => "none".into(),
    };
    assert_eq!(key(PolicyDesc { kind: PolicyKind::Linux4k, ..PolicyDesc::linux_thp() }), "thp");
    assert_eq!(key(PolicyDesc { kind: PolicyKind::Hugetlb, ..PolicyDesc::linux_4k() }), "hugetlb");
    assert_eq!(key(hugetlb_policy(PageOrder::P64K, 1 << 20)), "hugetlb.size");
    assert_eq!(key(hugetlb_policy(PageOrder::P2M, 1 << 40)), "hugetlb.pool");
    let mut odd = PolicyDesc::linux_4k();
    odd.linux.fault_around = Bytes(12345);
    assert_eq!(key(odd), "linux.fault_around");
}

#[test]
fn the_shipped_policies_are_read_and_boot() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../policies");
    let dirs = [folder];
    let mut names = Vec::new();
    for (name, _) in mmulab_describe::list(&dirs) {
        let policy: PolicyDesc =
            mmulab_describe::Whole::read::<PolicyDesc>("policy", &name, &dirs).unwrap().typed(&[]).unwrap();
        assert_eq!(policy.name, name);
        assert!(!policy.linux.source.is_empty());
        let mut desc = desc(policy.clone(), 16 << 10);
        if policy.contiguous.is_some() {
            let kind = TableKind::ALL.iter().find(|kind| kind.name() == "armv8-4k").unwrap();
            desc.table = TableDesc::new(*kind, 4).unwrap();
        }
        mmulab_kernel::Kernel::new(&desc, &mut mmulab_frames::PhysMem::new(16 << 30)).unwrap();
        names.push(policy.name);
    }
    assert!(names.len() >= 5);
}

#[test]
fn flushes_are_gathered_by_operation_and_capped() {
    use mmulab_pagetable::Invalidate;
    let flags = MapFlags { global: true, ..MapFlags::default() };
    for (pages, is_global, expected) in [
        (1, false, WorkKind::FlushPage),
        (33, false, WorkKind::FlushRange),
        (34, false, WorkKind::FlushSpace),
        (34, true, WorkKind::FlushSpace),
    ] {
        let mut w = base();
        let flags = if is_global { flags.clone() } else { MapFlags::default() };
        let map = Event::Mmap { addr: VirtAddr::new(BASE), len: HUGE, prot: Prot::RW, flags, backing: Backing::Anon };
        w.event(1, &map);
        for page in 0..pages {
            w.store(1, BASE + page * PAGE, 1).unwrap();
        }
        w.effects.clear();
        w.kernel.event(&mut w.mem, actor(1), &munmap(BASE, HUGE), &mut w.effects).unwrap();
        assert_eq!(w.effects.invalidations.len(), 1);
        assert!(w.effects.work.iter().any(|work| work.kind == expected && work.count == 1));
        assert_eq!(w.effects.invalidations[0] == Invalidate::All, is_global);
    }
}

#[test]
fn the_same_trace_gives_the_same_regions_under_every_policy() {
    let regions = |policy: PolicyDesc| {
        let mut w = World::new(&desc(policy, 256), 256);
        w.event(1, &Event::Brk { start: VirtAddr::new(BASE), end: VirtAddr::new(BASE + 5 * PAGE) });
        w.event(1, &mmap(BASE + 8 * HUGE, 3 * HUGE, Prot::RW));
        w.event(1, &mmap_file(BASE + 16 * HUGE, HUGE, Prot::RX, false, "/bin/x", 0));
        for page in 0..5 {
            w.store(1, BASE + page * PAGE, 1).unwrap();
            w.store(1, BASE + 8 * HUGE + page * HUGE / 2, 1).unwrap();
        }
        w.event(1, &mprotect(BASE + 9 * HUGE, PAGE, Prot::R));
        w.event(1, &fork(2));
        w.event(
            1,
            &Event::Mremap {
                old: VirtAddr::new(BASE + 8 * HUGE),
                old_len: HUGE,
                new: VirtAddr::new(BASE + 64 * HUGE),
                new_len: 2 * HUGE,
                keep_old: false,
            },
        );
        w.event(1, &mmap(BASE + 8 * HUGE, HUGE, Prot::RW));
        let regions = w.kernel.regions();
        let regions = regions.iter();
        regions.map(|r| (r.number, r.pid, r.name.clone(), r.start, r.prot, r.offset)).collect::<Vec<_>>()
    };
    let base = regions(PolicyDesc::linux_4k());
    assert_eq!(base, regions(PolicyDesc::linux_thp()));
    assert_eq!(base, regions(hugetlb_policy(PageOrder::P2M, 16 * HUGE)));
}

#[test]
fn tags_run_out_and_are_flushed_before_they_are_used_again() {
    let mut desc = desc(PolicyDesc::linux_4k(), 64);
    desc.asid_bits = 1;
    let mut w = World::new(&desc, 64);
    let switch = |pid| Event::Switch { pid: Pid(pid), tid: mmulab_addr::Tid(pid) };
    for round in 0..3 {
        for pid in [1, 2, 3] {
            w.event(pid, &switch(pid));
            if round == 0 {
                w.event(pid, &mmap(BASE, PAGE, Prot::RW));
                w.store(pid, BASE, u64::from(pid)).unwrap();
            }
            // A translation of another process under the same tag would be a stale one.
            assert_eq!(w.load(pid, BASE), Ok(u64::from(pid)));
        }
    }
    assert_eq!(w.kernel.counts().events.get(EventKind::AsidRecycled), 8);
}

#[test]
fn without_tags_a_forked_child_is_flushed_to_when_it_first_runs() {
    let mut desc = desc(PolicyDesc::linux_4k(), 256);
    desc.asid_bits = 0;
    let mut w = World::new(&desc, 256);
    w.event(1, &mmap(BASE, PAGE, Prot::RW));
    w.store(1, BASE, 7).unwrap();
    w.event(1, &fork(2));
    // The parent runs on, and its translations of its own copy are in the TLB.
    w.store(1, BASE, 8).unwrap();
    w.event(1, &Event::Switch { pid: Pid(2), tid: Tid(2) });
    assert_eq!(w.load(2, BASE).unwrap(), 7);
}

#[test]
fn a_part_of_a_split_pool_page_is_copied_without_a_pool_page() {
    let mut w = World::new(&desc(hugetlb_policy(PageOrder::P1G, 2 << 30), 4096), 4096);
    w.event(1, &mmap(BASE, 1 << 30, Prot::RW));
    w.store(1, BASE, 7).unwrap();
    w.event(1, &munmap(BASE + (1 << 29), PAGE));
    w.event(1, &fork(2));
    assert_eq!(w.store(1, BASE, 8).unwrap(), [FaultKind::Copy]);
    assert_eq!(w.walk(1, BASE, None).unwrap().order, PageOrder::P4K);
    assert_eq!((w.load(1, BASE).unwrap(), w.load(2, BASE).unwrap()), (8, 7));
    assert_eq!(w.usage().pool_used_bytes, 1 << 30);
}
