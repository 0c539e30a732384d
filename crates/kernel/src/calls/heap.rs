//! The brk heap.

use crate::kernel::Kernel;
use crate::manager::Manager;
use crate::report::counts::{EventError, EventKind};
use crate::report::region::Identity;
use crate::space::range::PageRange;
use crate::space::vma::Vma;
use crate::{Effects, KernelError};
use mmulab_addr::{Pid, Prot, VirtAddr};
use mmulab_frames::PhysMem;

impl Kernel {
    /// brk(2): the heap is `start..end` now.
    pub(crate) fn brk(
        &mut self,
        mem: &mut PhysMem,
        slot: usize,
        pid: Pid,
        start: VirtAddr,
        end: VirtAddr,
        effects: &mut Effects,
    ) -> Result<Result<(), EventError>, KernelError> {
        self.shared.counts.events.add(EventKind::Brk, 1);
        let Some(space) = &self.spaces[slot] else { return Ok(Err(EventError::Invalid)) };
        let Some(len) = end.raw().checked_sub(start.raw()) else { return Ok(Err(EventError::Invalid)) };
        let wanted = match PageRange::around(space, start, len) {
            Ok(pages) => pages,
            Err(error) => return Ok(Err(error)),
        };
        // A heap begins on the page after its first byte's, unless that is aligned (`PAGE_ALIGN(mm->brk)`).
        let first = start.raw().next_multiple_of(space.base().bytes());
        let (heap_start, heap_end) = space.heap.unwrap_or((first, first));
        let goal = if wanted.end > heap_start { self.manager.heap_end(wanted.end) } else { heap_start };
        if goal < heap_end {
            let cleared = self.clear_out(mem, slot, pid, PageRange { start: goal, end: heap_end }, effects)?;
            if cleared.is_err() {
                return Ok(cleared);
            }
        } else if goal > heap_end {
            let (_, space, mut cx) = self.at_work(mem, effects, slot, pid);
            // What the policy adds beyond the program's wish gives way to other mappings.
            let room = space.vmas.over(heap_end, goal).next().map_or(goal, |s| s.start);
            let fits = |space| PageRange::around(space, VirtAddr::new(heap_start), room - heap_start).is_ok();
            if room < wanted.end || !fits(space) {
                return Ok(Err(EventError::NoMemory));
            }
            let identity = Identity::heap();
            let grown = PageRange { start: heap_end, end: room };
            space.lay(&mut cx, grown, Vma::anon(Prot::RW), &identity);
            if let Some(space) = &mut self.spaces[slot] {
                space.heap = Some((heap_start, room));
            }
            return Ok(Ok(()));
        }
        if let Some(space) = &mut self.spaces[slot] {
            space.heap = Some((heap_start, goal));
        }
        Ok(Ok(()))
    }
}
