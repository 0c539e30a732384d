//! Hints of page sizes that are loaded ahead of a run, for a process that need not exist yet. A profiler found them in
//! an earlier run (paper 3, section IV-D, "When offline profiling is an option").

use super::advice::take_hint;
use crate::kernel::Kernel;
use crate::manager::Manager;
use crate::report::counts::Refusal;
use crate::space::hints::SizeHint;
use crate::{Effects, KernelError, WorkKind};
use mmulab_addr::{BASE_BYTES, PageOrder, Pid, VirtRange, show_bytes};
use mmulab_frames::PhysMem;

impl Kernel {
    /// Loads a hint: `pid` wants the memory at `range` to be translated by pages of `size`. It holds for the program
    /// that the process runs, and for those that it starts later. Hints loaded first are the most urgent ones.
    ///
    /// # Errors
    /// The policy does not listen to hints of page sizes, or not of this one. The range is not of whole pages, or no
    /// aligned page of the size lies in it.
    pub fn hint(
        &mut self,
        mem: &mut PhysMem,
        pid: Pid,
        range: VirtRange,
        size: PageOrder,
        effects: &mut Effects,
    ) -> Result<(), KernelError> {
        self.check_hint(range, size).map_err(|message| KernelError::Description { key: "hints".into(), message })?;
        let hint = SizeHint { start: range.start.raw(), end: range.end.raw(), size };
        self.loaded.entry(pid).or_default().push(hint);
        if let Some(slot) = self.slot(pid) {
            self.give_hint(mem, slot, pid, hint, effects);
        }
        Ok(())
    }

    /// A profiler gives a process the hints of an epoch, the most urgent first, in place of all it had. Each is a
    /// system call of the profiler's. Hints for a process that has ended are refused.
    pub fn rehint(&mut self, mem: &mut PhysMem, pid: Pid, hints: &[(VirtRange, PageOrder)], effects: &mut Effects) {
        let Some(slot) = self.slot(pid) else {
            for (range, _) in hints {
                self.shared.refuse(Refusal::HintEnded, range.start.raw(), effects);
            }
            return;
        };
        let (manager, space, mut cx) = self.at_work(mem, effects, slot, pid);
        space.hints.clear();
        cx.memory.work.add(WorkKind::Syscall, hints.len() as u64);
        for &(range, size) in hints {
            take_hint(manager, space, &mut cx, SizeHint { start: range.start.raw(), end: range.end.raw(), size });
        }
        self.collect(effects);
    }

    fn check_hint(&self, range: VirtRange, size: PageOrder) -> Result<(), String> {
        let sizes = self.manager.hint_sizes();
        let (start, end) = (range.start.raw(), range.end.raw());
        let at = format!("the hint of {size} at {:#x}..{:#x}", start, end);
        if sizes.is_empty() {
            return Err(format!("{at}: nobody listens to it: take a policy with hints.from = \"page-sizes\""));
        }
        if !sizes.contains(&size) {
            let sizes: Vec<String> = sizes.iter().map(ToString::to_string).collect();
            return Err(format!("{at}: the page table has no such size: give one of {}", sizes.join(", ")));
        }
        if start % BASE_BYTES != 0 || end % BASE_BYTES != 0 {
            return Err(format!("{at} does not begin and end at a multiple of {}", show_bytes(BASE_BYTES)));
        }
        match (SizeHint { start, end, size }).block_from(start) {
            Some(_) => Ok(()),
            None => Err(format!("{at} holds no aligned page of {size}: make it larger")),
        }
    }

    /// Gives an address space that has just come into being what was loaded for its process.
    pub(crate) fn give_hints(&mut self, mem: &mut PhysMem, slot: usize, pid: Pid, effects: &mut Effects) {
        for hint in self.loaded.get(&pid).cloned().unwrap_or_default() {
            self.give_hint(mem, slot, pid, hint, effects);
        }
    }

    fn give_hint(&mut self, mem: &mut PhysMem, slot: usize, pid: Pid, hint: SizeHint, effects: &mut Effects) {
        let (manager, space, mut cx) = self.at_work(mem, effects, slot, pid);
        take_hint(manager, space, &mut cx, hint);
    }
}
