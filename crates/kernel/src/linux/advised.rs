//! Linux with an adviser: the sizes that it may name at a fault, and the promotions that it asks for at a tick.
//!
//! ```text
//! populate --> by_advice --> sizes that could be mapped --> Adviser::fault --> map_size, map_anon
//! wake ------> tick -------> View ----------------------> Adviser::tick ---> collapse, as khugepaged's
//! ```

use super::Linux;
use crate::adviser::{Asked, Mapping, PageRun, ProcessView, Promotion, Sizes, View};
use crate::parts::traits::{Candidate, FaultSize, Hole, MapSize, Supply};
use crate::ranges::Span;
use crate::report::counts::{EventKind, Refusal};
use crate::report::regions::Regions;
use crate::space::system::SystemCx;
use crate::space::vma::{HugeAdvice, Vma};
use crate::space::{AddressSpace, Cx, Found};
use crate::{Fault, FaultError, KernelError, WorkKind};
use mmulab_addr::{PageOrder, Prot, VirtAddr};

/// A size that can be mapped at a fault, where its frames come from, and what is counted if there are none after all.
type Choice = (MapSize, Supply, Refusal);

impl Linux {
    /// Has the adviser choose the size of a page of private anonymous memory; `None`: the policy chooses.
    #[cold]
    pub(super) fn by_advice(
        &self,
        space: &mut AddressSpace,
        cx: &mut Cx,
        hole: &Hole,
    ) -> Result<Option<Fault>, FaultError> {
        let vma = &hole.span.value;
        let is_wanted = cx.adviser.as_ref().is_some_and(|adviser| adviser.advises().faults);
        if !is_wanted || !vma.is_anon() || vma.hugetlb.is_some() {
            return Ok(None);
        }
        let choices = self.choices(space, cx, hole);
        let base = cx.memory.base;
        let sizes = choices.iter().fold(Sizes::default().with(base), |all, (size, ..)| all.with(size.order()));
        let (pid, va) = (cx.pid, hole.va);
        let asked =
            Asked { pid, va, access: hole.access, mapping: mapping(space, cx.regions, hole.span, va.raw()), sizes };
        let answer = cx.adviser.as_mut().map(|adviser| adviser.fault(&asked));
        let size = match answer {
            None | Some(Ok(None)) => return Ok(None),
            Some(Ok(Some(size))) if size == base => return self.map_anon(space, cx, hole).map(Some),
            Some(Ok(Some(size))) => size,
            Some(Err(_)) => return Err(FaultError::Adviser { pid, va }),
        };
        let Some(&(map, supply, if_none)) = choices.iter().find(|(choice, ..)| choice.order() == size) else {
            return Err(FaultError::Advised { pid, va, size, sizes });
        };
        match self.map_size(space, cx, hole, map, supply)? {
            Some(fault) => Ok(Some(fault)),
            None => {
                cx.refuse(if_none, va.raw());
                self.map_anon(space, cx, hole).map(Some)
            }
        }
    }

    /// The sizes larger than a base page that can be mapped at a fault. These are the sizes that the policy would map
    /// itself, and every other leaf of the page table. Their pages lie in the mapping, are empty and have free frames.
    fn choices(&self, space: &AddressSpace, cx: &Cx, hole: &Hole) -> Vec<Choice> {
        let is_empty = |start, end| space.next_leaf(cx.mem, start, end).is_none();
        let has_frames = |order: PageOrder, supply| match supply {
            Supply::Frames => cx.memory.frames.has_block_or_run(order),
            Supply::ZeroPage => cx.memory.has_huge_zero() || cx.memory.frames.has_block(order),
            Supply::Pool => cx.memory.pool.as_ref().is_some_and(|pool| pool.used() < pool.total),
        };
        let mut found: Vec<Choice> = Vec::new();
        for index in 0..self.sizes.sizes() {
            if let Candidate::Fits { size, supply, if_none } = self.sizes.candidate(index, hole, is_empty)
                && has_frames(size.order(), supply)
            {
                found.push((size, supply, if_none));
            }
        }
        if hole.span.value.advice == HugeAdvice::NoHuge {
            return found;
        }
        for &size in &self.advice.leaves {
            let order = size.order();
            let is_new = !found.iter().any(|(other, ..)| other.order() == order);
            if is_new && hole.fits(order) && hole.room >= order && has_frames(order, Supply::Frames) {
                found.push((size, Supply::Frames, no_block(order)));
            }
        }
        found
    }

    /// A tick: shows the adviser all memory, and promotes what it asks for.
    ///
    /// # Errors
    /// The adviser failed, or asked for what cannot be promoted; frames for page tables ran out.
    pub(super) fn tick(&mut self, system: &mut SystemCx, now_ns: u64) -> Result<(), KernelError> {
        self.advice.wake_ns = Some(now_ns.saturating_add(self.advice.period_ns));
        let Some(mut adviser) = system.shared.adviser.take() else { return Ok(()) };
        let answer = adviser.tick(&self.view(system, now_ns));
        system.shared.adviser = Some(adviser);
        let promotions =
            answer.map_err(|_| KernelError::Adviser(format!("the adviser failed at its tick at {now_ns} ns")))?;
        for promotion in promotions {
            self.promote(system, promotion)?;
        }
        Ok(())
    }

    /// All memory that can be promoted.
    fn view(&self, system: &SystemCx, now_ns: u64) -> View {
        let mut spaces: Vec<_> = system.spaces.iter().flatten().collect();
        spaces.sort_unstable_by_key(|space| space.serial);
        let processes = spaces.into_iter().map(|space| {
            let (mut mappings, mut pages) = (Vec::new(), Vec::new());
            for span in space.vmas.iter().filter(|span| is_eligible(&span.value)) {
                mappings.push(mapping(space, &system.shared.regions, span, span.start));
                for (va, leaf) in space.leaves(system.mem, span.start, span.end) {
                    if !system.shared.memory.is_zero(leaf.pfn) {
                        add(&mut pages, va, leaf.order);
                    }
                }
            }
            ProcessView { pid: space.pid, mappings, pages }
        });
        View { now_ns, sizes: self.leaf_sizes(), processes: processes.collect() }
    }

    fn leaf_sizes(&self) -> Sizes {
        self.advice.leaves.iter().fold(Sizes::default(), |all, size| all.with(size.order()))
    }

    /// Promotes a range, page by page.
    fn promote(&mut self, system: &mut SystemCx, asked: Promotion) -> Result<(), KernelError> {
        let Promotion { pid, start, end, size } = asked;
        let (start, end) = (start.raw(), end.raw());
        let wrong = |why: String| {
            KernelError::Adviser(format!(
                "the adviser asked to promote {start:#x}-{end:#x} of process {pid} to {size}: {why}"
            ))
        };
        if !self.leaf_sizes().has(size) {
            return Err(wrong(format!("the sizes that memory can be promoted to are {}", self.leaf_sizes())));
        }
        if start >= end || !(start | end).is_multiple_of(size.bytes()) {
            return Err(wrong(format!("give a range that begins and ends at multiples of {size}")));
        }
        let slot = system.spaces.iter().position(|space| space.as_ref().is_some_and(|space| space.pid == pid));
        let Some(slot) = slot else { return Err(wrong("there is no such process".into())) };
        for at in (start..end).step_by(size.bytes() as usize) {
            let (space, _) = system.at(slot);
            let span = space.vmas.find(at).filter(|span| is_eligible(&span.value) && span.end - at >= size.bytes());
            let Some(span) = span.cloned() else {
                return Err(wrong(format!("{at:#x} is not in a mapping of private anonymous memory with room for it")));
            };
            self.promote_page(system, slot, &span.value, at, size)?;
        }
        Ok(())
    }

    /// Copies the pages at `at` to one larger page, as khugepaged does. What prevents it is counted.
    fn promote_page(
        &mut self,
        system: &mut SystemCx,
        slot: usize,
        vma: &Vma,
        at: u64,
        size: PageOrder,
    ) -> Result<(), KernelError> {
        let (space, mut cx) = system.at(slot);
        if matches!(space.probe(cx.mem, VirtAddr::new(at)), Found::Leaf(leaf) if leaf.order >= size) {
            return Ok(());
        }
        cx.work(WorkKind::EntryScan, size.base_pages());
        cx.counts.events.add(EventKind::KhugepagedScanned, size.base_pages());
        if space.next_leaf(cx.mem, at, at + size.bytes()).is_none() {
            cx.refuse(Refusal::KhugepagedEmpty, at);
            return Ok(());
        }
        if !cx.memory.frames.has_block_or_run(size) {
            let is_made = if size == PageOrder::P2M && self.advice.defrag {
                self.compaction.compact(system, size, at)
            } else {
                system.shared.memory.frames.drain();
                system.shared.memory.frames.has_block_or_run(size)
            };
            if !is_made {
                system.refuse(no_block(size), at);
                return Ok(());
            }
        }
        let (space, mut cx) = system.at(slot);
        let Some(pfn) = cx.memory.take_frames(size) else {
            cx.refuse(no_block(size), at);
            return Ok(());
        };
        space.collapse_onto(&mut cx, vma, at, pfn, size)?;
        cx.counts.events.add(EventKind::KhugepagedCollapse, 1);
        Ok(())
    }
}

/// Whether memory of a mapping can be promoted: as khugepaged has it where huge pages are always used.
fn is_eligible(vma: &Vma) -> bool {
    vma.is_anon() && vma.hugetlb.is_none() && vma.prot != Prot::NONE && vma.advice != HugeAdvice::NoHuge
}

/// What is counted if no block of this size is free.
fn no_block(size: PageOrder) -> Refusal {
    match size.cmp(&PageOrder::P2M) {
        std::cmp::Ordering::Greater => Refusal::GiantNoBlock,
        std::cmp::Ordering::Equal => Refusal::ThpNoBlock,
        std::cmp::Ordering::Less => Refusal::MthpNoBlock,
    }
}

/// A mapping with the region that holds `at`.
fn mapping(space: &AddressSpace, regions: &Regions, span: &Span<Vma>, at: u64) -> Mapping {
    let region = regions.get(space.region(at));
    Mapping {
        start: VirtAddr::new(span.start),
        end: VirtAddr::new(span.end),
        kind: region.kind,
        name: region.name.clone(),
        advice: match span.value.advice {
            HugeAdvice::None => None,
            HugeAdvice::Huge => Some("hugepage"),
            HugeAdvice::NoHuge => Some("nohugepage"),
        },
    }
}

/// Adds a page to runs of pages.
fn add(runs: &mut Vec<PageRun>, va: u64, size: PageOrder) {
    match runs.last_mut() {
        Some(run) if run.size == size && run.start.raw() + run.pages * size.bytes() == va => run.pages += 1,
        _ => runs.push(PageRun { start: VirtAddr::new(va), size, pages: 1 }),
    }
}
