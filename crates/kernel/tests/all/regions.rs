//! Regions: whose they are, what they hold, and what becomes of those that are gone.

use crate::common::*;
use mmulab_addr::{PageOrder, Pid, Prot, VirtAddr};
use mmulab_kernel::{Fold, PolicyDesc, Region, RegionKind};
use mmulab_trace::Event;
use std::collections::BTreeMap;

const HUGE: u64 = 2 << 20;

fn munmap(addr: u64, len: u64) -> Event {
    Event::Munmap { addr: VirtAddr::new(addr), len }
}

fn fork(child: u32) -> Event {
    Event::Fork { child: Pid(child), shares_memory: false }
}

fn region(w: &World, pid: u32, va: u64) -> &Region {
    w.kernel.region(w.kernel.region_at(Pid(pid), VirtAddr::new(va)))
}

fn held(w: &World, pid: u32, va: u64) -> (u64, u64) {
    let resident = w.kernel.resident(region(w, pid, va).id);
    (resident.now, resident.peak)
}

/// CHANGELOG number 9: a mapping of one program is one region over all its processes, and another program's is another.
#[test]
fn the_processes_of_a_program_share_its_regions() {
    let mut w = World::new(&desc(PolicyDesc::linux_4k(), 64), 64);
    w.event(1, &Event::Exec { path: "/bin/sh".into() });
    w.event(1, &mmap(BASE, 8 * PAGE, Prot::RW));
    w.event(1, &mmap_file(BASE << 4, 8 * PAGE, Prot::RX, false, "/bin/sh", 0));
    for child in [2, 3] {
        w.event(1, &fork(child));
        w.event(child, &mmap(BASE + 64 * PAGE, 4 * PAGE, Prot::RW));
        w.store(child, BASE + 64 * PAGE, 1).unwrap();
    }
    assert_eq!(region(&w, 2, BASE).number, region(&w, 1, BASE).number);
    assert_eq!(region(&w, 2, BASE + 64 * PAGE).number, region(&w, 3, BASE + 64 * PAGE).number);
    assert_eq!(held(&w, 3, BASE + 64 * PAGE), (2 * PAGE, 2 * PAGE), "a page of each");
    // The same program again, started anew, and another one.
    w.event(1, &fork(4));
    w.event(4, &Event::Exec { path: "/bin/sh".into() });
    w.event(4, &mmap_file(BASE << 4, 8 * PAGE, Prot::RX, false, "/bin/sh", 0));
    w.event(1, &fork(5));
    w.event(5, &Event::Exec { path: "/bin/cc".into() });
    w.event(5, &mmap_file(BASE << 4, 8 * PAGE, Prot::RX, false, "/bin/sh", 0));
    assert_eq!(region(&w, 4, BASE << 4).number, region(&w, 1, BASE << 4).number);
    assert_ne!(region(&w, 5, BASE << 4).number, region(&w, 1, BASE << 4).number);
    assert_eq!(&*region(&w, 5, BASE << 4).program, "/bin/cc");
    let programs: Vec<_> = w.kernel.programs().map(|p| (p.path.to_string(), p.pid.0, p.processes)).collect();
    assert_eq!(programs, [("/bin/sh".to_owned(), 1, 6), ("/bin/cc".to_owned(), 5, 1)], "two only forked to exec");
    // Members of a mix are numbered apart: the same path is two programs there.
    w.event(10_001, &Event::Exec { path: "/bin/cc".into() });
    w.event(10_001, &mmap_file(BASE << 4, 8 * PAGE, Prot::RX, false, "/bin/sh", 0));
    assert_ne!(region(&w, 10_001, BASE << 4).number, region(&w, 5, BASE << 4).number);
}

/// CHANGELOG number 5: what a region takes is what is resident for it, each frame once and zero pages not at all.
#[test]
fn a_region_takes_what_is_resident_for_it() {
    for (policy, read) in [(PolicyDesc::linux_4k(), PAGE), (PolicyDesc::linux_thp(), HUGE)] {
        let mut w = World::new(&desc(policy, 64), 64);
        w.event(1, &mmap(BASE, 4 * HUGE, Prot::RW));
        w.load(1, BASE).unwrap();
        w.load(1, BASE + HUGE).unwrap();
        let of = |w: &World| {
            let region = region(w, 1, BASE);
            (region.mapped.total(), region.mapped_zero.total())
        };
        assert_eq!((of(&w), held(&w, 1, BASE)), ((0, 2 * read), (0, 0)));
        let usage = w.usage();
        assert_eq!((usage.mapped.total(), usage.mapped_zero.total(), usage.resident_bytes), (0, 2 * read, 0));
        // A store into the second takes memory; a fork shares it, and the child's store takes a page more.
        w.store(1, BASE + HUGE, 1).unwrap();
        let stored = w.usage().resident_bytes;
        assert!(stored == PAGE || stored == HUGE);
        assert_eq!((of(&w).0, held(&w, 1, BASE).0), (stored, stored));
        w.event(1, &fork(2));
        assert_eq!(held(&w, 1, BASE).0, stored, "a frame that two processes map counts once");
        w.store(2, BASE + HUGE, 2).unwrap();
        assert_eq!(held(&w, 2, BASE), (stored + PAGE, stored + PAGE));
        w.event(2, &Event::Exit { status: 0 });
        w.event(1, &munmap(BASE, 4 * HUGE));
        assert_eq!(w.usage().resident_bytes, 0);
    }
}

/// What a file's fault brings into the page cache is the region's, and stays when the mapping goes.
#[test]
fn the_page_cache_is_resident_for_the_region_that_read_it() {
    let mut w = World::new(&desc(PolicyDesc::linux_4k(), 64), 64);
    w.event(1, &mmap_file(BASE, 16 * PAGE, Prot::R, false, "/f", 0));
    w.load(1, BASE).unwrap();
    assert_eq!(held(&w, 1, BASE), (16 * PAGE, 16 * PAGE));
    let id = region(&w, 1, BASE).id;
    w.event(1, &munmap(BASE, 16 * PAGE));
    assert_eq!(w.kernel.resident(id).now, 16 * PAGE);
}

/// CHANGELOG number 19: mappings that come and go at ever new addresses are folded into their kinds. The largest, those
/// still there, and all sums stay.
#[test]
fn regions_that_are_gone_are_folded_into_their_kinds() {
    const PAIRS: u64 = 200_000;
    let run = || {
        let mut w = World::new(&desc(PolicyDesc::linux_4k(), 64), 64);
        w.event(1, &mmap(BASE, 16 * PAGE, Prot::RW));
        w.store(1, BASE, 1).unwrap();
        let there = region(&w, 1, BASE).number;
        w.event(1, &mmap(BASE << 8, 64 * PAGE, Prot::RW));
        let large = region(&w, 1, BASE << 8).number;
        w.event(1, &munmap(BASE << 8, 64 * PAGE));
        // What a machine would have charged, moved along as it is told to.
        let (mut cost, mut charged): (BTreeMap<u32, u64>, u64) = (BTreeMap::new(), 0);
        for i in 0..PAIRS {
            let va = (BASE << 4) + i * 3 * PAGE;
            let event = match i % 100 {
                0 => mmap_file(va, PAGE, Prot::R, false, &format!("/f{}", i % 700), 0),
                1 => mmap(va, PAGE, Prot::R),
                _ => mmap(va, PAGE, Prot::RW),
            };
            w.event(1, &event);
            w.load(1, va).unwrap();
            let id = w.kernel.region_at(Pid(1), VirtAddr::new(va));
            *cost.entry(id.0).or_default() += i;
            charged += i;
            w.effects.folded.clear();
            w.event(1, &munmap(va, PAGE));
            for Fold { from, into } in w.effects.folded.clone() {
                let gone = cost.remove(&from.0).unwrap_or_default();
                *cost.entry(into.0).or_default() += gone;
            }
        }
        let regions: Vec<Region> = w.kernel.regions().into_iter().cloned().collect();
        assert!(regions.len() < 2100, "{} rows", regions.len());
        assert!([there, large].iter().all(|number| regions.iter().any(|r| r.number == *number)));
        let folds: Vec<_> = regions.iter().filter(|r| r.folded > 0).map(|r| (&*r.name, r.folded)).collect();
        let mut names: Vec<_> = folds.iter().map(|f| f.0).collect();
        names.sort_unstable();
        assert_eq!(names, ["unmapped anon r--", "unmapped anon rw-", "unmapped files r--"]);
        let own = regions.iter().filter(|r| r.folded == 0).count() as u64;
        assert_eq!(folds.iter().map(|f| f.1).sum::<u64>() + own, PAIRS + 3, "none is lost");
        assert_eq!(regions.iter().map(|r| cost.get(&r.id.0).copied().unwrap_or_default()).sum::<u64>(), charged);
        let held: u64 = regions.iter().map(|r| w.kernel.resident(r.id).now).sum();
        assert_eq!(held, w.kernel.resident_bytes(), "the page cache of folded files is their kind's");
        let zero = regions.iter().find(|r| &*r.name == "unmapped anon rw-").unwrap();
        assert_eq!(zero.mapped_zero.iter().next(), Some((PageOrder::P4K, 0, PAGE)), "the highest peak of one of them");
        (regions, cost)
    };
    assert!(run() == run(), "the same events, the same rows");
}

fn name(addr: u64, len: u64, name: &str) -> Event {
    Event::Name { addr: VirtAddr::new(addr), len, name: name.into() }
}

/// A named part of a mapping is a region of its own, with what is mapped in it; the whole is counted as before.
#[test]
fn a_named_part_of_a_mapping_is_a_region_of_its_own() {
    let mut w = World::new(&desc(PolicyDesc::linux_thp(), 64), 64);
    w.event(1, &mmap(BASE, 4 * HUGE, Prot::RW));
    for huge in 0..4 {
        w.store(1, BASE + huge * HUGE, 1).unwrap();
    }
    let before = w.usage();
    w.event(1, &name(BASE + HUGE - 8, 2 * HUGE + 16, "table_new (table.c:42)"));
    let of = |w: &World, va| (region(w, 1, va).name.to_string(), region(w, 1, va).mapped.total());
    assert_eq!(of(&w, BASE), ("anon".into(), 2 * HUGE));
    assert_eq!(of(&w, BASE + HUGE), ("anon: table_new (table.c:42)".into(), 2 * HUGE), "its whole pages");
    assert_eq!(of(&w, BASE + 3 * HUGE).0, "anon");
    assert_eq!(w.usage().mapped, before.mapped);
    // It grows with what the same place asks for beside it, and another place's is another region.
    w.event(1, &name(BASE + 3 * HUGE, HUGE, "table_new (table.c:42)"));
    assert_eq!(of(&w, BASE + 3 * HUGE), ("anon: table_new (table.c:42)".into(), 3 * HUGE));
    w.event(1, &name(BASE + 3 * HUGE, HUGE, "index_new"));
    assert_eq!(of(&w, BASE + 3 * HUGE), ("anon: index_new".into(), HUGE));
    // Without a name it is what it was.
    w.event(1, &name(BASE, 4 * HUGE, ""));
    assert_eq!(of(&w, BASE + HUGE), ("anon".into(), 4 * HUGE));
    w.event(1, &munmap(BASE, 4 * HUGE));
    assert!(w.kernel.regions().iter().all(|r| r.mapped.total() == 0));
}

/// A mapping that is named as a whole keeps its number and what was counted; so does one that comes and goes.
#[test]
fn a_mapping_named_as_a_whole_is_renamed() {
    let mut w = World::new(&desc(PolicyDesc::linux_4k(), 64), 64);
    let mut numbers = Vec::new();
    for _ in 0..3 {
        w.event(1, &mmap(BASE, 8 * PAGE, Prot::RW));
        w.store(1, BASE, 1).unwrap();
        w.event(1, &name(BASE, 8 * PAGE, "table_new"));
        assert_eq!(&*region(&w, 1, BASE).name, "anon: table_new");
        numbers.push(region(&w, 1, BASE).number);
        w.event(1, &munmap(BASE, 8 * PAGE));
    }
    assert!(numbers.iter().all(|number| *number == numbers[0]));
    // A stack of a thread is a stack; a heap keeps its kind, a file its name.
    w.event(1, &mmap(BASE, 8 * PAGE, Prot::RW));
    w.event(1, &name(BASE, 8 * PAGE, "[stack of thread 1]"));
    let stack = region(&w, 1, BASE);
    assert_eq!((&*stack.name, stack.kind), ("[stack of thread 1]", RegionKind::Stack));
    w.event(1, &Event::Brk { start: VirtAddr::new(BASE << 2), end: VirtAddr::new((BASE << 2) + 64 * PAGE) });
    w.event(1, &name((BASE << 2) + PAGE, 8 * PAGE, "table_new"));
    let heap = region(&w, 1, (BASE << 2) + PAGE);
    assert_eq!((&*heap.name, heap.kind), ("[heap]: table_new", RegionKind::Heap));
    assert_eq!(&*region(&w, 1, BASE << 2).name, "[heap]");
    w.event(1, &mmap_file(BASE << 4, 8 * PAGE, Prot::RX, false, "/bin/sh", 0));
    w.event(1, &name(BASE << 4, 8 * PAGE, "table_new"));
    assert_eq!(&*region(&w, 1, BASE << 4).name, "/bin/sh r-x");
}
