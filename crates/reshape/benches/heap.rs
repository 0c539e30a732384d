//! What it costs to have a program's objects kept by another allocator: `cargo bench -p mmulab-reshape --bench heap`.
//! Random loads in many small objects, as they are and moved; and objects that come and go. Words choose measurements
//! by parts of their names (`"loads jemalloc"`). `--references=N` sets how many loads each measurement has, so that
//! `scripts/count_instructions.py` can take the difference of two runs.

mod cpu;

use mmulab_addr::VirtAddr;
use mmulab_reshape::{GlibcDesc, HeapDesc, JemallocDesc, ReshapeDesc, reshape};
use mmulab_trace::{Batch, Event, MALLOC_ALIGN, Ref, Source, TraceError, TraceInfo};

/// Objects, of this many bytes, this far apart in the recording.
const OBJECTS: u64 = 100_000;
const BYTES: u64 = 160;
const APART: u64 = 176;
const HEAP: u64 = 0x60_0010;
/// Loads, unless `--references=N` says otherwise.
const LOADS: u64 = 1 << 24;
/// In the other measurement, an object ends and begins anew for this number of loads.
const LOADS_PER_PAIR: u64 = 16;
/// How often each measurement is repeated; the best one counts.
const ROUNDS: usize = 3;
/// Knuth's multiplier: scatters numbers.
const SCATTER: u64 = 0x9e37_79b9_7f4a_7c15;

/// A trace that is decoded already.
struct Ready {
    info: TraceInfo,
    batches: Vec<Batch>,
    at: usize,
}

impl Source for Ready {
    fn info(&self) -> &TraceInfo {
        &self.info
    }

    fn next_batch(&mut self, batch: &mut Batch) -> Result<bool, TraceError> {
        batch.clear();
        let Some(ready) = self.batches.get(self.at) else { return Ok(false) };
        batch.refs.extend_from_slice(&ready.refs);
        batch.events.extend_from_slice(&ready.events);
        self.at += 1;
        Ok(true)
    }
}

fn object(index: u64) -> VirtAddr {
    VirtAddr::new(HEAP + index % OBJECTS * APART)
}

fn allocations() -> Batch {
    let mut batch = Batch::default();
    for index in 0..OBJECTS {
        batch.push_event(Event::Malloc { addr: object(index), len: BYTES, align: MALLOC_ALIGN });
    }
    batch
}

/// All objects, then random loads in them.
fn loads(count: u64) -> Vec<Batch> {
    let loads: Vec<Ref> = (0..count)
        .map(|i| {
            let random = i.wrapping_mul(SCATTER) >> 20;
            Ref::read(object(random).add(random % BYTES))
        })
        .collect();
    let batches = loads.chunks(Batch::TARGET).map(|refs| Batch { refs: refs.to_vec(), ..Batch::default() });
    [allocations()].into_iter().chain(batches).collect()
}

/// One object after the other ends and begins anew, one for `LOADS_PER_PAIR` of `loads`.
fn turnover(loads: u64) -> Vec<Batch> {
    let mut batch = allocations();
    for i in 0..loads / LOADS_PER_PAIR {
        let addr = object((2 * i).wrapping_mul(SCATTER) >> 20);
        batch.push_event(Event::Free { addr });
        batch.push_event(Event::Malloc { addr, len: BYTES, align: MALLOC_ALIGN });
    }
    vec![batch]
}

/// Seconds to take all batches.
fn measure(batches: &[Batch], heap: Option<HeapDesc>) -> f64 {
    let round = |_| {
        let info = TraceInfo { has_heap: true, has_address_space: true, ..TraceInfo::default() };
        let ready = Box::new(Ready { info, batches: batches.to_vec(), at: 0 });
        let desc = ReshapeDesc { heap: heap.clone(), ..ReshapeDesc::default() };
        let mut source = reshape(&desc, ready).unwrap_or_else(|e| panic!("{e}"));
        let taken = cpu::time_of(|| {
            let mut batch = Batch::default();
            while source.next_batch(&mut batch).unwrap_or_else(|e| panic!("{e}")) {
                std::hint::black_box(&batch);
            }
        });
        taken.as_secs_f64()
    };
    (0..ROUNDS).map(round).fold(f64::INFINITY, f64::min)
}

fn main() {
    let (mut names, mut count) = (Vec::new(), LOADS);
    for word in std::env::args().skip(1) {
        match word.strip_prefix("--references=") {
            Some(references) => count = references.parse().expect("--references is a number"),
            // Cargo adds --bench.
            None if word.starts_with('-') => {}
            None => names.push(word),
        }
    }
    let kinds = [
        ("as it was recorded", None),
        ("jemalloc", Some(HeapDesc::Jemalloc(JemallocDesc::default()))),
        ("glibc", Some(HeapDesc::Glibc(GlibcDesc::default()))),
    ];
    for (table, of, units) in
        [("loads", loads as fn(u64) -> Vec<Batch>, count), ("events", turnover, 2 * (count / LOADS_PER_PAIR))]
    {
        let is_wanted = |kind: &str| {
            let name = format!("{table} {kind}");
            names.is_empty() || names.iter().any(|part| name.contains(part))
        };
        let wanted: Vec<_> = kinds.iter().filter(|(kind, _)| is_wanted(kind)).collect();
        if wanted.is_empty() {
            continue;
        }
        let batches = of(count);
        for (kind, heap) in wanted {
            let seconds = measure(&batches, heap.clone());
            println!("{:<26} {:>7.2} ns each", format!("{table} {kind}"), seconds / units as f64 * 1e9);
        }
    }
}
