//! The table's bytes against a map of what should be mapped.

use mmulab_addr::{PageOrder, Pfn, Prot, VirtRange, Vpn};
use mmulab_frames::PhysMem;
use mmulab_pagetable::{Leaf, MapError, Next, Table, TableDesc, TableFrames};
use proptest::prelude::*;
use std::collections::BTreeMap;

/// Frames handed out in order, and counted.
#[derive(Default)]
struct Counter {
    next: u64,
    spare: Vec<Pfn>,
    out: u64,
    limit: Option<u64>,
}

impl TableFrames for Counter {
    fn take(&mut self) -> Option<Pfn> {
        if self.limit.is_some_and(|l| self.out >= l) {
            return None;
        }
        self.out += 1;
        Some(self.spare.pop().unwrap_or_else(|| {
            self.next += 1;
            Pfn(self.next)
        }))
    }
    fn give_back(&mut self, pfn: Pfn) {
        self.out -= 1;
        self.spare.push(pfn);
    }
}

#[derive(Clone, Debug)]
enum Op {
    Map { page: u64, order: PageOrder, prot: Prot },
    Unmap { page: u64, order: PageOrder },
    Protect { page: u64, prot: Prot },
    Split { page: u64 },
}

fn order() -> impl Strategy<Value = PageOrder> {
    prop_oneof![4 => Just(PageOrder::P4K), 3 => Just(PageOrder::P2M), 1 => Just(PageOrder::P1G)]
}

/// Pages near four places, so that operations meet.
fn page() -> impl Strategy<Value = u64> {
    (0u64..2, 0u64..4, 0u64..3, 0u64..6).prop_map(|(a, b, c, d)| (a << 35) | (b << 18) | (c << 9) | d)
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

fn leaf(page: u64, order: PageOrder, prot: Prot) -> Leaf {
    let pfn = Pfn((page ^ 0x5_0000_0000) & 0xf_ffff_ffff).align_down(order);
    Leaf { pfn, order, prot, user: true, accessed: false, dirty: false, global: false }
}

/// The hardware's way: entry by entry.
fn hardware(table: &Table, mem: &PhysMem, vpn: Vpn) -> Option<Leaf> {
    let format = table.format();
    let mut step = format.start(table.root(), vpn.addr());
    loop {
        match format.next(mem.line(step.entry)[(step.entry.0 as usize >> 3) & 7], step, vpn.addr()) {
            Next::Table(below) => step = below,
            Next::Leaf(leaf) => return Some(leaf),
            Next::NotPresent => return None,
        }
    }
}

fn holder(model: &BTreeMap<u64, Leaf>, page: u64) -> Option<(u64, Leaf)> {
    let (&first, &leaf) = model.range(..=page).next_back()?;
    (page < first + leaf.order.base_pages()).then_some((first, leaf))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn bytes_agree_with_a_map(levels in 4u8..=5, ops in prop::collection::vec(op(), 1..60)) {
        let mut mem = PhysMem::new(1 << 34);
        let mut frames = Counter::default();
        let mut table = Table::new(&TableDesc::x86(levels).unwrap(), &mut mem, &mut frames).unwrap();
        let mut model: BTreeMap<u64, Leaf> = BTreeMap::new();
        for op in ops {
            match op {
                Op::Map { page, order, prot } => {
                    let vpn = Vpn(page).align_down(order);
                    let new = leaf(vpn.0, order, prot);
                    let free = holder(&model, vpn.0).is_none()
                        && model.range(vpn.0..vpn.0 + order.base_pages()).next().is_none();
                    prop_assert_eq!(table.map(&mut mem, &mut frames, vpn, new).is_ok(), free);
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
                        let part = PageOrder::new(large.order.get() - 9);
                        for i in 0..512 {
                            let at = i * part.base_pages();
                            model.insert(first + at, Leaf { pfn: Pfn(large.pfn.0 + at), order: part, ..large });
                        }
                    }
                }
            }
            prop_assert_eq!(table.table_frames(), frames.out);
        }
        let mut seen = BTreeMap::new();
        table.for_each_leaf(&mem, VirtRange { start: Vpn(0).addr(), end: Vpn(1 << 36).addr() }, |v, l| {
            seen.insert(v.0, l);
        });
        prop_assert_eq!(&seen, &model);
        for (&first, &l) in &model {
            let last = Vpn(first + l.order.base_pages() - 1);
            prop_assert_eq!(hardware(&table, &mem, last), Some(l));
            prop_assert_eq!(table.lookup(&mem, last), Some((Vpn(first), l)));
        }
        for (first, l) in model {
            table.unmap(&mut mem, &mut frames, Vpn(first), l.order).1.lazy("no TLB here");
        }
        prop_assert_eq!(frames.out, 1, "an empty table is its root");
        table.free(&mut mem, &mut frames);
        prop_assert_eq!((frames.out, mem.resident_frames()), (0, 0));
    }
}

#[test]
fn one_gibibyte_of_base_pages_takes_513_tables_below_the_upper_levels() {
    let mut mem = PhysMem::new(1 << 32);
    let mut frames = Counter::default();
    let mut table = Table::new(&TableDesc::default(), &mut mem, &mut frames).unwrap();
    for page in 0..1 << 18 {
        table.map(&mut mem, &mut frames, Vpn(page), leaf(page, PageOrder::P4K, Prot::RW)).unwrap();
    }
    // 512 of PTEs and one of PMD entries, below one PUD table and the root.
    assert_eq!(table.table_frames(), 513 + 2);
}

#[test]
fn running_out_of_frames_is_an_error_and_harms_nothing() {
    let mut mem = PhysMem::new(1 << 30);
    let mut frames = Counter { limit: Some(3), ..Counter::default() };
    let mut table = Table::new(&TableDesc::default(), &mut mem, &mut frames).unwrap();
    assert_eq!(table.map(&mut mem, &mut frames, Vpn(0), leaf(0, PageOrder::P4K, Prot::R)), Err(MapError::OutOfFrames));
    assert_eq!(table.lookup(&mem, Vpn(0)), None);
    frames.limit = None;
    assert_eq!(table.map(&mut mem, &mut frames, Vpn(0), leaf(0, PageOrder::P4K, Prot::R)), Ok(()));
}
