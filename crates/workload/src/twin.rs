//! Comparison of a recording of an algorithm with its generator: both must have the same references.

use crate::{layout::Region, native::GATE, registry};
use mmulab_addr::{Access, BASE_SHIFT};
use mmulab_trace::{Batch, Event, Item, Source, TraceError};
use serde::Serialize;
use std::collections::BTreeMap;
use thiserror::Error;

/// Why two streams cannot be compared.
#[derive(Debug, Error)]
pub enum TwinError {
    /// The name is not a generator's.
    #[error(transparent)]
    Generate(#[from] registry::GenerateError),
    /// A trace cannot be read.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// The recording is of something else.
    #[error(
        "{name}: no munmap of the marker page at {GATE:#x}; mmulab-kernel unmaps it when its data are ready. Record a \
         run of mmulab-kernel."
    )]
    NoGate {
        /// The recording.
        name: String,
    },
}

/// Most that a stack grows to: Linux' usual limit.
const STACK_BYTES: u64 = 8 << 20;

/// Where two streams part.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// How many references to the arrays were alike before.
    pub after: u64,
    /// What was recorded next: `load 0x1000000000`, or nothing.
    pub recorded: Option<String>,
    /// What was generated next.
    pub generated: Option<String>,
}

/// What one side has.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
pub struct Side {
    /// Instructions.
    pub instructions: u64,
    /// Loads and stores of the algorithm's arrays, and blocks of code that lie in one.
    pub arrays: u64,
    /// Other loads and stores.
    pub elsewhere: u64,
    /// Of those, how many are to the stack.
    pub stack: u64,
}

/// A recording held against its generator, from where its data are ready.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct Twins {
    /// Whether all loads and stores of the arrays are of the same pages in the same order.
    pub same_pages: bool,
    /// Whether they are of the same addresses too.
    pub same_addresses: bool,
    /// Where the pages first differ.
    pub difference: Option<Difference>,
    /// What was recorded.
    pub recorded: Side,
    /// What was generated.
    pub generated: Side,
}

/// A load or store of an array, or a block of its code.
type Done = (u64, Access);

/// The loads and stores of a source, one at a time.
struct Walk<'a> {
    source: &'a mut dyn Source,
    batch: Batch,
    at: usize,
    arrays: Vec<Region>,
    stack: Option<(u64, u64)>,
    open: bool,
    side: Side,
    /// Who acts.
    tid: u32,
}

impl<'a> Walk<'a> {
    fn new(source: &'a mut dyn Source, arrays: Vec<Region>, open: bool) -> Self {
        let (batch, at, side) = (Batch::default(), 0, Side::default());
        Self { source, batch, at, arrays, stack: None, open, side, tid: 1 }
    }

    fn event(&mut self, index: usize) {
        match &self.batch.events[index] {
            Event::Switch { tid, .. } => self.tid = tid.0,
            event if is_gate(event) => self.open = true,
            Event::Mmap { addr, len, flags, .. } if flags.grows_down || flags.label.as_deref() == Some("[stack]") => {
                // It grows below the page it begins with.
                let top = addr.raw() + len;
                self.stack = Some((top.saturating_sub(STACK_BYTES), top));
            }
            _ => {}
        }
    }

    /// The next load or store of an array, or block of its code: address and what it is.
    fn next(&mut self) -> Result<Option<Done>, TraceError> {
        loop {
            while let Some(&word) = self.batch.refs.get(self.at) {
                self.at += 1;
                match word.item() {
                    Item::Event(index) => self.event(index),
                    _ if !self.open => {}
                    Item::Code(_) => {}
                    Item::Retire(n) => self.side.instructions += n,
                    Item::Access(kind, va, n) => {
                        self.side.instructions += u64::from(n);
                        let va = va.raw();
                        if self.arrays.iter().any(|r| (r.base..r.base + r.bytes).contains(&va)) {
                            self.side.arrays += 1;
                            return Ok(Some((va, kind)));
                        }
                        if kind == Access::Fetch {
                            continue;
                        }
                        self.side.elsewhere += 1;
                        self.side.stack += u64::from(self.stack.is_some_and(|(low, high)| (low..high).contains(&va)));
                    }
                }
            }
            self.at = 0;
            if !self.source.next_batch(&mut self.batch)? {
                self.batch.clear();
                return Ok(None);
            }
        }
    }
}

/// What each thread of a source does to the arrays, all of it.
fn by_thread(walk: &mut Walk<'_>) -> Result<Vec<Vec<Done>>, TraceError> {
    let mut threads: BTreeMap<u32, Vec<Done>> = BTreeMap::new();
    while let Some(done) = walk.next()? {
        threads.entry(walk.tid).or_default().push(done);
    }
    Ok(threads.into_values().collect())
}

/// Where streams part, found as they are compared.
struct Found {
    same_addresses: bool,
    difference: Option<Difference>,
    alike: u64,
}

impl Found {
    fn compare(&mut self, real: Option<Done>, made: Option<Done>) {
        self.same_addresses &= real == made;
        let page = |one: Option<Done>| one.map(|(at, kind)| (at >> BASE_SHIFT, kind));
        if self.difference.is_some() {
            return;
        }
        if page(real) == page(made) {
            self.alike += 1;
            return;
        }
        let tell = |(at, kind): Done| match kind {
            Access::Fetch => format!("code at {at:#x}"),
            Access::Read => format!("load {at:#x}"),
            Access::Write => format!("store {at:#x}"),
        };
        self.difference = Some(Difference { after: self.alike, recorded: real.map(tell), generated: made.map(tell) });
    }
}

/// Instructions of `recording`, made of `mmulab-kernel`, before its data are ready.
///
/// # Errors
/// A trace that cannot be read, or a recording of something else.
pub fn before_gate(recording: &mut dyn Source) -> Result<u64, TwinError> {
    let mut batch = Batch::default();
    let mut instructions = 0;
    loop {
        let more = recording.next_batch(&mut batch)?;
        for word in &batch.refs {
            match word.item() {
                Item::Event(index) if is_gate(&batch.events[index]) => return Ok(instructions),
                Item::Retire(n) => instructions += n,
                Item::Access(_, _, n) => instructions += u64::from(n),
                Item::Event(_) | Item::Code(_) => {}
            }
        }
        if !more {
            return Err(TwinError::NoGate { name: recording.info().name.clone() });
        }
    }
}

/// Whether it is the sign that the data are ready.
fn is_gate(event: &Event) -> bool {
    matches!(event, Event::Munmap { addr, .. } if addr.raw() == GATE)
}

/// Holds `recording`, made of `mmulab-kernel` with the same keys, against the generator that `text` names.
///
/// A recording has the references of one thread in order, but not the order between threads. So each thread of a
/// generator is compared with the recorded thread that did most alike. They are kept in memory, 16 bytes a load or
/// store.
///
/// # Errors
/// A trace that cannot be read, or a recording of something else.
pub fn compare(recording: &mut dyn Source, text: &str) -> Result<Twins, TwinError> {
    let mut generator = registry::open(text)?;
    let (arrays, threads) = registry::regions(text)?;
    let name = recording.info().name.clone();
    let mut recorded = Walk::new(recording, arrays.clone(), false);
    let mut generated = Walk::new(generator.as_mut(), arrays, true);
    let mut found = Found { same_addresses: true, difference: None, alike: 0 };
    if threads > 1 {
        let mut real = by_thread(&mut recorded)?;
        for made in by_thread(&mut generated)? {
            let alike = |one: &Vec<Done>| one.iter().zip(&made).take_while(|(a, b)| a == b).count();
            let best = (0..real.len()).max_by_key(|&i| alike(&real[i]));
            let real = best.map(|i| real.swap_remove(i)).unwrap_or_default();
            (0..real.len().max(made.len())).for_each(|i| found.compare(real.get(i).copied(), made.get(i).copied()));
        }
        real.into_iter().flatten().for_each(|more| found.compare(Some(more), None));
    } else {
        loop {
            let (real, made) = (recorded.next()?, generated.next()?);
            if real.is_none() && made.is_none() {
                break;
            }
            found.compare(real, made);
        }
    }
    if !recorded.open {
        return Err(TwinError::NoGate { name });
    }
    Ok(Twins {
        same_pages: found.difference.is_none(),
        same_addresses: found.same_addresses,
        difference: found.difference,
        recorded: recorded.side,
        generated: generated.side,
    })
}

#[cfg(test)]
mod tests {
    use crate::{
        algorithms::{
            Describe, astar::AstarDesc, bfs::BfsDesc, bfs::FriendsterDesc, btree::BtreeDesc, canneal::CannealDesc,
            chase::ChaseDesc, codechain::CodeChainDesc, events::EventsDesc, freqmine::FreqMineDesc,
            graphchi::GraphChiDesc, gups::GupsDesc, hashjoin::HashJoinDesc, mcf::McfDesc, pagerank::PageRankDesc,
            sparse::SparseDesc, streamcluster::StreamClusterDesc, svm::SvmDesc, tpcc::TpccDesc, xsbench::XsBenchDesc,
            ycsb::YcsbDesc, zipf::ZipfDesc,
        },
        testing::{model, told},
    };

    /// What the algorithm does where data are real is what the generator tells.
    fn agrees<D: Describe>(keys: &str) {
        let algorithm = || {
            let pairs = keys.split('&').filter_map(|pair| pair.split_once('='));
            let keys = pairs.map(|(key, value)| (key.to_owned(), value.into())).collect();
            crate::algorithms::built::<D>(keys).unwrap_or_else(|e| panic!("{}: {e}", D::NAME)).0
        };
        let real = model(algorithm()).memory;
        let (told, instructions) = told(algorithm());
        assert!(!told.is_empty(), "{}", D::NAME);
        if let Some(at) = (0..told.len().max(real.done.len())).find(|&i| told.get(i) != real.done.get(i)) {
            panic!("{} {at}: told {:x?}, done {:x?}", D::NAME, told.get(at), real.done.get(at));
        }
        assert_eq!(instructions, real.instructions, "{}", D::NAME);
    }

    #[test]
    fn what_is_told_is_what_is_done_where_data_are_real() {
        agrees::<GupsDesc>("footprint=64K&updates=3000");
        agrees::<ZipfDesc>("footprint=64K&references=3000");
        agrees::<ChaseDesc>("footprint=64000&references=3000");
        agrees::<ChaseDesc>("footprint=64K&references=3000&node=16");
        agrees::<SparseDesc>("footprint=64K&references=3000&share=0.3");
        agrees::<BtreeDesc>("elements=3000&lookups=500");
        agrees::<BtreeDesc>("elements=3000&lookups=500&order=3");
        agrees::<HashJoinDesc>("inner=1024&outer=3000");
        agrees::<HashJoinDesc>("inner=1024&outer=3000&build=0");
        agrees::<XsBenchDesc>("gridpoints=20&particles=20&lookups=7");
        for workload in ["A", "B", "C", "D", "E", "F"] {
            agrees::<YcsbDesc>(&format!("workload={workload}&records=200&operations=1000"));
        }
        agrees::<TpccDesc>("transactions=300");
        agrees::<CodeChainDesc>("functions=9&rounds=20");
        agrees::<BfsDesc>("scale=9&searches=2");
        agrees::<FriendsterDesc>("scale=9&neighbours=6&most=60&searches=2");
        agrees::<PageRankDesc>("scale=8");
        agrees::<GraphChiDesc>("scale=8&shards=3");
        agrees::<SvmDesc>("instances=300&features=1000");
        agrees::<CannealDesc>("elements=1024&swaps=100");
        agrees::<StreamClusterDesc>("points=200&dimensions=16");
        agrees::<FreqMineDesc>("transactions=200&items=100");
        agrees::<AstarDesc>("width=32");
        agrees::<EventsDesc>("modules=100&messages=100&events=1000");
        agrees::<McfDesc>("nodes=300&arcs=3000&pivots=50");
    }
}
