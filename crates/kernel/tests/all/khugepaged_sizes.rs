//! khugepaged for several sizes, as Linux from 7.2 on has it: which blocks it makes of which pages.

use crate::common::*;
use mmulab_addr::{PageOrder, Pid, Prot, VirtAddr};
use mmulab_kernel::{EventKind, KernelDesc, KhugepagedDesc, Note, PolicyDesc, Refusal, ThpDesc, ThpSize};
use mmulab_pagetable::{TableDesc, TableKind};
use mmulab_trace::{Advice, Event};
use proptest::prelude::*;
use std::collections::BTreeSet;

const P64K: PageOrder = PageOrder::P64K;
const P2M: PageOrder = PageOrder::P2M;
const HUGE: u64 = 2 << 20;

/// Policies whose sizes are for advised mappings, so that faults before the advice map base pages.
fn policy(sizes: &[PageOrder], max_ptes_none: u32, mthp: bool) -> PolicyDesc {
    let mut policy = PolicyDesc::linux_thp();
    let advised = sizes.iter().map(|&size| (size, ThpSize::Madvise));
    policy.thp = Some(ThpDesc {
        sizes: [(P2M, ThpSize::Never)].into_iter().chain(advised).collect(),
        khugepaged: Some(KhugepagedDesc { max_ptes_none, mthp, ..KhugepagedDesc::default() }),
        ..ThpDesc::default()
    });
    policy
}

fn world(sizes: &[PageOrder], max_ptes_none: u32) -> World {
    World::new(&desc(policy(sizes, max_ptes_none, true), 128), 128)
}

fn advise(w: &mut World, len: u64) {
    w.event(1, &Event::Madvise { addr: VirtAddr::new(BASE), len, advice: Advice::Hugepage });
}

/// Lets khugepaged run: the blocks that it made, by first page and size.
fn tick(w: &mut World) -> BTreeSet<(u64, PageOrder)> {
    w.effects.clear();
    w.kernel.event(&mut w.mem, actor(1), &Event::Tick, &mut w.effects).unwrap();
    let made = w.effects.notes.iter().filter_map(|note| match note {
        Note::Collapsed { va, size, .. } => Some(((va.raw() - BASE) / PAGE, *size)),
        _ => None,
    });
    let made = made.collect();
    w.flush();
    made
}

fn happened(w: &World, what: EventKind) -> u64 {
    w.kernel.counts().events.get(what)
}

fn refused(w: &World, why: Refusal) -> u64 {
    w.kernel.counts().refusals.get(why)
}

/// Whether the pages from number `first` on lie in an aligned block of frames.
fn is_block(w: &mut World, first: u64, order: PageOrder) -> bool {
    let head = w.frame(1, BASE + first * PAGE).expect("mapped").0;
    head.is_multiple_of(order.base_pages())
        && (0..order.base_pages()).all(|i| w.frame(1, BASE + (first + i) * PAGE).is_some_and(|pfn| pfn.0 == head + i))
}

/// 32 MB of base pages, with 64K as the only size and nothing that may be missing. A guest under Linux 7.3 came to have
/// 512 of 512 blocks of 64K by khugepaged, and one under 6.12 none.
#[test]
fn thirty_two_megabytes_become_512_blocks_under_linux_7_3_and_none_under_6_12() {
    for (mthp, expected) in [(true, 512), (false, 0)] {
        let mut w = World::new(&desc(policy(&[P64K], 0, mthp), 128), 128);
        w.event(1, &mmap(BASE, 16 * HUGE, Prot::RW));
        (0..16 * 512).for_each(|page| drop(w.store(1, BASE + page * PAGE, page).expect("memory is left")));
        advise(&mut w, 16 * HUGE);
        let made: usize = (0..4).map(|_| tick(&mut w).len()).sum();
        assert_eq!((made, happened(&w, EventKind::KhugepagedMthp)), (expected, expected as u64));
        // Base pages that faults took one after another may lie so by chance.
        assert!(!mthp || (0..512).all(|block| is_block(&mut w, block * 16, P64K)));
    }
}

/// Sixteen pages that came together get the contiguous bit of Linux from 6.9 on, which asks for one folio.
#[test]
fn the_blocks_get_the_contiguous_bit() {
    let mut policy = policy(&[P64K], 0, true);
    policy.contiguous = Some(toml::from_str("bit = \"folio\"").expect("a good description"));
    let kind = TableKind::ALL.iter().find(|kind| kind.name() == "armv8-4k").expect("a kind of table");
    let table = TableDesc::new(*kind, 4).expect("four levels");
    let mut w = World::new(&KernelDesc { table, ..desc(policy, 64) }, 64);
    w.event(1, &mmap(BASE, HUGE, Prot::RW));
    (0..32).for_each(|page| drop(w.store(1, BASE + page * PAGE, page).expect("memory is left")));
    assert_eq!(happened(&w, EventKind::Contiguous64K), 0, "no folio of 64K");
    advise(&mut w, HUGE);
    assert_eq!(tick(&mut w), [(0, P64K), (16, P64K)].into());
    assert_eq!(happened(&w, EventKind::Contiguous64K), 2);
    assert!([0, 16].iter().all(|page| w.walk(1, BASE + page * PAGE, None).is_some_and(|leaf| leaf.order == P64K)));
}

/// Pages that a child shares are copied for 2 MiB, if they are few, but never for a smaller block.
#[test]
fn shared_pages_keep_a_small_block_from_being_made() {
    for (sizes, expected) in [(vec![P2M, P64K], vec![(0, P2M)]), (vec![P64K], vec![(16, P64K)])] {
        let mut w = world(&sizes, 511);
        w.event(1, &mmap(BASE, HUGE, Prot::RW));
        (0..32).for_each(|page| drop(w.store(1, BASE + page * PAGE, page).expect("memory is left")));
        w.event(1, &Event::Fork { child: Pid(2), shares_memory: false });
        // The pages of the second block are the parent's own again.
        (16..32).for_each(|page| drop(w.store(1, BASE + page * PAGE, page).expect("memory is left")));
        advise(&mut w, HUGE);
        assert_eq!(tick(&mut w), expected.into_iter().collect(), "{sizes:?}");
        assert_eq!(refused(&w, Refusal::KhugepagedShared), u64::from(sizes == [P64K]));
    }
}

/// Of pages that were not accessed since their bits were cleared, no block is made.
#[test]
fn pages_that_nobody_uses_are_left_alone() {
    let mut w = world(&[P64K], 0);
    w.event(1, &mmap(BASE, HUGE, Prot::RW));
    (0..32).for_each(|page| drop(w.store(1, BASE + page * PAGE, page).expect("memory is left")));
    w.event(1, &Event::Madvise { addr: VirtAddr::new(BASE), len: HUGE, advice: Advice::Free });
    advise(&mut w, HUGE);
    assert_eq!((tick(&mut w), refused(&w, Refusal::KhugepagedIdle)), (BTreeSet::new(), 1), "the whole region");
    w.load(1, BASE + 20 * PAGE).unwrap();
    assert_eq!(tick(&mut w), [(16, P64K)].into());
    assert_eq!(refused(&w, Refusal::KhugepagedIdle), 2, "the first block");
}

/// Where no 2 MiB are free, the same pages become blocks of 64 KiB, and the scan goes on.
#[test]
fn without_a_block_of_2_mebibytes_smaller_ones_are_made() {
    let mut desc = desc(policy(&[P2M, P64K], 511, true), 64);
    desc.memory.fragment = memhog(50.0, "64K");
    let mut w = World::new(&desc, 64);
    assert!(!w.kernel.frames().has_block(P2M));
    w.event(1, &mmap(BASE, 2 * HUGE, Prot::RW));
    (0..1024).for_each(|page| drop(w.store(1, BASE + page * PAGE, page).expect("memory is left")));
    advise(&mut w, 2 * HUGE);
    let all: BTreeSet<_> = (0..64).map(|block| (block * 16, P64K)).collect();
    assert_eq!((tick(&mut w), refused(&w, Refusal::ThpNoBlock)), (all, 2));
}

/// Policies without such a size, or with another daemon, are refused under the key.
#[test]
fn contradictions_name_the_key() {
    let key = |policy: PolicyDesc| refused_key(policy, 64);
    assert_eq!(key(policy(&[P2M], 511, true)), "thp.khugepaged.mthp");
    let daemon = |faults: &str, by: &str| {
        key(parts(&format!("{faults}\npromotion = {{ when = \"daemon\", by = \"{by}\", daemon.mthp = true }}")))
    };
    assert_eq!(daemon("fault.sizes = [\"64K\"]", "ingens"), "promotion.daemon.mthp");
    assert_eq!(daemon("fault.sizes = [\"2M\", \"8K\"]", "khugepaged"), "promotion.daemon.mthp");
}

/// Policies of kind `linux` make the sizes of their faults.
#[test]
fn the_sizes_of_faults_are_made() {
    let sections = "linux.zero_page = false\nfault = { sizes = [\"16K\", \"64K\"], enabled = \"madvise\" }\n\
                    promotion = { when = \"daemon\", daemon = { mthp = true, max_ptes_none = 0 } }";
    let mut w = World::new(&desc(parts(sections), 64), 64);
    w.event(1, &mmap(BASE, HUGE, Prot::RW));
    (0..24).for_each(|page| drop(w.store(1, BASE + page * PAGE, page).expect("memory is left")));
    assert_eq!(tick(&mut w), [(0, P64K), (16, PageOrder::P16K), (20, PageOrder::P16K)].into());
}

/// The blocks that should be made of the 2^order pages from `first` on, by the rule in Linux's words. It is the whole
/// if that has enough pages, else what each half should become.
fn blocks(
    pages: &BTreeSet<u64>,
    sizes: &BTreeSet<PageOrder>,
    max_ptes_none: u32,
    (first, order): (u64, PageOrder),
) -> BTreeSet<(u64, PageOrder)> {
    let all = order.base_pages();
    let most_none = match max_ptes_none {
        none if order == P2M => u64::from(none),
        511 => all - 1,
        _ => 0,
    };
    let present = pages.range(first..first + all).count() as u64;
    if sizes.contains(&order) && present + most_none >= all {
        return [(first, order)].into();
    }
    if sizes.iter().all(|&size| size >= order) {
        return BTreeSet::new();
    }
    let half = PageOrder::new(order.get() - 1);
    let mut made = blocks(pages, sizes, max_ptes_none, (first, half));
    made.extend(blocks(pages, sizes, max_ptes_none, (first + half.base_pages(), half)));
    made
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    /// Any pages of 2 MiB, any sizes that are on, and any limit: the blocks are those of the rule. All else stays where
    /// it was, and a second look finds nothing left to do.
    #[test]
    fn the_largest_blocks_that_have_enough_pages_are_made(
        runs in prop::collection::vec((0u64..512, prop_oneof![1u64..4, 8u64..40, 100u64..512]), 1..12),
        orders in prop::collection::btree_set(2u8..10, 1..4),
        max_ptes_none in prop_oneof![Just(0u32), Just(511), 1u32..511],
    ) {
        let sizes: BTreeSet<PageOrder> = orders.into_iter().map(PageOrder::new).collect();
        // Without a size below 2 MiB the key is refused.
        prop_assume!(sizes.iter().any(|&size| size < P2M));
        let pages: BTreeSet<u64> = runs.into_iter().flat_map(|(at, len)| at..(at + len).min(512)).collect();
        let mut w = world(&sizes.iter().copied().collect::<Vec<_>>(), max_ptes_none);
        w.event(1, &mmap(BASE, HUGE, Prot::RW));
        for &page in &pages {
            w.store(1, BASE + page * PAGE, page + 1).unwrap();
        }
        let before: Vec<_> = (0..512).map(|page| w.frame(1, BASE + page * PAGE)).collect();
        advise(&mut w, HUGE);
        let made = tick(&mut w);
        prop_assert_eq!(&made, &blocks(&pages, &sizes, max_ptes_none, (0, P2M)));
        for &(first, order) in &made {
            prop_assert!(is_block(&mut w, first, order));
            for page in first..first + order.base_pages() {
                prop_assert_ne!(w.frame(1, BASE + page * PAGE), before[page as usize], "it was copied");
            }
        }
        let is_in_block = |page| made.iter().any(|(first, order)| (*first..first + order.base_pages()).contains(&page));
        for page in 0..512 {
            let now = w.frame(1, BASE + page * PAGE);
            prop_assert_eq!(now.is_some(), pages.contains(&page) || is_in_block(page));
            prop_assert!(is_in_block(page) || now == before[page as usize], "page {} moved", page);
        }
        prop_assert_eq!(tick(&mut w), BTreeSet::new());
        w.event(1, &Event::Exit { status: 0 });
        prop_assert_eq!((w.usage().private_bytes, w.usage().mapped.total()), (0, 0));
    }
}
