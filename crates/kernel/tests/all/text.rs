//! Text on larger pages: moved by programs, brought together by khugepaged, read in blocks.

use crate::common::*;
use mmulab_addr::{Access, PageOrder, Pid, Prot, VirtAddr};
use mmulab_kernel::{EventKind, FaultKind, Kernel, KernelDesc, PolicyDesc, Refusal};
use mmulab_pagetable::{TableDesc, TableKind};
use mmulab_trace::Event;

const HUGE: u64 = 2 << 20;
const MEBIBYTES: u64 = 128;

fn world(sections: &str) -> World {
    World::new(&desc(parts(sections), MEBIBYTES), MEBIBYTES)
}

fn happened(w: &World, what: EventKind) -> u64 {
    w.kernel.counts().events.get(what)
}

fn refused(w: &World, why: Refusal) -> u64 {
    w.kernel.counts().refusals.get(why)
}

fn order(w: &mut World, pid: u32, va: u64) -> Option<PageOrder> {
    w.walk(pid, va, None).map(|leaf| leaf.order)
}

fn text(w: &mut World, pid: u32, start: u64, len: u64, offset: u64) {
    w.event(pid, &mmap_file(start, len, Prot::RX, false, "/x", offset));
}

#[test]
fn moved_text_is_each_process_s_own_and_shared_by_a_fork() {
    let mut w = world("text.remap = \"whole\"");
    text(&mut w, 1, BASE - PAGE, 2 * HUGE + 2 * PAGE, 0);
    let (_, kinds) = w.access(1, BASE + 5 * PAGE, Access::Fetch).unwrap();
    assert_eq!(kinds, [FaultKind::TextMoved]);
    assert_eq!(w.usage().private_bytes, 2 * HUGE);
    w.event(1, &Event::Fork { child: Pid(2), shares_memory: false });
    let mine = w.frame(1, BASE).unwrap();
    assert_eq!(w.access(2, BASE, Access::Fetch).unwrap(), (mine, vec![]), "a fork copies nothing");
    text(&mut w, 3, BASE, HUGE, PAGE);
    let (other, _) = w.access(3, BASE, Access::Fetch).unwrap();
    assert_ne!(other, mine, "an exec does");
    assert_eq!(w.usage().private_bytes, 3 * HUGE);
    assert_eq!(happened(&w, EventKind::TextPagesMoved), 3 * 512);
    // What is unmapped in part keeps the rest on base pages.
    w.event(1, &Event::Munmap { addr: VirtAddr::new(BASE), len: 5 * PAGE });
    assert_eq!(order(&mut w, 1, BASE + 5 * PAGE), Some(PageOrder::P4K));
    assert!(w.walk(1, BASE + 4 * PAGE, None).is_none());
    for pid in 1..=3 {
        w.event(pid, &Event::Exit { status: 0 });
    }
    assert_eq!(w.usage().private_bytes, 0);
}

#[test]
fn loads_and_stores_move_no_text() {
    let mut w = world("text.remap = \"whole\"");
    text(&mut w, 1, BASE, HUGE, 0);
    assert_eq!(w.access(1, BASE, Access::Read).unwrap().1, [FaultKind::FileRead]);
    w.event(1, &mmap_file(BASE + 2 * HUGE, HUGE, Prot::RX, true, "/y", 0));
    w.access(1, BASE + 2 * HUGE, Access::Fetch).unwrap();
    w.event(1, &mmap_file(BASE + 4 * HUGE, HUGE, Prot::RW.with(Prot::X), false, "/z", 0));
    w.access(1, BASE + 4 * HUGE, Access::Fetch).unwrap();
    assert_eq!(happened(&w, EventKind::TextMoved), 0);
    w.access(1, BASE + 20 * PAGE, Access::Fetch).unwrap();
    assert_eq!(happened(&w, EventKind::TextMoved), 1, "the first fetch from elsewhere does");
    assert_eq!(order(&mut w, 1, BASE), Some(PageOrder::P2M));
}

#[test]
fn without_free_blocks_moved_text_has_base_pages() {
    let mut desc: KernelDesc = desc(parts("text.remap = \"whole\""), 64);
    desc.memory.fragment = memhog(40.0, "64K");
    let mut w = World::new(&desc, 64);
    text(&mut w, 1, BASE, HUGE, 0);
    w.access(1, BASE, Access::Fetch).unwrap();
    assert_eq!(refused(&w, Refusal::TextNoBlock), 1);
    assert_eq!((happened(&w, EventKind::TextPagesMoved), happened(&w, EventKind::TextPagesHuge)), (512, 0));
    assert_eq!(order(&mut w, 1, BASE), Some(PageOrder::P4K));
    assert_eq!(w.usage().private_bytes, HUGE);
}

#[test]
fn memory_that_runs_out_while_text_moves_ends_in_its_name_and_loses_no_frame() {
    let mut w = World::new(&desc(parts("text.remap = \"whole\""), 16), 16);
    let free = w.usage().free_bytes;
    text(&mut w, 1, BASE, 16 * HUGE, 0);
    let error = w.access(1, BASE, Access::Fetch).unwrap_err().to_string();
    assert!(error.contains("memory"), "{error}");
    w.event(1, &Event::Exit { status: 1 });
    let usage = w.usage();
    assert_eq!(free - usage.free_bytes, usage.page_cache_bytes);
}

#[test]
fn padding_goes_with_its_text_and_takes_no_other_mapping() {
    let mut w = world("text.remap = \"padded\"");
    text(&mut w, 1, BASE, HUGE + PAGE, 0);
    w.event(1, &mmap(BASE + 2 * HUGE - PAGE, PAGE, Prot::NONE));
    w.access(1, BASE, Access::Fetch).unwrap();
    assert_eq!(happened(&w, EventKind::TextPadding), 0, "memory reserved by others is not padding");
    text(&mut w, 2, BASE, HUGE + PAGE, 0);
    w.access(2, BASE + HUGE, Access::Fetch).unwrap();
    assert_eq!(happened(&w, EventKind::TextPadding), 511);
    assert_eq!(order(&mut w, 2, BASE + 2 * HUGE - PAGE), Some(PageOrder::P2M));
    w.event(2, &Event::Munmap { addr: VirtAddr::new(BASE), len: HUGE + PAGE });
    assert!(w.walk(2, BASE + 2 * HUGE - PAGE, None).is_none());
    assert_eq!(w.usage().private_bytes, HUGE);
}

#[test]
fn khugepaged_brings_text_together_for_all_processes_and_keeps_what_is_their_own() {
    let mut w = world("promotion.when = \"daemon\"\ntext.khugepaged = true");
    for pid in [1, 2] {
        text(&mut w, pid, BASE, HUGE, 0);
        w.access(pid, BASE + 100 * PAGE, Access::Fetch).unwrap();
    }
    // A debugger writes a breakpoint: one page of process 2 is its own.
    let protect = |prot| Event::Mprotect { addr: VirtAddr::new(BASE), len: PAGE, prot };
    w.event(2, &protect(Prot::RW));
    w.store(2, BASE, 7).unwrap();
    w.event(2, &protect(Prot::RX));
    w.event(1, &Event::Tick);
    assert_eq!(happened(&w, EventKind::KhugepagedCollapse), 1);
    assert_eq!(w.access(1, BASE + 100 * PAGE, Access::Fetch).unwrap().1, [FaultKind::FileCached]);
    assert_eq!(order(&mut w, 1, BASE), Some(PageOrder::P2M));
    assert_eq!(w.load(2, BASE), Ok(7));
    let (frame, _) = w.access(2, BASE + 100 * PAGE, Access::Fetch).unwrap();
    assert_eq!(order(&mut w, 2, BASE + 100 * PAGE), Some(PageOrder::P4K), "a table is there");
    assert_eq!(Some(frame), w.frame(1, BASE + 100 * PAGE), "one copy for both");
    assert_eq!(w.usage().page_cache_bytes, HUGE);
    let held: u64 = w.kernel.regions().iter().map(|r| w.kernel.resident(r.id).now).sum();
    assert_eq!(held, w.kernel.resident_bytes());
    w.event(1, &Event::Tick);
    assert_eq!(happened(&w, EventKind::KhugepagedCollapse), 1, "once is enough");
}

#[test]
fn khugepaged_leaves_files_that_are_written_and_text_it_finds_too_little_of() {
    let mut w = world("promotion = { when = \"daemon\", daemon.max_ptes_none = 400 }\ntext.khugepaged = true");
    text(&mut w, 1, BASE, HUGE, 0);
    w.access(1, BASE, Access::Fetch).unwrap();
    w.event(1, &Event::Tick);
    assert_eq!(refused(&w, Refusal::TextNotCached), 1, "32 pages of the 112 that it wants");
    for page in (0..128).step_by(16) {
        w.access(1, BASE + page * PAGE, Access::Fetch).unwrap();
    }
    w.event(1, &mmap_file(BASE + 4 * HUGE, PAGE, Prot::RW, true, "/x", 0));
    w.event(1, &Event::Tick);
    assert_eq!(refused(&w, Refusal::TextWritten), 1);
    w.event(1, &Event::Munmap { addr: VirtAddr::new(BASE + 4 * HUGE), len: PAGE });
    w.event(1, &Event::Tick);
    assert_eq!(happened(&w, EventKind::KhugepagedCollapse), 1);
}

#[test]
fn blocks_end_with_the_mapping_or_the_file_and_skip_what_is_in_memory() {
    let mut w = world("text.folio = \"64K\"");
    // Pages 3 to 42 of the file: from page 21 on, 16 to 31 and 32 to 42.
    text(&mut w, 1, BASE + 3 * PAGE, 40 * PAGE, 3 * PAGE);
    w.access(1, BASE + 21 * PAGE, Access::Fetch).unwrap();
    assert_eq!(happened(&w, EventKind::PagesRead), 27);
    // 16, then 8, 2 and 1 of the last.
    assert_eq!((happened(&w, EventKind::TextBlock), happened(&w, EventKind::PagesRead)), (3, 27));
    let frame = |w: &mut World, page: u64| w.access(1, BASE + page * PAGE, Access::Fetch).unwrap().0.0;
    let first = frame(&mut w, 16);
    assert!(first.is_multiple_of(16));
    assert!((16..32).all(|page| frame(&mut w, page) == first + page - 16));
    // Page 5: the mapping begins with 3, so that blocks are of 1, 4 and 8 pages.
    w.access(1, BASE + 5 * PAGE, Access::Fetch).unwrap();
    assert_eq!((happened(&w, EventKind::TextBlock), happened(&w, EventKind::PagesRead)), (5, 40));
}

#[test]
fn sections_that_cannot_work_are_refused_with_the_key() {
    let said = |sections: &str, table: TableDesc| {
        let desc = KernelDesc { table, ..desc(parts(sections), MEBIBYTES) };
        let mut mem = mmulab_frames::PhysMem::new(MEBIBYTES << 20);
        Kernel::new(&desc, &mut mem).err().map(|error| error.to_string()).unwrap_or_default()
    };
    let tree = TableDesc::default;
    let flat = TableKind::ALL.iter().filter_map(|&kind| TableDesc::new(kind, 4).ok());
    for table in flat.filter(|table| !table.has_leaf(PageOrder::P2M)) {
        assert!(said("text.remap = \"whole\"", table).contains("text.remap"));
    }
    assert!(said("text.folio = \"4K\"", tree()).contains("text.folio"));
    assert!(said("text.folio = \"1G\"", tree()).contains("text.folio"));
    assert!(said("text.khugepaged = true", tree()).contains("text.khugepaged"));
    assert_eq!(said("text.khugepaged = true\npromotion.when = \"daemon\"", tree()), "");
    let mut freebsd = PolicyDesc::freebsd();
    freebsd.text = parts("text.remap = \"whole\"").text;
    let error = refusal(&desc(freebsd, MEBIBYTES), MEBIBYTES);
    assert!(error.contains("text"), "{error}");
}

/// Text that the program moved and then changes. Each store reaches this process's own copy, under the huge page. A
/// page that it makes writable keeps its contents, and its child does not see later stores.
#[test]
fn moved_text_that_is_made_writable_can_be_changed() {
    let mut w = world("text.remap = \"whole\"");
    text(&mut w, 1, BASE, HUGE, 0);
    w.access(1, BASE, Access::Fetch).unwrap();
    assert_eq!(order(&mut w, 1, BASE), Some(PageOrder::P2M));
    assert!(w.access(1, BASE + 3 * PAGE, Access::Write).is_err(), "text is not for stores");
    let protect = |at: u64, len: u64, prot| Event::Mprotect { addr: VirtAddr::new(at), len, prot };
    w.event(1, &protect(BASE + 3 * PAGE, PAGE, Prot::RW.with(Prot::X)));
    assert_eq!(w.store(1, BASE + 3 * PAGE, 7).unwrap(), [], "it is the process's own since it was moved");
    assert_eq!(w.load(1, BASE + 3 * PAGE), Ok(7));
    assert!(w.access(1, BASE + 2 * PAGE, Access::Write).is_err(), "the page beside it keeps its rights");
    w.event(1, &Event::Fork { child: Pid(2), shares_memory: false });
    assert_eq!(w.store(1, BASE + 3 * PAGE, 8).unwrap(), [FaultKind::Copy]);
    assert_eq!((w.load(1, BASE + 3 * PAGE), w.load(2, BASE + 3 * PAGE)), (Ok(8), Ok(7)));
    // Another process of the program moves the file's text, which nothing changed.
    text(&mut w, 3, BASE, HUGE, 0);
    w.access(3, BASE + 3 * PAGE, Access::Fetch).unwrap();
    assert_eq!(w.load(3, BASE + 3 * PAGE), Ok(0));
    // As a whole: all of it can be stored to and executed.
    w.event(3, &protect(BASE, HUGE, Prot::RW.with(Prot::X)));
    w.store(3, BASE + 100 * PAGE, 9).unwrap();
    assert_eq!(order(&mut w, 3, BASE), Some(PageOrder::P2M), "one leaf with other rights");
    for pid in 1..=3 {
        w.event(pid, &Event::Exit { status: 0 });
    }
    assert_eq!(w.usage().private_bytes, 0);
}

/// A run-time compiler frees a part of its code that a huge page maps. The rest stays, on base pages, and the next
/// mapping there is new.
#[test]
fn jit_code_that_is_unmapped_under_a_huge_page_goes_alone() {
    for policy in ["fault.sizes = [\"2M\"]", "text.remap = \"whole\"\nfault.sizes = [\"2M\"]"] {
        let mut w = world(policy);
        let rwx = Prot::RW.with(Prot::X);
        w.event(1, &mmap(BASE, HUGE, rwx));
        w.store(1, BASE + 5 * PAGE, 5).unwrap();
        w.store(1, BASE + 6 * PAGE, 6).unwrap();
        assert_eq!(order(&mut w, 1, BASE), Some(PageOrder::P2M));
        let unmap = Event::Munmap { addr: VirtAddr::new(BASE + 5 * PAGE), len: PAGE };
        w.event(1, &unmap);
        assert!(w.access(1, BASE + 5 * PAGE, Access::Fetch).is_err());
        assert_eq!(w.load(1, BASE + 6 * PAGE), Ok(6));
        assert_eq!(order(&mut w, 1, BASE + 6 * PAGE), Some(PageOrder::P4K));
        w.event(1, &mmap(BASE + 5 * PAGE, PAGE, rwx));
        assert_eq!(w.load(1, BASE + 5 * PAGE), Ok(0), "nothing of the code before");
        w.event(1, &Event::Exit { status: 0 });
        assert_eq!(w.usage().private_bytes, 0);
    }
}

/// A copy on the pool's pages needs no free block of memory, and stops where the pool does.
#[test]
fn text_moves_onto_the_pool_as_far_as_it_goes() {
    let policy = |pool: u64| -> PolicyDesc {
        let text = "text.remap = \"whole\"\ntext.pool = true";
        let pool = format!("hugetlb.size = \"2M\"\nhugetlb.pool = \"{pool}M\"\nhugetlb.applies_to = \"explicit\"");
        toml::from_str(&format!("name = \"pool\"\nkind = \"hugetlb\"\n{text}\n{pool}")).unwrap()
    };
    let mut w = World::new(&desc(policy(4), MEBIBYTES), MEBIBYTES);
    text(&mut w, 1, BASE - PAGE, 3 * HUGE + 2 * PAGE, 0);
    assert_eq!(w.access(1, BASE + 5 * PAGE, Access::Fetch).unwrap().1, [FaultKind::TextMoved]);
    assert_eq!((order(&mut w, 1, BASE), order(&mut w, 1, BASE + HUGE)), (Some(PageOrder::P2M), Some(PageOrder::P2M)));
    w.access(1, BASE + 2 * HUGE, Access::Fetch).unwrap();
    assert_eq!(order(&mut w, 1, BASE + 2 * HUGE), Some(PageOrder::P4K), "the pool has two pages");
    assert_eq!(refused(&w, Refusal::HugetlbPoolEmpty), 1);
    assert_eq!((w.usage().pool_used_bytes, happened(&w, EventKind::TextPagesHuge)), (2 * HUGE, 2 * 512));
    // Another program finds the pool empty, and runs as it is.
    text(&mut w, 2, BASE, HUGE, 0);
    assert_eq!(w.access(2, BASE + 5 * PAGE, Access::Fetch).unwrap().1, [FaultKind::FileCached]);
    // Data do not get what is reserved for text.
    w.event(1, &mmap(2 * BASE, HUGE, Prot::RW));
    w.store(1, 2 * BASE, 1).unwrap();
    assert_eq!(order(&mut w, 1, 2 * BASE), Some(PageOrder::P4K));
    for pid in 1..=2 {
        w.event(pid, &Event::Exit { status: 0 });
    }
    assert_eq!(w.usage().pool_used_bytes, 0);
    let refused = |change: &dyn Fn(&mut PolicyDesc)| {
        let mut policy = policy(4);
        change(&mut policy);
        refusal(&desc(policy, MEBIBYTES), MEBIBYTES)
    };
    let without = refused(&|policy| (policy.kind, policy.hugetlb) = (mmulab_kernel::PolicyKind::Linux, None));
    assert!(without.contains("text.pool") && without.contains("[hugetlb]"), "{without}");
    let none = refused(&|policy| policy.text.as_mut().unwrap().remap = mmulab_kernel::Remap::None);
    assert!(none.contains("text.pool"), "{none}");
}
