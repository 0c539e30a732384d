//! Orders of whole recordings made here: found by their calls, applied, and compared with what was there.

use super::*;
use crate::ReshapeDesc;
use mmulab_addr::{Access, Prot, VirtAddr};
use mmulab_elf::{CodeSection, Function};
use mmulab_trace::{Backing, Batch, Event, Item, MapFlags, Source, TraceError, TraceInfo};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet, HashMap};

const PATH: &str = "/bin/five";
const BASE: u64 = 0x40_0000;

/// A source of one batch.
struct Once(Batch, TraceInfo);

impl Source for Once {
    fn info(&self) -> &TraceInfo {
        &self.1
    }

    fn next_batch(&mut self, batch: &mut Batch) -> Result<bool, TraceError> {
        batch.clone_from(&self.0);
        self.0.clear();
        Ok(false)
    }
}

fn mapped(bytes: u64) -> Batch {
    let mut batch = Batch::default();
    batch.push_event(Event::Mmap {
        addr: VirtAddr::new(BASE),
        len: bytes,
        prot: Prot::RX,
        flags: MapFlags::default(),
        backing: Backing::File { path: PATH.into(), offset: 0 },
    });
    batch
}

/// Functions of these sizes, one behind the other from `start` on.
fn tables(start: u64, sizes: &[u64]) -> Tables {
    let mut at = start;
    let functions = sizes.iter().map(|bytes| {
        at += bytes;
        Function { start: at - bytes, end: at, name: None }
    });
    let functions: Vec<_> = functions.collect();
    let sections = vec![CodeSection { range: start..at, functions }];
    Tables(HashMap::from([(PATH.into(), sections)]))
}

fn found(batch: &Batch, tables: Tables) -> OrderFile {
    let mut profile = Profile::new(tables);
    assert!(profile.take(batch, u64::MAX));
    by_calls(profile, "here", CLUSTER_BYTES).0
}

fn applied(batch: &Batch, order: OrderFile) -> Batch {
    let info = TraceInfo { has_address_space: true, ..TraceInfo::default() };
    let desc = ReshapeDesc { order: Some(order), ..ReshapeDesc::default() };
    let mut source = crate::reshape(&desc, Box::new(Once(batch.clone(), info))).unwrap();
    let mut out = Batch::default();
    assert_eq!(source.next_batch(&mut out).ok(), Some(false));
    out
}

fn call(batch: &mut Batch, from: u64, to: u64) {
    for va in [from, to, from + 16] {
        batch.push_block(VirtAddr::new(BASE + va), 8, 2);
    }
}

/// A hot loop in function 0 that calls function 2, which calls function 4; 1 and 3 never run.
#[test]
fn functions_that_call_each_other_stand_together() {
    let mut batch = mapped(5 << 12);
    for _ in 0..10 {
        call(&mut batch, 0x10, 2 << 12);
        batch.push_block(VirtAddr::new(BASE + (2 << 12)), 8, 2);
        call(&mut batch, (2 << 12) + 32, 4 << 12);
    }
    let order = found(&batch, tables(0, &[4096; 5]));
    let moves: BTreeMap<u64, u64> =
        order.files[0].moves.iter().map(|part| (part.offset >> 12, part.to >> 12)).collect();
    // Function 0 stays; 2 and 4 follow it, and 1 and 3 come behind.
    assert_eq!(moves, BTreeMap::from([(1, 3), (2, 1), (3, 4), (4, 2)]));
}

#[test]
fn a_recording_without_mappings_is_refused() {
    let desc = ReshapeDesc {
        order: Some(OrderFile { schema: SCHEMA, method: "c3".into(), trace: String::new(), files: Vec::new() }),
        ..ReshapeDesc::default()
    };
    let refused = crate::reshape(&desc, Box::new(Once(Batch::default(), TraceInfo::default())));
    assert!(refused.is_err_and(|error| error.to_string().contains("does not tell the program's mappings")));
}

proptest! {
    /// Whatever runs: no byte of code is lost, none is at two places, and nothing else changes.
    #[test]
    fn an_ordered_recording_is_a_permutation_of_its_code(
        start in 0u64..5000,
        sizes in prop::collection::vec(1u64..9000, 1..12),
        walk in prop::collection::vec((0u64..60_000, 0u32..40, any::<bool>()), 1..200),
    ) {
        let end = start + sizes.iter().sum::<u64>();
        let mut batch = mapped(end.next_multiple_of(4096));
        for (at, instructions, data) in walk {
            let va = VirtAddr::new(BASE + at);
            if data { batch.push_data(va, 8, false) } else { batch.push_block(va, 1, instructions) }
        }
        let order = found(&batch, tables(start, &sizes));
        let after = applied(&batch, order.clone());
        prop_assert_eq!(after.counts(), batch.counts());
        prop_assert_eq!(after.refs.len(), batch.refs.len());
        let within = |offset: u64| (start..end).contains(&offset);
        let (mut seen, mut places) = (BTreeMap::new(), BTreeSet::new());
        for (old, new) in batch.refs.iter().zip(&after.refs) {
            let (Item::Access(kind, was, count), Item::Access(same, is, as_many)) = (old.item(), new.item()) else {
                prop_assert_eq!(old, new);
                continue;
            };
            prop_assert_eq!((kind, count), (same, as_many));
            prop_assert!(kind != Access::Write);
            let (was, is) = (was.raw() - BASE, is.raw() - BASE);
            prop_assert_eq!(within(was), within(is));
            if !within(was) {
                prop_assert_eq!(was, is);
            }
            prop_assert_eq!(*seen.entry(was).or_insert(is), is);
        }
        for is in seen.values() {
            prop_assert!(places.insert(*is));
        }
        // Each byte of the section has one place in it.
        if let Some(file) = order.files.first() {
            let bytes = |range: (u64, u64)| range.0..range.0 + range.1;
            let from: Vec<u64> = file.moves.iter().flat_map(|part| bytes((part.offset, part.bytes))).collect();
            let mut to: Vec<u64> = file.moves.iter().flat_map(|part| bytes((part.to, part.bytes))).collect();
            to.sort_unstable();
            prop_assert_eq!(from, to);
        }
    }
}
