//! Generated traces: a running algorithm as a trace source, one batch at a time, without a trace file. Parts of the
//! work, as several threads would share them, are separate sources.

use crate::{algorithm::Algorithm, emit::Emit, memory::Contents, part::Part, program::Program};
use mmulab_addr::{Pid, Tid};
use mmulab_trace::{Batch, Event, Isa, Source, TraceError, TraceErrorKind, TraceInfo};

const GIB: f64 = (1u64 << 30) as f64;

/// A [`Source`] of what an algorithm does.
///
/// The parts of an algorithm that seeks are ranges of its rounds: one after another they are the whole. Parts of others
/// take turns of [`Part::TURN`] rounds. Each also does the rounds of the others, silently, because these leave data
/// behind. Merged by turns they are the whole. So no part depends on when another one runs.
pub struct Generator<A> {
    info: TraceInfo,
    program: Program<A>,
    part: Part,
    contents: Contents,
    /// The next round, where it began and where it ends.
    at: u64,
    first: u64,
    end: Option<u64>,
    /// Whether this part takes turns with others.
    turns: bool,
    ready: bool,
    mapped: bool,
    /// Whether the arrays' pages are there from the beginning.
    populate: bool,
    /// Who acts, as was told.
    acting: Tid,
}

/// Who acts where nothing else was told: the first thread of the only process.
const PID: Pid = Pid(1);
const FIRST: Tid = Tid(1);

impl<A: Algorithm> Generator<A> {
    /// The references of `part` of `program`, which the user calls `name`; `identity` is the same for all names of the
    /// same.
    pub fn new(name: String, identity: String, mut program: Program<A>, part: Part) -> Self {
        let rounds = program.rounds();
        let (mut first, mut end) = (0, rounds);
        let mut turns = false;
        if part.count > 1 {
            let share =
                |index: u64| rounds.map(|r| (u128::from(r) * u128::from(index) / u128::from(part.count)) as u64);
            match (share(part.index), share(part.index + 1)) {
                (Some(from), to) if program.seek(from) => (first, end) = (from, to),
                _ => turns = true,
            }
        }
        let before = |round: u64| program.instructions_before(round);
        let instructions = end.filter(|_| !turns).and_then(|end| before(end)?.checked_sub(before(first)?));
        let filling = if turns { None } else { before(first.max(program.filling().min(end.unwrap_or(u64::MAX)))) };
        let filling = filling.and_then(|filled| filled.checked_sub(before(first)?)).filter(|&filled| filled > 0);
        let warnings = filling.map(|filled| {
            format!(
                "init=true: the first {filled} instructions fill the arrays, and counts are of them too, unless --skip \
                 {filled} leaves them out"
            )
        });
        let info = TraceInfo {
            hash: Some(format!("{identity} version {}", env!("CARGO_PKG_VERSION"))),
            program: name.clone(),
            name,
            format: "generator".into(),
            isa: Isa::X86_64,
            instructions,
            loads: program.loads(),
            has_address_space: true,
            warnings: warnings.into_iter().collect(),
            ..TraceInfo::default()
        };
        let (ready, mapped) = (false, false);
        let acting = FIRST;
        let contents = Contents::default();
        let populate = false;
        Self { info, program, part, contents, at: first, first, end, turns, ready, mapped, populate, acting }
    }

    /// The same of a program that has filled its arrays before: their pages are there, in order.
    pub fn populated(self, populate: bool) -> Self {
        Self { populate, ..self }
    }

    fn get_ready(&mut self) -> Result<(), TraceError> {
        if self.ready {
            return Ok(());
        }
        let kept = self.program.layout().kept_bytes();
        let bytes = kept.saturating_add(self.program.built_bytes());
        // Asked for and given back at once: a refusal here is an error, and not the end of the process.
        if Vec::<u8>::new().try_reserve_exact(bytes as usize).is_err() {
            let what =
                format!("{:.1} GiB of its data must be kept in memory, and are not to be had", bytes as f64 / GIB);
            return Err(TraceError::new(self.info.name.clone(), "", TraceErrorKind::Request(what)));
        }
        self.contents = Contents::new(kept as usize);
        self.program.build();
        self.program.prepare(&mut self.contents);
        self.ready = true;
        Ok(())
    }

    fn is_over(&self) -> bool {
        self.end.is_some_and(|end| self.at >= end)
    }

    /// Whether round `at` is this part's.
    fn is_own(&self) -> bool {
        !self.turns || self.at / Part::TURN % self.part.count == self.part.index
    }

    /// Tells of the mappings, and of all threads there will be.
    fn map(&mut self, batch: &mut Batch) {
        self.program.layout().map(&self.info.program, self.populate, batch);
        (2..=self.program.threads()).for_each(|tid| batch.push_event(Event::Clone { child: Tid(tid) }));
        self.mapped = true;
    }

    /// Tells that `tid` acts, unless it does already.
    fn act(&mut self, tid: Tid, batch: &mut Batch) {
        if self.acting != tid {
            batch.push_event(Event::Switch { pid: PID, tid });
            self.acting = tid;
        }
    }

    /// Does rounds until `batch` is full or none is left.
    fn fill(&mut self, batch: &mut Batch) {
        let mut scratch = Vec::new();
        while batch.refs.len() < Batch::TARGET && !self.is_over() {
            let own = self.is_own();
            let turn = self.program.turn(self.at);
            if own {
                self.act(turn.tid, batch);
            }
            let part = if self.turns { (self.at / Part::TURN + 1) * Part::TURN } else { u64::MAX };
            let until = turn.end.min(part).min(self.end.unwrap_or(u64::MAX));
            let mut emit = Emit::new(if own { &mut batch.refs } else { &mut scratch }, &mut self.contents);
            let (done, more) = self.program.run(turn, self.at, until, &mut emit, |emit| emit.len() < Batch::TARGET);
            self.at += done;
            if !more {
                self.end = Some(self.at);
            }
            scratch.clear();
        }
    }
}

impl<A: Algorithm> Source for Generator<A> {
    fn info(&self) -> &TraceInfo {
        &self.info
    }

    fn next_batch(&mut self, batch: &mut Batch) -> Result<bool, TraceError> {
        batch.clear();
        if self.is_over() {
            return Ok(false);
        }
        self.get_ready()?;
        if !self.mapped {
            self.map(batch);
        }
        self.fill(batch);
        Ok(!batch.refs.is_empty())
    }

    fn progress(&self) -> Option<f64> {
        let end = self.end?;
        Some((self.at - self.first) as f64 / (end - self.first).max(1) as f64)
    }
}
