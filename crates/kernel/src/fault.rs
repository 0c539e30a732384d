//! Page faults: what a process gets when it touches what the page table does not allow.

use crate::counts::{FaultKind, Happening, Refusal};
use crate::gather::Gather;
use crate::policy::{Ask, Choice, Policy};
use crate::space::{Cx, Found, Space};
use crate::spans::Span;
use crate::vma::{Back, Vma};
use crate::{Fault, FaultError, HugeZeroWrite, Told, Wanted, WorkKind};
use mmulab_addr::{Access, BASE_BYTES, PageOrder, Pfn, Prot, VirtAddr};
use mmulab_pagetable::Leaf;

impl Fault {
    pub(crate) fn of(kind: FaultKind, order: PageOrder) -> Self {
        Self { kind, order, stack_growth: false, read_pages: 0, around_pages: 0 }
    }
}

impl Space {
    /// Makes `va` usable for `access`, or says why it cannot be.
    pub fn fault(&mut self, cx: &mut Cx, va: VirtAddr, access: Access) -> Result<Fault, FaultError> {
        let mut grown = false;
        if self.vmas.find(va.raw()).is_none() {
            grown = self.is_canonical(va.raw()) && self.grow_stack(cx, va.raw());
            if !grown {
                cx.counts.happenings.add(Happening::Violation, 1);
                return Err(FaultError::Unmapped { pid: cx.pid, va });
            }
        }
        let Some(span) = self.vmas.find(va.raw()) else { unreachable!("found or grown above") };
        if !span.value.prot.allows(access) {
            cx.counts.happenings.add(Happening::Violation, 1);
            return Err(FaultError::Protection { pid: cx.pid, va });
        }
        let mut fault = self.serve(cx, va, access)?;
        fault.stack_growth = grown;
        cx.counts.faults.add(fault.kind, 1);
        cx.counts.huge_faults += u64::from(fault.order > PageOrder::P4K);
        if cx.fx.narrate
            && let Found::Leaf(leaf) = self.probe(cx.mem, va)
        {
            Self::tell_fault(cx, fault.kind, va.raw(), &leaf);
        }
        Ok(fault)
    }

    /// Serves an access the mapping allows.
    pub fn serve(&mut self, cx: &mut Cx, va: VirtAddr, access: Access) -> Result<Fault, FaultError> {
        let Some(span) = self.vmas.find(va.raw()).cloned() else { unreachable!("the caller found the mapping") };
        cx.memory.resident.act_for(self.region(va.raw()));
        match self.probe(cx.mem, va) {
            Found::Leaf(leaf) if access == Access::Write && !leaf.prot.has(Prot::W) => {
                let mut fault = self.store(cx, &span, va, leaf)?;
                if fault.order == PageOrder::P4K && self.promote(cx, va.align_down(PageOrder::P4K).raw())? {
                    fault.order = PageOrder::P2M;
                }
                Ok(fault)
            }
            Found::Leaf(leaf) => {
                let mut gather = Gather::default();
                gather.note(va.align_down(leaf.order).raw(), leaf.order);
                self.finish(cx, gather);
                Ok(Fault::of(FaultKind::Spurious, leaf.order))
            }
            Found::Hole(room) => self.populate(cx, &span, va, access, room),
        }
    }

    /// Grows the stack above `va` down to it, as `expand_downwards` in mm/vma.c.
    fn grow_stack(&mut self, cx: &mut Cx, va: u64) -> bool {
        let Some(above) = self.vmas.at_or_above(va) else { return false };
        let (start, end, stack) = (above.start, above.end, above.value.clone());
        let lower = va & !(BASE_BYTES - 1);
        if !stack.grows_down || end - lower > cx.linux.stack_limit.0 {
            return false;
        }
        // The gap is only kept from mappings a runaway stack could damage: accessible ones that are no stacks.
        if let Some(below) = self.vmas.below(va)
            && below.value.prot != Prot::NONE
            && !below.value.grows_down
            && lower.saturating_sub(below.end) < cx.linux.stack_guard.0
        {
            return false;
        }
        self.vmas.grow_down(start, lower);
        if let Some(place) = self.places.find(start) {
            let region = place.value;
            self.places.insert(lower, start, region);
            cx.regions.lay(region.0, start - lower);
            cx.regions.moved(region.0, lower, start);
        }
        cx.counts.happenings.add(Happening::StackGrowth, 1);
        cx.tell(|| Told::StackGrowth { start: VirtAddr::new(lower) });
        true
    }

    /// Maps something where nothing was.
    fn populate(
        &mut self,
        cx: &mut Cx,
        span: &Span<Vma>,
        va: VirtAddr,
        access: Access,
        room: PageOrder,
    ) -> Result<Fault, FaultError> {
        if matches!(cx.policy, Policy::Freebsd(_)) {
            return self.populate_freebsd(cx, span, va, access);
        }
        let ask = Ask { vma: &span.value, start: span.start, end: span.end, va: va.raw(), room };
        let refusal = match cx.policy.choose(&ask) {
            Choice::Base(refusal) => refusal,
            Choice::Large(order) => match self.map_large(cx, span, va, access, order)? {
                Some(fault) => return Ok(fault),
                None => Some(Refusal::ThpNoBlock),
            },
            Choice::Pooled(order) => match self.map_pooled(cx, span, va, access, order)? {
                Some(fault) => return Ok(fault),
                None => Some(Refusal::HugetlbPoolEmpty),
            },
        };
        if let Some(why) = refusal {
            cx.refuse(why, va.raw());
        }
        if let Some(fault) = self.map_medium(cx, span, va, access)? {
            return Ok(fault);
        }
        match span.value.back {
            Back::Anon => self.map_anon(cx, span, va, access),
            Back::Object(..) => self.map_object(cx, span, va, access),
        }
    }

    /// A base page of private memory (`do_anonymous_page` in mm/memory.c).
    fn map_anon(&mut self, cx: &mut Cx, span: &Span<Vma>, va: VirtAddr, access: Access) -> Result<Fault, FaultError> {
        let vma = &span.value;
        let at = va.align_down(PageOrder::P4K).raw();
        if access != Access::Write && cx.linux.zero_page && vma.hugetlb.is_none() {
            let leaf = Self::leaf(vma, cx.memory.zero, PageOrder::P4K, vma.prot.without(Prot::W), false);
            self.map(cx, at, leaf)?;
            return Ok(Fault::of(FaultKind::ZeroPage, PageOrder::P4K));
        }
        let pfn = self.new_page(cx, at)?;
        cx.work(WorkKind::ZeroBytes, BASE_BYTES);
        self.map_new(cx, vma, at, pfn, PageOrder::P4K, access == Access::Write)?;
        Ok(Fault::of(FaultKind::Anon, PageOrder::P4K))
    }

    fn new_page(&mut self, cx: &mut Cx, va: u64) -> Result<Pfn, FaultError> {
        cx.memory.take_anon(PageOrder::P4K).ok_or_else(|| cx.out_of_memory(va, Wanted::Page(PageOrder::P4K)))
    }

    /// Maps a page of the process's own; gives it back if there is no frame for a table.
    fn map_new(
        &mut self,
        cx: &mut Cx,
        vma: &Vma,
        at: u64,
        pfn: Pfn,
        order: PageOrder,
        dirty: bool,
    ) -> Result<(), FaultError> {
        self.map(cx, at, Self::leaf(vma, pfn, order, vma.prot, dirty))
            .inspect_err(|_| cx.memory.drop_mapping(pfn, order))?;
        self.mark_private(at);
        Ok(())
    }

    pub fn mark_private(&mut self, va: u64) {
        if let Some(vma) = self.vmas.value_mut(va) {
            vma.has_private = true;
        }
    }

    /// A transparent huge page (`do_huge_pmd_anonymous_page` in mm/huge_memory.c); nothing if no block is free.
    fn map_large(
        &mut self,
        cx: &mut Cx,
        span: &Span<Vma>,
        va: VirtAddr,
        access: Access,
        order: PageOrder,
    ) -> Result<Option<Fault>, FaultError> {
        let vma = &span.value;
        let at = va.align_down(order).raw();
        let zero_page = matches!(cx.policy, Policy::Thp(thp) if thp.desc().zero_page);
        if access != Access::Write && zero_page {
            let Some(pfn) = cx.memory.take_huge_zero() else { return Ok(None) };
            self.map(cx, at, Self::leaf(vma, pfn, order, vma.prot.without(Prot::W), false))?;
            return Ok(Some(Fault::of(FaultKind::ZeroPage, order)));
        }
        let Some(pfn) = cx.memory.take_anon(order) else { return Ok(None) };
        cx.work(WorkKind::ZeroBytes, order.bytes());
        self.map_new(cx, vma, at, pfn, order, access == Access::Write)?;
        Ok(Some(Fault::of(FaultKind::Anon, order)))
    }

    /// A page of the pool (`hugetlb_no_page` in mm/hugetlb.c): zeroed, or a copy of the file; nothing if the pool is
    /// empty.
    fn map_pooled(
        &mut self,
        cx: &mut Cx,
        span: &Span<Vma>,
        va: VirtAddr,
        access: Access,
        order: PageOrder,
    ) -> Result<Option<Fault>, FaultError> {
        let Some(pfn) = cx.memory.take_pooled() else { return Ok(None) };
        let (kind, work) = match span.value.back {
            Back::Anon => (FaultKind::Anon, WorkKind::ZeroBytes),
            Back::Object(..) => (FaultKind::FilePrivate, WorkKind::CopyBytes),
        };
        cx.work(work, order.bytes());
        self.map_new(cx, &span.value, va.align_down(order).raw(), pfn, order, access == Access::Write)?;
        Ok(Some(Fault::of(kind, order)))
    }

    /// A store to a page mapped without the right to (`do_wp_page` in mm/memory.c).
    fn store(&mut self, cx: &mut Cx, span: &Span<Vma>, va: VirtAddr, leaf: Leaf) -> Result<Fault, FaultError> {
        let vma = &span.value;
        let at = va.align_down(leaf.order).raw();
        if leaf.order > PageOrder::P4K && matches!(cx.policy, Policy::Freebsd(_)) {
            // `pmap_enter` of the base page demotes, so that D is kept page by page.
            self.split(cx, at, leaf)?;
            return self.serve(cx, va, Access::Write);
        }
        let writable = Leaf { prot: vma.prot.with(Prot::R), accessed: true, dirty: true, ..leaf };
        if vma.shared {
            self.widen(cx, at, writable);
            self.drop_stale(cx, at, leaf.order);
            return Ok(Fault::of(FaultKind::WriteNotify, leaf.order));
        }
        if cx.memory.is_zero(leaf.pfn) {
            return self.store_to_zero(cx, span, va, leaf);
        }
        let page = cx.memory.pages.get(leaf.pfn);
        if page.used == crate::pages::Use::Anon && cx.memory.pages.is_exclusive(leaf.pfn, leaf.order) {
            self.widen(cx, at, writable);
            self.drop_stale(cx, at, leaf.order);
            return Ok(Fault::of(FaultKind::Reuse, leaf.order));
        }
        let new = if leaf.order == PageOrder::P4K {
            if matches!(cx.policy, Policy::Freebsd(_)) { self.own_page(cx, span, at)? } else { self.new_page(cx, at)? }
        } else {
            // `hugetlb_wp` copies a page of the pool; `do_huge_pmd_wp_page` copies no shared huge page, but splits the
            // mapping and copies the base page.
            // A part of a page of the pool that was split is none: it is split further.
            let of_pool = page.pooled && cx.memory.pool.as_ref().is_some_and(|p| p.order == leaf.order);
            let copy = if of_pool { cx.memory.take_pooled() } else { None };
            match copy {
                Some(new) => new,
                None if vma.hugetlb.is_some() => return Err(cx.out_of_memory(at, Wanted::Pool(leaf.order))),
                None => {
                    if of_pool {
                        cx.refuse(Refusal::HugetlbPoolEmpty, va.raw());
                    }
                    self.split(cx, at, leaf)?;
                    return self.serve(cx, va, Access::Write);
                }
            }
        };
        cx.work(WorkKind::CopyBytes, leaf.order.bytes());
        self.replace(cx, vma, at, &leaf, new);
        Ok(Fault::of(FaultKind::Copy, leaf.order))
    }

    fn store_to_zero(&mut self, cx: &mut Cx, span: &Span<Vma>, va: VirtAddr, leaf: Leaf) -> Result<Fault, FaultError> {
        let vma = &span.value;
        let at = va.align_down(leaf.order).raw();
        let huge = leaf.order > PageOrder::P4K;
        if huge {
            let whole = matches!(cx.policy, Policy::Thp(thp) if thp.desc().zero_page_write == HugeZeroWrite::Huge);
            match whole.then(|| cx.memory.take_anon(leaf.order)) {
                Some(Some(new)) => {
                    cx.work(WorkKind::ZeroBytes, leaf.order.bytes());
                    self.replace(cx, vma, at, &leaf, new);
                    return Ok(Fault::of(FaultKind::ZeroPageWrite, leaf.order));
                }
                Some(None) => cx.refuse(Refusal::ThpNoBlock, va.raw()),
                None => {}
            }
            self.split(cx, at, leaf)?;
            return self.serve(cx, va, Access::Write);
        }
        let new = self.new_page(cx, at)?;
        cx.work(WorkKind::ZeroBytes, BASE_BYTES);
        self.replace(cx, vma, at, &leaf, new);
        Ok(Fault::of(FaultKind::ZeroPageWrite, leaf.order))
    }

    /// Puts a private copy in the place of `old`.
    fn replace(&mut self, cx: &mut Cx, vma: &Vma, at: u64, old: &Leaf, new: Pfn) {
        let mut gather = Gather::default();
        if cx.memory.is_zero(old.pfn) {
            self.count_out(cx, at, old.order, true);
            self.count_in(cx, at, old.order, false);
        }
        self.set(cx, at, Self::leaf(vma, new, old.order, vma.prot, true), &mut gather);
        self.finish(cx, gather);
        Self::release(cx, old);
        self.mark_private(at);
    }

    /// The processor that faulted drops the translation that made it fault by itself (Intel SDM vol. 3A, section
    /// 4.10.4.1): this costs no kernel work.
    fn drop_stale(&self, cx: &mut Cx, va: u64, order: PageOrder) {
        if let Some(asid) = self.asid {
            cx.fx.invalidations.push(mmulab_pagetable::Invalidate::Page { asid, va: VirtAddr::new(va), order });
        }
    }
}
