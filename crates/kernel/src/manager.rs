//! The trait of memory managers: Linux's and FreeBSD's.
//!
//! ```text
//! fault --> Manager::fault --> serve --+-- nothing mapped ----> populate  (the manager's)
//!                                      |   of the kernel's half: by 2 MiB, if the policy says so
//!                                      +-- read-only, store --> store     (the manager's)
//!                                      '-- allowed already ---> spurious
//! ```

use crate::clock::Due;
use crate::parts::contiguous::Contiguous;
use crate::parts::traits::Hole;
use crate::ranges::Span;
use crate::report::counts::{EventKind, FaultKind};
use crate::space::fork::ForkCopies;
use crate::space::range::PageRange;
use crate::space::system::SystemCx;
use crate::space::vma::Vma;
use crate::space::{AddressSpace, Cx, Found, Gather};
use crate::{AdviceFlush, Fault, FaultError, KernelError};
use mmulab_addr::{Access, PageOrder, Prot, VirtAddr};
use mmulab_frames::Allocator;
use mmulab_pagetable::Leaf;

/// The entry points at which memory managers differ.
pub(crate) trait Manager {
    /// The allocator that memory is booted with.
    fn allocator(&self) -> Allocator;

    /// How many pages a flush may name before the whole address space is flushed instead.
    fn flush_ceiling(&self) -> u64;

    /// The part that sets the contiguous bit of entries, if the manager has one.
    fn contiguous(&self) -> Contiguous {
        Contiguous::default()
    }

    /// Whether executable anonymous memory is code, too.
    fn anonymous_is_code(&self) -> bool {
        false
    }

    /// Which changes of one madvise call are flushed together.
    fn advice_flush(&self) -> AdviceFlush;

    /// Whether MADV_HUGEPAGE and MADV_NOHUGEPAGE reach the mapping.
    fn takes_hints(&self) -> bool;

    /// The sizes that hints may name; none, if they are not listened to.
    fn hint_sizes(&self) -> &[PageOrder];

    /// Whether faults go by hints of page sizes.
    fn hints_guide_faults(&self) -> bool;

    /// The processes that the daemon serves from their beginning, if it serves only those for which it is turned on.
    /// `None`: it has no switch.
    fn switched_on_at_start(&self) -> Option<&[u32]> {
        None
    }

    /// Of which mappings fork copies the page table's entries.
    fn fork_copies(&self) -> ForkCopies {
        ForkCopies::Private
    }

    /// Where a brk heap ends that the program wants to end at `end`.
    fn heap_end(&self, end: u64) -> u64;

    /// Maps something where nothing was.
    fn populate(&self, space: &mut AddressSpace, cx: &mut Cx, hole: &Hole) -> Result<Fault, FaultError>;

    /// Serves a store to a page that is mapped without the right to it.
    fn store(
        &self,
        space: &mut AddressSpace,
        cx: &mut Cx,
        span: &Span<Vma>,
        va: VirtAddr,
        leaf: Leaf,
    ) -> Result<Fault, FaultError>;

    /// MADV_FREE of private anonymous memory.
    fn free(&self, space: &mut AddressSpace, cx: &mut Cx, pages: PageRange) -> Result<(), FaultError>;

    /// MADV_WILLNEED.
    fn will_need(&self, space: &mut AddressSpace, cx: &mut Cx, pages: PageRange);

    /// A mapping was made: what it can have before its first fault.
    fn mapped(&self, space: &mut AddressSpace, cx: &mut Cx, pages: PageRange) -> Result<(), FaultError>;

    /// MADV_COLLAPSE.
    fn collapse(&self, space: &mut AddressSpace, cx: &mut Cx, pages: PageRange) -> Result<(), FaultError>;

    /// Work on the whole system before a fault at `va` is served, such as compaction; whether [`Self::after_fault`] is
    /// wanted.
    fn before_fault(&mut self, system: &mut SystemCx, slot: usize, va: VirtAddr) -> bool;

    /// Work on the whole system after the fault.
    fn after_fault(&mut self, system: &mut SystemCx, va: VirtAddr);

    /// Whether it wants to know which base pages programs store to.
    fn wants_stores(&self) -> bool {
        false
    }

    /// When a daemon wants to run next, in simulated nanoseconds since the start; never, if there is none.
    fn wakes_at(&self) -> Option<u64>;

    /// Lets the daemons run that are due.
    fn wake(&mut self, system: &mut SystemCx, due: Due) -> Result<(), KernelError>;

    /// Makes `va` usable for `access`, or says why it cannot be.
    fn fault(&self, space: &mut AddressSpace, cx: &mut Cx, va: VirtAddr, access: Access) -> Result<Fault, FaultError> {
        let mut grown = false;
        space.is_loading = false;
        if space.vmas.find(va.raw()).is_none() {
            grown = space.is_canonical(va.raw()) && space.grow_stack(cx, va.raw());
            if !grown {
                cx.counts.events.add(EventKind::Violation, 1);
                return Err(FaultError::Unmapped { pid: cx.pid, va });
            }
        }
        let Some(span) = space.vmas.find(va.raw()) else { unreachable!("found or grown above") };
        if !span.value.prot.allows(access) {
            cx.counts.events.add(EventKind::Violation, 1);
            return Err(FaultError::Protection { pid: cx.pid, va });
        }
        let mut fault = self.serve(space, cx, va, access)?;
        fault.stack_growth = grown;
        cx.counts.faults.add(fault.kind, 1);
        cx.counts.huge_faults += u64::from(fault.order > cx.memory.base);
        if cx.effects.narrate
            && let Found::Leaf(leaf) = space.page(cx.mem, &cx.memory.pages, va)
        {
            AddressSpace::tell_fault(cx, fault.kind, va.raw(), &leaf);
        }
        Ok(fault)
    }

    /// Serves an access the mapping allows.
    fn serve(&self, space: &mut AddressSpace, cx: &mut Cx, va: VirtAddr, access: Access) -> Result<Fault, FaultError> {
        let before = cx.counts.events.get(EventKind::ZeroedAhead);
        let fault = self.serve_page(space, cx, va, access)?;
        let zeroed_ahead = cx.counts.events.get(EventKind::ZeroedAhead) != before;
        Ok(Fault { zeroed_ahead, ..fault })
    }

    /// The same, without a word on who zeroed the page.
    fn serve_page(
        &self,
        space: &mut AddressSpace,
        cx: &mut Cx,
        va: VirtAddr,
        access: Access,
    ) -> Result<Fault, FaultError> {
        let Some(span) = space.vmas.find(va.raw()).cloned() else { unreachable!("the caller found the mapping") };
        cx.memory.resident.act_for(space.region(va.raw()));
        match space.probe(cx.mem, va) {
            Found::Leaf(leaf) if access == Access::Write && !leaf.prot.has(Prot::W) => {
                // A store changes one page of a folded range.
                let leaf = space.alone(cx, va, leaf)?;
                self.store(space, cx, &span, va, leaf)
            }
            Found::Leaf(leaf) => {
                let mut gather = Gather::default();
                gather.note(va.align_down(leaf.order).raw(), leaf.order);
                space.finish(cx, gather);
                Ok(Fault::of(FaultKind::Spurious, space.page_of(&cx.memory.pages, va, leaf).order))
            }
            Found::Hole(room) => {
                let guide = space.hints.for_fault(va.raw());
                let hole = Hole { span: &span, va, access, room, guide };
                match space.map_kernel(cx, &hole)? {
                    Some(fault) => Ok(fault),
                    None => self.populate(space, cx, &hole),
                }
            }
        }
    }
}
