//! Traces of GPU kernels as Accel-Sim takes them: what its NVBit tracer wrote, grouped by thread blocks.
//!
//! A list (`kernelslist.g`) names a file for each kernel, in order. A kernel's file (`kernel-1.traceg`) describes it in
//! lines that begin with `-`, and then has its blocks, warp by warp. The format is that of accel-sim-framework:
//! util/tracer_nvbit/tracer_tool/tracer_tool.cu and traces-processing/post-traces-processing.cpp write it,
//! gpu-simulator/trace-parser/trace_parser.cc reads it.

mod deal;
mod kernel;
mod line;

pub use deal::WarpShape;

use super::line_reader::until_ended;
use crate::{Batch, Source, TraceError, TraceErrorKind, TraceInfo, files::open_unpacked};
use deal::Deal;
use kernel::{Input, Kernel};
use std::path::{Path, PathBuf};

/// Reads Accel-Sim's traces.
///
/// A kernel's blocks are dealt to the cores in the order of the file. Each core gets one, then a second one, while it
/// has places. A place is as many warps as a block has. Every warp of every core makes a step by turns, those in the
/// same place of all cores one after another. A step is one load or store of global memory, and the instructions before
/// it. A place whose warps have all ended takes the next block. The next kernel begins when all blocks have ended.
///
/// Loads and stores of shared and constant memory are instructions only. So are those of local memory, because their
/// addresses are a thread's own. Those by generic addresses are too, if the file does not state the windows. A warning
/// reports accesses that are left out.
pub struct AccelSimReader {
    info: TraceInfo,
    /// Files of the kernels that come, the last one first.
    left: Vec<PathBuf>,
    all: usize,
    deal: Deal,
    ended: bool,
}

impl AccelSimReader {
    /// Reads one kernel, called `name` in errors.
    pub fn new(input: Input, name: String, shape: WarpShape) -> Self {
        let mut this = Self::of(&name, Vec::new(), shape);
        this.deal.begin(Kernel::new(input, name));
        this.all = 1;
        this
    }

    /// Reads the kernels that the list at `path` names, whose lines are `list`.
    ///
    /// # Errors
    /// A line that names nothing.
    pub fn of_list(path: &Path, list: &str, shape: WarpShape) -> Result<Self, TraceError> {
        let name = path.display().to_string();
        let files = kernels_of(path, list)
            .map_err(|(line, what)| TraceError::new(&name, format!("line {line}"), TraceErrorKind::Damaged(what)))?;
        Ok(Self::of(&name, files, shape))
    }

    /// Sets the hash over its files.
    pub(crate) fn set_hash(&mut self, hash: String) {
        self.info.hash = Some(hash);
    }

    fn of(name: &str, mut left: Vec<PathBuf>, shape: WarpShape) -> Self {
        left.reverse();
        let info = TraceInfo {
            name: name.into(),
            format: "accel-sim".into(),
            warps: Some(shape.warps),
            ..TraceInfo::default()
        };
        Self { info, all: left.len(), left, deal: Deal::new(shape), ended: false }
    }

    fn fill(&mut self, batch: &mut Batch) -> Result<bool, TraceError> {
        while !batch.is_full() {
            if self.deal.step(batch)? {
                continue;
            }
            let Some(next) = self.left.pop() else { return Ok(false) };
            self.deal.begin(Kernel::new(open_unpacked(&next)?, next.display().to_string()));
        }
        Ok(true)
    }
}

impl Source for AccelSimReader {
    fn info(&self) -> &TraceInfo {
        &self.info
    }

    fn next_batch(&mut self, batch: &mut Batch) -> Result<bool, TraceError> {
        let mut ended = self.ended;
        let more = until_ended(&mut ended, batch, |batch| self.fill(batch));
        self.ended = ended;
        more
    }

    fn progress(&self) -> Option<f64> {
        // The last one taken is unfinished.
        let begun = self.all - self.left.len();
        Some(begun.saturating_sub(usize::from(!self.ended)) as f64 / self.all.max(1) as f64)
    }
}

/// The files that a list names, or the line that does not belong into a list, and the reason. Copies to the GPU map
/// nothing here.
pub(crate) fn kernels_of(path: &Path, list: &str) -> Result<Vec<PathBuf>, (usize, String)> {
    let beside = path.parent().unwrap_or(Path::new(""));
    let mut files = Vec::new();
    for (line, number) in list.lines().map(str::trim).zip(1..) {
        match line {
            "" => {}
            copy if copy.starts_with("Memcpy") => {}
            kernel if kernel.starts_with("kernel") && kernel.contains(".traceg") => files.push(beside.join(kernel)),
            kernel if kernel.starts_with("kernel") => {
                let what =
                    "is not grouped by thread blocks: run Accel-Sim's post-traces-processing, and give kernelslist.g";
                return Err((number, format!("'{kernel}' {what}")));
            }
            other => return Err((number, format!("'{other}' names no kernel: kernel-N.traceg does"))),
        }
    }
    Ok(files)
}

/// Whether `line` could be in a list of kernels.
pub(crate) fn is_list_line(line: &[u8]) -> bool {
    line.starts_with(b"MemcpyHtoD,0x") || (line.starts_with(b"kernel-") && line.windows(7).any(|w| w == b".traceg"))
}

/// Whether `line` is one of those that a kernel's file begins with.
pub(crate) fn is_kernel_line(line: &[u8]) -> bool {
    line.starts_with(b"-kernel name =") || line == b"#BEGIN_TB"
}

#[cfg(test)]
mod tests;
