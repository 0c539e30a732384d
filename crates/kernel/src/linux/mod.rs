//! Linux's memory manager: anonymous and file faults, transparent huge pages, the hugetlb pool, direct compaction.
//!
//! Sources: mm/memory.c, mm/huge_memory.c, mm/hugetlb.c, mm/filemap.c, mm/compaction.c and mm/madvise.c, as named at
//! each function. `docs/concepts/kernel.md` says what is modelled of them and what is not.

mod advice;
mod advised;
mod adviser;
pub(crate) mod boot;
pub(crate) mod desc;
mod fault;
mod file_fault;
mod text_fault;

use crate::clock::Due;
use crate::desc::PolicyDesc;
use crate::manager::Manager;
use crate::parts::contiguous::Contiguous;
use crate::parts::daemon::Daemons;
use crate::parts::demotion::Demotions;
use crate::parts::fault_size::FaultSizes;
use crate::parts::hints::HintGivers;
use crate::parts::placement::Placements;
use crate::parts::promotion::Promotions;
use crate::parts::reclaim::Reclaims;
use crate::parts::text::Text;
use crate::parts::traits::{Candidate, Daemon, FaultSize, Hints, Hole, MapSize, Reclaim, Supply, Zeroing};
use crate::parts::zeroing::Zeroings;
use crate::ranges::Span;
use crate::report::counts::EventKind;
use crate::space::compaction::Compaction;
use crate::space::range::PageRange;
use crate::space::system::SystemCx;
use crate::space::vma::{Back, HugeAdvice, Vma};
use crate::space::{AddressSpace, Cx, Found};
use crate::{Fault, FaultError, KernelError};
use adviser::Advice;
use desc::{AdviceFlush, Defrag, LinuxDesc};
use mmulab_addr::{Access, PageOrder, VirtAddr};
use mmulab_frames::Allocator;
use mmulab_pagetable::{Leaf, TableDesc};

/// Linux, put together of parts.
pub(crate) struct Linux {
    desc: LinuxDesc,
    sizes: FaultSizes,
    placement: Placements,
    zeroing: Zeroings,
    promotion: Promotions,
    demotion: Demotions,
    reclaim: Reclaims,
    contiguous: Contiguous,
    hints: HintGivers,
    /// The sizes that hints may name; none, if they are not listened to.
    hint_sizes: Vec<PageOrder>,
    hints_guide_faults: bool,
    /// The processes that the daemon serves from their beginning, if it serves only those for which it is turned on.
    switched_on: Option<Vec<u32>>,
    /// Whether a store to the huge zero page maps a huge page, rather than splits.
    keeps_huge: bool,
    /// Whether MADV_COLLAPSE makes huge pages.
    collapses: bool,
    /// Action of a fault if no block of 2 MiB is free.
    defrag: Defrag,
    compaction: Compaction,
    /// The daemon that makes larger pages.
    daemon: Option<Daemons>,
    /// Which pages text gets.
    text: Text,
    /// What an adviser may choose from.
    advice: Advice,
}

impl Manager for Linux {
    fn allocator(&self) -> Allocator {
        Allocator::Linux
    }

    fn flush_ceiling(&self) -> u64 {
        self.desc.flush_ceiling
    }

    fn contiguous(&self) -> Contiguous {
        self.contiguous
    }

    fn advice_flush(&self) -> AdviceFlush {
        self.desc.advice_flush
    }

    fn takes_hints(&self) -> bool {
        self.hints.obeys_program()
    }

    fn hint_sizes(&self) -> &[PageOrder] {
        &self.hint_sizes
    }

    fn hints_guide_faults(&self) -> bool {
        self.hints_guide_faults
    }

    fn switched_on_at_start(&self) -> Option<&[u32]> {
        self.switched_on.as_deref()
    }

    fn heap_end(&self, end: u64) -> u64 {
        self.sizes.heap_end(end)
    }

    fn populate(&self, space: &mut AddressSpace, cx: &mut Cx, hole: &Hole) -> Result<Fault, FaultError> {
        if cx.adviser.is_some()
            && let Some(fault) = self.by_advice(space, cx, hole)?
        {
            Self::hand_on(space, cx, hole.span, hole.va);
            return Ok(fault);
        }
        if let Some(fault) = self.map_larger(space, cx, hole)? {
            Self::hand_on(space, cx, hole.span, hole.va);
            return Ok(fault);
        }
        match hole.span.value.back {
            Back::Anon => {
                let fault = self.map_anon(space, cx, hole)?;
                Self::hand_on(space, cx, hole.span, hole.va);
                Ok(fault)
            }
            Back::Object(..) => match self.move_text(space, cx, hole)? {
                Some(fault) => Ok(fault),
                None => self.map_object(space, cx, hole),
            },
        }
    }

    fn store(
        &self,
        space: &mut AddressSpace,
        cx: &mut Cx,
        span: &Span<Vma>,
        va: VirtAddr,
        leaf: Leaf,
    ) -> Result<Fault, FaultError> {
        let fault = self.write_protected(space, cx, span, va, leaf)?;
        Self::hand_on(space, cx, span, va);
        Ok(fault)
    }

    fn free(&self, space: &mut AddressSpace, cx: &mut Cx, pages: PageRange) -> Result<(), FaultError> {
        self.mark_free(space, cx, pages)
    }

    fn will_need(&self, space: &mut AddressSpace, cx: &mut Cx, pages: PageRange) {
        self.read_ahead(space, cx, pages);
    }

    /// Its first fault finds out.
    fn mapped(&self, _: &mut AddressSpace, _: &mut Cx, _: PageRange) -> Result<(), FaultError> {
        Ok(())
    }

    fn collapse(&self, space: &mut AddressSpace, cx: &mut Cx, pages: PageRange) -> Result<(), FaultError> {
        self.collapse_all(space, cx, pages)
    }

    /// Reclaim, which runs beside the program. Then direct compaction: for a fault that wants a huge page, where none
    /// is free and `defrag` says so; or, with `defer`, after the fault.
    #[inline]
    fn before_fault(&mut self, system: &mut SystemCx, slot: usize, va: VirtAddr) -> bool {
        let wanted = self.reclaim.wanted(system.shared.memory.frames.free_frames());
        if wanted > 0 {
            system.shared.counts.events.add(EventKind::KswapdWake, 1);
            self.reclaim.reclaimed(system.shared.memory.reclaim(wanted));
        }
        if self.defrag == Defrag::Never || system.shared.memory.frames.has_block(PageOrder::P2M) {
            return false;
        }
        let later = self.defrag == Defrag::Defer;
        let wants = system.spaces[slot].as_ref().is_some_and(|space| {
            let Some(span) = space.vmas.find(va.raw()) else { return false };
            let Found::Hole(room) = space.probe(system.mem, va) else { return false };
            (later || self.compacts(span.value.advice))
                && self.wants_huge(&Hole {
                    span,
                    va,
                    access: Access::Write,
                    room,
                    guide: space.hints.for_fault(va.raw()),
                })
        });
        if wants && !later {
            self.compaction.compact(system, PageOrder::P2M, va.raw());
        }
        wants && later
    }

    fn after_fault(&mut self, system: &mut SystemCx, va: VirtAddr) {
        self.compaction.compact(system, PageOrder::P2M, va.raw());
    }

    fn wants_stores(&self) -> bool {
        self.daemon.as_ref().is_some_and(Daemon::wants_stores)
    }

    #[inline]
    fn wakes_at(&self) -> Option<u64> {
        let daemon = self.daemon.as_ref().map(Daemon::wakes_at);
        [daemon, self.zeroing.wakes_at(), self.advice.wakes_at()].into_iter().flatten().min()
    }

    fn wake(&mut self, system: &mut SystemCx, due: Due) -> Result<(), KernelError> {
        if let Some(now) = self.zeroing.wakes_at().and_then(|wake| due.runs(wake)) {
            self.zeroing.wake(system, now);
        }
        if let Some(daemon) = &mut self.daemon
            && let Some(now) = due.runs(daemon.wakes_at())
        {
            daemon.wake(system, &mut self.compaction, now)?;
        }
        if let Some(now) = self.advice.wakes_at().and_then(|wake| due.runs(wake)) {
            self.tick(system, now)?;
        }
        Ok(())
    }
}

impl Linux {
    /// The same as one that can have an adviser, under this policy and on this page table.
    pub fn with_advice(self, desc: &PolicyDesc, table: &TableDesc) -> Self {
        Self { advice: Advice::new(desc, table), ..self }
    }

    /// An adviser wants ticks.
    pub fn tick_every(&mut self, period_ms: Option<u64>) {
        self.advice.tick_every(period_ms);
    }

    /// Hands a hint on that the fault at `va` went by, if its block is whole now. Hints are for private anonymous
    /// memory that no pool supplies.
    #[inline]
    fn hand_on(space: &AddressSpace, cx: &mut Cx, span: &Span<Vma>, va: VirtAddr) {
        if span.value.is_anon() && span.value.hugetlb.is_none() {
            space.hand_on_completed(cx, va);
        }
    }

    /// Whether a fault in a mapping with this advice compacts memory itself when no block is free.
    fn compacts(&self, advice: HugeAdvice) -> bool {
        match self.defrag {
            Defrag::Always => true,
            Defrag::Madvise => advice == HugeAdvice::Huge,
            Defrag::Defer | Defrag::Never => false,
        }
    }

    /// Whether the first size that a fault tries needs a block of 2 MiB.
    fn wants_huge(&self, hole: &Hole) -> bool {
        let is_huge = |size: MapSize| size.order() == PageOrder::P2M;
        self.sizes.sizes() > 0
            && match self.sizes.candidate(0, hole, |_, _| true) {
                Candidate::Fits { size, supply: Supply::Frames, .. } => is_huge(size),
                Candidate::Fits { supply: Supply::ZeroPage | Supply::Pool, .. }
                | Candidate::Refused(_)
                | Candidate::NotConsidered => false,
            }
    }
}
