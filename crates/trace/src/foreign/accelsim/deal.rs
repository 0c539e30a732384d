//! Blocks dealt to cores, and warps in turns.

use super::kernel::{Block, Kernel};
use crate::{Batch, Event, Ref, TraceError};
use mmulab_addr::{Pid, Tid, VirtAddr};

/// Where the first kernel's code lies; each further function lies one step above, for program counters are of 32
/// bits.
const CODE: u64 = 1 << 32;

/// The cores that thread blocks are dealt to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WarpShape {
    /// Shader cores. Range 1..=1024.
    pub cores: u16,
    /// Warps of a core. Range 1..=1024.
    pub warps: u16,
}

impl WarpShape {
    /// Most of either.
    pub const MOST: u16 = 1024;
}

impl Default for WarpShape {
    /// Those of `machines/gpu-mix-baseline.toml`.
    fn default() -> Self {
        Self { cores: 16, warps: 32 }
    }
}

/// Blocks on cores.
pub(super) struct Deal {
    shape: WarpShape,
    kernel: Option<Kernel>,
    /// The functions met so far: their places decide where their code is.
    functions: Vec<String>,
    code: u64,
    /// Warps of a block of this kernel; 0 before its first.
    of_block: usize,
    /// By core and place in it.
    places: Vec<Option<Running>>,
    /// The turn: of the first warp of each core, then of the second ones.
    turn: usize,
    /// Blocks that have not ended.
    left: usize,
    acting: Tid,
    told_untold: bool,
}

/// A block on its way.
struct Running {
    block: Block,
    /// By warp, how many steps it has made; more than it has when it has ended.
    made: Vec<usize>,
    /// Warps that have not ended.
    left: usize,
}

const PID: Pid = Pid(1);

impl Deal {
    pub fn new(shape: WarpShape) -> Self {
        Self {
            shape,
            kernel: None,
            functions: Vec::new(),
            code: CODE,
            of_block: 0,
            places: Vec::new(),
            turn: 0,
            left: 0,
            // As which a trace begins.
            acting: Tid(1),
            told_untold: false,
        }
    }

    /// A kernel begins.
    pub fn begin(&mut self, kernel: Kernel) {
        self.kernel = Some(kernel);
        (self.of_block, self.turn, self.left) = (0, 0, 0);
        self.places.clear();
    }

    /// One turn; false when the kernel has ended, or there is none.
    pub fn step(&mut self, batch: &mut Batch) -> Result<bool, TraceError> {
        if self.kernel.is_some() && self.places.is_empty() {
            self.first_blocks(batch)?;
        }
        if self.left == 0 {
            self.kernel = None;
            return Ok(false);
        }
        let (cores, warps) = (usize::from(self.shape.cores), usize::from(self.shape.warps));
        let (core, slot) = (self.turn % cores, self.turn / cores);
        self.turn = (self.turn + 1) % (cores * warps);
        let (in_core, warp) = (slot / self.of_block, slot % self.of_block);
        let per_core = warps / self.of_block;
        if in_core >= per_core {
            return Ok(true);
        }
        let place = core * per_core + in_core;
        let Some(running) = &mut self.places[place] else { return Ok(true) };
        let Some(of_warp) = running.block.warps.get(warp) else { return Ok(true) };
        let made = running.made[warp];
        if made > of_warp.steps.len() {
            return Ok(true);
        }
        running.made[warp] += 1;
        let tid = Tid((core * warps + slot) as u32);
        match of_warp.steps.get(made) {
            Some(step) => {
                switch(&mut self.acting, tid, batch);
                batch.push_block(VirtAddr::new(self.code + u64::from(step.pc)), 1, step.instructions);
                let lanes = running.block.lanes(step).iter();
                batch.refs.extend(lanes.map(|&va| if step.write { Ref::write(va) } else { Ref::read(va) }));
            }
            None => {
                if of_warp.rest != 0 {
                    switch(&mut self.acting, tid, batch);
                    batch.refs.push(Ref::retire(of_warp.rest.into()));
                }
                running.left -= 1;
                if running.left == 0 {
                    self.places[place] = None;
                    self.left -= 1;
                    let next = self.next_block(batch)?;
                    self.admit(place, next);
                }
            }
        }
        Ok(true)
    }

    /// The first blocks of a kernel, one to each core, while there are places.
    fn first_blocks(&mut self, batch: &mut Batch) -> Result<(), TraceError> {
        let Some(first) = self.next_block(batch)? else { return Ok(()) };
        let (cores, warps) = (usize::from(self.shape.cores), usize::from(self.shape.warps));
        self.of_block = first.warps.len().max(1);
        let per_core = warps / self.of_block;
        if let Some(kernel) = &self.kernel {
            let function = &kernel.function;
            let known = self.functions.iter().position(|known| known == function);
            let index = known.unwrap_or_else(|| {
                self.functions.push(function.clone());
                self.functions.len() - 1
            });
            self.code = CODE + ((index as u64) << 32);
            if per_core == 0 {
                let has = self.of_block;
                return Err(kernel.error(format!(
                    "a block has {has} warps, and a core {warps}: give more, as accel-sim:FILE?warps={}",
                    has.next_power_of_two()
                )));
            }
        }
        self.places.resize_with(cores * per_core, || None);
        self.admit(0, Some(first));
        for at in 1..cores * per_core {
            // A place of each core, before a second one of any.
            let place = at % cores * per_core + at / cores;
            let next = self.next_block(batch)?;
            if next.is_none() {
                break;
            }
            self.admit(place, next);
        }
        Ok(())
    }

    fn admit(&mut self, place: usize, block: Option<Block>) {
        let Some(block) = block else { return };
        let warps = block.warps.len();
        if warps == 0 {
            return;
        }
        self.places[place] = Some(Running { made: vec![0; warps], left: warps, block });
        self.left += 1;
    }

    fn next_block(&mut self, batch: &mut Batch) -> Result<Option<Block>, TraceError> {
        let Some(kernel) = &mut self.kernel else { return Ok(None) };
        loop {
            let Some(block) = kernel.block()? else { return Ok(None) };
            if self.of_block != 0 && block.warps.len() > self.of_block {
                let (has, first) = (block.warps.len(), self.of_block);
                return Err(kernel.error(format!("a block has {has} warps, and the first one of the kernel {first}")));
            }
            if block.untold != 0 && !self.told_untold {
                self.told_untold = true;
                let what = "loads and stores of local memory, or by generic addresses without windows: where they lead";
                batch.push_event(Event::Lost { what: what.into() });
            }
            // One without warps is nothing.
            if !block.warps.is_empty() {
                return Ok(Some(block));
            }
        }
    }
}

fn switch(acting: &mut Tid, tid: Tid, batch: &mut Batch) {
    if *acting != tid {
        *acting = tid;
        batch.push_event(Event::Switch { pid: PID, tid });
    }
}
