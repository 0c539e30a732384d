//! A fill that must reach every set is logged, and a set applies the log when it is next probed. If an observer is
//! active, all sets are written at once. Both must give the same result, access by access.

#[allow(dead_code, reason = "the model is for the other tests")]
use crate::common::{Listener, array, mixed};
use mmulab_addr::{Access, Asid, PageOrder, Pfn, Prot, VirtAddr, VirtRange};
use mmulab_assoc::{Replacement, Ways};
use mmulab_pagetable::{Format, Invalidate, Leaf, Walked};
use mmulab_tlb::{ArrayDesc, Design, Entry, Hierarchy, HierarchyDesc, NoObserver, Observer, Outcome, Placement};
use proptest::prelude::*;

const SIZES: [PageOrder; 3] = [PageOrder::P4K, PageOrder::P2M, PageOrder::P1G];
const X86: Format = Format::x86(4);

#[derive(Clone, Copy, Debug)]
enum Step {
    /// A walk finds a page of size number `size` wherever the TLBs do not.
    Access {
        asid: u16,
        page: u64,
        size: usize,
        access: Access,
    },
    /// A walk finds what nobody asked for.
    Fill {
        asid: u16,
        page: u64,
        size: usize,
    },
    SetDirty {
        asid: u16,
        page: u64,
    },
    Drop {
        asid: u16,
        page: u64,
        pages: u64,
    },
    DropSpace {
        asid: Option<u16>,
    },
    Look,
}

/// Pages near each other, of a few superpages of each size.
fn page() -> impl Strategy<Value = u64> {
    let small = prop_oneof![0u64..40, 500u64..512];
    (0u64..3, 0u64..20, small).prop_map(|(giant, huge, small)| (giant * 512 + huge) * 512 + small)
}

fn step() -> impl Strategy<Value = Step> {
    let asid = || 1u16..3;
    let size = || prop_oneof![3 => Just(0usize), 6 => Just(1), 1 => Just(2)];
    let access = prop_oneof![Just(Access::Fetch), Just(Access::Read), Just(Access::Write)];
    prop_oneof![
        40 => (asid(), page(), size(), access)
            .prop_map(|(asid, page, size, access)| Step::Access { asid, page, size, access }),
        12 => (asid(), page(), size()).prop_map(|(asid, page, size)| Step::Fill { asid, page, size }),
        2 => (asid(), page()).prop_map(|(asid, page)| Step::SetDirty { asid, page }),
        2 => (asid(), page(), prop_oneof![Just(1u64), 1u64..2000])
            .prop_map(|(asid, page, pages)| Step::Drop { asid, page, pages }),
        1 => prop_oneof![asid().prop_map(Some), Just(None)].prop_map(|asid| Step::DropSpace { asid }),
        2 => Just(Step::Look),
    ]
}

/// What the tables say of a page: a mix of rights, dirty bits and global pages, the frames contiguous but for some.
fn leaf(page: u64, order: PageOrder, wrote: bool) -> Leaf {
    let number = page >> order.get();
    let frame = number + if number.is_multiple_of(7) { 64 } else { 32 };
    Leaf {
        pfn: Pfn(frame << order.get()),
        order,
        prot: if number.is_multiple_of(11) { Prot::RW.with(Prot::X) } else { Prot::RW },
        user: true,
        accessed: true,
        dirty: wrote || !number.is_multiple_of(5),
        global: (number / 4).is_multiple_of(6),
    }
}

fn walked(page: u64, size: usize, wrote: bool) -> Walked {
    let order = SIZES[size];
    let number = page >> order.get();
    let of = |slot: u64| {
        let at = (number & !7) + slot;
        X86.encode_leaf(&leaf(at << order.get(), order, wrote && at == number))
    };
    Walked {
        leaf: leaf(page, order, wrote),
        line: std::array::from_fn(|slot| of(slot as u64)),
        slot: (number % 8) as u8,
        level: size as u8 + 1,
        format: X86,
    }
}

fn apply(tlbs: &mut Hierarchy, step: Step, obs: &mut impl Observer) -> Option<Outcome> {
    let va = |page: u64| VirtAddr::new(page << 12);
    match step {
        Step::Access { asid, page, size, access } => {
            let outcome = tlbs.access(Asid(asid), va(page), access, obs);
            if !matches!(outcome, Outcome::L1 { .. } | Outcome::L2 { .. }) {
                tlbs.fill(Asid(asid), va(page), access, &walked(page, size, access == Access::Write), obs);
            }
            return Some(outcome);
        }
        Step::Fill { asid, page, size } => {
            tlbs.fill(Asid(asid), va(page), Access::Read, &walked(page, size, false), obs);
        }
        Step::SetDirty { asid, page } => tlbs.set_dirty(Asid(asid), va(page)),
        Step::Drop { asid, page, pages } => {
            let range = VirtRange::sized(va(page), pages << 12);
            tlbs.invalidate(&Invalidate::Range { asid: Asid(asid), range, stride: PageOrder::P4K }, obs);
        }
        Step::DropSpace { asid } => {
            tlbs.invalidate(&asid.map_or(Invalidate::All, |asid| Invalidate::Asid(Asid(asid))), obs);
        }
        Step::Look => {}
    }
    None
}

fn held(tlbs: &Hierarchy) -> Vec<(usize, Asid, Entry)> {
    let mut held = Vec::new();
    tlbs.each_entry(|array, tag, entry| held.push((array, tag, *entry)));
    held
}

fn one(level: u8) -> impl Strategy<Value = ArrayDesc> {
    let replacement =
        prop_oneof![4 => Just(Replacement::Lru), 1 => Just(Replacement::TreePlru), 1 => Just(Replacement::Random)];
    let ways = prop_oneof![12 => 1u32..5, 2 => 5u32..21, 1 => Just(70)];
    let sets = prop_oneof![4 => 1u32..9, 2 => Just(16u32), 1 => Just(600)];
    let small = prop_oneof![2 => Just(None), 1 => Just(Some(4u16))];
    let index = prop_oneof![4 => Just(None), 1 => Just(Some(PageOrder::new(5))), 1 => Just(Some(PageOrder::P2M))];
    let shape = (any::<[bool; 4]>(), small, index, 0u32..5);
    (sets, ways, replacement, shape).prop_map(move |(sets, ways, replacement, (bits, small_group, index, group))| {
        let ways = if replacement == Replacement::TreePlru { ways.next_power_of_two() } else { ways };
        let sets = if ways > 64 { sets.min(2) } else { sets };
        let name = if level == 1 { "L1" } else { "L2" };
        ArrayDesc {
            design: Design::Mix,
            group: Some(1 << group),
            mix: Some(mixed::options(bits, index, small_group)),
            replacement,
            ..array(name, level, Placement::Both, sets * ways, Ways::Count(ways), &SIZES)
        }
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn what_is_written_late_is_what_is_written_at_once(
        first in one(1),
        second in one(2),
        steps in prop::collection::vec(step(), 1..400),
    ) {
        let make = || Hierarchy::new(&[first.clone(), second.clone()], &HierarchyDesc::default()).unwrap();
        let (mut late, mut at_once) = (make(), make());
        let mut told = Listener::default();
        for &step in &steps {
            let outcomes = (apply(&mut late, step, &mut NoObserver), apply(&mut at_once, step, &mut told));
            prop_assert_eq!(outcomes.0, outcomes.1, "{:?}", step);
            if matches!(step, Step::Look) {
                prop_assert_eq!(held(&late), held(&at_once));
                prop_assert_eq!(late.counts(), at_once.counts());
            }
        }
        prop_assert_eq!(held(&late), held(&at_once));
        prop_assert_eq!(late.counts(), at_once.counts());
        // Who begins to watch hears of what happens from then on.
        let mut since = Listener::default();
        told.0.clear();
        for &step in &steps {
            prop_assert_eq!(apply(&mut late, step, &mut since), apply(&mut at_once, step, &mut told));
            prop_assert_eq!(&since.0, &told.0);
        }
    }
}
