//! Pages that mappings and children have without a fault under FreeBSD: those in memory at mmap and exec, and copies
//! of a parent's entries.

use crate::common::*;
use mmulab_addr::{Access, PageOrder, Pid, Prot, VirtAddr};
use mmulab_kernel::{EventKind, FaultKind, ForkCopies, FreebsdDesc, PolicyDesc};
use mmulab_trace::{Advice, Backing, Event, MapFlags};

const HUGE: u64 = 2 << 20;
/// A library.
const CODE: u64 = 200 * PAGE;

fn world(change: impl FnOnce(&mut FreebsdDesc)) -> World {
    let mut policy = PolicyDesc::freebsd();
    change(policy.freebsd.as_mut().unwrap());
    World::new(&desc(policy, 128), 128)
}

fn fork(w: &mut World, pid: u32, child: u32) {
    w.event(pid, &Event::Fork { child: Pid(child), shares_memory: false });
}

fn exec(w: &mut World, pid: u32) {
    w.event(pid, &Event::Exec { path: "/bin/p".into() });
}

fn mmap_shared(addr: u64, len: u64) -> Event {
    let flags = MapFlags { shared: true, ..MapFlags::default() };
    Event::Mmap { addr: VirtAddr::new(addr), len, prot: Prot::RW, flags, backing: Backing::Anon }
}

fn code(at: u64) -> Event {
    mmap_file(at, CODE, Prot::RX, false, "/lib/c", 0)
}

/// Reads all of the library into memory, as process 9.
fn read_library(w: &mut World) {
    w.event(9, &code(BASE));
    for page in 0..200 {
        w.access(9, BASE + page * PAGE, Access::Fetch).unwrap();
    }
}

fn mapped(w: &mut World, pid: u32, at: u64) -> u64 {
    (0..200).filter(|page| w.walk(pid, at + page * PAGE, None).is_some()).count() as u64
}

/// S1-M034, S1-M020: a child has its parent's entries for code, shared and private memory (`pmap_copy`), with A and D
/// clear. Linux copies those of private pages alone.
#[test]
fn a_child_has_all_its_parents_entries() {
    let shared = BASE + 4 * HUGE;
    let private = BASE + 8 * HUGE;
    for (copies, faults) in [(ForkCopies::All, 0), (ForkCopies::Private, 2)] {
        let mut w = world(|freebsd| freebsd.fork_copies = copies);
        w.event(1, &code(BASE));
        w.event(1, &mmap_shared(shared, 4 * PAGE));
        w.event(1, &mmap(private, 4 * PAGE, Prot::RW));
        w.access(1, BASE, Access::Fetch).unwrap();
        w.store(1, shared, 1).unwrap();
        w.store(1, private, 2).unwrap();
        fork(&mut w, 1, 2);
        let copy = |w: &mut World, va: u64| w.walk(2, va, None).map(|leaf| (leaf.accessed, leaf.dirty, leaf.prot));
        let is_all = copies == ForkCopies::All;
        assert_eq!(copy(&mut w, BASE), is_all.then_some((false, false, Prot::RX)));
        assert_eq!(copy(&mut w, shared), is_all.then_some((false, false, Prot::RW)));
        assert_eq!(copy(&mut w, private), Some((false, !is_all, Prot::R)));
        let mut taken = w.access(2, BASE + 15 * PAGE, Access::Fetch).unwrap().1;
        taken.extend(w.access(2, shared, Access::Write).unwrap().1);
        assert_eq!(taken.len(), faults, "{copies:?}");
        assert_eq!(w.frame(2, shared), w.frame(1, shared));
        // The first store to private memory copies, in either.
        assert_eq!(w.access(2, private, Access::Write).unwrap().1.len(), 1);
        assert_ne!(w.frame(2, private), w.frame(1, private));
    }
}

/// A superpage is copied as one.
#[test]
fn a_child_has_its_parents_superpages() {
    let mut w = world(|_| {});
    w.event(1, &mmap_file(BASE, 2 * HUGE, Prot::RX, false, "/lib/c", 0));
    for va in (BASE..BASE + 2 * HUGE).step_by(PAGE as usize) {
        w.access(1, va, Access::Fetch).unwrap();
    }
    let order = |w: &mut World, pid: u32, va: u64| w.walk(pid, va, None).map(|leaf| leaf.order);
    assert_eq!(order(&mut w, 1, BASE), Some(PageOrder::P2M));
    fork(&mut w, 1, 2);
    assert_eq!(order(&mut w, 2, BASE), Some(PageOrder::P2M));
    assert_eq!(order(&mut w, 2, BASE + HUGE), Some(PageOrder::P2M));
    assert_eq!(w.access(2, BASE + HUGE, Access::Fetch).unwrap().1, []);
}

/// Advice that divides a mapping divides its superpage as well, so a child has each part (`pmap_copy` copies whole
/// superpages alone).
#[test]
fn a_child_has_all_parts_of_a_divided_superpage() {
    let mut w = world(|_| {});
    w.event(1, &mmap(BASE, HUGE, Prot::RW));
    for va in (BASE..BASE + HUGE).step_by(PAGE as usize) {
        w.store(1, va, va).unwrap();
    }
    assert_eq!(w.walk(1, BASE, None).map(|leaf| leaf.order), Some(PageOrder::P2M));
    let (addr, len) = (VirtAddr::new(BASE), 64 * PAGE);
    w.event(1, &Event::Madvise { addr, len, advice: Advice::Nohugepage });
    fork(&mut w, 1, 2);
    for va in (BASE..BASE + HUGE).step_by(PAGE as usize) {
        assert_eq!(w.load(2, va).unwrap(), va);
    }
}

/// `vm_map_pmap_enter` with MAP_PREFAULT_PARTIAL: of the first 96 pages (MAX_INIT_PT), those in memory.
#[test]
fn mmap_maps_what_is_in_memory_of_the_first_96_pages() {
    let mut w = world(|_| {});
    read_library(&mut w);
    w.event(1, &code(BASE));
    assert_eq!(mapped(&mut w, 1, BASE), 96);
    assert_eq!(w.kernel.counts().events.get(EventKind::MappedAhead), 96);
    let leaf = w.walk(1, BASE + 95 * PAGE, None).unwrap();
    assert_eq!((leaf.accessed, leaf.dirty, leaf.prot), (false, false, Prot::RX));
    assert_eq!(w.access(1, BASE + 95 * PAGE, Access::Fetch).unwrap().1, []);
    assert_eq!(w.access(1, BASE + 120 * PAGE, Access::Fetch).unwrap().1, [FaultKind::FileCached]);
    let mut w = world(|freebsd| freebsd.mmap_prefault = 0);
    read_library(&mut w);
    w.event(1, &code(BASE));
    assert_eq!(mapped(&mut w, 1, BASE), 0);
}

/// Pages that are not in memory stay holes: nothing is read for a new mapping.
#[test]
fn a_new_mapping_reads_nothing() {
    let mut w = world(|_| {});
    w.event(9, &code(BASE));
    w.access(9, BASE + 40 * PAGE, Access::Fetch).unwrap();
    let read = w.kernel.counts().events.get(EventKind::PagesRead);
    w.event(1, &code(BASE));
    // The cluster of 64 KiB that holds page 40.
    assert_eq!((mapped(&mut w, 1, BASE), w.kernel.counts().events.get(EventKind::PagesRead)), (16, read));
    assert!(w.walk(1, BASE + 31 * PAGE, None).is_none() && w.walk(1, BASE + 32 * PAGE, None).is_some());
}

/// A superpage counts as one of the 96 pages (`threshold += mask`).
#[test]
fn a_superpage_counts_as_one_page() {
    let mut w = world(|_| {});
    let library = mmap_file(BASE, HUGE + 200 * PAGE, Prot::RX, false, "/lib/c", 0);
    w.event(9, &library);
    for va in (BASE..BASE + HUGE + 200 * PAGE).step_by(PAGE as usize) {
        w.access(9, va, Access::Fetch).unwrap();
    }
    w.event(1, &library);
    assert_eq!(w.walk(1, BASE, None).map(|leaf| (leaf.order, leaf.accessed)), Some((PageOrder::P2M, false)));
    assert_eq!(mapped(&mut w, 1, BASE + HUGE), 95);
}

/// `load_section` of sys/kern/imgact_elf.c: MAP_PREFAULT without a limit, for the program and its interpreter; then the
/// program runs, and what it maps has the limit of mmap.
#[test]
fn exec_maps_all_that_is_in_memory() {
    let mut w = world(|_| {});
    read_library(&mut w);
    exec(&mut w, 1);
    w.event(1, &code(BASE));
    assert_eq!(mapped(&mut w, 1, BASE), 200);
    w.event(1, &mmap(BASE + 8 * HUGE, PAGE, Prot::RW));
    w.access(1, BASE + 8 * HUGE, Access::Write).unwrap();
    w.event(1, &code(BASE + 16 * HUGE));
    assert_eq!(mapped(&mut w, 1, BASE + 16 * HUGE), 96);
    let mut w = world(|freebsd| freebsd.exec_prefault = false);
    read_library(&mut w);
    exec(&mut w, 1);
    w.event(1, &code(BASE));
    assert_eq!(mapped(&mut w, 1, BASE), 96);
}

/// Entries for a private mapping that may be stored to have no W: the first store copies.
#[test]
fn stores_to_data_that_exec_mapped_copy_the_page() {
    let mut w = world(|_| {});
    let data = mmap_file(BASE, 4 * PAGE, Prot::RW, false, "/bin/p", 0);
    w.event(9, &data);
    w.access(9, BASE, Access::Read).unwrap();
    exec(&mut w, 1);
    w.event(1, &data);
    assert_eq!(w.walk(1, BASE, None).map(|leaf| leaf.prot), Some(Prot::R));
    w.store(1, BASE, 7).unwrap();
    assert_ne!(w.frame(1, BASE), w.frame(9, BASE));
}

/// Without a frame for a page table, mmap maps less; it does not fail.
#[test]
fn a_mapping_without_memory_for_its_tables_is_made_all_the_same() {
    let mut policy = PolicyDesc::freebsd();
    let freebsd = policy.freebsd.as_mut().unwrap();
    (freebsd.levels, freebsd.promotion) = (Vec::new(), false);
    let mut w = World::new(&desc(policy, 16), 16);
    w.event(1, &mmap(BASE + 8 * HUGE, PAGE, Prot::RW));
    w.event(9, &code(BASE));
    w.access(9, BASE, Access::Fetch).unwrap();
    w.event(9, &mmap(BASE + 8 * HUGE, 32 << 20, Prot::RW));
    let mut va = BASE + 8 * HUGE;
    while w.access(9, va, Access::Write).is_ok() {
        va += PAGE;
    }
    w.event(1, &code(BASE));
    assert_eq!((mapped(&mut w, 9, BASE) > 0, mapped(&mut w, 1, BASE)), (true, 0));
}

/// A mapping may reach far beyond what is in memory of its file: exec passes over the rest.
#[test]
fn exec_finds_the_pages_of_a_mapping_of_terabytes() {
    let (far, len) = (1 << 40, 16 << 40);
    let mut w = world(|_| {});
    w.event(9, &mmap_file(BASE, 4 * PAGE, Prot::R, false, "/large", far));
    w.access(9, BASE, Access::Read).unwrap();
    exec(&mut w, 1);
    w.event(1, &mmap_file(BASE, len, Prot::R, false, "/large", 0));
    assert!(w.walk(1, BASE + far, None).is_some());
    assert!(w.walk(1, BASE, None).is_none());
    assert!(w.walk(1, BASE + len - PAGE, None).is_none());
}
