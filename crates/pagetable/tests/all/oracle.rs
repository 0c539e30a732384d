//! The table's bytes against a map of what should be mapped.

use crate::common;

use crate::common::{Counter, Model, hardware, holder, leaf};
use mmulab_addr::{PageOrder, Pfn, PhysAddr, Prot, VirtAddr, VirtRange, Vpn};
use mmulab_frames::PhysMem;
use mmulab_pagetable::{
    Aliases, CompendiaDesc, CuckooDesc, Leaf, MapError, Marks, OpenDesc, Part, Probing, Share, Table, TableDesc,
    TableKind, TpsDesc,
};
use proptest::prelude::*;
use std::collections::BTreeMap;

#[derive(Clone, Debug)]
enum Op {
    Map { page: u64, order: PageOrder, prot: Prot },
    Unmap { page: u64, order: PageOrder },
    Protect { page: u64, prot: Prot },
    Split { page: u64 },
    Join { page: u64, order: PageOrder },
}

fn order() -> impl Strategy<Value = PageOrder> {
    prop_oneof![
        4 => Just(PageOrder::P4K),
        2 => Just(PageOrder::P64K),
        3 => Just(PageOrder::P2M),
        1 => Just(PageOrder::P32M),
        1 => Just(PageOrder::P1G),
        2 => (0u8..=18).prop_map(PageOrder::new),
        1 => prop::sample::select(vec![PageOrder::P16K, PageOrder::new(17), PageOrder::new(22)]),
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
        2 => page().prop_map(|page| Op::Split { page }),
        2 => (page(), order()).prop_map(|(page, order)| Op::Join { page, order }),
    ]
}

/// Tables found by hashing, as small as they can be, so that they are resized.
fn searched() -> impl Strategy<Value = TableDesc> {
    let sizes = vec![PageOrder::P4K, PageOrder::P2M, PageOrder::P1G];
    let walk_tables = prop::sample::subsequence(sizes, 0..=3);
    let cuckoo =
        (2u8..=4, 100u16..=800, 1u16..20, walk_tables).prop_map(|(ways, grow, kicks, walk_tables)| CuckooDesc {
            ways,
            lines: 64,
            grow: Part::thousandths(grow),
            shrink: Part::thousandths(grow / 2),
            kicks,
            walk_tables,
            walk_table_lines: 64,
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

/// Every kind of table with every number of levels that it may have, and default parameters.
fn every_kind() -> Vec<TableDesc> {
    let descs = TableKind::ALL.iter().flat_map(|&kind| (3..=5).map(move |levels| TableDesc::new(kind, levels)));
    let descs: Vec<TableDesc> = descs.flatten().collect();
    assert!(TableKind::ALL.iter().all(|&kind| descs.iter().any(|desc| desc.kind == kind)));
    descs
}

/// Tailored page sizes whose alias PTEs are copies.
fn tps_with_copies() -> TableDesc {
    let tps = Some(TpsDesc { aliases: Aliases::Copy });
    TableDesc { kind: TableKind::Tps, tps, ..TableDesc::default() }.complete().unwrap()
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
        4 => prop::sample::select(every_kind()),
        1 => Just(tps_with_copies()),
        2 => (4u8..=5, compendia).prop_map(|(levels, desc)| TableDesc::of_compendia(levels, desc).unwrap()),
        2 => searched(),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn bytes_agree_with_a_map(desc in table(), ops in prop::collection::vec(op(), 1..60)) {
        let mut mem = PhysMem::new(1 << 40);
        let mut frames = Counter::of(&desc);
        let mut table = Table::new(&desc, &mut mem, &mut frames).unwrap();
        let (roots, base) = (frames.out, desc.base());
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
                    let held = holder(&model, page).filter(|(_, l)| l.order > base);
                    let split = table.split(&mut mem, &mut frames, Vpn(page));
                    prop_assert_eq!(split.is_ok(), held.is_some());
                    if let (Ok(flush), Some((first, large))) = (split, held) {
                        flush.lazy("no TLB here");
                        let (part, parts) = common::parts(table.format(), large.order);
                        for i in 0..parts {
                            let at = i * part.base_pages();
                            model.insert(first + at, Leaf { pfn: Pfn(large.pfn.0 + at), order: part, ..large });
                        }
                    }
                }
                Op::Join { page, order } => {
                    let first = Vpn(page).align_down(order).0;
                    let entries = table.format().leaf_at(order).map_or(1, |(_, entries)| u64::from(entries));
                    let pages = order.base_pages() / entries;
                    let head = model.get(&first).map_or(Pfn(0), |l| l.pfn);
                    let is_part = |part: u64, l: &Leaf| {
                        l.order.base_pages() == pages && l.pfn.0 == head.0 + part * pages
                    };
                    let all_there = (0..entries)
                        .all(|part| model.get(&(first + part * pages)).is_some_and(|l| is_part(part, l)));
                    let whole = Leaf { order, ..leaf(first, order, Prot::RW) };
                    let whole = Leaf { pfn: head, ..whole };
                    let expected = entries > 1 && all_there && head.align_down(order) == head;
                    let joined = table.join(&mut mem, Vpn(first), whole);
                    prop_assert_eq!(joined.is_ok(), expected);
                    joined.into_iter().for_each(|flush| flush.lazy("no TLB here"));
                    if expected {
                        model.retain(|page, _| !(first..first + order.base_pages()).contains(page));
                        model.insert(first, whole);
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
            // The row of sixteen around it, up to the first place that has no page of the size.
            if table.format().leaf_at(l.order).is_some_and(|(_, entries)| entries == 1) {
                let row = first & !(16 * l.order.base_pages() - 1);
                let at = |i: u64| model.get(&(row + i * l.order.base_pages())).copied().filter(|p| p.order == l.order);
                let expected: Vec<Leaf> = (0..16).map_while(at).collect();
                let mut found = [None; 16];
                let looked = table.row(&mem, Vpn(row), l.order, &mut found);
                prop_assert_eq!(looked, (expected.len() + 1).min(16));
                prop_assert_eq!(found.into_iter().map_while(|leaf| leaf).collect::<Vec<_>>(), expected);
            }
        }
        for (first, l) in model {
            table.unmap(&mut mem, &mut frames, Vpn(first), l.order).1.lazy("no TLB here");
        }
        if table.format().is_searched() {
            prop_assert_eq!(frames.out, table.table_frames());
        } else {
            prop_assert_eq!(frames.out, roots, "an empty tree is its root, or both of them");
        }
        table.free(&mut mem, &mut frames);
        prop_assert_eq!((frames.out, mem.resident_frames()), (0, 0));
    }
}

/// Pages that fill a group of entries become one page and come apart again. This holds for every size of every kind of
/// table that takes several entries. A swapped frame, a page out of place and a missing one keep them apart.
#[test]
fn entries_are_joined_where_they_map_the_parts_of_a_page() {
    let mut joined = 0;
    for desc in every_kind().into_iter().chain([tps_with_copies()]) {
        for order in (0..=27).map(PageOrder::new) {
            let Some((_, entries)) = desc.has_leaf(order).then(|| desc.format().leaf_at(order)).flatten() else {
                continue;
            };
            if entries == 1 {
                continue;
            }
            let (entries, mut mem, mut frames) = (u64::from(entries), PhysMem::new(1 << 40), Counter::of(&desc));
            let mut table = Table::new(&desc, &mut mem, &mut frames).unwrap();
            let (first, part) = (2 << order.get(), PageOrder::new(order.get() - entries.trailing_zeros() as u8));
            let parts = |n: u64| first + n * part.base_pages();
            let whole = Leaf { pfn: Pfn(first), ..leaf(first, order, Prot::RW) };
            for n in 0..entries {
                assert_eq!(table.join(&mut mem, Vpn(first), whole).err(), Some(MapError::NotMapped));
                let new = Leaf { order: part, ..leaf(parts(n), part, Prot::RW) };
                table
                    .map(&mut mem, &mut frames, Vpn(parts(n)), Leaf { pfn: Pfn(parts(n)), ..new })
                    .unwrap()
                    .lazy("no TLB");
            }
            let last = table.lookup(&mem, Vpn(parts(entries - 1))).unwrap().1;
            table.set(&mut mem, Vpn(parts(entries - 1)), Leaf { pfn: Pfn(first), ..last }).lazy("no TLB");
            assert_eq!(table.join(&mut mem, Vpn(first), whole).err(), Some(MapError::Unaligned), "a frame elsewhere");
            table.set(&mut mem, Vpn(parts(entries - 1)), last).lazy("no TLB");
            table.join(&mut mem, Vpn(first), whole).unwrap().lazy("no TLB");
            for n in 0..entries {
                assert_eq!(hardware(&table, &mem, Vpn(parts(n))).0, Some(whole), "{:?} {order}", desc.kind);
            }
            table.split(&mut mem, &mut frames, Vpn(parts(1))).unwrap().lazy("no TLB");
            assert!(table.lookup(&mem, Vpn(parts(1))).unwrap().1.order < order);
            table.free(&mut mem, &mut frames);
            joined += 1;
        }
    }
    assert!(joined > 9, "two sizes of each granule of Armv8, 64K of RISC-V, and tailored sizes");
}

/// A page of every size of every kind of table, beside another of the same size. Hardware finds it from each of its
/// entries. Whichever entry a store goes through, the kernel sees the page dirty, and its neighbour clean.
#[test]
fn hardware_finds_every_size_through_each_of_its_entries() {
    for desc in every_kind().into_iter().chain([tps_with_copies()]) {
        let sizes: Vec<PageOrder> = (0..=27).map(PageOrder::new).filter(|&order| desc.has_leaf(order)).collect();
        assert!(sizes.starts_with(&[desc.base()]), "{:?}", desc.kind);
        for order in sizes {
            let mut mem = PhysMem::new(1 << 40);
            let mut frames = Counter::of(&desc);
            let mut table = Table::new(&desc, &mut mem, &mut frames).unwrap();
            let first = 2 << order.get();
            let pages = [first, first + order.base_pages()];
            for page in pages {
                let new = leaf(page, order, Prot::RW);
                table.map(&mut mem, &mut frames, Vpn(page), new).unwrap().lazy("no TLB here");
            }
            let (_, entries) = table.format().leaf_at(order).unwrap();
            let covered = order.base_pages() / u64::from(entries);
            for part in 0..u64::from(entries) {
                let (vpn, clean) = (Vpn(first + part * covered), leaf(first, order, Prot::RW));
                let found = table.format().find(&mem, table.root(), vpn.addr()).unwrap();
                assert_eq!(found.leaf, clean, "{:?} {order} through entry {part}", desc.kind);
                mem.write(found.entry, table.format().dirtied(found.bits));
                let expected = Leaf { accessed: true, dirty: true, ..clean };
                assert_eq!(table.lookup(&mem, Vpn(first)), Some((Vpn(first), expected)), "{:?} {order}", desc.kind);
                assert_eq!(table.lookup(&mem, Vpn(pages[1])).map(|(_, leaf)| leaf.dirty), Some(false));
                table.set(&mut mem, vpn, clean).lazy("no TLB here");
            }
            table.free(&mut mem, &mut frames);
            assert_eq!((frames.out, mem.resident_frames()), (0, 0));
        }
    }
}

/// Programs' addresses and the kernel's differ in bits that no level of a walk looks at. The register with which the
/// walk begins distinguishes them (Arm ARM, D8.1).
#[test]
fn arm_has_a_tree_for_each_half() {
    for (kind, levels) in [(TableKind::Arm, 4), (TableKind::Arm16k, 4), (TableKind::Arm64k, 3)] {
        let desc = TableDesc::new(kind, levels).unwrap();
        let (base, mut mem) = (desc.base(), PhysMem::new(1 << 40));
        let mut frames = Counter::of(&desc);
        let mut table = Table::new(&desc, &mut mem, &mut frames).unwrap();
        let (low, high) = (0x0000_ffff_ffff_e000, 0xffff_ffff_ffff_e000);
        let pages = [low, high].map(|va| VirtAddr::new(va).vpn().align_down(base));
        let placed = [7, 8].map(|n| Pfn(n * base.base_pages()));
        for (page, pfn) in pages.into_iter().zip(placed) {
            let new = Leaf { pfn, ..leaf(page.0, base, Prot::RW) };
            table.map(&mut mem, &mut frames, page, new).unwrap().lazy("no TLB here");
        }
        let tables = u64::from(levels);
        assert_eq!(frames.out, 2 * tables * base.base_pages(), "each has its tables");
        let found = pages.map(|page| table.lookup(&mem, page).unwrap().1.pfn);
        assert_eq!(found, placed);
        assert_eq!(pages.map(|page| hardware(&table, &mem, page).0.unwrap().pfn), found);
        let drawn = mmulab_pagetable::draw(table.format(), table.root(), &mem);
        for page in pages {
            let va = format!("{:#x}: {base}", page.addr().raw());
            assert!(drawn.contains(&va), "{va} in {drawn}");
        }
        let mut lines = 0;
        table.format().each_line(&mem, table.root(), &mut |_, _| lines += 1);
        let of = |level| table.format().entries(level).div_ceil(8);
        assert_eq!(lines, 2 * (of(levels) + (tables - 1) * of(1)));
        let (_, flush) = table.unmap(&mut mem, &mut frames, pages[0], base);
        flush.lazy("no TLB here");
        assert_eq!((table.lookup(&mem, pages[0]), frames.out), (None, (1 + tables) * base.base_pages()));
        assert!(table.lookup(&mem, pages[1]).is_some());
    }
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

/// A walk of a tailored page reads the true PTE after an alias, and sets the dirty bit there. Aliases stay as the
/// kernel wrote them. Copies are read once, and marked where they are read.
#[test]
fn an_alias_pte_costs_a_read_and_is_never_marked() {
    let pointers = TableDesc::new(TableKind::Tps, 4).unwrap();
    for (desc, through_alias) in [(pointers, vec![4, 3, 2, 1, 1]), (tps_with_copies(), vec![4, 3, 2, 1])] {
        let (mut mem, mut frames) = (PhysMem::new(1 << 40), Counter::of(&desc));
        let mut table = Table::new(&desc, &mut mem, &mut frames).unwrap();
        let new = leaf(32, PageOrder::P64K, Prot::RW);
        table.map(&mut mem, &mut frames, Vpn(32), new).unwrap().lazy("no TLB here");
        assert_eq!(hardware(&table, &mem, Vpn(32)), (Some(new), vec![4, 3, 2, 1]), "the true PTE comes first");
        assert_eq!(hardware(&table, &mem, Vpn(47)), (Some(new), through_alias.clone()));
        assert_eq!(hardware(&table, &mem, Vpn(48)).0, None);
        let format = table.format();
        let first = format.find(&mem, table.root(), Vpn(32).addr()).unwrap().entry.0;
        let entries = |mem: &PhysMem| (0..16).map(|part| mem.read(PhysAddr(first + 8 * part))).collect::<Vec<_>>();
        let before = entries(&mem);
        let mut cache = common::WalkCache::default();
        for (read, store) in [(vec![4, 3, 2, 1], false), (vec![1], true)] {
            let tail = &through_alias[4..];
            let (found, levels) = cache.walk(&table, &mut mem, Vpn(40), store);
            assert_eq!((found, levels), (Some(Leaf { accessed: store, ..new }), [&read[..], tail].concat()));
        }
        let changed: Vec<usize> = entries(&mem)
            .iter()
            .zip(&before)
            .map(|(now, was)| now != was)
            .enumerate()
            .filter_map(|(part, changed)| changed.then_some(part))
            .collect();
        assert_eq!(changed, [if through_alias.len() == 5 { 0 } else { 8 }], "marked in one entry");
        let marked = Leaf { accessed: true, dirty: true, ..new };
        assert_eq!(table.lookup(&mem, Vpn(47)), Some((Vpn(32), marked)));
        // Base pages take over the entries, each with what the page had.
        table.split(&mut mem, &mut frames, Vpn(40)).unwrap().lazy("no TLB here");
        let part = Leaf { pfn: Pfn(new.pfn.0 + 15), order: PageOrder::P4K, ..marked };
        assert_eq!(hardware(&table, &mem, Vpn(47)), (Some(part), vec![4, 3, 2, 1]));
    }
}

/// A page may not be mapped over any entry of a tailored page, alias or not, and the error names the page that is
/// there.
#[test]
fn aliases_are_in_use() {
    let desc = TableDesc::new(TableKind::Tps, 4).unwrap();
    let (mut mem, mut frames) = (PhysMem::new(1 << 40), Counter::of(&desc));
    let mut table = Table::new(&desc, &mut mem, &mut frames).unwrap();
    let mut map = |page: u64, order| {
        table.map(&mut mem, &mut frames, Vpn(page), leaf(page, order, Prot::RW)).map(|flush| flush.lazy("no TLB here"))
    };
    let four = PageOrder::new(10);
    for (first, order) in [(64, PageOrder::P64K), (1024, four)] {
        assert_eq!(map(first, order), Ok(()));
        for page in [first, first + 1, first + order.base_pages() - 1] {
            assert_eq!(map(page, PageOrder::P4K), Err(MapError::AlreadyMapped(order)), "page {page}");
        }
    }
    assert_eq!(map(0, PageOrder::new(8)), Err(MapError::AlreadyMapped(PageOrder::P64K)), "1 MiB over a part of it");
    assert_eq!(map(80, PageOrder::P64K), Ok(()), "the next one is free");
    let drawn = mmulab_pagetable::draw(table.format(), table.root(), &mem);
    assert!(drawn.contains("[64] 0x40000: 64K rw--- at") && drawn.contains("(16 entries)"), "{drawn}");
    assert!(drawn.contains("[2] 0x400000: 4M rw--- at") && drawn.contains("(2 entries)"), "{drawn}");
    let mut lines = 0;
    table.format().each_line(&mem, table.root(), &mut |_, _| lines += 1);
    assert_eq!(lines, 4 * 64, "a table of each level; aliases lead to no other");
}
