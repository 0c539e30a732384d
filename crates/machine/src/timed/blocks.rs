//! Code as cores in time run it: decoded once for each block of the trace.

use crate::near::bring;
use mmulab_dataflow::{Class, Inst, Reg};
use mmulab_isa::Decoder;
use mmulab_timing::{Block, Renaming, TimingDesc, Unknown};
use mmulab_trace::{AccessFlow, Body, Code, Isa, Loads};
use rustc_hash::FxHashMap;
use std::sync::Arc;

/// The blocks met so far.
pub(super) struct Blocks {
    decoder: Decoder,
    renaming: Renaming,
    assumed: Unknown,
    /// Whether what is assumed was said by who made the trace.
    declared: bool,
    known: Vec<Known>,
    /// The number of each in `known`, by where in memory its code is.
    numbers: FxHashMap<usize, u32>,
    /// The block that each place of a batch's code had last: executions find theirs here.
    places: Vec<Place>,
    /// What accesses wait for, where the trace says it: by number. `flow_at`: the number of the block at an address.
    flows: Vec<Box<[AccessFlow]>>,
    flow_at: FxHashMap<u64, u32>,
    /// The flow of the last words that began a block.
    last_flow: Option<u32>,
    /// Of words that no code is known of: the blocks, their numbers by what is known, and what was asked for last.
    plain: Vec<Block>,
    plain_numbers: FxHashMap<Plain, u32>,
    last_plain: Option<(Plain, u32)>,
    unknown: u64,
    prefetches: u64,
}

struct Known {
    block: Block,
    /// Kept, so that no other code is ever where this one is.
    _code: Arc<Code>,
    /// Instructions of it whose dependences are assumed.
    unknown: u32,
    /// Software prefetches in it, whose addresses no trace has.
    prefetches: u32,
}

impl Known {
    fn new(decoder: &mut Decoder, renaming: Renaming, assumed: Unknown, code: &Arc<Code>) -> Self {
        let accesses = code.ops.iter().map(|op| (op.instruction, op.store, 1u16 << op.size_shift));
        let (insts, unknown, prefetches) = match &code.body {
            Body::Flow(insts) => (insts.to_vec(), 0, 0),
            Body::Bytes(bytes) => {
                let decoded = decoder.decode(0, bytes, code.instructions);
                (decoded.insts, decoded.unknown, decoded.prefetches)
            }
            Body::Unknown => {
                let loads = |at: usize| code.ops.iter().any(|op| usize::from(op.instruction) == at && !op.store);
                (assume(assumed, code.instructions, loads), code.instructions, 0)
            }
        };
        let block = Block::new(renaming, &insts, u64::from(code.bytes), accesses);
        Self { block, _code: Arc::clone(code), unknown, prefetches }
    }
}

/// A place of a batch's code: where in memory the code is that it had last, and the number of its block.
#[derive(Clone, Copy)]
struct Place {
    code: usize,
    number: u32,
}

/// Words that no code is known of.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Plain {
    instructions: u32,
    accesses: u32,
    /// Bit n: access n stores.
    stores: u64,
    /// What its accesses wait for, and whether it is the rest of a block.
    flow: Option<u32>,
    rest: bool,
}

/// Accesses of a plain block at most: as many as a mask has bits.
pub(super) const PLAIN_MOST: usize = 64;

impl Blocks {
    pub fn new(isa: Isa, desc: &TimingDesc) -> Self {
        Self {
            decoder: Decoder::new(isa),
            renaming: desc.renaming(),
            assumed: desc.unknown,
            declared: false,
            known: Vec::new(),
            numbers: FxHashMap::default(),
            places: Vec::new(),
            flows: Vec::new(),
            flow_at: FxHashMap::default(),
            last_flow: None,
            plain: Vec::new(),
            plain_numbers: FxHashMap::default(),
            last_plain: None,
            unknown: 0,
            prefetches: 0,
        }
    }

    /// Code is of this instruction set from here on. A trace may state how the loads of unknown instructions depend on
    /// each other.
    pub fn read(&mut self, isa: Isa, loads: Option<&Loads>) {
        self.decoder = Decoder::new(isa);
        self.declared = loads.is_some();
        match loads {
            Some(Loads::Independent) => self.assumed = Unknown::Independent,
            Some(Loads::Dependent) => self.assumed = Unknown::Dependent,
            Some(Loads::Flow(blocks)) => {
                self.assumed = Unknown::Independent;
                self.flows = blocks.iter().map(|block| block.accesses.clone().into()).collect();
                self.flow_at = (0..).zip(blocks).map(|(number, block)| (block.at.raw(), number)).collect();
                // What was made without them is of no use.
                self.plain_numbers.clear();
                self.last_plain = None;
            }
            None => {}
        }
    }

    /// Instructions run so far whose dependences are assumed.
    pub fn unknown(&self) -> u64 {
        self.unknown
    }

    /// Software prefetches run so far.
    pub fn prefetches(&self) -> u64 {
        self.prefetches
    }

    /// `count` instructions are run of which nothing is known, but for what the maker of the trace says of its loads.
    pub fn idle(&mut self, count: u64) {
        self.unknown += if self.declared { 0 } else { count };
    }

    /// The block at `place` of a batch's `code`, about to be run.
    #[inline(always)]
    pub fn of(&mut self, place: usize, code: &[Arc<Code>]) -> &Block {
        let number = self.number(place, code);
        let known = &self.known[number];
        self.unknown += u64::from(known.unknown);
        self.prefetches += u64::from(known.prefetches);
        &known.block
    }

    /// The same of code that is passed, and not run.
    #[inline(always)]
    pub fn seen(&mut self, place: usize, code: &[Arc<Code>]) -> &Block {
        let number = self.number(place, code);
        &self.known[number].block
    }

    /// Where in `known` the block is.
    #[inline(always)]
    fn number(&mut self, place: usize, code: &[Arc<Code>]) -> usize {
        let wanted = Arc::as_ptr(&code[place]).addr();
        if self.places.get(place).is_none_or(|known| known.code != wanted) {
            self.learn(place, code);
        }
        self.places[place].number as usize
    }

    /// Finds the blocks of a batch's code from place `from` on. Those that are met first are decoded.
    ///
    /// A batch has some thousand blocks, and their numbers and instructions are not in the host's nearest caches. Here
    /// the host looks for many of them at once. Looked for when each is run, the run would wait for each.
    #[inline(never)]
    fn learn(&mut self, from: usize, code: &[Arc<Code>]) {
        let Self { decoder, renaming, assumed, known, numbers, places, .. } = self;
        places.truncate(from);
        let first = places.len();
        for code in &code[first..] {
            let at = Arc::as_ptr(code).addr();
            let number = *numbers.entry(at).or_insert_with(|| {
                known.push(Known::new(decoder, *renaming, *assumed, code));
                known.len() as u32 - 1
            });
            places.push(Place { code: at, number });
        }
        for place in &places[first..] {
            for part in known[place.number as usize].block.lies_at() {
                bring(part);
            }
        }
    }

    /// A block of `instructions` that makes `accesses` accesses of which no code is known; bit n of `stores`: access n
    /// stores. It begins at `start`, or is the rest of the block before.
    pub fn plain(&mut self, start: Option<u64>, instructions: u32, accesses: u32, stores: u64) -> &Block {
        let instructions = instructions.max(accesses).max(1);
        self.idle(u64::from(instructions));
        if !self.flows.is_empty()
            && let Some(start) = start
        {
            self.last_flow = self.flow_at.get(&start).copied();
        }
        let key = Plain { instructions, accesses, stores, flow: self.last_flow, rest: start.is_none() };
        let number = match self.last_plain {
            Some((last, number)) if last == key => number,
            _ => self.plain_number(key),
        };
        self.last_plain = Some((key, number));
        &self.plain[number as usize]
    }

    /// The number of the block of these words, which is made when they are met first.
    fn plain_number(&mut self, key: Plain) -> u32 {
        let Self { flows, plain, plain_numbers, renaming, assumed, .. } = self;
        let Plain { instructions, accesses, stores, flow, rest } = key;
        *plain_numbers.entry(key).or_insert_with(|| {
            let is_store = |at: u32| stores >> at & 1 == 1;
            let insts = match flow.and_then(|number| flows.get(number as usize)) {
                Some(flow) => flowing(flow, rest, instructions, accesses),
                None => assume(*assumed, instructions, |at| at < accesses as usize && !is_store(at as u32)),
            };
            let accesses = (0..accesses).map(|at| (at as u16, is_store(at), 8));
            plain.push(Block::new(*renaming, &insts, 0, accesses));
            plain.len() as u32 - 1
        })
    }
}

/// Instructions whose first `accesses` wait for each other as `flow` says; all are like its last one, if they are the
/// `rest` of a block.
fn flowing(flow: &[AccessFlow], rest: bool, count: u32, accesses: u32) -> Vec<Inst> {
    let value = |number: u8| (number > 0).then(|| Reg::int(number & 15));
    let inst = |at: u32| {
        let last = flow.last().filter(|_| at < accesses);
        match if rest { last } else { flow.get(at as usize).filter(|_| at < accesses).or(last) } {
            Some(access) => Inst {
                class: Class::Move,
                address: access.address.into_iter().filter_map(value).collect(),
                results: value(access.result).into_iter().collect(),
                ..Inst::default()
            },
            None => Inst { class: Class::Int, ..Inst::default() },
        }
    };
    (0..count).map(inst).collect()
}

/// Instructions that are not known: `loads` says which of them load.
fn assume(assumed: Unknown, count: u32, loads: impl Fn(usize) -> bool) -> Vec<Inst> {
    let chain = [Reg::int(0)];
    let inst = |at: usize| match assumed {
        Unknown::Dependent if loads(at) => Inst {
            class: Class::Move,
            address: chain.into_iter().collect(),
            results: chain.into_iter().collect(),
            ..Inst::default()
        },
        _ => Inst { class: Class::Int, ..Inst::default() },
    };
    (0..count as usize).map(inst).collect()
}
