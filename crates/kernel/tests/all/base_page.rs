//! Base pages larger than 4 KiB: Arm's granules of 16 and 64 KiB (S2-M001). What faults, files and system calls do with
//! them, what is refused, and why. Random programs are in `model.rs`.

use crate::common::*;
use mmulab_addr::{Access, PageOrder, Pid, Prot, VirtAddr};
use mmulab_frames::PhysMem;
use mmulab_kernel::{Actor, Effects, FaultKind, Kernel, KernelDesc, PolicyDesc, Refusal};
use mmulab_pagetable::{TableDesc, TableKind};
use mmulab_trace::Event;

const K: u64 = 1 << 10;
const M: u64 = 1 << 20;

fn described(name: &str, policy: PolicyDesc, mebibytes: u64) -> KernelDesc {
    let kind = TableKind::ALL.iter().find(|kind| kind.name() == name).expect("a kind of table");
    let table = TableDesc::new(*kind, if name == "armv8-64k" { 3 } else { 4 }).expect("its levels");
    KernelDesc { table, ..desc(policy, mebibytes) }
}

fn world(name: &str, policy: PolicyDesc, mebibytes: u64) -> World {
    World::new(&described(name, policy, mebibytes), mebibytes)
}

/// The size of the page at an address, once it was stored to.
fn stored(w: &mut World, va: u64) -> PageOrder {
    w.store(1, va, 7).expect("mapped");
    w.walk(1, va, None).expect("stored to").order
}

#[test]
fn a_fault_maps_one_base_page_and_takes_one_table_of_its_size_at_each_level() {
    for (name, base, levels) in [("armv8-16k", PageOrder::P16K, 4), ("armv8-64k", PageOrder::P64K, 3)] {
        let mut w = world(name, PolicyDesc::linux_4k(), 256);
        w.event(1, &mmap(BASE, 4 * base.bytes(), Prot::RW));
        assert_eq!(stored(&mut w, BASE + base.bytes() + 5000), base);
        let usage = w.usage();
        // The upper half of addresses has a root of its own.
        assert_eq!((usage.private_bytes, usage.table_bytes), (base.bytes(), (levels + 1) * base.bytes()));
        assert!(w.walk(1, BASE, None).is_none() && w.walk(1, BASE + 2 * base.bytes(), None).is_none());
    }
}

/// Linux's huge page is what an entry of level 2 maps (`PMD_SIZE`). Smaller sizes are blocks of base pages.
#[test]
fn huge_pages_are_of_32m_and_512m() {
    for (name, huge, mebibytes) in [("armv8-16k", 32 * M, 256), ("armv8-64k", 512 * M, 4096)] {
        let mut w = world(name, PolicyDesc::linux_thp(), mebibytes);
        w.event(1, &mmap(BASE, huge + 64 * K, Prot::RW));
        assert_eq!(stored(&mut w, BASE + 3 * M).bytes(), huge, "{name}");
        let base = if name == "armv8-16k" { 16 * K } else { 64 * K };
        assert_eq!(stored(&mut w, BASE + huge).bytes(), base, "the mapping ends before another huge page does");
        assert_eq!(w.kernel.counts().refusals.get(Refusal::ThpOutsideVma), 1);
        // Part of it goes: the rest stays, in base pages.
        w.event(1, &Event::Munmap { addr: VirtAddr::new(BASE + base), len: base });
        let sizes = [BASE, BASE + base, BASE + 2 * base].map(|va| w.walk(1, va, None).map(|leaf| leaf.order.bytes()));
        assert_eq!(sizes, [Some(base), None, Some(base)]);
        assert_eq!(w.usage().private_bytes, huge);
    }
}

/// 2M are 128 contiguous entries of 16K or 32 of 64K: a size that faults or a pool can have as one page.
#[test]
fn contiguous_entries_make_pages_of_2m() {
    for name in ["armv8-16k", "armv8-64k"] {
        let mut w = world(name, parts("fault.sizes = [\"2M\"]\nlinux.zero_page = false"), 64);
        w.event(1, &mmap(BASE, 4 * M, Prot::RW));
        assert_eq!(stored(&mut w, BASE + M), PageOrder::P2M, "{name}");
    }
}

#[test]
fn files_are_read_and_copied_by_base_pages() {
    let mut w = world("armv8-64k", PolicyDesc::linux_4k(), 64);
    w.event(1, &mmap_file(BASE, 256 * K, Prot::RW, false, "/a", 0));
    w.event(1, &mmap_file(BASE + M, 256 * K, Prot::R, true, "/a", 0));
    let (here, _) = w.access(1, BASE + 70 * K, Access::Read).expect("mapped");
    let leaf = w.walk(1, BASE + 70 * K, None).expect("read");
    assert_eq!((leaf.order, leaf.prot), (PageOrder::P64K, Prot::R));
    // Read-around: 128K, which are two base pages. Fault-around has no more than the page itself.
    assert_eq!(w.usage().page_cache_bytes, 128 * K);
    let (there, _) = w.access(1, BASE + M + 70 * K, Access::Read).expect("mapped");
    assert_eq!(there, here, "one page of the cache for both");
    let (_, kinds) = w.access(1, BASE + 70 * K, Access::Write).expect("mapped");
    assert_eq!(kinds, [FaultKind::Copy]);
    assert_eq!(w.usage().private_bytes, 64 * K);
}

#[test]
fn fork_copies_a_base_page_at_the_first_store() {
    let mut w = world("armv8-16k", PolicyDesc::linux_4k(), 64);
    w.event(1, &mmap(BASE, 16 * K, Prot::RW));
    w.store(1, BASE + 8 * K, 1).expect("mapped");
    w.event(1, &Event::Fork { child: Pid(2), shares_memory: false });
    w.store(2, BASE + 8 * K, 2).expect("mapped");
    assert_eq!((w.load(1, BASE + 8 * K), w.load(2, BASE + 8 * K)), (Ok(1), Ok(2)));
    assert_eq!(w.usage().private_bytes, 32 * K);
}

/// Linux on such a kernel returns EINVAL. A recording whose program saw smaller pages cannot go on from there.
#[test]
fn a_program_recorded_with_smaller_pages_is_refused_with_the_remedy() {
    let desc = described("armv8-64k", PolicyDesc::linux_4k(), 64);
    let mut mem = PhysMem::new(64 << 20);
    let mut kernel = Kernel::new(&desc, &mut mem).expect("a good description");
    let actor = Actor { pid: Pid(1), tid: mmulab_addr::Tid(1), cpu: 0 };
    for event in [mmap(BASE + 4 * K, 8 * K, Prot::RW), mmap_file(BASE, 64 * K, Prot::R, false, "/a", 4 * K)] {
        let why = kernel.event(&mut mem, actor, &event, &mut Effects::default()).expect_err("unaligned").to_string();
        assert!(why.contains("base page of 64K") && why.contains("--page-size 64K"), "{why}");
    }
    // Lengths are rounded up, and other calls at such an address are EINVAL.
    let mut w = World::new(&desc, 64);
    w.event(1, &mmap(BASE, 8 * K, Prot::RW));
    assert!(w.access(1, BASE + 60 * K, Access::Write).is_ok());
    w.event(1, &Event::Munmap { addr: VirtAddr::new(BASE + 4 * K), len: 4 * K });
    assert_eq!(w.kernel.counts().errors.total(), 1);
    assert!(w.access(1, BASE + 60 * K, Access::Write).is_ok());
}

#[test]
fn parts_for_base_pages_of_4k_are_refused_by_their_key() {
    let refused = |policy| refusal(&described("armv8-16k", policy, 256), 256);
    for (sections, key) in [
        ("placement.frames = \"coala\"", "placement"),
        ("promotion.when = \"daemon\"\nfault.sizes = [\"2M\"]", "promotion"),
        ("contiguous.bit = \"transparent\"", "contiguous"),
        ("hints.from = \"page-sizes\"", "hints"),
        ("text.folio = \"64K\"", "text"),
        ("zeroing.when = \"ahead\"", "zeroing"),
        ("fault = { sizes = [\"2M\"], reach = \"80M\" }", "fault.reach"),
        ("fault.sizes = [\"16K\"]", "fault.sizes"),
    ] {
        let why = refused(parts(sections));
        assert!(why.starts_with(&format!("{key}: ")) && why.contains("16K"), "{why}");
    }
    assert!(refused(PolicyDesc::freebsd()).starts_with("kind: works with base pages of 4K only"));
    let mut khugepaged = PolicyDesc::linux_thp();
    khugepaged.thp.as_mut().expect("has it").khugepaged = Some(Default::default());
    assert!(refused(khugepaged).starts_with("thp.khugepaged: "));
}
