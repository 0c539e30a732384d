//! Events of the trace, obeyed as Linux obeys the system calls behind them.

use crate::counts::{EventError, Happening};
use crate::gather::Gather;
use crate::kernel::Kernel;
use crate::region::{Identity, Prot3, RegionKind};
use crate::space::Space;
use crate::spans::Spans;
use crate::vma::{Back, Vma};
use crate::{Actor, Effects, FaultError, KernelError, WorkKind};
use mmulab_addr::{Access, BASE_BYTES, BASE_SHIFT, PageOrder, Pid, Prot, VirtAddr};
use mmulab_frames::PhysMem;
use mmulab_trace::{Advice, Backing, Event, MapFlags};
use std::sync::Arc;

/// A whole number of pages.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pages {
    pub start: u64,
    pub end: u64,
}

impl Pages {
    /// The pages a system call means by an address and a length: the address must be aligned, the length is rounded
    /// up. `Err` is EINVAL.
    fn exact(space: &Space, addr: VirtAddr, len: u64) -> Result<Self, EventError> {
        if addr.offset_in(PageOrder::P4K) != 0 {
            return Err(EventError::Invalid);
        }
        Self::around(space, addr, len)
    }

    /// All pages that `len` bytes at `addr` touch.
    fn around(space: &Space, addr: VirtAddr, len: u64) -> Result<Self, EventError> {
        let start = addr.align_down(PageOrder::P4K).raw();
        let end = addr.raw().checked_add(len).and_then(|e| e.checked_next_multiple_of(BASE_BYTES));
        match end {
            Some(end) if end == start || (space.is_canonical(start) && space.is_canonical(end - 1)) => {
                // The two ends may lie in the two halves of the address space, with the hole between them inside.
                if (start ^ end.saturating_sub(1)) >> 63 != 0 && end != start {
                    return Err(EventError::Invalid);
                }
                Ok(Self { start, end })
            }
            _ => Err(EventError::Invalid),
        }
    }
}

impl Kernel {
    pub(crate) fn obey(
        &mut self,
        mem: &mut PhysMem,
        who: Actor,
        event: &Event,
        fx: &mut Effects,
    ) -> Result<(), KernelError> {
        match event {
            Event::Switch { pid, .. } => {
                let slot = self.slot_or_new(mem, *pid, fx)?;
                self.core.memory.work.add(WorkKind::SpaceSwitch, u64::from(*pid != who.pid));
                self.tag(slot, fx);
                return Ok(());
            }
            Event::Invlpg { .. } | Event::Tick | Event::Lost { .. } => return Ok(()),
            _ => {}
        }
        let slot = self.slot_or_new(mem, who.pid, fx)?;
        self.core.memory.work.add(WorkKind::Syscall, 1);
        let done = match event {
            Event::Mmap { addr, len, prot, flags, backing } => {
                self.mmap(mem, slot, who.pid, (*addr, *len), *prot, flags, backing, fx)?
            }
            Event::Munmap { addr, len } => self.munmap(mem, slot, who.pid, *addr, *len, fx)?,
            Event::Mprotect { addr, len, prot } => {
                self.core.counts.happenings.add(Happening::Mprotect, 1);
                let (space, mut cx) = self.at_work(mem, fx, slot, who.pid);
                match Pages::exact(space, *addr, *len) {
                    Ok(pages) => space.mprotect(&mut cx, pages, *prot)?,
                    Err(error) => Err(error),
                }
            }
            Event::Mremap { old, old_len, new, new_len, keep_old } => {
                self.core.counts.happenings.add(Happening::Mremap, 1);
                let (space, mut cx) = self.at_work(mem, fx, slot, who.pid);
                let from = Pages::exact(space, *old, *old_len);
                let to = Pages::exact(space, *new, *new_len);
                match (from, to) {
                    (Ok(from), Ok(to)) => space.mremap(&mut cx, from, to, *keep_old)?,
                    (Err(error), _) | (_, Err(error)) => Err(error),
                }
            }
            Event::Madvise { addr, len, advice } => self.madvise(mem, slot, who.pid, *addr, *len, *advice, fx)?,
            Event::Brk { start, end } => self.brk(mem, slot, who.pid, *start, *end, fx)?,
            Event::Fork { child, shares_memory } => self.fork(mem, slot, who.pid, *child, *shares_memory, fx)?,
            Event::Exec { .. } => {
                self.core.counts.happenings.add(Happening::Exec, 1);
                self.leave(mem, who.pid, fx);
                self.slot_or_new(mem, who.pid, fx)?;
                Ok(())
            }
            Event::Exit { .. } => {
                self.core.counts.happenings.add(Happening::Exit, 1);
                self.leave(mem, who.pid, fx);
                Ok(())
            }
            Event::Clone { .. } | Event::ExitThread => Ok(()),
            Event::Switch { .. } | Event::Invlpg { .. } | Event::Tick | Event::Lost { .. } => Ok(()),
        };
        if let Err(error) = done {
            self.fail(error, fx);
        }
        Ok(())
    }

    #[expect(clippy::too_many_arguments, reason = "mmap has them")]
    fn mmap(
        &mut self,
        mem: &mut PhysMem,
        slot: usize,
        pid: Pid,
        (addr, len): (VirtAddr, u64),
        prot: Prot,
        flags: &MapFlags,
        backing: &Backing,
        fx: &mut Effects,
    ) -> Result<Result<(), EventError>, KernelError> {
        self.core.counts.happenings.add(Happening::Mmap, 1);
        let pool = self.core.memory.pool.as_ref().map(|p| p.order);
        let hugetlb = flags.hugetlb.filter(|&order| pool == Some(order));
        if flags.hugetlb.is_some() && hugetlb.is_none() {
            self.fail(EventError::NoPool, fx);
        }
        let Some(space) = &self.spaces[slot] else { return Ok(Err(EventError::Invalid)) };
        let mut pages = match Pages::around(space, addr, len) {
            Ok(pages) if len > 0 => pages,
            _ => return Ok(Err(EventError::Invalid)),
        };
        if let Some(order) = hugetlb {
            if pages.start % order.bytes() != 0 {
                return Ok(Err(EventError::Invalid));
            }
            pages.end = pages.end.next_multiple_of(order.bytes());
        }
        let cleared = self.clear_out(mem, slot, pid, pages, fx)?;
        if cleared.is_err() {
            return Ok(cleared);
        }
        let mut vma = Vma {
            shared: flags.shared,
            grows_down: flags.grows_down,
            global: flags.global,
            hugetlb,
            ..Vma::anon(prot)
        };
        match backing {
            Backing::File { path, offset } => {
                let cache = &mut self.core.memory.cache;
                let id = cache.file(path);
                let first = offset >> BASE_SHIFT;
                cache.reaches(id, first + ((pages.end - pages.start) >> BASE_SHIFT));
                vma.back = Back::Object(id, first);
            }
            Backing::Anon if flags.shared && hugetlb.is_none() => {
                vma.back = Back::Object(self.core.memory.cache.memory(), 0)
            }
            Backing::Anon => {}
        }
        let identity = identity(flags, backing, prot, pages.start);
        let (space, mut cx) = self.at_work(mem, fx, slot, pid);
        space.lay(&mut cx, pages, vma, &identity);
        if flags.populate {
            let is_short = space.fill(&mut cx, pages).is_err();
            if is_short {
                self.fail(EventError::PopulateShort, fx);
            }
        }
        Ok(Ok(()))
    }

    fn munmap(
        &mut self,
        mem: &mut PhysMem,
        slot: usize,
        pid: Pid,
        addr: VirtAddr,
        len: u64,
        fx: &mut Effects,
    ) -> Result<Result<(), EventError>, KernelError> {
        self.core.counts.happenings.add(Happening::Munmap, 1);
        let Some(space) = &self.spaces[slot] else { return Ok(Err(EventError::Invalid)) };
        match Pages::exact(space, addr, len) {
            Ok(pages) if len > 0 => self.clear_out(mem, slot, pid, pages, fx),
            _ => Ok(Err(EventError::Invalid)),
        }
    }

    /// Removes whatever is mapped in a range.
    fn clear_out(
        &mut self,
        mem: &mut PhysMem,
        slot: usize,
        pid: Pid,
        pages: Pages,
        fx: &mut Effects,
    ) -> Result<Result<(), EventError>, KernelError> {
        let (space, mut cx) = self.at_work(mem, fx, slot, pid);
        if space.cuts_hugetlb(pages) {
            return Ok(Err(EventError::Invalid));
        }
        let gone = space.clear(&mut cx, pages)?;
        for span in gone {
            if let Back::Object(id, _) = span.value.back {
                self.forget_if_unused(id);
            }
        }
        Ok(Ok(()))
    }

    #[expect(clippy::too_many_arguments, reason = "madvise has them")]
    fn madvise(
        &mut self,
        mem: &mut PhysMem,
        slot: usize,
        pid: Pid,
        addr: VirtAddr,
        len: u64,
        advice: Advice,
        fx: &mut Effects,
    ) -> Result<Result<(), EventError>, KernelError> {
        self.core.counts.happenings.add(Happening::Madvise, 1);
        let (space, mut cx) = self.at_work(mem, fx, slot, pid);
        let pages = match Pages::exact(space, addr, len) {
            Ok(pages) => pages,
            Err(error) => return Ok(Err(error)),
        };
        Ok(space.advise(&mut cx, pages, advice)?)
    }

    fn brk(
        &mut self,
        mem: &mut PhysMem,
        slot: usize,
        pid: Pid,
        start: VirtAddr,
        end: VirtAddr,
        fx: &mut Effects,
    ) -> Result<Result<(), EventError>, KernelError> {
        self.core.counts.happenings.add(Happening::Brk, 1);
        let Some(space) = &self.spaces[slot] else { return Ok(Err(EventError::Invalid)) };
        let Some(len) = end.raw().checked_sub(start.raw()) else { return Ok(Err(EventError::Invalid)) };
        let wanted = match Pages::around(space, start, len) {
            Ok(pages) => pages,
            Err(error) => return Ok(Err(error)),
        };
        // A heap begins on the page after its first byte's, unless that is aligned (`PAGE_ALIGN(mm->brk)`).
        let first = start.raw().next_multiple_of(BASE_BYTES);
        let (heap_start, heap_end) = space.heap.unwrap_or((first, first));
        let goal = if wanted.end > heap_start { self.core.policy.heap_end(wanted.end) } else { heap_start };
        if goal < heap_end {
            let cleared = self.clear_out(mem, slot, pid, Pages { start: goal, end: heap_end }, fx)?;
            if cleared.is_err() {
                return Ok(cleared);
            }
        } else if goal > heap_end {
            let (space, mut cx) = self.at_work(mem, fx, slot, pid);
            // What the policy adds beyond the program's wish gives way to other mappings.
            let room = space.vmas.over(heap_end, goal).next().map_or(goal, |s| s.start);
            if room < wanted.end || !space.is_canonical(goal - 1) {
                return Ok(Err(EventError::NoMemory));
            }
            let identity =
                Identity { kind: RegionKind::Heap, name: "[heap]".into(), prot: Prot3(Prot::RW.bits()), origin: 0 };
            let grown = Pages { start: heap_end, end: room };
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

    fn fork(
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
        if shares_memory {
            self.enter(child, slot);
            return Ok(Ok(()));
        }
        let copy = self.new_space(mem, child)?;
        self.enter(child, copy);
        self.tag(copy, fx);
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

    /// Maps the aligned span around `va` that no event mapped, for traces that tell of no mappings: anonymous, with
    /// all rights, as far as it is free.
    ///
    /// # Errors
    /// An address the page table cannot translate, or no frame for a page table.
    pub fn map_implicit(
        &mut self,
        mem: &mut PhysMem,
        who: Actor,
        va: VirtAddr,
        fx: &mut Effects,
    ) -> Result<(), KernelError> {
        let slot = self.slot_or_new(mem, who.pid, fx)?;
        let size = self.core.linux.implicit_vma.0;
        let (space, mut cx) = self.at_work(mem, fx, slot, who.pid);
        if !space.is_canonical(va.raw()) {
            return Err(FaultError::Unmapped { pid: who.pid, va }.into());
        }
        let mut start = va.raw() & !(size - 1);
        let mut end = start.saturating_add(size);
        if let Some(below) = space.vmas.below(va.raw()) {
            start = start.max(below.end);
        }
        if let Some(above) = space.vmas.at_or_above(va.raw()) {
            if above.start <= va.raw() {
                return Ok(());
            }
            end = end.min(above.start);
        }
        let all = Prot::RW.with(Prot::X);
        let identity = Identity { kind: RegionKind::Anon, name: "anon".into(), prot: Prot3(all.bits()), origin: 0 };
        space.lay(&mut cx, Pages { start, end }, Vma::anon(all), &identity);
        self.core.counts.happenings.add(Happening::Implicit, 1);
        Ok(())
    }
}

/// What region a new mapping belongs to.
fn identity(flags: &MapFlags, backing: &Backing, prot: Prot, start: u64) -> Identity {
    let label = flags.label.clone();
    let is_stack = flags.grows_down || label.as_deref().is_some_and(|l| l.starts_with("[stack"));
    let (kind, name, origin): (_, Arc<str>, _) = match backing {
        Backing::File { path, offset } => (RegionKind::File, path.clone(), start.wrapping_sub(*offset)),
        Backing::Anon if is_stack => (RegionKind::Stack, label.unwrap_or_else(|| "[stack]".into()), 0),
        Backing::Anon => match label {
            Some(label) if &*label == "[heap]" => (RegionKind::Heap, label, 0),
            Some(label) => (RegionKind::Special, label, 0),
            None if flags.shared => (RegionKind::Shared, "shared".into(), 0),
            None => (RegionKind::Anon, "anon".into(), 0),
        },
    };
    Identity { kind, name, prot: Prot3(prot.bits()), origin }
}

impl Space {
    /// Puts a mapping where nothing is.
    pub(crate) fn lay(&mut self, cx: &mut crate::space::Cx, pages: Pages, vma: Vma, identity: &Identity) {
        let region = cx.regions.place(self.serial, identity, pages.start, pages.end, cx.pid);
        self.places.insert(pages.start, pages.end, crate::region::Lies(region));
        self.vmas.insert(pages.start, pages.end, vma);
    }

    /// Faults all pages of a new mapping in (`populate_vma_page_range`): for stores, if it is private and may be stored
    /// to.
    fn fill(&mut self, cx: &mut crate::space::Cx, pages: Pages) -> Result<(), FaultError> {
        let Some(span) = self.vmas.find(pages.start) else { return Ok(()) };
        let vma = &span.value;
        if vma.prot == Prot::NONE {
            return Ok(());
        }
        let access = if vma.prot.has(Prot::W) && !vma.shared { Access::Write } else { Access::Read };
        let mut at = pages.start;
        while at < pages.end {
            let step = match self.probe(cx.mem, VirtAddr::new(at)) {
                crate::space::Found::Leaf(leaf) => leaf.order,
                crate::space::Found::Hole(_) => self.serve(cx, VirtAddr::new(at), access)?.order,
            };
            at = (at & !(step.bytes() - 1)) + step.bytes();
        }
        Ok(())
    }

    /// Whether an end of the range lies inside a page of a MAP_HUGETLB mapping (`hugetlb_vm_op_split`: EINVAL).
    pub(crate) fn cuts_hugetlb(&self, pages: Pages) -> bool {
        [pages.start, pages.end].into_iter().any(|at| {
            let inside = self.vmas.find(at).filter(|s| s.start < at);
            inside.and_then(|s| s.value.hugetlb).is_some_and(|order| at % order.bytes() != 0)
        })
    }

    /// Removes all mappings of a range, and returns what they were.
    pub(crate) fn clear(
        &mut self,
        cx: &mut crate::space::Cx,
        pages: Pages,
    ) -> Result<Vec<crate::spans::Span<Vma>>, FaultError> {
        if self.vmas.over(pages.start, pages.end).next().is_none() {
            return Ok(Vec::new());
        }
        self.split_at(cx, pages.start)?;
        self.split_at(cx, pages.end)?;
        let mut gather = Gather::default();
        let gone = self.vmas.cut(pages.start, pages.end);
        for span in &gone {
            self.zap(cx, span.start, span.end, &mut gather);
        }
        self.finish(cx, gather);
        self.places.cut(pages.start, pages.end);
        Ok(gone)
    }

    /// Copies this address space for a child (`dup_mmap` in kernel/fork.c, `copy_page_range` in mm/memory.c).
    ///
    /// The page table is copied only where private pages are: what shows files or shared memory alone is faulted in
    /// again. Private pages lose their right to be stored to in both, so that the first store copies.
    fn copy_to(&mut self, cx: &mut crate::space::Cx, child: &mut Space) -> Result<(), FaultError> {
        child.vmas = self.vmas.clone();
        child.heap = self.heap;
        let mut known = std::collections::BTreeMap::new();
        let mut places = Spans::default();
        for place in self.places.iter() {
            let (serial, pid) = (child.serial, child.pid);
            let id = *known.entry(place.value.0).or_insert_with(|| cx.regions.inherit(place.value.0, serial, pid));
            places.insert(place.start, place.end, crate::region::Lies(id));
        }
        child.places = places;
        let mut protected = false;
        let copied: Vec<_> = self.vmas.iter().filter(|s| s.value.has_private).cloned().collect();
        for span in copied {
            let mut at = span.start;
            while let Some((va, leaf)) = self.next_leaf(cx.mem, at, span.end) {
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

    fn shared_copy(leaf: mmulab_pagetable::Leaf, shared: bool) -> mmulab_pagetable::Leaf {
        if shared { leaf } else { mmulab_pagetable::Leaf { prot: leaf.prot.without(Prot::W), ..leaf } }
    }
}
