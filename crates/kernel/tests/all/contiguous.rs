//! The contiguous bit (paper 3, Elastic Translations, section IV-A): where it is set, and what clears it. The pages of
//! a range with the bit stay pages of their own.

use crate::common::*;
use mmulab_addr::{Access, PageOrder, Pfn, Pid, Prot, VirtAddr};
use mmulab_kernel::{EventKind, FaultKind, Kernel, KernelDesc, Refusal};
use mmulab_pagetable::{Invalidate, TableDesc, TableKind};
use mmulab_trace::{Advice, Event};
use proptest::prelude::*;

const P64K: PageOrder = PageOrder::P64K;
const RANGE: u64 = 64 << 10;
const HUGE: u64 = 2 << 20;
const COALA: &str = "contiguous.bit = \"transparent\"\nplacement.frames = \"coala\"\nlinux.zero_page = false\n";

fn table(name: &str) -> TableDesc {
    let kind = TableKind::ALL.iter().find(|kind| kind.name() == name).expect("a kind of table");
    TableDesc::new(*kind, 4).expect("four levels")
}

fn described(sections: &str, mebibytes: u64) -> KernelDesc {
    let mut desc = KernelDesc { table: table("armv8-4k"), ..desc(parts(sections), mebibytes) };
    desc.memory.max_order = 13;
    desc
}

fn world(sections: &str, mebibytes: u64) -> World {
    World::new(&described(sections, mebibytes), mebibytes)
}

fn happened(w: &World, what: EventKind) -> u64 {
    w.kernel.counts().events.get(what)
}

fn refused(w: &World, why: Refusal) -> u64 {
    w.kernel.counts().refusals.get(why)
}

fn size(w: &mut World, va: u64) -> Option<PageOrder> {
    w.walk(1, va, None).map(|leaf| leaf.order)
}

fn store_all(w: &mut World, pid: u32, base: u64, pages: impl Iterator<Item = u64>) {
    for page in pages {
        w.store(pid, base + page * PAGE, 100 + page).expect("memory is left");
    }
}

/// A range of sixteen pages that were stored to, with the bit.
fn folded() -> World {
    let mut w = world(COALA, 64);
    w.event(1, &mmap(BASE, RANGE, Prot::RW));
    store_all(&mut w, 1, BASE, 0..16);
    assert_eq!(size(&mut w, BASE), Some(P64K));
    w
}

/// What the kernel sends for an event.
fn sent(w: &mut World, event: &Event) -> Vec<Invalidate> {
    w.event(1, event);
    w.sent.clone()
}

/// How many of these flushes reach all of a range.
fn of_range(sent: &[Invalidate], base: u64, bytes: u64) -> usize {
    let reaches = |what: &&Invalidate| match **what {
        Invalidate::Range { range, .. } => {
            range.contains(VirtAddr::new(base)) && range.contains(VirtAddr::new(base + bytes - 1))
        }
        Invalidate::Page { .. } => false,
        Invalidate::Asid(_) | Invalidate::All => true,
    };
    sent.iter().filter(reaches).count()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    /// S2-005, S2-007 and the claim of CoalaPaging: in any order of faults no entry has the bit up to the fifteenth
    /// fault. After the sixteenth all entries have it, over sixteen frames that follow each other from a multiple of
    /// 16.
    #[test]
    fn any_order_of_sixteen_faults_ends_in_one_translation(
        order in Just((0..16u64).collect::<Vec<_>>()).prop_shuffle(), riscv: bool,
    ) {
        let name = if riscv { "riscv-sv" } else { "armv8-4k" };
        let mut w = World::new(&KernelDesc { table: table(name), ..described(COALA, 64) }, 64);
        w.event(1, &mmap(BASE, RANGE, Prot::RW));
        for (i, page) in order.iter().enumerate() {
            prop_assert_eq!(happened(&w, EventKind::Contiguous64K), 0, "after {} faults", i);
            prop_assert!((0..16).all(|p| size(&mut w, BASE + p * PAGE).unwrap_or(PageOrder::P4K) == PageOrder::P4K));
            w.store(1, BASE + page * PAGE, *page).unwrap();
        }
        let leaf = w.walk(1, BASE, None).unwrap();
        prop_assert_eq!((leaf.order, leaf.pfn.align_down(P64K)), (P64K, leaf.pfn));
        for page in 0..16 {
            // Every one of the sixteen entries says so.
            prop_assert_eq!(w.walk(1, BASE + page * PAGE, None).map(|l| (l.order, l.pfn)), Some((P64K, leaf.pfn)));
            prop_assert_eq!(w.load(1, BASE + page * PAGE), Ok(page));
        }
        prop_assert_eq!(happened(&w, EventKind::Contiguous64K), 1);
        prop_assert_eq!(happened(&w, EventKind::ContiguousPartial), 15);
        prop_assert_eq!(w.usage().mapped.bytes(P64K), RANGE);
    }

    /// S2-002, S2-003, S2-004: sixteen pages have any frames and rights. They have the bit if and only if the first is
    /// a multiple of sixteen, each follows the one before, and all rights are equal.
    #[test]
    fn the_bit_is_set_where_sixteen_entries_qualify_and_nowhere_else(
        swaps in prop::collection::vec((0..16u64, 0..16u64), 0..3),
        shift in prop_oneof![3 => Just(0u64), 1 => 1..16u64],
        read_only in prop::option::weighted(0.3, 0..16u64),
    ) {
        let mut w = world(COALA, 64);
        // Sixteen pages of one block, moved one by one to where they are to be.
        w.event(1, &mmap(BASE, RANGE, Prot::RW));
        store_all(&mut w, 1, BASE, 0..16);
        let mut target: Vec<u64> = (0..16).map(|page| (page + shift) % 16).collect();
        swaps.iter().for_each(|&(a, b)| target.swap(a as usize, b as usize));
        let to = BASE + (1 << 24);
        for (page, &at) in (0..).zip(&target) {
            let (old, new) = (VirtAddr::new(BASE + page * PAGE), VirtAddr::new(to + at * PAGE));
            w.event(1, &Event::Mremap { old, old_len: PAGE, new, new_len: PAGE, keep_old: false });
        }
        if let Some(page) = read_only {
            w.event(1, &Event::Mprotect { addr: VirtAddr::new(to + page * PAGE), len: PAGE, prot: Prot::R });
        }
        let leaf = |page: u64| w.walk(1, to + page * PAGE, None).expect("moved with its page");
        let leaves: Vec<_> = (0..16).map(leaf).collect();
        let frames: Vec<u64> =
            (0..16).map(|page| w.frame(1, to + page * PAGE).expect("moved with its page").0).collect();
        let qualifies = frames[0].is_multiple_of(16)
            && frames.windows(2).all(|pair| pair[0] + 1 == pair[1])
            && leaves.iter().all(|leaf| leaf.prot == leaves[0].prot);
        prop_assert_eq!(leaves.iter().all(|leaf| leaf.order == P64K), qualifies, "{:?} {:?}", frames, read_only);
        prop_assert_eq!(leaves.iter().any(|leaf| leaf.order == P64K), qualifies);
        let whys = [Refusal::ContiguousMisaligned, Refusal::ContiguousScattered, Refusal::ContiguousMixed];
        prop_assert!(qualifies || whys.iter().any(|why| refused(&w, *why) > 0), "the reason is counted");
        for page in 0..16 {
            let at = target[page as usize];
            prop_assert_eq!(w.load(1, to + at * PAGE), Ok(100 + page));
        }
    }
}

/// S2-006: each way to change one page of a range clears all sixteen bits and flushes the range once.
#[test]
fn a_change_of_one_page_clears_the_bit_and_flushes_once() {
    let page = VirtAddr::new(BASE + 5 * PAGE);
    let changes = [
        Event::Munmap { addr: page, len: PAGE },
        Event::Mprotect { addr: page, len: PAGE, prot: Prot::R },
        Event::Mprotect { addr: page, len: PAGE, prot: Prot::NONE },
        Event::Madvise { addr: page, len: PAGE, advice: Advice::Dontneed },
        Event::Madvise { addr: page, len: PAGE, advice: Advice::Free },
        Event::Mremap { old: page, old_len: PAGE, new: VirtAddr::new(8 * BASE), new_len: PAGE, keep_old: false },
    ];
    for change in changes {
        let mut w = folded();
        let sent = sent(&mut w, &change);
        assert_eq!(of_range(&sent, BASE, RANGE), 1, "{change:?}: {sent:?}");
        assert_eq!(happened(&w, EventKind::ContiguousFlush), 1);
        if !matches!(change, Event::Madvise { advice: Advice::Free, .. }) {
            assert_eq!(happened(&w, EventKind::ContiguousCleared64K), 1, "{change:?}");
            for page in (0..16).filter(|page| *page != 5) {
                assert_eq!(size(&mut w, BASE + page * PAGE), Some(PageOrder::P4K), "{change:?}");
            }
            assert_eq!(w.usage().mapped.bytes(P64K), 0);
        }
        for page in (0..16).filter(|page| *page != 5) {
            assert_eq!(w.load(1, BASE + page * PAGE), Ok(100 + page), "{change:?}");
        }
    }
}

/// Rights that come back, and a whole range that changes at once, leave a range with the bit.
#[test]
fn the_bit_comes_back_with_equal_rights() {
    let mut w = folded();
    let (page, whole) = (VirtAddr::new(BASE + 5 * PAGE), VirtAddr::new(BASE));
    for prot in [Prot::R, Prot::NONE] {
        w.event(1, &Event::Mprotect { addr: page, len: PAGE, prot });
        assert_eq!(size(&mut w, BASE), Some(PageOrder::P4K));
        w.event(1, &Event::Mprotect { addr: page, len: PAGE, prot: Prot::RW });
        assert_eq!(size(&mut w, BASE), Some(P64K), "{prot:?} and back");
    }
    let cleared = happened(&w, EventKind::ContiguousCleared64K);
    for prot in [Prot::R, Prot::RW, Prot::NONE, Prot::RW] {
        w.event(1, &Event::Mprotect { addr: whole, len: RANGE, prot });
        let expected = (prot != Prot::NONE).then_some(P64K);
        assert_eq!(size(&mut w, BASE), expected, "{prot:?}");
    }
    assert_eq!(happened(&w, EventKind::ContiguousCleared64K), cleared, "nothing changed a part");
    store_all(&mut w, 1, BASE, 0..16);
    // A move to a place that is aligned for it keeps the bit, another does not.
    let places = [BASE, BASE + (1 << 24), BASE + (1 << 25) + PAGE];
    for (from, expected) in [(0, P64K), (1, PageOrder::P4K)] {
        let [old, new] = [places[from], places[from + 1]].map(VirtAddr::new);
        w.event(1, &Event::Mremap { old, old_len: RANGE, new, new_len: RANGE, keep_old: false });
        assert_eq!(size(&mut w, new.raw()), Some(expected));
        for page in 0..16 {
            assert_eq!(w.load(1, new.raw() + page * PAGE), Ok(100 + page));
        }
    }
}

/// The frames of a range are sixteen pages: a store after fork copies one of them, and the child's range has the bit,
/// too.
#[test]
fn copy_on_write_copies_one_page() {
    let mut w = folded();
    w.event(1, &Event::Fork { child: Pid(2), shares_memory: false });
    assert_eq!(w.walk(2, BASE, None).map(|leaf| (leaf.order, leaf.prot)), Some((P64K, Prot::R)));
    assert_eq!(w.walk(1, BASE, None).map(|leaf| (leaf.order, leaf.prot)), Some((P64K, Prot::R)));
    let before = w.usage().private_bytes;
    assert_eq!(w.store(1, BASE + 5 * PAGE, 7), Ok(vec![FaultKind::Copy]));
    assert_eq!(w.usage().private_bytes, before + PAGE);
    assert_eq!(happened(&w, EventKind::ContiguousCleared64K), 1);
    assert_eq!((w.load(1, BASE + 5 * PAGE), w.load(2, BASE + 5 * PAGE)), (Ok(7), Ok(105)));
    assert_eq!(w.walk(2, BASE, None).map(|leaf| leaf.order), Some(P64K), "the child's range is whole");
    // Page 5 of the child is its alone now, the others are not.
    w.event(2, &Event::Mprotect { addr: VirtAddr::new(BASE), len: RANGE, prot: Prot::R });
    w.event(2, &Event::Mprotect { addr: VirtAddr::new(BASE), len: RANGE, prot: Prot::RW });
    let writable = |w: &mut World, page: u64| w.walk(2, BASE + page * PAGE, None).unwrap().prot.has(Prot::W);
    assert!(writable(&mut w, 5) && !writable(&mut w, 4), "rights are those of each page");
    assert_eq!(w.store(2, BASE + 4 * PAGE, 9), Ok(vec![FaultKind::Copy]));
    assert_eq!((w.load(1, BASE + 4 * PAGE), w.load(2, BASE + 4 * PAGE)), (Ok(104), Ok(9)));
    w.event(2, &Event::Exit { status: 0 });
    // The last owner takes the right back, page by page; after the last of them the entries agree again.
    for page in (0..16).filter(|page| *page != 5) {
        assert_eq!(w.store(1, BASE + page * PAGE, page), Ok(vec![FaultKind::Reuse]));
    }
    assert_eq!(w.usage().private_bytes, 16 * PAGE);
}

/// The last owner of a shared range takes the right to store back page by page, as without the bit.
#[test]
fn a_store_makes_one_page_writable() {
    let mut w = folded();
    w.event(1, &Event::Fork { child: Pid(2), shares_memory: false });
    w.event(2, &Event::Exit { status: 0 });
    for page in 0..16 {
        assert_eq!(w.store(1, BASE + page * PAGE, page), Ok(vec![FaultKind::Reuse]), "page {page}");
        let expected = if page < 15 { PageOrder::P4K } else { P64K };
        assert_eq!(size(&mut w, BASE), Some(expected), "after page {page}");
    }
    assert_eq!(happened(&w, EventKind::ContiguousCleared64K), 1);
}

/// A page of 64 KiB that was allocated whole is no folded range: it is split, and its parts get the bit by themselves.
#[test]
fn a_page_allocated_whole_is_split() {
    let mut w = world("contiguous.bit = \"transparent\"\nfault.sizes = [\"64K\", \"2M\"]\nlinux.zero_page = false", 64);
    w.event(1, &mmap(BASE, RANGE, Prot::RW));
    w.store(1, BASE, 1).unwrap();
    assert_eq!((size(&mut w, BASE), happened(&w, EventKind::Contiguous64K)), (Some(P64K), 0));
    w.event(1, &Event::Mprotect { addr: VirtAddr::new(BASE), len: PAGE, prot: Prot::R });
    assert_eq!((happened(&w, EventKind::Split), happened(&w, EventKind::ContiguousCleared64K)), (1, 0));
    w.event(1, &Event::Mprotect { addr: VirtAddr::new(BASE), len: PAGE, prot: Prot::RW });
    assert_eq!((size(&mut w, BASE), happened(&w, EventKind::Contiguous64K)), (Some(P64K), 1));
    // The base pages of a huge page lie together: all ranges but the one with the change get the bit.
    w.event(1, &mmap(8 * BASE, HUGE, Prot::RW));
    w.store(1, 8 * BASE, 1).unwrap();
    assert_eq!(size(&mut w, 8 * BASE), Some(PageOrder::P2M));
    w.event(1, &Event::Mprotect { addr: VirtAddr::new(8 * BASE + 20 * PAGE), len: PAGE, prot: Prot::R });
    let sizes: Vec<_> = (0..32).map(|range| size(&mut w, 8 * BASE + range * RANGE)).collect();
    assert_eq!(sizes.iter().filter(|size| **size == Some(P64K)).count(), 31);
    assert_eq!(sizes[1], Some(PageOrder::P4K));
}

/// Linux 6.9: the bit is for pages that were allocated together. Sixteen pages that happen to lie together do not have
/// it. A block of 64 KiB or more has it, for each of its ranges. A page that was copied breaks its range for good.
#[test]
fn folios_have_the_bit_and_nothing_else() {
    let mut w = world("contiguous.bit = \"folio\"\nplacement.frames = \"coala\"\nlinux.zero_page = false", 64);
    w.event(1, &mmap(BASE, RANGE, Prot::RW));
    store_all(&mut w, 1, BASE, 0..16);
    assert_eq!((size(&mut w, BASE), refused(&w, Refusal::ContiguousNoFolio)), (Some(PageOrder::P4K), 1));
    let mut policy = mmulab_kernel::PolicyDesc::linux_thp();
    policy.thp.as_mut().unwrap().sizes = [(PageOrder::new(5), mmulab_kernel::ThpSize::Always)].into();
    policy.contiguous = parts("contiguous.bit = \"folio\"").contiguous;
    let desc = KernelDesc { table: table("armv8-4k"), ..desc(policy, 64) };
    let mut w = World::new(&desc, 64);
    w.event(1, &mmap(BASE, 2 * RANGE, Prot::RW));
    w.store(1, BASE + 20 * PAGE, 7).unwrap();
    assert_eq!((size(&mut w, BASE), size(&mut w, BASE + RANGE)), (Some(P64K), Some(P64K)), "one fault, two ranges");
    assert_eq!((happened(&w, EventKind::MthpFault), happened(&w, EventKind::Contiguous64K)), (1, 2));
    w.event(1, &Event::Fork { child: Pid(2), shares_memory: false });
    w.store(1, BASE, 9).unwrap();
    w.event(2, &Event::Exit { status: 0 });
    store_all(&mut w, 1, BASE, 0..32);
    assert_eq!((size(&mut w, BASE), size(&mut w, BASE + RANGE)), (Some(PageOrder::P4K), Some(P64K)));
}

/// The shared page of zeros lies nowhere.
#[test]
fn pages_of_zeros_have_no_bit() {
    let mut w = world("contiguous.bit = \"transparent\"\nplacement.frames = \"coala\"", 64);
    w.event(1, &mmap(BASE, RANGE, Prot::RW));
    for page in 0..16 {
        w.load(1, BASE + page * PAGE).unwrap();
    }
    assert_eq!((size(&mut w, BASE), refused(&w, Refusal::ContiguousZeroPage)), (Some(PageOrder::P4K), 1));
    store_all(&mut w, 1, BASE, 0..16);
    assert_eq!(size(&mut w, BASE), Some(P64K), "each page of zeros made way for one of the block");
}

/// Sixteen pages of two mappings that differ are no range.
#[test]
fn a_range_lies_in_one_mapping() {
    let mut w = world(COALA, 64);
    w.event(1, &mmap(BASE, RANGE / 2, Prot::RW));
    w.event(1, &mmap(BASE + RANGE / 2, RANGE / 2, Prot::RW));
    w.event(1, &Event::Madvise { addr: VirtAddr::new(BASE), len: RANGE / 2, advice: Advice::Hugepage });
    store_all(&mut w, 1, BASE, 0..16);
    assert_eq!((size(&mut w, BASE), refused(&w, Refusal::ContiguousOutsideVma)), (Some(PageOrder::P4K), 1));
}

/// S2-030: hardware sets A and D in one of the sixteen entries, and the kernel takes it for all.
#[test]
fn the_kernel_ors_accessed_and_dirty_bits() {
    let mut w = world(COALA, 64);
    w.event(1, &mmap(BASE, RANGE, Prot::RW));
    for page in 0..16 {
        w.load(1, BASE + page * PAGE).unwrap();
    }
    w.event(1, &Event::Madvise { addr: VirtAddr::new(BASE), len: RANGE, advice: Advice::Free });
    let bits =
        |w: &mut World, page: u64| w.walk(1, BASE + page * PAGE, None).map(|leaf| (leaf.accessed, leaf.dirty)).unwrap();
    assert_eq!(size(&mut w, BASE), Some(P64K));
    assert!((0..16).all(|page| bits(&mut w, page) == (false, false)));
    // A walker marks the entry it read, and no other.
    w.walk(1, BASE + 7 * PAGE, Some(Access::Write)).unwrap();
    let marked: Vec<u64> = (0..16).filter(|page| bits(&mut w, *page) == (true, true)).collect();
    assert_eq!(marked, [7]);
    w.event(1, &Event::Munmap { addr: VirtAddr::new(BASE + 15 * PAGE), len: PAGE });
    assert!((0..15).all(|page| bits(&mut w, page) == (true, true)), "each page of the range counts as dirty");
}

/// S2-013, S2-017, S2-028: sixteen pages of 2 MiB, faulted in any order by two programs in turn, translate as 32 MiB.
/// An operation on one of them clears the bit, and flushes once.
#[test]
fn sixteen_huge_pages_translate_as_32_mib() {
    let mut w = world(&format!("{COALA}fault.sizes = [\"2M\"]\n"), 256);
    for pid in [1, 2] {
        w.event(pid, &mmap(u64::from(pid) * BASE, 16 * HUGE, Prot::RW));
    }
    for i in 0..16 {
        assert_eq!(happened(&w, EventKind::Contiguous32M), 0);
        w.store(1, BASE + (i * 7 % 16) * HUGE, i).unwrap();
        w.store(2, 2 * BASE + (15 - i) * HUGE, i).unwrap();
    }
    assert_eq!(happened(&w, EventKind::Contiguous32M), 2);
    assert_eq!(w.usage().mapped.bytes(PageOrder::P32M), 32 * HUGE);
    let page = VirtAddr::new(BASE + 3 * HUGE);
    let sent = sent(&mut w, &Event::Madvise { addr: page, len: HUGE, advice: Advice::Dontneed });
    assert_eq!(of_range(&sent, BASE, 16 * HUGE), 1, "{sent:?}");
    assert_eq!((size(&mut w, BASE), size(&mut w, page.raw())), (Some(PageOrder::P2M), None));
    assert_eq!(w.usage().mapped.bytes(PageOrder::P32M), 16 * HUGE);
    w.store(1, page.raw(), 1).unwrap();
    assert_eq!(size(&mut w, BASE), Some(PageOrder::P32M), "the frame was free, so CoalaPaging found it again");
    // One base page of one of the sixteen: 32 MiB become pages of 2 MiB, and one of them base pages and ranges.
    w.event(1, &Event::Mprotect { addr: page, len: PAGE, prot: Prot::R });
    let sizes = [BASE, page.raw(), page.raw() + RANGE].map(|at| size(&mut w, at));
    assert_eq!(sizes, [Some(PageOrder::P2M), Some(PageOrder::P4K), Some(P64K)]);
    // A copy of one huge page of a folded range is of a part, too.
    w.event(2, &Event::Fork { child: Pid(3), shares_memory: false });
    w.store(3, 2 * BASE + 5 * HUGE, 1).unwrap();
    assert_eq!(w.walk(2, 2 * BASE, None).map(|leaf| leaf.order), Some(PageOrder::P32M));
    let private = w.usage().private_bytes;
    for pid in [1, 2, 3] {
        w.event(pid, &Event::Exit { status: 0 });
    }
    assert!(private > 0 && w.usage().private_bytes == 0);
}

/// Compaction moves a base page out of a range, which loses the bit; khugepaged looks through ranges at their pages.
#[test]
fn pages_of_a_range_can_be_moved() {
    let daemon = "contiguous.bit = \"transparent\"\nplacement.frames = \"coala\"\nlinux.zero_page = false\n\
                  promotion.when = \"daemon\"\npromotion.daemon.scan_sleep_ms = 10";
    let mut desc = described(daemon, 32);
    desc.memory.max_order = 10;
    let mut w = World::new(&desc, 32);
    w.event(1, &mmap(BASE, 64 << 20, Prot::RW));
    w.event(1, &Event::Madvise { addr: VirtAddr::new(BASE), len: 64 << 20, advice: Advice::Nohugepage });
    let pages = w.usage().free_bytes / PAGE - 200;
    store_all(&mut w, 1, BASE, 0..pages);
    // Every second range goes: much memory is free, and no block of 2 MiB.
    for range in (0..pages / 16).step_by(2) {
        let (addr, advice) = (VirtAddr::new(BASE + range * RANGE), Advice::Dontneed);
        w.event(1, &Event::Madvise { addr, len: RANGE, advice });
    }
    assert!(!w.kernel.frames().has_block(PageOrder::P2M));
    assert_eq!(size(&mut w, BASE + RANGE), Some(P64K));
    w.event(1, &mmap(8 * BASE, HUGE, Prot::RW));
    w.store(1, 8 * BASE, 1).unwrap();
    for _ in 0..20 {
        w.event(1, &Event::Tick);
    }
    assert!(happened(&w, EventKind::Migrated) > 0);
    assert!(happened(&w, EventKind::ContiguousCleared64K) > 0);
    assert_eq!(size(&mut w, 8 * BASE), Some(PageOrder::P2M), "the block that was made is khugepaged's");
    for page in (0..pages).filter(|page| page / 16 % 2 == 1) {
        assert_eq!(w.load(1, BASE + page * PAGE), Ok(100 + page), "page {page}");
    }
}

/// khugepaged sees sixteen pages in a range, of which each may be shared.
#[test]
fn khugepaged_looks_through_ranges() {
    let daemon = format!("{COALA}promotion.when = \"daemon\"\npromotion.daemon.scan_sleep_ms = 10");
    let mut w = world(&daemon, 64);
    w.event(1, &mmap(BASE, HUGE, Prot::RW));
    store_all(&mut w, 1, BASE, 0..512);
    assert_eq!(w.usage().mapped.bytes(P64K), HUGE);
    w.event(1, &Event::Tick);
    assert_eq!(size(&mut w, BASE), Some(PageOrder::P2M));
    assert_eq!(happened(&w, EventKind::ContiguousCleared64K), 0, "the ranges went whole");
}

/// A policy that the table or another part cannot serve is refused by its key.
#[test]
fn what_has_no_contiguous_bit_is_refused() {
    let refusal = |desc: &KernelDesc| refusal(desc, 64);
    let x86 = KernelDesc { table: TableDesc::default(), ..described("contiguous.bit = \"transparent\"", 64) };
    let text = refusal(&x86);
    assert!(text.contains("contiguous.bit") && text.contains("armv8-4k") && text.contains("x86-64-radix"), "{text}");
    let in_place = "contiguous.bit = \"transparent\"\npromotion.when = \"full\"\n\
                    placement = { frames = \"reservation\", levels = [\"2M\"] }";
    let text = refusal(&described(in_place, 64));
    assert!(text.contains("contiguous.bit") && text.contains("promotion.when"), "{text}");
    let none = KernelDesc { table: TableDesc::default(), ..described("contiguous.bit = \"none\"", 64) };
    let mut mem = mmulab_frames::PhysMem::new(64 << 20);
    assert!(Kernel::new(&none, &mut mem).is_ok());
}

/// Base pages of files have the bit where the page cache put them together.
#[test]
fn files_have_the_bit() {
    let mut w = world("contiguous.bit = \"transparent\"", 64);
    w.event(1, &mmap_file(BASE, 16 * RANGE, Prot::R, false, "/f", 0));
    for page in 0..256 {
        w.access(1, BASE + page * PAGE, Access::Read).unwrap();
    }
    let set = happened(&w, EventKind::Contiguous64K);
    let sizes: Vec<_> = (0..16).filter(|range| size(&mut w, BASE + range * RANGE) == Some(P64K)).collect();
    assert_eq!(sizes.len() as u64, set);
    let head = w.frame(1, BASE).unwrap();
    assert_eq!(set > 0, head.align_down(P64K) == head && head != Pfn(0), "{head:?}");
}
