//! The table's bytes against a map of what should be mapped.

mod common;

use common::{Counter, Model, hardware, holder, leaf};
use mmulab_addr::{PageOrder, Pfn, Prot, VirtAddr, VirtRange, Vpn};
use mmulab_frames::PhysMem;
use mmulab_pagetable::{
    CompendiaDesc, CuckooDesc, Leaf, MapError, Marks, OpenDesc, Part, Probing, Share, Table, TableDesc, TableKind,
};
use proptest::prelude::*;
use std::collections::BTreeMap;

#[derive(Clone, Debug)]
enum Op {
    Map { page: u64, order: PageOrder, prot: Prot },
    Unmap { page: u64, order: PageOrder },
    Protect { page: u64, prot: Prot },
    Split { page: u64 },
}

fn order() -> impl Strategy<Value = PageOrder> {
    prop_oneof![
        4 => Just(PageOrder::P4K),
        2 => Just(PageOrder::P64K),
        3 => Just(PageOrder::P2M),
        1 => Just(PageOrder::P32M),
        1 => Just(PageOrder::P1G),
    ]
}

/// Pages near four places, so that operations meet.
fn page() -> impl Strategy<Value = u64> {
    (0u64..2, 0u64..4, 0u64..20, 0u64..20).prop_map(|(a, b, c, d)| (a << 26) | (b << 18) | (c << 9) | d)
}

fn prot() -> impl Strategy<Value = Prot> {
    prop_oneof![Just(Prot::R), Just(Prot::RW), Just(Prot::RX)]
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        5 => (page(), order(), prot()).prop_map(|(page, order, prot)| Op::Map { page, order, prot }),
        2 => (page(), order()).prop_map(|(page, order)| Op::Unmap { page, order }),
        1 => (page(), prot()).prop_map(|(page, prot)| Op::Protect { page, prot }),
        1 => page().prop_map(|page| Op::Split { page }),
    ]
}

/// Tables found by hashing, as small as they can be, so that they are resized.
fn searched() -> impl Strategy<Value = TableDesc> {
    let sizes = vec![PageOrder::P4K, PageOrder::P2M, PageOrder::P1G];
    let guides = prop::sample::subsequence(sizes, 0..=3);
    let cuckoo = (2u8..=4, 100u16..=800, 1u16..20, guides).prop_map(|(ways, grow, kicks, guides)| CuckooDesc {
        ways,
        lines: 64,
        grow: Part::thousandths(grow),
        shrink: Part::thousandths(grow / 2),
        kicks,
        guides,
        guide_lines: 64,
        ..CuckooDesc::default()
    });
    let open = (50u16..=900, any::<bool>()).prop_map(|(grow, together)| OpenDesc {
        lines: 64,
        grow: Part::thousandths(grow),
        shrink: Part::thousandths(grow / 3),
        sizes: if together { Probing::Parallel } else { Probing::Sequential },
        ..OpenDesc::default()
    });
    prop_oneof![
        2 => cuckoo.prop_map(|desc| TableDesc::of_cuckoo(desc).unwrap()),
        1 => open.prop_map(|desc| TableDesc::of_hashed(desc).unwrap()),
    ]
}

/// Tables of every kind, those that merge doing so for few entries.
fn table() -> impl Strategy<Value = TableDesc> {
    let share = |whole| Share::new(1, whole).unwrap();
    let few = prop_oneof![Just(512), Just(256), Just(128)];
    let options = (few, any::<bool>(), 2u8..5, any::<bool>(), prop::option::of(3u8..5), any::<bool>());
    let compendia = options.prop_map(move |(merge, strict, from, direct, three, low)| CompendiaDesc {
        merge: share(merge),
        unmerge: share(512),
        strict,
        merge_levels: (from..=5).collect(),
        direct,
        merge_three: three.filter(|three| *three > from),
        request: None,
        marks: if low { Marks::FrameIndex } else { Marks::IgnoredBits },
    });
    prop_oneof![
        1 => (4u8..=5).prop_map(|levels| TableDesc::x86(levels).unwrap()),
        1 => (3u8..=5).prop_map(|levels| TableDesc::new(TableKind::Riscv, levels).unwrap()),
        1 => (3u8..=4).prop_map(|levels| TableDesc::new(TableKind::Arm, levels).unwrap()),
        2 => (4u8..=5, compendia).prop_map(|(levels, desc)| TableDesc::of_compendia(levels, desc).unwrap()),
        2 => searched(),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn bytes_agree_with_a_map(desc in table(), ops in prop::collection::vec(op(), 1..60)) {
        let mut mem = PhysMem::new(1 << 40);
        let mut frames = Counter::default();
        let mut table = Table::new(&desc, &mut mem, &mut frames).unwrap();
        let mut model = Model::new();
        for op in ops {
            match op {
                Op::Map { page, order, prot } => {
                    let vpn = Vpn(page).align_down(order);
                    let new = leaf(vpn.0, order, prot);
                    let free = desc.has_leaf(order)
                        && holder(&model, vpn.0).is_none()
                        && model.range(vpn.0..vpn.0 + order.base_pages()).next().is_none();
                    let mapped = table.map(&mut mem, &mut frames, vpn, new);
                    prop_assert_eq!(mapped.is_ok(), free);
                    mapped.into_iter().for_each(|flush| flush.lazy("no TLB here"));
                    if free {
                        model.insert(vpn.0, new);
                    }
                }
                Op::Unmap { page, order } => {
                    let vpn = Vpn(page).align_down(order);
                    let expected = model.get(&vpn.0).copied().filter(|l| l.order == order);
                    let (was, flush) = table.unmap(&mut mem, &mut frames, vpn, order);
                    let mut sent = Vec::new();
                    flush.deliver(Default::default(), &mut sent);
                    prop_assert_eq!(was, expected);
                    prop_assert_eq!(sent.len(), usize::from(expected.is_some()));
                    if expected.is_some() {
                        model.remove(&vpn.0);
                    }
                }
                Op::Protect { page, prot } => {
                    if let Some((first, there)) = holder(&model, page) {
                        let new = Leaf { prot, ..there };
                        table.set(&mut mem, Vpn(first), new).lazy("no TLB here");
                        model.insert(first, new);
                    }
                }
                Op::Split { page } => {
                    let held = holder(&model, page).filter(|(_, l)| l.order > PageOrder::P4K);
                    let split = table.split(&mut mem, &mut frames, Vpn(page));
                    prop_assert_eq!(split.is_ok(), held.is_some());
                    if let (Ok(flush), Some((first, large))) = (split, held) {
                        flush.lazy("no TLB here");
                        let (part, parts) = common::parts(large.order);
                        for i in 0..parts {
                            let at = i * part.base_pages();
                            model.insert(first + at, Leaf { pfn: Pfn(large.pfn.0 + at), order: part, ..large });
                        }
                    }
                }
            }
            prop_assert_eq!(table.table_frames(), frames.out);
        }
        let mut seen = BTreeMap::new();
        table.for_each_leaf(&mem, VirtRange { start: Vpn(0).addr(), end: Vpn(1 << 27).addr() }, |v, l| {
            seen.insert(v.0, l);
        });
        prop_assert_eq!(&seen, &model);
        for (&first, &l) in &model {
            let last = Vpn(first + l.order.base_pages() - 1);
            prop_assert_eq!(hardware(&table, &mem, last).0, Some(l));
            prop_assert_eq!(table.lookup(&mem, last), Some((Vpn(first), l)));
        }
        for (first, l) in model {
            table.unmap(&mut mem, &mut frames, Vpn(first), l.order).1.lazy("no TLB here");
        }
        if table.format().is_searched() {
            prop_assert_eq!(frames.out, table.table_frames());
        } else {
            let roots = if desc.kind == TableKind::Arm { 2 } else { 1 };
            prop_assert_eq!(frames.out, roots, "an empty tree is its root");
        }
        table.free(&mut mem, &mut frames);
        prop_assert_eq!((frames.out, mem.resident_frames()), (0, 0));
    }
}

/// Programs' addresses and the kernel's differ in bits that no level of a walk looks at: which register the walk begins
/// with tells them apart (Arm ARM, D8.1).
#[test]
fn arm_has_a_tree_for_each_half() {
    let desc = TableDesc::new(TableKind::Arm, 4).unwrap();
    let mut mem = PhysMem::new(1 << 40);
    let mut frames = Counter::default();
    let mut table = Table::new(&desc, &mut mem, &mut frames).unwrap();
    let (low, high) = (0x0000_ffff_ffff_e000, 0xffff_ffff_ffff_e000);
    let pages = [low, high].map(|va| VirtAddr::new(va).vpn());
    for (n, page) in pages.into_iter().enumerate() {
        let new = Leaf { pfn: Pfn(7 + n as u64), ..leaf(page.0, PageOrder::P4K, Prot::RW) };
        table.map(&mut mem, &mut frames, page, new).unwrap().lazy("no TLB here");
    }
    assert_eq!(frames.out, 2 * 4, "each has its tables");
    let found = pages.map(|page| table.lookup(&mem, page).unwrap().1.pfn);
    assert_eq!(found, [Pfn(7), Pfn(8)]);
    assert_eq!(pages.map(|page| hardware(&table, &mem, page).0.unwrap().pfn), found);
    let drawn = mmulab_pagetable::draw(table.format(), table.root(), &mem);
    for va in ["0xffffffffe000: ", "0xffffffffffffe000: "] {
        assert!(drawn.contains(va), "{va} in {drawn}");
    }
    let mut lines = 0;
    table.format().each_line(&mem, table.root(), &mut |_, _| lines += 1);
    assert_eq!(lines, 8 * 64);
    let (_, flush) = table.unmap(&mut mem, &mut frames, pages[0], PageOrder::P4K);
    flush.lazy("no TLB here");
    assert_eq!((table.lookup(&mem, pages[0]), frames.out), (None, 1 + 4));
    assert!(table.lookup(&mem, pages[1]).is_some());
}

#[test]
fn one_gibibyte_of_base_pages_takes_513_tables_below_the_upper_levels() {
    let mut mem = PhysMem::new(1 << 32);
    let mut frames = Counter::default();
    let mut table = Table::new(&TableDesc::default(), &mut mem, &mut frames).unwrap();
    for page in 0..1 << 18 {
        table.map(&mut mem, &mut frames, Vpn(page), leaf(page, PageOrder::P4K, Prot::RW)).unwrap().lazy("no TLB here");
    }
    // 512 of PTEs and one of PMD entries, below one PUD table and the root.
    assert_eq!(table.table_frames(), 513 + 2);
}

#[test]
fn running_out_of_frames_is_an_error_and_harms_nothing() {
    let mut mem = PhysMem::new(1 << 30);
    let mut frames = Counter::limited(3);
    let mut table = Table::new(&TableDesc::default(), &mut mem, &mut frames).unwrap();
    let mut map = |mem: &mut PhysMem, frames: &mut Counter| {
        table.map(mem, frames, Vpn(0), leaf(0, PageOrder::P4K, Prot::R)).map(|flush| flush.lazy("no TLB here"))
    };
    assert_eq!(map(&mut mem, &mut frames), Err(MapError::OutOfFrames));
    frames.limit = None;
    assert_eq!(map(&mut mem, &mut frames), Ok(()));
    assert_eq!(table.lookup(&mem, Vpn(0)).map(|(first, _)| first), Some(Vpn(0)));
}
