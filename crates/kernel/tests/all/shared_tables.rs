//! Page tables of code that processes share (paper 2, section VI-B): how many there are, when one is copied, and that
//! programs cannot tell.

use crate::common::*;
use mmulab_addr::{Access, PageOrder, Prot, VirtAddr};
use mmulab_kernel::{EventKind, FaultKind, PolicyDesc, ShareTables, Threshold};
use mmulab_trace::Event;
use proptest::prelude::*;

const HUGE: u64 = 2 << 20;
const GIANT: u64 = 1 << 30;
/// An entry of the root covers this.
const MOST: u64 = 512 << 30;
/// A library: 300 pages of code, and 20 of data 2 MiB after their beginning.
const CODE: u64 = 300 * PAGE;
const DATA: u64 = 20 * PAGE;

fn world(share: ShareTables) -> World {
    world_with(share, Threshold::Clusters(32))
}

fn world_with(share: ShareTables, threshold: Threshold) -> World {
    let mut policy = PolicyDesc::freebsd();
    let code = &mut policy.freebsd.as_mut().unwrap().code;
    (code.share_tables, code.threshold) = (share, threshold);
    World::new(&desc(policy, 128), 128)
}

fn happened(w: &World, what: EventKind) -> u64 {
    w.kernel.counts().events.get(what)
}

fn load_library(w: &mut World, pid: u32, at: u64) {
    w.event(pid, &mmap_file(at, CODE, Prot::RX, false, "/lib/c", 0));
    w.event(pid, &mmap_file(at + HUGE, DATA, Prot::RW, false, "/lib/c", CODE));
}

fn touch_code(w: &mut World, pid: u32, at: u64) {
    for va in (at..at + CODE).step_by(PAGE as usize) {
        w.access(pid, va, Access::Fetch).unwrap();
    }
}

/// S1-011, S1-054, S1-056, S1-059: tables for a library grow with the processes, or are one; upper tables stay their
/// own. Addresses may differ by whole 2 MiB, and no process is the others' template.
#[test]
fn one_copy_of_a_librarys_tables_serves_all_processes() {
    let tables = |share: ShareTables, processes: u32| {
        let mut w = world(share);
        for pid in 1..=processes {
            let at = BASE + u64::from(pid) * 64 * HUGE;
            load_library(&mut w, pid, at);
            touch_code(&mut w, pid, at);
        }
        assert_eq!(w.usage().mapped.total(), u64::from(processes) * CODE, "each process has all of it mapped");
        w.usage().table_bytes / PAGE
    };
    for processes in [1, 2, 8, 32] {
        // Three upper tables each.
        assert_eq!(tables(ShareTables::None, processes), u64::from(4 * processes));
        assert_eq!(tables(ShareTables::Lowest, processes), u64::from(3 * processes) + 1);
    }
}

/// S1-M034, S1-M039: a second process finds what the first had mapped without a fault when it maps the library, and
/// when it is forked. If the table came later, it takes one fault for all pages.
#[test]
fn tables_are_joined_by_mmap_by_fork_and_by_a_fault() {
    let mut w = world(ShareTables::Lowest);
    load_library(&mut w, 2, BASE);
    load_library(&mut w, 1, BASE);
    touch_code(&mut w, 1, BASE);
    let fault = |w: &mut World, pid: u32, va: u64| w.access(pid, va, Access::Fetch).unwrap().1;
    assert_eq!(fault(&mut w, 2, BASE + 7 * PAGE), [FaultKind::FileCached]);
    assert_eq!(fault(&mut w, 2, BASE + 299 * PAGE), []);
    load_library(&mut w, 3, BASE);
    assert_eq!(fault(&mut w, 3, BASE), []);
    w.event(3, &Event::Fork { child: mmulab_addr::Pid(4), shares_memory: false });
    assert_eq!(fault(&mut w, 4, BASE + 150 * PAGE), []);
    assert_eq!((happened(&w, EventKind::TableOffered), happened(&w, EventKind::TableJoined)), (1, 3));
    // What one of them adds, the others have.
    let mut w = world(ShareTables::Lowest);
    load_library(&mut w, 1, BASE);
    w.access(1, BASE, Access::Fetch).unwrap();
    load_library(&mut w, 2, BASE);
    w.access(2, BASE + 200 * PAGE, Access::Fetch).unwrap();
    assert_eq!(w.access(1, BASE + 200 * PAGE, Access::Fetch).unwrap().1, []);
}

/// S1-058: other rights for a part of it give a process a table of its own; the others keep theirs.
#[test]
fn changed_rights_copy_the_table_for_one_process() {
    let mut w = world(ShareTables::Lowest);
    for pid in 1..=3 {
        load_library(&mut w, pid, BASE);
    }
    touch_code(&mut w, 1, BASE);
    for pid in 2..=3 {
        w.access(pid, BASE, Access::Fetch).unwrap();
    }
    let before = w.usage().table_bytes;
    w.event(2, &Event::Mprotect { addr: VirtAddr::new(BASE), len: PAGE, prot: Prot::R });
    assert_eq!((happened(&w, EventKind::TableCopied), w.usage().table_bytes), (1, before + PAGE));
    assert!(w.access(2, BASE, Access::Fetch).is_err());
    assert!(w.access(1, BASE, Access::Fetch).is_ok() && w.access(3, BASE, Access::Fetch).is_ok());
    // A store to a page of code that may be stored to now copies the page for this process alone.
    w.event(2, &Event::Mprotect { addr: VirtAddr::new(BASE + PAGE), len: PAGE, prot: Prot::RW });
    w.store(2, BASE + PAGE, 7).unwrap();
    assert_ne!(w.frame(2, BASE + PAGE), w.frame(1, BASE + PAGE));
    assert_eq!(w.frame(3, BASE + PAGE), w.frame(1, BASE + PAGE));
}

/// S1-M037: who unmaps all of it or exits looks at no entry; the last gives the table back.
#[test]
fn exits_skip_shared_tables_and_the_last_frees_it() {
    let written = |share: ShareTables| {
        let mut w = world(share);
        for pid in 1..=2 {
            load_library(&mut w, pid, BASE);
            touch_code(&mut w, pid, BASE);
        }
        let before = w.kernel.counts().work.get(mmulab_kernel::WorkKind::EntryWrite);
        w.event(1, &Event::Exit { status: 0 });
        let first = w.kernel.counts().work.get(mmulab_kernel::WorkKind::EntryWrite) - before;
        w.event(2, &Event::Exit { status: 0 });
        assert_eq!((w.usage().table_bytes, w.usage().mapped.total()), (0, 0));
        first
    };
    assert_eq!((written(ShareTables::None), written(ShareTables::Lowest)), (300, 1));
}

/// What is mapped into the 2 MiB of a shared table later is for its process alone.
#[test]
fn a_neighbour_in_the_same_two_mebibytes_ends_the_sharing() {
    let mut w = world(ShareTables::Lowest);
    for pid in 1..=2 {
        load_library(&mut w, pid, BASE);
        touch_code(&mut w, pid, BASE);
    }
    w.event(1, &mmap(BASE + CODE, PAGE, Prot::RW));
    w.store(1, BASE + CODE, 5).unwrap();
    assert_eq!(happened(&w, EventKind::TableCopied), 1);
    assert!(w.access(2, BASE + CODE, Access::Read).is_err());
    assert_eq!(w.load(1, BASE + CODE).unwrap(), 5);
}

/// Superpages take the place of a shared table, process by process.
#[test]
fn promotion_lets_go_of_the_table() {
    let mut policy = PolicyDesc::freebsd();
    let code = &mut policy.freebsd.as_mut().unwrap().code;
    (code.share_tables, code.threshold) = (ShareTables::Lowest, Threshold::Clusters(2));
    let mut w = World::new(&desc(policy, 128), 128);
    for pid in 1..=2 {
        w.event(pid, &mmap_file(BASE, HUGE, Prot::RX, false, "/bin/p", 0));
        w.access(pid, BASE, Access::Fetch).unwrap();
    }
    w.access(1, BASE + HUGE / 2, Access::Fetch).unwrap();
    assert_eq!(w.walk(1, BASE, None).map(|leaf| leaf.order), Some(PageOrder::P2M));
    assert_eq!(w.walk(2, BASE, None).map(|leaf| leaf.order), Some(PageOrder::P4K));
    w.access(2, BASE + HUGE / 2, Access::Fetch).unwrap();
    assert_eq!(w.walk(2, BASE, None).map(|leaf| leaf.order), Some(PageOrder::P2M));
    assert_eq!(w.usage().mapped.total(), 2 * HUGE);
    for pid in 1..=2 {
        w.event(pid, &Event::Exit { status: 0 });
    }
    assert_eq!((w.usage().table_bytes, w.usage().mapped.total()), (0, 0));
}

/// If code is alone in 1 GiB, the table above the lowest is shared; alone in 512 GiB, the two above are. Each process
/// adds a root and the tables between. With data in the same 1 GiB, the lowest tables alone are shared.
#[test]
fn upper_tables_are_shared_where_their_range_has_code_alone() {
    let tables = |share: ShareTables, away: u64, processes: u32| {
        let mut w = world(share);
        for pid in 1..=processes {
            w.event(pid, &mmap_file(MOST, CODE, Prot::RX, false, "/lib/c", 0));
            w.event(pid, &mmap_file(MOST + away, DATA, Prot::RW, false, "/lib/c", CODE));
            touch_code(&mut w, pid, MOST);
        }
        assert_eq!(w.usage().mapped.total(), u64::from(processes) * CODE, "each process has all of it mapped");
        let tables = w.usage().table_bytes / PAGE;
        for pid in 1..=processes {
            w.event(pid, &Event::Exit { status: 0 });
        }
        assert_eq!((w.usage().table_bytes, w.usage().mapped.total()), (0, 0));
        tables
    };
    for processes in [1, 2, 8] {
        let all = |away: u64| tables(ShareTables::All, away, processes);
        let each = u64::from(processes);
        assert_eq!(all(HUGE), 3 * each + 1, "in the same 1 GiB");
        assert_eq!(all(GIANT), 2 * each + 2, "in the same 512 GiB");
        assert_eq!(all(MOST), each + 3, "in another 512 GiB");
        assert_eq!(tables(ShareTables::Lowest, MOST, processes), 3 * each + 1);
    }
}

/// Text at 2 MB: a superpage that one process maps is in the table of all, and those who map or inherit it take no
/// fault. Where a lowest table alone is shared, they have copies of what is mapped by then. Each process faults on what
/// comes later.
#[test]
fn superpages_are_shared_by_the_table_above_the_lowest() {
    let faults = |share: ShareTables| {
        let mut w = world_with(share, Threshold::Clusters(1));
        let mut taken = Vec::new();
        for pid in 1..=2 {
            w.event(pid, &mmap_file(GIANT, 2 * HUGE, Prot::RX, false, "/bin/p", 0));
            taken.push(w.access(pid, GIANT, Access::Fetch).unwrap().1.len());
        }
        w.event(2, &Event::Fork { child: mmulab_addr::Pid(3), shares_memory: false });
        taken.push(w.access(3, GIANT + PAGE, Access::Fetch).unwrap().1.len());
        // What one of them adds, the others have.
        w.access(3, GIANT + HUGE, Access::Fetch).unwrap();
        taken.push(w.access(1, GIANT + HUGE, Access::Fetch).unwrap().1.len());
        assert_eq!(w.walk(1, GIANT + HUGE, None).map(|leaf| leaf.order), Some(PageOrder::P2M));
        taken
    };
    assert_eq!(faults(ShareTables::Lowest), [1, 0, 0, 1]);
    assert_eq!(faults(ShareTables::All), [1, 0, 0, 0]);
}

/// The second case of docs/scenarios/shared-tables.md.
#[test]
fn two_processes_share_superpages_by_four_tables() {
    let mut w = world_with(ShareTables::All, Threshold::Clusters(1));
    let code = |w: &mut World, pid: u32| w.event(pid, &mmap_file(MOST, 2 * HUGE, Prot::RX, false, "/bin/p", 0));
    code(&mut w, 1);
    w.access(1, MOST, Access::Fetch).unwrap();
    code(&mut w, 2);
    let mut faults = |pid: u32, va: u64| w.access(pid, va, Access::Fetch).unwrap().1.len();
    assert_eq!([faults(2, MOST + PAGE), faults(2, MOST + HUGE), faults(1, MOST + HUGE)], [0, 1, 0]);
    let happened = [EventKind::TableOffered, EventKind::TableJoined, EventKind::Promotion].map(|k| happened(&w, k));
    assert_eq!((happened, w.usage().table_bytes), ([1, 1, 2], 4 * PAGE));
}

/// A change for one process copies the table and those below it; the others keep theirs. The copies go with the
/// process.
#[test]
fn a_change_copies_all_tables_below_as_well() {
    let mut w = world(ShareTables::All);
    for pid in 1..=3 {
        w.event(pid, &mmap_file(GIANT, 2 * HUGE, Prot::RX, false, "/bin/p", 0));
        for va in [GIANT, GIANT + HUGE] {
            w.access(pid, va, Access::Fetch).unwrap();
        }
    }
    let before = w.usage().table_bytes;
    w.event(2, &Event::Mprotect { addr: VirtAddr::new(GIANT + HUGE), len: PAGE, prot: Prot::R });
    // The code is alone in 512 GiB: tables of levels 3, 2 and, twice, 1.
    assert_eq!((happened(&w, EventKind::TableCopied), w.usage().table_bytes), (4, before + 4 * PAGE));
    assert!(w.access(2, GIANT + HUGE, Access::Fetch).is_err());
    assert!(w.access(1, GIANT + HUGE, Access::Fetch).is_ok() && w.access(3, GIANT + HUGE, Access::Fetch).is_ok());
    w.event(2, &Event::Exit { status: 0 });
    // Its root went, too.
    assert_eq!(w.usage().table_bytes, before - PAGE);
    for pid in [3, 1] {
        w.event(pid, &Event::Exit { status: 0 });
    }
    assert_eq!((w.usage().table_bytes, w.usage().mapped.total()), (0, 0));
}

/// A process that pads its code does so for itself: others may map less of the file.
#[test]
fn padding_behind_the_code_is_not_in_the_table_of_others() {
    let mut policy = PolicyDesc::freebsd();
    let code = &mut policy.freebsd.as_mut().unwrap().code;
    (code.share_tables, code.threshold) = (ShareTables::All, Threshold::Clusters(1));
    code.padding = mmulab_kernel::Padding::Kernel;
    let mut w = World::new(&desc(policy, 128), 128);
    for pid in 1..=2 {
        w.event(pid, &mmap_file(GIANT, HUGE + CODE, Prot::RX, false, "/bin/p", 0));
        w.access(pid, GIANT, Access::Fetch).unwrap();
    }
    // Process 1 pads the rest of its code to 2 MiB, and maps it whole. Process 2 has 300 pages there.
    w.access(1, GIANT + HUGE, Access::Fetch).unwrap();
    assert_eq!(w.walk(1, GIANT + HUGE, None).map(|leaf| leaf.order), Some(PageOrder::P2M));
    assert!(w.walk(2, GIANT + HUGE + CODE, None).is_none());
}

/// A library of the property test.
#[derive(Clone, Copy, Debug)]
struct Shape {
    share: ShareTables,
    /// Pages of code.
    code: u64,
    /// Pages from one place that operations name to the next.
    step: u64,
    /// Bytes from the beginning of the code to that of the data.
    away: u64,
}

impl Shape {
    fn world(self, share: ShareTables) -> World {
        // More than 2 MiB of code get a superpage at the first fetch.
        let threshold = if self.code > 512 { Threshold::Clusters(1) } else { Threshold::Clusters(32) };
        world_with(share, threshold)
    }

    fn load(self, w: &mut World, pid: u32, slot: u64) {
        w.event(pid, &mmap_file(self.at(slot), self.code * PAGE, Prot::RX, false, "/lib/c", 0));
        w.event(pid, &mmap_file(self.at(slot) + self.away, DATA, Prot::RW, false, "/lib/c", self.code * PAGE));
    }

    fn at(self, slot: u64) -> u64 {
        MOST + slot * (2 * self.away).max(64 * HUGE)
    }
}

fn shape() -> impl Strategy<Value = Shape> {
    prop_oneof![
        Just(Shape { share: ShareTables::Lowest, code: 300, step: 1, away: HUGE }),
        Just(Shape { share: ShareTables::All, code: 300, step: 1, away: HUGE }),
        Just(Shape { share: ShareTables::All, code: 300, step: 1, away: GIANT }),
        Just(Shape { share: ShareTables::All, code: 600, step: 2, away: GIANT }),
        Just(Shape { share: ShareTables::All, code: 600, step: 2, away: MOST }),
    ]
}

#[derive(Clone, Debug)]
enum Op {
    Load { slot: u64 },
    Fetch { slot: u64, page: u64 },
    StoreData { slot: u64, page: u64 },
    StoreCode { slot: u64, page: u64 },
    Protect { slot: u64, page: u64, pages: u64, prot: usize },
    Unmap { slot: u64, page: u64, pages: u64 },
    MapOver { slot: u64, page: u64 },
    Fork { child: u32 },
    Exec,
    Exit,
}

fn op() -> impl Strategy<Value = (u32, Op)> {
    let slot = 0..2u64;
    let page = 0..320u64;
    let op = prop_oneof![
        3 => slot.clone().prop_map(|slot| Op::Load { slot }),
        12 => (slot.clone(), 0..300u64).prop_map(|(slot, page)| Op::Fetch { slot, page }),
        2 => (slot.clone(), 0..20u64).prop_map(|(slot, page)| Op::StoreData { slot, page }),
        3 => (slot.clone(), 0..300u64).prop_map(|(slot, page)| Op::StoreCode { slot, page }),
        3 => (slot.clone(), page.clone(), 1..80u64, 0..4usize)
            .prop_map(|(slot, page, pages, prot)| Op::Protect { slot, page, pages, prot }),
        2 => (slot.clone(), page.clone(), 1..320u64).prop_map(|(slot, page, pages)| Op::Unmap { slot, page, pages }),
        2 => slot.clone().prop_map(|slot| Op::Unmap { slot, page: 0, pages: 300 }),
        1 => (slot, page).prop_map(|(slot, page)| Op::MapOver { slot, page }),
        2 => (1..5u32).prop_map(|child| Op::Fork { child }),
        1 => Just(Op::Exec),
        1 => Just(Op::Exit),
    ];
    (1..5u32, op)
}

/// What a program can tell of an operation: whether it worked, and what it read.
fn obey(w: &mut World, shape: Shape, pid: u32, op: &Op) -> Option<u64> {
    let protections = [Prot::RX, Prot::R, Prot::RW, Prot::NONE];
    let at = |slot: u64, page: u64| shape.at(slot) + page * shape.step * PAGE;
    let len = |pages: u64| pages * shape.step * PAGE;
    match *op {
        Op::Load { slot } => shape.load(w, pid, slot),
        Op::Fetch { slot, page } => return w.access(pid, at(slot, page), Access::Fetch).ok().map(|_| 1),
        Op::StoreData { slot, page } => {
            return w.store(pid, shape.at(slot) + shape.away + page * PAGE, page + 1).ok().map(|_| 1);
        }
        Op::StoreCode { slot, page } => {
            let va = at(slot, page);
            return w.store(pid, va, page + 1).ok().and_then(|_| w.load(pid, va).ok());
        }
        Op::Protect { slot, page, pages, prot } => {
            let addr = VirtAddr::new(at(slot, page));
            w.event(pid, &Event::Mprotect { addr, len: len(pages), prot: protections[prot] });
        }
        Op::Unmap { slot, page, pages } => {
            w.event(pid, &Event::Munmap { addr: VirtAddr::new(at(slot, page)), len: len(pages) });
        }
        Op::MapOver { slot, page } => w.event(pid, &mmap(at(slot, page), PAGE, Prot::RW)),
        Op::Fork { child } if child != pid => {
            w.event(pid, &Event::Fork { child: mmulab_addr::Pid(child), shares_memory: false });
        }
        Op::Fork { .. } => {}
        Op::Exec => w.event(pid, &Event::Exec { path: "/bin/next".into() }),
        Op::Exit => w.event(pid, &Event::Exit { status: 0 }),
    }
    None
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]

    /// Programs see the same with shared tables as without, in any order of mprotect, stores, unmaps, forks, execs and
    /// exits. No translation is stale, and nothing is left when all have exited.
    #[test]
    fn programs_cannot_tell_that_tables_are_shared(shape in shape(), ops in prop::collection::vec(op(), 1..160)) {
        let (mut shared, mut alone) = (shape.world(shape.share), shape.world(ShareTables::None));
        for (pid, op) in &ops {
            let (a, b) = (obey(&mut shared, shape, *pid, op), obey(&mut alone, shape, *pid, op));
            prop_assert_eq!(a, b, "process {}: {:?}", pid, op);
        }
        for slot in 0..2u64 {
            for page in (0..=shape.code).step_by(shape.step as usize) {
                let va = shape.at(slot) + page * PAGE;
                for pid in 1..5 {
                    let read = |w: &mut World| w.load(pid, va).ok();
                    prop_assert_eq!(read(&mut shared), read(&mut alone), "process {} at page {}", pid, page);
                }
            }
        }
        // With superpages, a copy has the lowest tables that others needed.
        if shape.step == 1 {
            prop_assert!(shared.usage().table_bytes <= alone.usage().table_bytes);
        }
        for pid in 1..5 {
            for w in [&mut shared, &mut alone] {
                w.event(pid, &Event::Exit { status: 0 });
            }
        }
        let (a, b) = (shared.usage(), alone.usage());
        prop_assert_eq!((a.table_bytes, a.mapped.total(), a.private_bytes), (0, 0, 0));
        prop_assert_eq!(a.page_cache_bytes, b.page_cache_bytes);
        prop_assert_eq!(a.free_bytes + a.reserved_bytes, b.free_bytes + b.reserved_bytes);
    }
}
