//! Warps in time: blocks come to cores, and the warps on a core take turns.

use super::grid::{Grid, Lanes, Launch, Warp};
use mmulab_addr::{Pid, Tid};
use mmulab_trace::{Batch, Event, Isa, Source, TraceError, TraceInfo};

/// The machine that a program is told for: what is on it at once.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Shape {
    /// Shader cores.
    pub cores: u64,
    /// Warps of a core.
    pub warps: u64,
}

/// How the trace of a program is generated.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Manner {
    /// All pages of the arrays are there when it starts.
    pub populate: bool,
    /// Instructions that each load or store is the last of.
    pub instructions: u32,
}

/// The warps that a place for one has, in turn.
#[derive(Clone, Copy)]
struct Running {
    warp: Warp,
    step: u64,
}

/// A GPU program's references, launch by launch. A launch's blocks go to the first place free, core by core, so that
/// cores have equally many. A place is as many warps as a block has. Every warp on every core makes a step by turns,
/// and a place whose warps have all ended takes the next block. The next launch begins when all have ended.
pub struct Schedule<G: Grid> {
    info: TraceInfo,
    grid: G,
    shape: Shape,
    launch: Option<Launch>,
    number: u64,
    next_block: u64,
    /// By turn: the first warp of each core, then the second ones.
    running: Vec<Option<Running>>,
    notes: Vec<G::Notes>,
    /// Whose turn it is.
    core: u64,
    slot: u64,
    /// Warps that have not ended.
    left: u64,
    mapped: bool,
    told: Manner,
    acting: Tid,
}

const PID: Pid = Pid(1);

impl<G: Grid> Schedule<G> {
    /// The references of `grid`, which the user calls `name`; `identity` is the same for all names of the same.
    pub fn new(name: String, identity: String, grid: G, shape: Shape, told: Manner) -> Self {
        let info = TraceInfo {
            hash: Some(format!("{identity} version {}", env!("CARGO_PKG_VERSION"))),
            name: name.clone(),
            format: "generator".into(),
            program: name,
            isa: Isa::default(),
            has_address_space: true,
            warps: u16::try_from(shape.warps).ok(),
            ..TraceInfo::default()
        };
        Self {
            info,
            grid,
            shape,
            launch: None,
            number: 0,
            next_block: 0,
            running: vec![None; (shape.cores * shape.warps) as usize],
            notes: vec![G::Notes::default(); (shape.cores * shape.warps) as usize],
            core: 0,
            slot: 0,
            left: 0,
            mapped: false,
            told,
            acting: Tid(1),
        }
    }

    /// The turn of a core's warp: those of all cores in the same place go one after another.
    fn turn(&self, core: u64, slot: u64) -> usize {
        (slot * self.shape.cores + core) as usize
    }

    /// Begins the next launch, if there is one.
    fn begin(&mut self) -> bool {
        self.launch = self.grid.launch(self.number);
        self.number += 1;
        (self.next_block, self.core, self.slot) = (0, 0, 0);
        let Some(launch) = self.launch else { return false };
        for place in 0..self.shape.warps / launch.warps() {
            for core in 0..self.shape.cores {
                self.admit(launch, core, place * launch.warps());
            }
        }
        true
    }

    /// The next block comes to the place that begins with warp `first` of a core.
    fn admit(&mut self, launch: Launch, core: u64, first: u64) {
        if self.next_block == launch.blocks {
            return;
        }
        for index in 0..launch.warps() {
            let warp = Warp { launch: self.number - 1, block: self.next_block, index };
            let turn = self.turn(core, first + index);
            self.running[turn] = Some(Running { warp, step: 0 });
        }
        self.left += launch.warps();
        self.next_block += 1;
    }

    /// A core's warp has ended: with the last of its block the place is free.
    fn end(&mut self, launch: Launch, core: u64, slot: u64) {
        let turn = self.turn(core, slot);
        self.running[turn] = None;
        self.left -= 1;
        let first = slot / launch.warps() * launch.warps();
        if (first..first + launch.warps()).all(|slot| self.running[self.turn(core, slot)].is_none()) {
            self.admit(launch, core, first);
        }
    }

    /// The warp whose turn it is makes its step.
    fn step(&mut self, launch: Launch, batch: &mut Batch) {
        let (core, slot) = (self.core, self.slot);
        self.core += 1;
        if self.core == self.shape.cores {
            (self.core, self.slot) = (0, if slot + 1 == self.shape.warps { 0 } else { slot + 1 });
        }
        let turn = self.turn(core, slot);
        let Some(Running { warp, step }) = self.running[turn] else { return };
        let tid = Tid((core * self.shape.warps + slot) as u32);
        let (words, events) = (batch.refs.len(), batch.events.len());
        if self.acting != tid {
            batch.push_event(Event::Switch { pid: PID, tid });
        }
        let begun = batch.refs.len();
        let goes_on =
            self.grid.step(warp, step, &mut self.notes[turn], &mut Lanes::new(&mut batch.refs, self.told.instructions));
        if batch.refs.len() <= begun + 1 {
            // No lane was on: nothing is loaded or stored.
            batch.refs.truncate(words);
            batch.events.truncate(events);
        } else {
            self.acting = tid;
        }
        match goes_on {
            true => self.running[turn] = Some(Running { warp, step: step + 1 }),
            false => self.end(launch, core, slot),
        }
    }
}

impl<G: Grid> Source for Schedule<G> {
    fn info(&self) -> &TraceInfo {
        &self.info
    }

    fn next_batch(&mut self, batch: &mut Batch) -> Result<bool, TraceError> {
        batch.clear();
        if !self.mapped {
            self.grid.prepare();
            self.grid.layout().map(&self.info.program, self.told.populate, batch);
            self.mapped = true;
        }
        while !batch.is_full() {
            if self.left == 0 && !self.begin() {
                break;
            }
            if let Some(launch) = self.launch {
                self.step(launch, batch);
            }
        }
        Ok(!batch.refs.is_empty())
    }
}
