//! An algorithm as a program runs it: perhaps after it filled its arrays, perhaps by several threads.

use crate::{
    algorithm::{Algorithm, Sharing},
    division::{Division, Place},
    layout::Layout,
    memory::{Cell, Chain, Memory, Setup},
    part::Part,
};
use mmulab_addr::Tid;
use mmulab_trace::Loads;

/// What of a program is told besides its algorithm, and who does it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Manner {
    /// Whether the arrays are filled first.
    pub init: bool,
    /// Threads.
    pub threads: u64,
    /// Rounds that a thread does when it is its turn.
    pub quantum: u64,
}

impl Default for Manner {
    fn default() -> Self {
        Self { init: false, threads: 1, quantum: Part::TURN }
    }
}

/// Rows of a fill that are one round.
const ROWS: u64 = 64;
/// The block of code that fills: no algorithm has as many.
const FILL_SITE: u64 = 63;
/// Instructions that a row takes besides those of its words, each of which is computed and stored: advance, compare,
/// branch.
const ROW_INSTRUCTIONS: u32 = 3;
const WORD_INSTRUCTIONS: u32 = 2;

/// Rows that are filled, one after another, and the instructions that one takes.
#[derive(Clone, Copy)]
struct Fill {
    rows: u64,
    instructions: u32,
}

/// The fills of an algorithm, counted.
struct Count(Vec<Fill>);

impl Setup for Count {
    fn rows<const N: usize>(&mut self, rows: u64, _row: impl Fn(u64) -> [Cell; N]) {
        self.0.push(Fill { rows, instructions: ROW_INSTRUCTIONS + WORD_INSTRUCTIONS * N as u32 });
    }

    fn code(&mut self, _chain: &Chain) {}
}

/// An interval of rows of one of the fills, done in a memory.
struct Interval<'a, M> {
    memory: &'a mut M,
    /// Fills to be passed before.
    fills: usize,
    first: u64,
}

impl<M: Memory> Setup for Interval<'_, M> {
    fn rows<const N: usize>(&mut self, rows: u64, row: impl Fn(u64) -> [Cell; N]) {
        let Some(left) = self.fills.checked_sub(1) else {
            for i in self.first..rows.min(self.first + ROWS) {
                self.memory.block(FILL_SITE, ROW_INSTRUCTIONS + WORD_INSTRUCTIONS * N as u32);
                row(i).into_iter().for_each(|cell| self.memory.init(cell));
            }
            self.fills = usize::MAX;
            return;
        };
        self.fills = left;
    }

    fn code(&mut self, _chain: &Chain) {}
}

/// What cannot be done by stores is there beforehand.
struct CodeAlone<'a, S>(&'a mut S);

impl<S: Setup> Setup for CodeAlone<'_, S> {
    fn rows<const N: usize>(&mut self, _rows: u64, _row: impl Fn(u64) -> [Cell; N]) {}

    fn code(&mut self, chain: &Chain) {
        self.0.code(chain);
    }
}

/// An algorithm at a round.
struct Worker<A> {
    algorithm: A,
    next: u64,
}

/// What runs.
pub struct Program<A> {
    /// The first does what is done in turns; there is one for each thread if they have intervals.
    workers: Vec<Worker<A>>,
    division: Division,
    fills: Vec<Fill>,
    init: bool,
    /// Rounds of filling.
    filling: u64,
}

/// What is done next.
#[derive(Clone, Copy)]
pub struct Turn {
    /// Who does it.
    pub tid: Tid,
    /// The round after the last of the turn.
    pub end: u64,
    /// What of the algorithm, if it has begun.
    place: Option<Place>,
}

impl<A: Algorithm> Program<A> {
    /// `algorithm`, done in `manner`.
    ///
    /// # Errors
    /// Threads where one thread does all.
    pub fn new(algorithm: A, manner: Manner) -> Result<Self, String> {
        let Manner { init, threads, quantum } = manner;
        let sharing = algorithm.sharing();
        if threads > 1 && sharing == Sharing::Alone {
            return Err(format!(
                "threads is {threads}: each round depends on the one before, so that one thread does all"
            ));
        }
        let mut count = Count(Vec::new());
        if init {
            algorithm.prepare(&mut count);
        }
        let filling = count.0.iter().map(|fill| fill.rows.div_ceil(ROWS)).sum();
        let division = Division { sharing, threads, quantum, rounds: algorithm.rounds() };
        Ok(Self { workers: vec![Worker { algorithm, next: 0 }], division, fills: count.0, init, filling })
    }

    /// Where its arrays lie.
    pub fn layout(&self) -> &Layout {
        self.workers[0].algorithm.layout()
    }

    /// Bytes that it takes to make its data ready, besides what is kept.
    pub fn built_bytes(&self) -> u64 {
        self.workers[0].algorithm.built_bytes()
    }

    /// Threads of it.
    pub fn threads(&self) -> u32 {
        self.division.threads as u32
    }

    /// Rounds of filling, which come first.
    pub fn filling(&self) -> u64 {
        self.filling
    }

    /// Rounds in all, where that is known.
    pub fn rounds(&self) -> Option<u64> {
        self.division.rounds?.checked_add(self.filling)
    }

    /// How its loads depend on each other, where one word tells it: for several threads, of each thread.
    pub fn loads(&self) -> Option<Loads> {
        self.workers[0].algorithm.loads()
    }

    /// Instructions of the rounds before `round`, where that is known.
    pub fn instructions_before(&self, round: u64) -> Option<u64> {
        let mut left = round;
        let mut filled = 0u64;
        for fill in &self.fills {
            let rows = fill.rows.min(left.saturating_mul(ROWS));
            filled = filled.checked_add(rows.checked_mul(fill.instructions.into())?)?;
            left = left.saturating_sub(fill.rows.div_ceil(ROWS));
        }
        let algorithm = &self.workers[0].algorithm;
        self.division.sum_before(left, |round| algorithm.instructions_before(round))?.checked_add(filled)
    }

    /// Goes to the beginning of `round` at once, if it can.
    pub fn seek(&mut self, round: u64) -> bool {
        let at = round.saturating_sub(self.filling);
        let place = self.division.place(at);
        // Whoever goes on elsewhere seeks by itself when it is its turn.
        self.workers.truncate(1);
        let first = &mut self.workers[0];
        let found = first.algorithm.seek(place.round);
        if found {
            first.next = place.round;
        }
        found
    }

    /// Makes what is made only once.
    pub fn build(&mut self) {
        self.workers[0].algorithm.build();
    }

    /// Puts there what is there before the first round.
    pub fn prepare(&self, setup: &mut impl Setup) {
        let algorithm = &self.workers[0].algorithm;
        if self.init { algorithm.prepare(&mut CodeAlone(setup)) } else { algorithm.prepare(setup) }
    }

    /// What is done at `round`.
    pub fn turn(&self, round: u64) -> Turn {
        match round.checked_sub(self.filling) {
            None => Turn { tid: Tid(1), end: self.filling, place: None },
            Some(at) => {
                let place = self.division.place(at);
                Turn { tid: Tid(place.thread as u32 + 1), end: round.saturating_add(place.left), place: Some(place) }
            }
        }
    }

    /// Does rounds of `turn` from `round` on while `more` says so of the memory; how many, and whether others may
    /// follow.
    #[inline(always)]
    pub fn run<M: Memory>(
        &mut self,
        turn: Turn,
        round: u64,
        until: u64,
        memory: &mut M,
        more: impl Fn(&M) -> bool,
    ) -> (u64, bool) {
        let mut at = round;
        let Some(place) = turn.place else {
            while at < until && more(memory) {
                self.fill(at, memory);
                at += 1;
            }
            return (at - round, true);
        };
        let worker = self.worker(place);
        let algorithm = &mut worker.algorithm;
        let mut goes_on = true;
        while at < until && more(memory) {
            if !algorithm.round(memory) {
                goes_on = false;
                break;
            }
            at += 1;
        }
        worker.next = place.round + (at - round);
        (at - round, goes_on)
    }

    /// Who does what is done at `place`, gone there.
    fn worker(&mut self, place: Place) -> &mut Worker<A> {
        let index = if place.own { place.thread as usize } else { 0 };
        while self.workers.len() <= index {
            let algorithm = self.workers[0].algorithm.clone();
            self.workers.push(Worker { algorithm, next: u64::MAX });
        }
        let worker = &mut self.workers[index];
        if worker.next != place.round {
            let found = worker.algorithm.seek(place.round);
            debug_assert!(found, "only algorithms that seek have intervals");
        }
        worker
    }

    /// Round `round` of filling.
    fn fill(&self, round: u64, memory: &mut impl Memory) {
        let mut first = round;
        for (fills, fill) in self.fills.iter().enumerate() {
            let rounds = fill.rows.div_ceil(ROWS);
            if first < rounds {
                return self.workers[0].algorithm.prepare(&mut Interval { memory, fills, first: first * ROWS });
            }
            first -= rounds;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        algorithms::{
            Describe, btree::BtreeDesc, canneal::CannealDesc, codechain::CodeChainDesc, gups::GupsDesc,
            hashjoin::HashJoinDesc, mcf::McfDesc, pagerank::PageRankDesc, streamcluster::StreamClusterDesc,
            xsbench::XsBenchDesc, ycsb::YcsbDesc,
        },
        emit::Emit,
        memory::Contents,
        testing::{ready, vectors},
    };
    use mmulab_trace::Item;

    /// Filling by rounds leaves behind what is otherwise there, tells of each store, and counts as said.
    fn fills<D: Describe>(keys: &str) {
        let algorithm = || {
            let pairs = keys.split('&').filter_map(|pair| pair.split_once('='));
            crate::algorithms::built::<D>(pairs.map(|(key, value)| (key.to_owned(), value.into())).collect()).unwrap().0
        };
        let mut program = Program::new(algorithm(), Manner { init: true, ..Manner::default() }).unwrap();
        program.build();
        let (mut memory, mut contents) =
            (vectors(program.layout()), Contents::new(program.layout().kept_bytes() as usize));
        let (mut refs, filling) = (Vec::new(), program.filling);
        let mut emit = Emit::new(&mut refs, &mut contents);
        for round in 0..filling {
            assert_eq!(
                program.instructions_before(round).unwrap_or(emit.instructions),
                emit.instructions,
                "{}",
                D::NAME
            );
            let turn = program.turn(round);
            program.run(turn, round, round + 1, &mut memory, |_| true);
            program.run(turn, round, round + 1, &mut emit, |_| true);
        }
        let told: Vec<_> = refs.iter().filter(|r| !r.is_fetch() && !matches!(r.item(), Item::Retire(_))).collect();
        assert!(told.iter().all(|r| r.is_write()) && told.len() > 100, "{}", D::NAME);
        let addresses: Vec<_> = told.iter().map(|r| (r.va().raw(), true)).collect();
        assert!(addresses == memory.done, "{}", D::NAME);
        assert!(memory.contents() == ready(algorithm()).memory.contents(), "{}", D::NAME);
        let mut silent = Contents::new(program.layout().kept_bytes() as usize);
        program.workers[0].algorithm.prepare(&mut silent);
        assert!(silent == contents, "{}: what is kept", D::NAME);
    }

    #[test]
    fn filling_leaves_behind_what_is_otherwise_there() {
        fills::<GupsDesc>("footprint=64K");
        fills::<BtreeDesc>("elements=3000");
        fills::<HashJoinDesc>("inner=1024&outer=3000&build=0");
        fills::<XsBenchDesc>("gridpoints=20&particles=20");
        fills::<YcsbDesc>("workload=E&records=200&operations=1000");
        fills::<PageRankDesc>("scale=8");
        fills::<CannealDesc>("elements=1024");
        fills::<StreamClusterDesc>("points=200&dimensions=16");
        fills::<McfDesc>("nodes=300&arcs=3000");
        let chain = crate::algorithms::built::<CodeChainDesc>(Default::default()).unwrap().0;
        assert!(Program::new(chain, Manner { init: true, ..Manner::default() }).unwrap().filling > 0);
    }
}
