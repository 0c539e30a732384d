//! A kernel's file: its description, then its blocks.

use super::line::{Instruction, Reach, Shape, parse};
use crate::{
    TraceError, TraceErrorKind,
    foreign::unpacking_error,
    lines::{LINE_MAX, Line, Lines},
};
use mmulab_addr::VirtAddr;
use std::io::BufRead;

/// The lines of a kernel, from wherever they come.
pub(super) type Input = Box<dyn BufRead + Send>;

/// Reads the blocks of one kernel.
pub(super) struct Kernel {
    lines: Lines<Input>,
    name: String,
    /// Its function.
    pub function: String,
    shape: Shape,
    version: u32,
    /// The tracer wrote lines of source text.
    has_lines: bool,
    /// Within a block.
    in_block: bool,
}

/// A block: what each of its warps did.
#[derive(Default)]
pub(super) struct Block {
    pub warps: Vec<Warp>,
    addresses: Vec<VirtAddr>,
    /// Loads and stores whose addresses are not in the file.
    pub untold: u64,
}

/// Instructions and accesses of a warp.
#[derive(Default)]
pub(super) struct Warp {
    pub steps: Vec<Step>,
    /// Instructions after the last step.
    pub rest: u32,
}

/// A load or store of memory, and the instructions before it.
#[derive(Clone, Copy)]
pub(super) struct Step {
    pub pc: u32,
    /// With the ones before it.
    pub instructions: u32,
    pub write: bool,
    first: usize,
    lanes: u8,
}

impl Block {
    /// The lanes' addresses.
    pub fn lanes(&self, step: &Step) -> &[VirtAddr] {
        &self.addresses[step.first..step.first + usize::from(step.lanes)]
    }
}

/// Most warps of a block: 1,024 threads, on any GPU so far (CUDA's guide, Technical Specifications per Compute
/// Capability).
const WARPS_MAX: usize = 32;

impl Kernel {
    pub fn new(input: Input, name: String) -> Self {
        Self {
            lines: Lines::new(input),
            name,
            function: String::new(),
            shape: Shape::default(),
            version: 0,
            has_lines: false,
            in_block: false,
        }
    }

    pub fn error(&self, what: impl Into<String>) -> TraceError {
        TraceError::new(&self.name, self.lines.place_in_bytes(), TraceErrorKind::Damaged(what.into()))
    }

    fn cut(&self, what: &str) -> TraceError {
        TraceError::new(&self.name, self.lines.place_in_bytes(), TraceErrorKind::Cut(what.into()))
    }

    /// Goes to the next line; false at the end.
    fn advance(&mut self) -> Result<bool, TraceError> {
        match self.lines.advance().map_err(|e| unpacking_error(&self.name, self.lines.place_in_bytes(), e))? {
            Line::Whole => Ok(true),
            Line::End => Ok(false),
            Line::TooLong => Err(self.error(format!("the line is longer than {LINE_MAX} bytes"))),
            Line::Last => Err(self.cut("the last line has no end")),
        }
    }

    /// The next block; `None` when there are no more.
    pub fn block(&mut self) -> Result<Option<Block>, TraceError> {
        let mut block = Block::default();
        // Instructions of the acting warp that are announced and not here yet, and those since its last step.
        let (mut awaited, mut idle) = (0u64, 0u32);
        while self.advance()? {
            let text = match str::from_utf8(self.lines.line()) {
                Ok(text) => text.trim(),
                Err(_) => return Err(self.error("this is not text")),
            };
            let value = text.split_once('=').map(|(_, value)| value.trim());
            let number = || value.and_then(|value| value.parse::<u64>().ok());
            let awaits = |this: &Self| match awaited {
                0 => Ok(()),
                left => Err(this.error(format!("{left} instructions fewer than were announced"))),
            };
            match text {
                "" => {}
                "#BEGIN_TB" if self.in_block => return Err(self.error("a block begins before the last one ended")),
                "#BEGIN_TB" => self.in_block = true,
                "#END_TB" if !self.in_block => return Err(self.error("a block ends that did not begin")),
                "#END_TB" => {
                    awaits(self)?;
                    end_warp(&mut block, idle);
                    self.in_block = false;
                    return Ok(Some(block));
                }
                comment if comment.starts_with('#') => {}
                described if described.starts_with('-') && !self.in_block => {
                    let described = described.to_owned();
                    self.describe(&described)?;
                }
                about if about.starts_with("thread block") || about.starts_with("cluster") => {}
                warp if warp.starts_with("warp =") => {
                    awaits(self)?;
                    end_warp(&mut block, std::mem::take(&mut idle));
                    match number() {
                        Some(index) if index == block.warps.len() as u64 && block.warps.len() < WARPS_MAX => {}
                        _ => {
                            let next = block.warps.len();
                            return Err(self.error(format!("'{warp}': warps of a block are 0 to {next}, in order")));
                        }
                    }
                    if !self.in_block {
                        return Err(self.error("a warp outside of any block"));
                    }
                    block.warps.push(Warp::default());
                }
                insts if insts.starts_with("insts =") => {
                    awaits(self)?;
                    awaited =
                        number().ok_or_else(|| self.error(format!("'{insts}' is not a number of instructions")))?;
                }
                line => {
                    if awaited == 0 {
                        return Err(self.error("an instruction more than were announced, or a line of no such trace"));
                    }
                    let first = block.addresses.len();
                    let Instruction { pc, reach } =
                        parse(line, &self.shape, &mut block.addresses).map_err(|what| self.error(what))?;
                    awaited -= 1;
                    idle += 1;
                    block.untold += u64::from(reach == Reach::Untold);
                    if let Reach::Memory { write } = reach {
                        let lanes = (block.addresses.len() - first) as u8;
                        let step = Step { pc, instructions: std::mem::take(&mut idle), write, first, lanes };
                        let Some(warp) = block.warps.last_mut() else {
                            return Err(self.error("an instruction before any warp"));
                        };
                        warp.steps.push(step);
                    }
                }
            }
        }
        match self.in_block {
            true => Err(self.cut("a block has no end")),
            false => Ok(None),
        }
    }

    /// A line of the description.
    fn describe(&mut self, line: &str) -> Result<(), TraceError> {
        let Some((key, value)) = line.split_once('=').map(|(key, value)| (key.trim(), value.trim())) else {
            return Ok(());
        };
        let address = || {
            let digits = value.strip_prefix("0x").unwrap_or(value);
            u64::from_str_radix(digits, 16).map_err(|_| self.error(format!("'{value}' is not an address")))
        };
        let number = || value.parse::<u32>().map_err(|_| self.error(format!("'{value}' is not a number")));
        match key {
            "-kernel name" => value.clone_into(&mut self.function),
            "-shmem base_addr" => self.shape.shared = address()?,
            "-local mem base_addr" => self.shape.local = address()?,
            "-accelsim tracer version" => self.version = number()?,
            "-enable lineinfo" => self.has_lines = number()? != 0,
            _ => {}
        }
        // Versions before 3 begin with the block's three numbers and the warp's.
        self.shape.before = if self.version < 3 { 4 } else { 0 } + usize::from(self.has_lines);
        Ok(())
    }
}

fn end_warp(block: &mut Block, idle: u32) {
    if let Some(warp) = block.warps.last_mut() {
        warp.rest = idle;
    }
}
