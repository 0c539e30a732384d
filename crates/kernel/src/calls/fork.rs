//! fork(2) and vfork(2), and the limits on what they multiply.

use crate::kernel::Kernel;
use crate::manager::Manager;
use crate::report::counts::{EventError, EventKind};
use crate::{Effects, KernelError};
use mmulab_addr::Pid;
use mmulab_frames::PhysMem;

/// Most mappings of all address spaces together, some hundred bytes each. Linux allows a process 65,530
/// (vm.max_map_count), so that sixteen can have as many as they may.
const MAPPINGS_MAX: usize = 1 << 20;
/// How many events are obeyed before the mappings are counted again.
pub(crate) const EVENTS_COUNTED: u64 = 1 << 14;
/// Most regions of a run when a process is copied: each child has its own.
const REGIONS_MAX: usize = 1 << 21;

impl Kernel {
    /// fork(2) and vfork(2).
    pub(crate) fn fork(
        &mut self,
        mem: &mut PhysMem,
        slot: usize,
        pid: Pid,
        child: Pid,
        shares_memory: bool,
        effects: &mut Effects,
    ) -> Result<Result<(), EventError>, KernelError> {
        self.shared.counts.events.add(EventKind::Fork, 1);
        if self.slot(child).is_some() {
            return Ok(Err(EventError::Invalid));
        }
        if !shares_memory {
            self.check_copy(slot)?;
        }
        if shares_memory {
            self.enter(child, slot);
            return Ok(Ok(()));
        }
        let program = self.spaces[slot].as_ref().map(|parent| parent.program);
        let copy = self.new_space(mem, child, program)?;
        self.enter(child, copy);
        if !self.without_asids {
            self.assign_asid(copy, effects);
        }
        let Some(mut space) = self.spaces[copy].take() else { return Ok(Err(EventError::Invalid)) };
        let (manager, parent, mut cx) = self.at_work(mem, effects, slot, pid);
        let copied = parent.copy_to(&mut cx, &mut space, manager.fork_copies());
        self.spaces[copy] = Some(space);
        if copied.is_err() {
            // As `dup_mmap` that fails: the child never was.
            self.leave(mem, child, effects);
        }
        copied?;
        Ok(Ok(()))
    }
}

impl Kernel {
    /// Whether there is room for the mappings and the regions of a child of the process in `slot`.
    fn check_copy(&self, slot: usize) -> Result<(), KernelError> {
        let Some(parent) = &self.spaces[slot] else { return Ok(()) };
        self.check_mappings(parent.vmas.len())?;
        if self.shared.regions.all().len() + parent.places.len() > REGIONS_MAX {
            return Err(KernelError::TooMany { what: "regions of memory", limit: REGIONS_MAX as u64 });
        }
        Ok(())
    }

    /// Whether there is room for `more` mappings. It counts all mappings, which is cheap enough because forks are rare.
    pub(crate) fn check_mappings(&self, more: usize) -> Result<(), KernelError> {
        let now: usize = self.spaces.iter().flatten().map(|space| space.vmas.len()).sum();
        if now + more > MAPPINGS_MAX {
            return Err(KernelError::TooMany { what: "mappings at once", limit: MAPPINGS_MAX as u64 });
        }
        Ok(())
    }
}
