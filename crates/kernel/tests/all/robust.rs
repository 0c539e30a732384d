//! No trace makes the kernel panic or lose a frame, however senseless, in a memory too small for it.

use crate::common::*;
use mmulab_addr::{Access, PageOrder, Pid, Prot, VirtAddr, VirtRange};
use mmulab_kernel::{AppliesTo, Bytes, HugetlbDesc, Kernel, KernelDesc, PolicyDesc, PolicyKind};
use mmulab_trace::{Advice, Backing, Event, MapFlags};
use proptest::prelude::*;
use std::collections::BTreeMap;

const MEBIBYTES: u64 = 16;

#[derive(Clone, Debug)]
enum Op {
    Event(u32, Event),
    Fault(u32, u64, Access),
    Implicit(u32, u64),
    Hint(u32, u64, u64, u8),
}

fn addr() -> impl Strategy<Value = u64> {
    prop_oneof![
        8 => (0u64..4096).prop_map(|page| BASE + page * PAGE),
        3 => (0u64..8).prop_map(|huge| BASE + (huge << 21)),
        1 => (0u64..16 << 20).prop_map(|byte| BASE + byte),
        1 => any::<u64>(),
        1 => (0u64..64).prop_map(|page| (1 << 47) - page * PAGE),
        1 => (0u64..64).prop_map(|page| 0u64.wrapping_sub(page * PAGE)),
    ]
}

fn len() -> impl Strategy<Value = u64> {
    prop_oneof![
        6 => (1u64..1024).prop_map(|pages| pages * PAGE),
        3 => (1u64..6).prop_map(|huge| huge << 21),
        1 => 0u64..10000,
        1 => any::<u64>(),
        1 => Just(1 << 47),
    ]
}

fn flags() -> impl Strategy<Value = MapFlags> {
    let sizes = prop_oneof![
        6 => Just(None),
        2 => Just(Some(PageOrder::P2M)),
        1 => Just(Some(PageOrder::P1G)),
        1 => Just(Some(PageOrder::P64K))
    ];
    (any::<bool>(), prop::bool::weighted(0.2), prop::bool::weighted(0.1), sizes, prop::bool::weighted(0.1)).prop_map(
        |(shared, grows_down, populate, hugetlb, global)| MapFlags {
            shared,
            grows_down,
            populate,
            hugetlb,
            global,
            label: None,
        },
    )
}

fn event() -> impl Strategy<Value = Event> {
    let va = || addr().prop_map(VirtAddr::new);
    let prot = || (0u8..8).prop_map(Prot::from_bits);
    let backing = prop_oneof![
        3 => Just(Backing::Anon),
        1 => (0u8..2, any::<u64>()).prop_map(|(f, o)| Backing::File { path: f.to_string().into(), offset: o >> 20 }),
        1 => any::<u64>().prop_map(|offset| Backing::File { path: "x".into(), offset }),
    ];
    let advice = prop_oneof![
        Just(Advice::Hugepage),
        Just(Advice::Nohugepage),
        Just(Advice::Collapse),
        Just(Advice::Dontneed),
        Just(Advice::Free),
        Just(Advice::Willneed),
        (0u8..20).prop_map(|order| Advice::PageSize(PageOrder::new(order))),
        prop::sample::select(vec![4u8, 9, 13]).prop_map(|order| Advice::PageSize(PageOrder::new(order))),
        any::<i32>().prop_map(Advice::Other),
    ];
    prop_oneof![
        8 => (va(), len(), prot(), flags(), backing)
            .prop_map(|(addr, len, prot, flags, backing)| Event::Mmap { addr, len, prot, flags, backing }),
        2 => (va(), len()).prop_map(|(addr, len)| Event::Munmap { addr, len }),
        3 => (va(), len(), prot()).prop_map(|(addr, len, prot)| Event::Mprotect { addr, len, prot }),
        3 => (va(), len(), va(), len(), any::<bool>())
            .prop_map(|(old, old_len, new, new_len, keep_old)| Event::Mremap { old, old_len, new, new_len, keep_old }),
        3 => (va(), len(), advice).prop_map(|(addr, len, advice)| Event::Madvise { addr, len, advice }),
        3 => (va(), any::<u64>(), 0u8..3, any::<bool>()).prop_map(|(addr, len, name, is_short)| {
            let name = ["", "f (a.c:1)", "[stack of thread 1]"][usize::from(name)].into();
            Event::Name { addr, len: if is_short { len % (1 << 23) } else { len }, name }
        }),
        3 => (va(), len()).prop_map(|(start, len)| Event::Brk { start, end: start.add(len) }),
        3 => (1u32..5, any::<bool>())
            .prop_map(|(child, shares_memory)| Event::Fork { child: Pid(child), shares_memory }),
        1 => Just(Event::Exec { path: "/bin/sh".into() }),
        1 => Just(Event::Exit { status: 1 }),
        1 => any::<bool>().prop_map(|daemon| Event::Prctl { daemon }),
        1 => Just(Event::Tick),
        1 => (1u32..5).prop_map(|pid| Event::Switch { pid: Pid(pid), tid: mmulab_addr::Tid(pid) }),
    ]
}

fn op() -> impl Strategy<Value = Op> {
    let access = prop_oneof![Just(Access::Read), Just(Access::Write), Just(Access::Fetch)];
    prop_oneof![
        4 => (1u32..4, event()).prop_map(|(pid, event)| Op::Event(pid, event)),
        6 => (1u32..4, addr(), access).prop_map(|(pid, va, access)| Op::Fault(pid, va, access)),
        1 => (1u32..4, addr()).prop_map(|(pid, va)| Op::Implicit(pid, va)),
        1 => (1u32..4, addr(), len(), 0u8..20).prop_map(|(pid, va, len, order)| Op::Hint(pid, va, len, order)),
    ]
}

fn policy() -> impl Strategy<Value = PolicyDesc> {
    let hugetlb = |applies_to| {
        let hugetlb = HugetlbDesc {
            size: PageOrder::P2M,
            pool: Bytes(4 << 20),
            applies_to,
            round_heap: true,
            source: String::new(),
            assumed: BTreeMap::new(),
        };
        PolicyDesc { kind: PolicyKind::Hugetlb, hugetlb: Some(hugetlb), ..PolicyDesc::linux_4k() }
    };
    prop_oneof![
        Just(PolicyDesc::linux_4k()),
        Just(PolicyDesc::linux_thp()),
        // CHANGELOG number 16: an object that reaches the last address.
        Just(PolicyDesc::freebsd()),
        Just(parts("contiguous.bit = \"transparent\"\nplacement.frames = \"coala\"\nlinux.zero_page = false")),
        Just(parts("placement.frames = \"ca\"\nfault.sizes = [\"2M\", \"64K\"]\nlinux.zero_page = false")),
        Just(hugetlb(AppliesTo::Anon)),
        Just(hugetlb(AppliesTo::AllPrivate)),
        Just(hugetlb(AppliesTo::Explicit)),
        Just(elastic("reach = \"2M\"", "hinted", "at_faults = true")),
        Just(elastic("", "all", "")),
        Just(elastic("", "enabled", "")),
        Just(parts("text.remap = \"padded\"")),
        Just(parts("text = { folio = \"2M\", khugepaged = true, remap = \"whole\" }\npromotion.when = \"daemon\"")),
    ]
}

/// Elastic Translations: CoalaPaging, fault sizes by reach, CoalaKhugepaged and hints.
fn elastic(fault: &str, serves: &str, hints: &str) -> PolicyDesc {
    parts(&format!(
        "[placement]\nframes = \"coala\"\n[fault]\nsizes = [\"2M\"]\n{fault}\n[promotion]\nwhen = \"daemon\"\n\
         by = \"coala-khugepaged\"\nserves = \"{serves}\"\n[hints]\nfrom = \"page-sizes\"\n{hints}"
    ))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn senseless_programs_end_in_errors(
        table in table(), policy in policy(), bits in 0u8..3, ops in prop::collection::vec(op(), 1..60)
    ) {
        let mut desc = KernelDesc { table, ..desc(policy, MEBIBYTES) };
        if !desc.table.has_leaf(PageOrder::P64K) {
            desc.policy.contiguous = None;
        }
        if !desc.table.has_leaf(PageOrder::P2M) {
            desc.policy.text = None;
        }
        desc.asid_bits = bits;
        let mut mem = mmulab_frames::PhysMem::new(MEBIBYTES << 20);
        let mut kernel = Kernel::new(&desc, &mut mem).unwrap();
        let mut effects = mmulab_kernel::Effects { narrate: true, ..Default::default() };
        for op in ops {
            effects.clear();
            match op {
                // The errors are the point; what they leave behind is checked below.
                Op::Event(pid, event) => drop(kernel.event(&mut mem, actor(pid), &event, &mut effects)),
                Op::Fault(pid, va, access) => {
                    let _ = kernel.fault(&mut mem, actor(pid), VirtAddr::new(va), access, &mut effects);
                }
                Op::Hint(pid, va, len, order) => {
                    let range = VirtRange { start: VirtAddr::new(va), end: VirtAddr::new(va.wrapping_add(len)) };
                    drop(kernel.hint(&mut mem, Pid(pid), range, PageOrder::new(order), &mut effects));
                }
                Op::Implicit(pid, va) => {
                    let _ = kernel.map_implicit(&mut mem, actor(pid), VirtAddr::new(va), &mut effects);
                }
            }
        }
        for pid in 1..5 {
            drop(kernel.event(&mut mem, actor(pid), &Event::Exit { status: 0 }, &mut effects));
        }
        let usage = kernel.usage(&mem);
        let left = (usage.private_bytes, usage.table_bytes, usage.pool_used_bytes, usage.mapped.total());
        prop_assert_eq!(left, (0, 0, 0, 0));
        prop_assert!(kernel.regions().iter().all(|r| r.mapped.total() == 0 && r.mapped_zero.total() == 0));
        let held: u64 = kernel.regions().iter().map(|r| kernel.resident(r.id).now).sum();
        prop_assert_eq!(held, usage.resident_bytes);
    }
}
