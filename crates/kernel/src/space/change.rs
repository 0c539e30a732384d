//! Mappings that change: rights, place and size.

use super::range::PageRange;
use crate::FaultError;
use crate::ranges::Piece;
use crate::report::counts::EventError;
use crate::report::region::Identity;
use crate::space::gather::Gather;
use crate::space::{AddressSpace, Cx};
use mmulab_addr::{Prot, VirtAddr};
use mmulab_pagetable::Leaf;

impl AddressSpace {
    /// mprotect(2): up to the first hole, which is ENOMEM.
    pub(crate) fn mprotect(
        &mut self,
        cx: &mut Cx,
        pages: PageRange,
        prot: Prot,
    ) -> Result<Result<(), EventError>, FaultError> {
        if self.cuts_hugetlb(pages) {
            return Ok(Err(EventError::Invalid));
        }
        self.own_tables(cx, pages)?;
        let end = self.vmas.first_hole(pages.start, pages.end);
        for (start, end) in self.parts(PageRange { start: pages.start, end }, |vma| vma.prot != prot) {
            self.split_at(cx, start)?;
            self.split_at(cx, end)?;
        }
        let mut gather = Gather::default();
        let mut spans = self.vmas.cut(pages.start, end);
        let before: Vec<Prot> = spans.iter_mut().map(|span| std::mem::replace(&mut span.value.prot, prot)).collect();
        // All of them first: the entries of a page may be joined with those of its neighbours in another.
        for span in &spans {
            self.vmas.insert(span.start, span.end, span.value.clone());
        }
        for (span, before) in spans.iter().zip(before) {
            if before == prot {
                continue;
            }
            if prot == Prot::NONE {
                self.hide(cx, span.start, span.end, &mut gather);
            } else if before == Prot::NONE {
                self.unhide(cx, span)?;
            } else {
                self.change_rights(cx, span, &mut gather)?;
            }
        }
        self.finish(cx, gather);
        Ok(if end < pages.end { Err(EventError::NoMemory) } else { Ok(()) })
    }

    /// Gives each page the rights its mapping now has (`change_protection` in mm/mprotect.c). Only lost rights need a
    /// flush (`pte_flags_need_flush` in arch/x86/include/asm/tlbflush.h).
    fn change_rights(
        &mut self,
        cx: &mut Cx,
        span: &crate::ranges::Span<crate::space::vma::Vma>,
        gather: &mut Gather,
    ) -> Result<(), FaultError> {
        let mut at = span.start;
        while let Some((va, leaf)) = self.next_leaf(cx.mem, at, span.end) {
            let pages = self.pages_of(&cx.memory.pages, va, leaf);
            let mut rights = pages.map(|(_, page)| Self::rights(&span.value, &page, cx.memory));
            let prot = rights.next().unwrap_or(leaf.prot);
            if rights.any(|other| other != prot) {
                self.unfold(cx, va, leaf)?;
                continue;
            }
            if prot != leaf.prot {
                let changed = Leaf { prot, ..leaf };
                if prot.has(leaf.prot) {
                    self.widen(cx, va, changed);
                } else {
                    self.set(cx, va, changed, gather);
                }
            }
            at = va + leaf.order.bytes();
        }
        Ok(())
    }

    /// Takes pages out of hardware's reach and keeps them.
    fn hide(&mut self, cx: &mut Cx, start: u64, end: u64, gather: &mut Gather) {
        let mut at = start;
        while let Some((va, leaf)) = self.next_leaf(cx.mem, at, end) {
            self.unmap(cx, va, leaf.order, gather);
            let pages = self.pages_of(&cx.memory.pages, va, leaf);
            self.hidden.extend(pages.map(|(va, page)| (VirtAddr::new(va).vpn(), page)));
            at = va + leaf.order.bytes();
        }
    }

    /// Gives kept pages back.
    fn unhide(&mut self, cx: &mut Cx, span: &crate::ranges::Span<crate::space::vma::Vma>) -> Result<(), FaultError> {
        for (vpn, leaf) in self.take_hidden(span.start, span.end) {
            let prot = Self::rights(&span.value, &leaf, cx.memory);
            self.map(cx, vpn.addr().raw(), Leaf { prot, ..leaf }).inspect_err(|_| Self::release(cx, &leaf))?;
        }
        Ok(())
    }

    /// mremap(2): the pages of `from` move to `to`, as many as fit, and what is left over goes. `from` must lie in one
    /// mapping, else EFAULT. With `keep_old` (MREMAP_DONTUNMAP) the old mapping stays, empty.
    pub(crate) fn mremap(
        &mut self,
        cx: &mut Cx,
        from: PageRange,
        to: PageRange,
        keep_old: bool,
    ) -> Result<Result<(), EventError>, FaultError> {
        self.own_tables(cx, from)?;
        let (old_len, new_len) = (from.end - from.start, to.end - to.start);
        if new_len == 0 || old_len == 0 {
            return Ok(Err(EventError::Invalid));
        }
        let Some(span) = self.vmas.find(from.start).filter(|s| s.end >= from.end).cloned() else {
            return Ok(Err(EventError::Fault));
        };
        if span.value.hugetlb.is_some() || self.cuts_hugetlb(to) {
            return Ok(Err(EventError::Invalid));
        }
        let region = self.places.find(from.start).map(|p| p.value.0);
        if from.start == to.start {
            if new_len < old_len {
                self.drop_range(cx, PageRange { start: to.end, end: from.end })?;
            } else if new_len > old_len {
                if self.vmas.over(from.end, to.end).next().is_some() {
                    return Ok(Err(EventError::NoMemory));
                }
                let mut grown = span.value.clone();
                grown.advance(from.end - span.start);
                self.extend(cx, grown, PageRange { start: from.end, end: to.end }, region);
            }
            return Ok(Ok(()));
        }
        if from.start < to.end && to.start < from.end {
            return Ok(Err(EventError::Invalid));
        }
        self.drop_range(cx, to)?;
        let kept = old_len.min(new_len);
        self.split_at(cx, from.start)?;
        self.split_at(cx, from.start + kept)?;
        let mut value = span.value.clone();
        value.advance(from.start - span.start);
        self.extend(cx, value, to, region);
        self.move_pages(cx, from.start, to.start, kept)?;
        if !keep_old {
            self.drop_range(cx, from)?;
        }
        Ok(Ok(()))
    }

    fn drop_range(&mut self, cx: &mut Cx, pages: PageRange) -> Result<(), FaultError> {
        self.clear(cx, pages).map(drop)
    }

    /// A mapping continues, or begins, at `pages`, in the region it belongs to.
    fn extend(&mut self, cx: &mut Cx, vma: crate::space::vma::Vma, pages: PageRange, region: Option<crate::RegionId>) {
        if let crate::space::vma::Back::Object(id, first) = vma.back {
            cx.memory.cache.reaches(id, first + ((pages.end - pages.start) >> mmulab_addr::BASE_SHIFT));
        }
        let region = region.unwrap_or_else(|| {
            let identity = Identity::anon(vma.prot);
            cx.regions.place(self.program, &identity, pages.start, pages.end, cx.pid)
        });
        cx.regions.moved(region, pages.start, pages.end);
        self.occupy(cx, pages, region);
        self.vmas.insert(pages.start, pages.end, vma);
        self.table.requested(pages.range());
    }

    /// Moves what is mapped (`move_page_tables` in mm/mremap.c). A large page moves whole if its new place is aligned
    /// for it, and is split otherwise.
    fn move_pages(&mut self, cx: &mut Cx, from: u64, to: u64, len: u64) -> Result<(), FaultError> {
        let mut gather = Gather::default();
        let delta = to.wrapping_sub(from);
        self.stored.carry(from, to, len);
        let mut at = from;
        while let Some((va, leaf)) = self.next_leaf(cx.mem, at, from + len) {
            if !delta.is_multiple_of(leaf.order.bytes()) {
                self.split(cx, va, leaf)?;
                continue;
            }
            self.unmap(cx, va, leaf.order, &mut gather);
            let pages = self.pages_of(&cx.memory.pages, va.wrapping_add(delta), leaf).collect();
            self.map_pages(cx, pages)?;
            at = va + leaf.order.bytes();
        }
        for (vpn, leaf) in self.take_hidden(from, from + len) {
            let va = vpn.addr().raw().wrapping_add(delta);
            let vpn = VirtAddr::new(va).vpn();
            self.hidden.insert(vpn, leaf);
            if !delta.is_multiple_of(leaf.order.bytes()) {
                self.split_hidden(cx, vpn);
            }
        }
        self.finish(cx, gather);
        Ok(())
    }
}
