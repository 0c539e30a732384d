//! Events of the trace, obeyed as Linux obeys the system calls behind them.

use super::advice::advise;
use super::fork::EVENTS_COUNTED;
use super::layout::identity;
use super::populate::fill;
use crate::clock::Due;
use crate::kernel::Kernel;
use crate::manager::Manager;
use crate::report::counts::{EventError, EventKind};
use crate::report::region::Identity;
use crate::space::range::PageRange;
use crate::space::vma::{Back, Vma};
use crate::{Actor, Effects, FaultError, KernelError, WorkKind};
use mmulab_addr::{BASE_SHIFT, PageOrder, Pid, Prot, VirtAddr};
use mmulab_frames::PhysMem;
use mmulab_trace::{Advice, Backing, Event, MapFlags};

impl Kernel {
    pub(crate) fn obey(
        &mut self,
        mem: &mut PhysMem,
        actor: Actor,
        event: &Event,
        effects: &mut Effects,
    ) -> Result<(), KernelError> {
        match event {
            Event::Switch { pid, .. } => {
                let slot = self.slot_or_new(mem, *pid, None, effects)?;
                let cpu = self.cpu();
                let before = self.on[cpu].pid.replace(*pid);
                self.shared
                    .memory
                    .work
                    .add(WorkKind::SpaceSwitch, u64::from(before.is_some_and(|before| before != *pid)));
                self.assign_asid(slot, effects);
                return Ok(());
            }
            Event::Tick => {
                return self.wake(mem, Due::All, effects);
            }
            Event::Name { addr, len, name } => {
                let slot = self.slot_or_new(mem, actor.pid, None, effects)?;
                let (_, space, mut cx) = self.at_work(mem, effects, slot, actor.pid);
                space.name(&mut cx, PageRange::inside(*addr, *len), name);
                return Ok(());
            }
            Event::Pin { .. }
            | Event::Invlpg { .. }
            | Event::Resume
            | Event::Pause
            | Event::Continue { .. }
            | Event::Lost { .. }
            | Event::Image { .. }
            | Event::Malloc { .. }
            | Event::Frames { .. }
            | Event::Free { .. } => return Ok(()),
            _ => {}
        }
        let slot = self.slot_or_new(mem, actor.pid, None, effects)?;
        self.shared.memory.work.add(WorkKind::Syscall, 1);
        // Each makes at most two mappings more: to count them all is only worth it now and then.
        self.obeyed += 1;
        if self.obeyed.is_multiple_of(EVENTS_COUNTED) {
            self.check_mappings(0)?;
        }
        let done = match event {
            Event::Mmap { addr, len, prot, flags, backing } => {
                self.mmap(mem, slot, actor.pid, (*addr, *len), *prot, flags, backing, effects)?
            }
            Event::Munmap { addr, len } => self.munmap(mem, slot, actor.pid, *addr, *len, effects)?,
            Event::Mprotect { addr, len, prot } => {
                self.shared.counts.events.add(EventKind::Mprotect, 1);
                let (_, space, mut cx) = self.at_work(mem, effects, slot, actor.pid);
                match PageRange::exact(space, *addr, *len) {
                    Ok(pages) => space.mprotect(&mut cx, pages, *prot)?,
                    Err(error) => Err(error),
                }
            }
            Event::Mremap { old, old_len, new, new_len, keep_old } => {
                self.shared.counts.events.add(EventKind::Mremap, 1);
                let (_, space, mut cx) = self.at_work(mem, effects, slot, actor.pid);
                let from = PageRange::exact(space, *old, *old_len);
                let to = PageRange::exact(space, *new, *new_len);
                match (from, to) {
                    (Ok(from), Ok(to)) => space.mremap(&mut cx, from, to, *keep_old)?,
                    (Err(error), _) | (_, Err(error)) => Err(error),
                }
            }
            Event::Madvise { addr, len, advice } => {
                self.madvise(mem, slot, actor.pid, *addr, *len, *advice, effects)?
            }
            Event::Brk { start, end } => self.brk(mem, slot, actor.pid, *start, *end, effects)?,
            Event::Fork { child, shares_memory } => self.fork(mem, slot, actor.pid, *child, *shares_memory, effects)?,
            Event::Exec { path } => {
                self.shared.counts.events.add(EventKind::Exec, 1);
                let is_switched_on = self.spaces[slot].as_ref().is_some_and(|space| space.is_switched_on);
                self.leave(mem, actor.pid, effects);
                let program = self.shared.regions.program(actor.pid, path);
                let slot = self.slot_or_new(mem, actor.pid, Some(program), effects)?;
                if let Some(space) = &mut self.spaces[slot] {
                    space.is_switched_on = is_switched_on;
                    space.is_loading = true;
                }
                Ok(())
            }
            Event::Prctl { daemon } => self.prctl(slot, *daemon),
            Event::Exit { .. } => {
                self.shared.counts.events.add(EventKind::Exit, 1);
                self.leave(mem, actor.pid, effects);
                self.loaded.remove(&actor.pid);
                Ok(())
            }
            Event::Clone { .. } | Event::ExitThread => Ok(()),
            Event::Switch { .. }
            | Event::Pin { .. }
            | Event::Invlpg { .. }
            | Event::Tick
            | Event::Resume
            | Event::Pause
            | Event::Continue { .. }
            | Event::Lost { .. }
            | Event::Image { .. }
            | Event::Malloc { .. }
            | Event::Frames { .. }
            | Event::Name { .. }
            | Event::Free { .. } => Ok(()),
        };
        if let Err(error) = done {
            self.fail(error, effects);
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
        effects: &mut Effects,
    ) -> Result<Result<(), EventError>, KernelError> {
        self.shared.counts.events.add(EventKind::Mmap, 1);
        let pool = self.shared.memory.pool.as_ref().map(|p| p.order);
        let hugetlb = flags.hugetlb.filter(|&order| pool == Some(order));
        if flags.hugetlb.is_some() && hugetlb.is_none() {
            self.fail(EventError::NoPool, effects);
        }
        let Some(space) = &self.spaces[slot] else { return Ok(Err(EventError::Invalid)) };
        let base = space.base();
        let is_aligned = |at: u64| at.is_multiple_of(base.bytes());
        let offset = if let Backing::File { offset, .. } = backing { *offset } else { 0 };
        if base > PageOrder::P4K && !(is_aligned(addr.raw()) && is_aligned(offset)) {
            return Err(KernelError::SmallerPages { pid, va: addr, offset, base });
        }
        let mut pages = match PageRange::around(space, addr, len) {
            Ok(pages) if len > 0 => pages,
            _ => return Ok(Err(EventError::Invalid)),
        };
        if let Some(order) = hugetlb {
            if pages.start % order.bytes() != 0 {
                return Ok(Err(EventError::Invalid));
            }
            match pages.end.checked_next_multiple_of(order.bytes()) {
                Some(end) => pages.end = end,
                None => return Ok(Err(EventError::Invalid)),
            }
        }
        let cleared = self.clear_out(mem, slot, pid, pages, effects)?;
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
                let cache = &mut self.shared.memory.cache;
                let id = cache.file(path);
                let first = offset >> BASE_SHIFT;
                cache.reaches(id, first + ((pages.end - pages.start) >> BASE_SHIFT));
                vma.back = Back::Object(id, first);
            }
            Backing::Anon if flags.shared && hugetlb.is_none() => {
                vma.back = Back::Object(self.shared.memory.cache.memory(), 0)
            }
            Backing::Anon => {}
        }
        let identity = identity(flags, backing, prot, pages.start);
        let (manager, space, mut cx) = self.at_work(mem, effects, slot, pid);
        space.lay(&mut cx, pages, vma, &identity);
        manager.mapped(space, &mut cx, pages)?;
        if flags.populate {
            let is_short = fill(manager, space, &mut cx, pages).is_err();
            if is_short {
                self.fail(EventError::PopulateShort, effects);
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
        effects: &mut Effects,
    ) -> Result<Result<(), EventError>, KernelError> {
        self.shared.counts.events.add(EventKind::Munmap, 1);
        let Some(space) = &self.spaces[slot] else { return Ok(Err(EventError::Invalid)) };
        match PageRange::exact(space, addr, len) {
            Ok(pages) if len > 0 => self.clear_out(mem, slot, pid, pages, effects),
            _ => Ok(Err(EventError::Invalid)),
        }
    }

    /// Removes whatever is mapped in a range.
    pub(crate) fn clear_out(
        &mut self,
        mem: &mut PhysMem,
        slot: usize,
        pid: Pid,
        pages: PageRange,
        effects: &mut Effects,
    ) -> Result<Result<(), EventError>, KernelError> {
        let (_, space, mut cx) = self.at_work(mem, effects, slot, pid);
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
        effects: &mut Effects,
    ) -> Result<Result<(), EventError>, KernelError> {
        self.shared.counts.events.add(EventKind::Madvise, 1);
        let (manager, space, mut cx) = self.at_work(mem, effects, slot, pid);
        let pages = match PageRange::exact(space, addr, len) {
            Ok(pages) => pages,
            Err(error) => return Ok(Err(error)),
        };
        Ok(advise(manager, space, &mut cx, pages, advice)?)
    }

    /// Maps the aligned span around `va` that no event mapped, for traces that contain no mappings. The memory is
    /// anonymous, with all rights, as far as the span is free.
    ///
    /// # Errors
    /// An address the page table cannot translate, or no frame for a page table.
    pub fn map_implicit(
        &mut self,
        mem: &mut PhysMem,
        actor: Actor,
        va: VirtAddr,
        effects: &mut Effects,
    ) -> Result<(), KernelError> {
        let slot = self.slot_or_new(mem, actor.pid, None, effects)?;
        let size = self.shared.limits.implicit_vma;
        let (_, space, mut cx) = self.at_work(mem, effects, slot, actor.pid);
        // The last page of all stays free, so that every range has an end.
        let top = !(space.base().bytes() - 1);
        if !space.is_canonical(va.raw()) || va.raw() >= top {
            return Err(FaultError::Unmapped { pid: actor.pid, va }.into());
        }
        let mut start = va.raw() & !(size - 1);
        let mut end = start.saturating_add(size).min(top);
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
        let identity = Identity::anon(all);
        space.lay(&mut cx, PageRange { start, end }, Vma::anon(all), &identity);
        self.shared.counts.events.add(EventKind::Implicit, 1);
        Ok(())
    }
}
