//! Faults on private memory: where nothing is mapped, and stores to pages mapped read-only.

use super::Linux;
use crate::manager::Manager;
use crate::parts::traits::{Candidate, Demotion, FaultSize, Hole, MapSize, Placement, Promotion, Supply, Zeroing};
use crate::ranges::Span;
use crate::report::counts::{FaultKind, Refusal};
use crate::space::vma::{Back, Vma};
use crate::space::{AddressSpace, Cx};
use crate::{Fault, FaultError, Wanted, WorkKind};
use mmulab_addr::{Access, Prot, VirtAddr};
use mmulab_pagetable::Leaf;

impl Linux {
    /// Tries the candidates of the fault-size part, one after another, and counts why larger sizes were not mapped.
    /// `None`: a base page is left.
    pub(super) fn map_larger(
        &self,
        space: &mut AddressSpace,
        cx: &mut Cx,
        hole: &Hole,
    ) -> Result<Option<Fault>, FaultError> {
        let mut refused = None;
        for index in 0..self.sizes.sizes() {
            let is_empty = |start, end| space.next_leaf(cx.mem, start, end).is_none();
            let why = match self.sizes.candidate(index, hole, is_empty) {
                Candidate::NotConsidered => None,
                Candidate::Refused(why) => Some(why),
                Candidate::Fits { size, supply, if_none } => match self.map_size(space, cx, hole, size, supply)? {
                    Some(fault) => return Ok(Some(fault)),
                    None => Some(if_none),
                },
            };
            refused = refused.or(why);
            if self.sizes.ends_family(index)
                && let Some(why) = refused.take()
            {
                cx.refuse(why, hole.va.raw());
            }
        }
        Ok(None)
    }

    /// Maps a page or a block of one size, if its frames can be had.
    pub(super) fn map_size(
        &self,
        space: &mut AddressSpace,
        cx: &mut Cx,
        hole: &Hole,
        size: MapSize,
        supply: Supply,
    ) -> Result<Option<Fault>, FaultError> {
        let (order, span) = (size.order(), hole.span);
        let at = hole.start(order);
        let is_store = hole.access == Access::Write;
        let (pfn, kind) = match supply {
            Supply::ZeroPage => {
                let Some(pfn) = cx.memory.take_huge_zero() else { return Ok(None) };
                let vma = &span.value;
                space.map(cx, at, AddressSpace::leaf(vma, pfn, order, vma.prot.without(Prot::W), false))?;
                return Ok(Some(Fault::of(FaultKind::ZeroPage, order)));
            }
            // `do_huge_pmd_anonymous_page` in mm/huge_memory.c, `alloc_anon_folio` in mm/memory.c
            Supply::Frames => (self.placement.take(space, cx, span, at, order), FaultKind::Anon),
            // `hugetlb_no_page` in mm/hugetlb.c: zeroed, or a copy of the file.
            Supply::Pool => match span.value.back {
                Back::Anon => (cx.memory.take_pooled(), FaultKind::Anon),
                Back::Object(..) => (cx.memory.take_pooled(), FaultKind::FilePrivate),
            },
        };
        let Some(pfn) = pfn else { return Ok(None) };
        match span.value.back {
            Back::Anon => self.zeroing.zero(cx, pfn, order),
            Back::Object(..) => cx.work(WorkKind::CopyBytes, order.bytes()),
        }
        if size.is_leaf() {
            space.map_new(cx, &span.value, at, pfn, order, is_store)?;
            return Ok(Some(Fault::of(kind, order)));
        }
        let mapped = space.map_block(cx, &span.value, at, pfn, order)?;
        Ok(Some(Fault::of(kind, mapped)))
    }

    /// A base page of private memory (`do_anonymous_page` in mm/memory.c).
    pub(super) fn map_anon(&self, space: &mut AddressSpace, cx: &mut Cx, hole: &Hole) -> Result<Fault, FaultError> {
        let (span, vma) = (hole.span, &hole.span.value);
        let base = cx.memory.base;
        let at = hole.start(base);
        let is_store = hole.access == Access::Write;
        if !is_store && self.desc.zero_page && vma.hugetlb.is_none() {
            let leaf = AddressSpace::leaf(vma, cx.memory.zero, base, vma.prot.without(Prot::W), false);
            space.map(cx, at, leaf)?;
            return Ok(Fault::of(FaultKind::ZeroPage, base));
        }
        let pfn = self.placement.base_page(space, cx, span, at)?;
        self.zeroing.zero(cx, pfn, base);
        space.map_new(cx, vma, at, pfn, base, is_store)?;
        self.promotion.promoted(space, cx, at, Fault::of(FaultKind::Anon, base))
    }

    /// A store to a page mapped read-only (`do_wp_page` in mm/memory.c).
    pub(super) fn write_protected(
        &self,
        space: &mut AddressSpace,
        cx: &mut Cx,
        span: &Span<Vma>,
        va: VirtAddr,
        leaf: Leaf,
    ) -> Result<Fault, FaultError> {
        let vma = &span.value;
        let at = va.align_down(leaf.order).raw();
        if cx.memory.is_zero(leaf.pfn) && !vma.shared {
            return self.store_to_zero(space, cx, span, va, leaf);
        }
        if self.demotion.demoted(space, cx, at, leaf)? {
            return self.serve(space, cx, va, Access::Write);
        }
        if let Some(kind) = space.make_writable(cx, vma, at, &leaf) {
            return self.promotion.promoted(space, cx, at, Fault::of(kind, leaf.order));
        }
        let new = if leaf.order == cx.memory.base {
            self.placement.base_page(space, cx, span, at)?
        } else {
            // `hugetlb_wp` copies a page of the pool; `do_huge_pmd_wp_page` copies no shared huge page, but splits the
            // mapping and copies the base page.
            // A part of a page of the pool that was split is none: it is split further.
            let page = cx.memory.pages.get(leaf.pfn);
            let of_pool = page.pooled && cx.memory.pool.as_ref().is_some_and(|p| p.order == leaf.order);
            let copy = if of_pool { cx.memory.take_pooled() } else { None };
            match copy {
                Some(new) => new,
                None if vma.hugetlb.is_some() => return Err(cx.out_of_memory(at, Wanted::Pool(leaf.order))),
                None => {
                    if of_pool {
                        cx.refuse(Refusal::HugetlbPoolEmpty, va.raw());
                    }
                    space.split(cx, at, leaf)?;
                    return self.serve(space, cx, va, Access::Write);
                }
            }
        };
        cx.work(WorkKind::CopyBytes, leaf.order.bytes());
        space.replace(cx, vma, at, &leaf, new);
        self.promotion.promoted(space, cx, at, Fault::of(FaultKind::Copy, leaf.order))
    }

    fn store_to_zero(
        &self,
        space: &mut AddressSpace,
        cx: &mut Cx,
        span: &Span<Vma>,
        va: VirtAddr,
        leaf: Leaf,
    ) -> Result<Fault, FaultError> {
        let vma = &span.value;
        let at = va.align_down(leaf.order).raw();
        if leaf.order > cx.memory.base {
            match self.keeps_huge.then(|| self.placement.take(space, cx, span, at, leaf.order)) {
                Some(Some(new)) => {
                    self.zeroing.zero(cx, new, leaf.order);
                    space.replace(cx, vma, at, &leaf, new);
                    return Ok(Fault::of(FaultKind::ZeroPageWrite, leaf.order));
                }
                Some(None) => cx.refuse(Refusal::ThpNoBlock, va.raw()),
                None => {}
            }
            space.split(cx, at, leaf)?;
            return self.serve(space, cx, va, Access::Write);
        }
        let new = self.placement.base_page(space, cx, span, at)?;
        self.zeroing.zero(cx, new, leaf.order);
        space.replace(cx, vma, at, &leaf, new);
        self.promotion.promoted(space, cx, at, Fault::of(FaultKind::ZeroPageWrite, leaf.order))
    }
}
