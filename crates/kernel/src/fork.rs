//! Address spaces copied for children.

use crate::counts::{EventError, Happening};
use crate::gather::Gather;
use crate::kernel::Kernel;
use crate::space::{Cx, Space};
use crate::{Effects, FaultError, KernelError};
use mmulab_addr::{Pid, Prot};
use mmulab_frames::PhysMem;
use mmulab_pagetable::Leaf;

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
        fx: &mut Effects,
    ) -> Result<Result<(), EventError>, KernelError> {
        self.core.counts.happenings.add(Happening::Fork, 1);
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
        if !self.tagless {
            self.tag(copy, fx);
        }
        let Some(mut space) = self.spaces[copy].take() else { return Ok(Err(EventError::Invalid)) };
        let (parent, mut cx) = self.at_work(mem, fx, slot, pid);
        let copied = parent.copy_to(&mut cx, &mut space);
        self.spaces[copy] = Some(space);
        if copied.is_err() {
            // As `dup_mmap` that fails: the child never was.
            self.leave(mem, child, fx);
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
        if self.core.regions.all().len() + parent.places.len() > REGIONS_MAX {
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

impl Space {
    /// Copies this address space for a child (`dup_mmap` in kernel/fork.c, `copy_page_range` in mm/memory.c).
    ///
    /// The page table is copied only where private pages are: what shows files or shared memory alone is faulted in
    /// again. Private pages lose their right to be stored to in both, so that the first store copies.
    fn copy_to(&mut self, cx: &mut Cx, child: &mut Space) -> Result<(), FaultError> {
        child.vmas = self.vmas.clone();
        child.table.inherit(&self.table);
        for object in self.anon_objects() {
            cx.memory.objects.share(object);
        }
        child.heap = self.heap;
        child.places = self.places.clone();
        for place in child.places.iter() {
            cx.regions.lay(place.value.0, place.end - place.start);
        }
        child.is_counted = self.is_counted;
        if child.is_counted {
            cx.regions.runs(child.program, child.pid);
        }
        let mut protected = false;
        let copied: Vec<_> = self.vmas.iter().filter(|s| s.value.has_private).cloned().collect();
        for span in copied {
            let mut at = span.start;
            while let Some((va, leaf)) = self.next_leaf(cx.mem, at, span.end) {
                if cx.memory.stop.is_asked() {
                    break;
                }
                let mut copy = Space::shared_copy(leaf, span.value.shared);
                if copy.prot != leaf.prot {
                    self.set(cx, va, copy, &mut Gather::default());
                    protected = true;
                }
                copy.accessed = false;
                cx.memory.share(leaf.pfn, leaf.order);
                child.map(cx, va, copy).inspect_err(|_| cx.memory.drop_mapping(leaf.pfn, leaf.order))?;
                at = va + leaf.order.bytes();
            }
        }
        for (&vpn, leaf) in &mut self.hidden {
            let Some(span) = self.vmas.find(vpn.addr().raw()).filter(|s| s.value.has_private) else { continue };
            *leaf = Space::shared_copy(*leaf, span.value.shared);
            cx.memory.share(leaf.pfn, leaf.order);
            child.hidden.insert(vpn, *leaf);
        }
        // `dup_mmap` flushes the parent's address space once, at its end.
        let mut gather = Gather::default();
        if protected {
            gather.note_all();
        }
        self.finish(cx, gather);
        Ok(())
    }

    fn shared_copy(leaf: Leaf, shared: bool) -> Leaf {
        if shared { leaf } else { Leaf { prot: leaf.prot.without(Prot::W), ..leaf } }
    }
}
