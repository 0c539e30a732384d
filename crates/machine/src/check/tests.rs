//! Tests of the checking mode. A checked run must count the same events as an unchecked run. A test changes a
//! page-table entry behind the kernel's back. Then the check must end the run and name the stale translation or the
//! lost bit.

use crate::{
    describe::{self, Check, Options, Unmapped},
    ended::Ended,
    machine::Machine,
};
use mmulab_addr::{Prot, VirtAddr};
use mmulab_trace::{Backing, Batch, Event, MapFlags, Ref};
use std::{path::Path, sync::Arc};

const AT: u64 = 0x4000_0000;

fn machine(check: Check) -> Machine {
    machine_of(Options { check, ..Options::default() })
}

fn machine_of(options: Options) -> Machine {
    let dirs = |d: &str| vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(d)];
    let desc = describe::resolve(
        describe::Names { machine: "zenplus-2700x", policy: "linux-4k", host_policy: None },
        &[],
        &options,
        &dirs("machines"),
        &dirs("policies"),
    )
    .unwrap();
    Machine::new(Arc::new(desc), true).unwrap()
}

fn page(n: u64) -> VirtAddr {
    VirtAddr::new(AT + (n << 12))
}

/// So many pages mapped and stored to.
fn program_of(pages: u64) -> Batch {
    let mut batch = Batch::default();
    batch.push_event(Event::Mmap {
        addr: page(0),
        len: pages << 12,
        prot: Prot::RW,
        flags: MapFlags::default(),
        backing: Backing::Anon,
    });
    (0..pages).for_each(|n| batch.refs.push(Ref::write(page(n))));
    batch
}

fn program() -> Batch {
    let mut batch = program_of(64);
    batch.push_event(Event::Mprotect { addr: page(3), len: 9 << 12, prot: Prot::R });
    (0..64).for_each(|n| batch.refs.push(Ref::read(page(n))));
    batch.push_event(Event::Invlpg { addr: page(20) });
    batch.push_event(Event::Munmap { addr: page(30), len: 4 << 12 });
    (0..64).for_each(|n| batch.refs.push(Ref::read(page(n))));
    batch
}

fn state(machine: &mut Machine) -> (Option<Ended>, mmulab_tlb::HierarchyCounts) {
    (machine.ended().cloned(), machine.state_mut().cpu().tlbs.counts())
}

#[test]
fn a_checked_run_counts_what_an_unchecked_one_does() {
    let (mut checked, mut plain) = (machine(Check::Translations), machine(Check::None));
    checked.run(&program());
    plain.run(&program());
    assert_eq!(state(&mut checked), state(&mut plain));
    assert_eq!(checked.ended(), None);
    let coalesced: u64 =
        checked.state_mut().cpu().tlbs.counts().arrays.iter().filter_map(|a| a.coalescing).map(|c| c.coalesced).sum();
    assert!(coalesced > 0, "there was something to check");
}

/// A run that ends early ends so when checked, too.
#[test]
fn what_ends_a_run_is_not_unsound() {
    let ended = |check| {
        let mut m = machine_of(Options { check, unmapped: Unmapped::Stop, ..Options::default() });
        m.run(&program());
        m.run(&Batch { refs: vec![Ref::read(page(999))], ..Batch::default() });
        m.ended().cloned()
    };
    assert!(matches!(ended(Check::Translations), Some(Ended::Violation(_))), "{:?}", ended(Check::Translations));
    assert_eq!(ended(Check::Translations), ended(Check::None));
}

/// The table changes without an invalidation: what was cached is stale, and the check finds it.
#[test]
fn what_the_table_does_not_bear_out_is_found() {
    type Spoil = fn(u64) -> u64;
    let spoils: [(Spoil, &str); 4] = [
        (|bits| bits ^ 1 << 20, "the entry says"),
        (|bits| bits & !1, "is not mapped"),
        (|bits| bits & !2, "does not grant"),
        (|bits| bits & !(1 << 6), "would leave its dirty bit clear"),
    ];
    for (spoil, expected) in spoils {
        let mut m = machine(Check::Translations);
        m.run(&program_of(64));
        assert_eq!(m.ended(), None);
        let cx = m.state().context().unwrap();
        let entry = cx.format.find(&m.state().system.mem, cx.root, page(5)).unwrap().entry;
        let bits = spoil(m.state().system.mem.read(entry));
        m.state_mut().system.mem.write(entry, bits);
        let mut next = Batch::default();
        next.push_event(Event::Invlpg { addr: page(40) });
        m.run(&next);
        let Some(Ended::Unsound(what)) = m.ended() else { panic!("{:?}", m.ended()) };
        assert!(what.contains(expected) && what.starts_with("after Invlpg"), "{what}");
    }
}

/// S2-009: sixteen base pages with the contiguous bit share an entry of the TLB. A kernel that takes the bit away to
/// unmap one of them, and does not flush, leaves an entry that still translates it. The check finds that. A kernel that
/// flushes passes.
#[test]
fn a_contiguous_range_that_is_taken_apart_without_a_flush_is_found() {
    let range = |event: Event| {
        let dirs = |d: &str| vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(d)];
        let options = Options { check: Check::Translations, ..Options::default() };
        let names = describe::Names { machine: "neoverse-n1", policy: "coalapaging-bit", host_policy: None };
        let overrides = ["memory.size=64M".to_owned(), "policy.linux.zero_page=false".to_owned()];
        let desc = describe::resolve(names, &overrides, &options, &dirs("machines"), &dirs("policies")).unwrap();
        let mut m = Machine::new(Arc::new(desc), true).unwrap();
        let mut batch = program_of(16);
        // The entry of 64 KiB that a walk fills after the sixteenth store serves them all.
        (0..16).for_each(|n| batch.refs.push(Ref::read(page(n))));
        m.run(&batch);
        assert_eq!(m.ended(), None);
        let leaf = |m: &Machine, n: u64| {
            let cx = m.state().context().unwrap();
            cx.format.find(&m.state().system.mem, cx.root, page(n)).unwrap()
        };
        assert_eq!(leaf(&m, 5).leaf.order, mmulab_addr::PageOrder::P64K);
        if matches!(event, Event::Invlpg { .. }) {
            // Behind the kernel's back: sixteen entries without the bit, and none for page 5.
            for n in 0..16 {
                let found = leaf(&m, n);
                let bits = if n == 5 { 0 } else { found.bits & !(1 << 52) };
                m.state_mut().system.mem.write(found.entry, bits);
            }
        }
        let mut next = Batch::default();
        next.push_event(event);
        (0..16).filter(|n| *n != 5).for_each(|n| next.refs.push(Ref::read(page(n))));
        m.run(&next);
        m.ended().cloned()
    };
    let Some(Ended::Unsound(what)) = range(Event::Invlpg { addr: page(40) }) else { panic!("not found") };
    assert!(what.contains("is not mapped"), "{what}");
    assert_eq!(range(Event::Munmap { addr: page(5), len: 1 << 12 }), None);
    assert_eq!(range(Event::Mprotect { addr: page(5), len: 1 << 12, prot: Prot::R }), None);
}

#[test]
fn other_bits_than_without_coalescing_are_found() {
    let mut m = machine(Check::Translations);
    m.run(&program());
    let cx = m.state().context().unwrap();
    let entry = cx.format.find(&m.state().system.mem, cx.root, page(50)).unwrap().entry;
    // An accessed bit lost: no entry is wrong for it.
    let bits = m.state().system.mem.read(entry) & !(1 << 5);
    m.state_mut().system.mem.write(entry, bits);
    let mut next = Batch::default();
    next.refs.push(Ref::read(page(50)));
    m.run(&next);
    let Some(Ended::Unsound(what)) = m.ended() else { panic!("{:?}", m.ended()) };
    assert!(what.contains("without coalescing") && what.contains("Read of 0x40032000"), "{what}");
}
