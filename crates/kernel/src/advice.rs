//! madvise(2).

use crate::counts::{EventError, Happening, Refusal};
use crate::events::Pages;
use crate::gather::Gather;
use crate::policy::Policy;
use crate::space::{Cx, Found, Space};
use crate::spans::Span;
use crate::vma::{Back, HugeAdvice, Vma};
use crate::{AdviceFlush, FaultError, Told, WorkKind};
use mmulab_addr::{BASE_BYTES, BASE_SHIFT, PageOrder, Prot, VirtAddr};
use mmulab_pagetable::Leaf;
use mmulab_trace::Advice;

impl Space {
    /// Takes advice on a range. Parts that are not mapped are passed over, and make the result ENOMEM.
    pub(crate) fn advise(
        &mut self,
        cx: &mut Cx,
        pages: Pages,
        advice: Advice,
    ) -> Result<Result<(), EventError>, FaultError> {
        if pages.start == pages.end {
            return Ok(Ok(()));
        }
        let has_hole = self.vmas.first_hole(pages.start, pages.end) < pages.end;
        match advice {
            Advice::Hugepage | Advice::Nohugepage => {
                let advice = if advice == Advice::Hugepage { HugeAdvice::Huge } else { HugeAdvice::NoHuge };
                if self.vmas.over(pages.start, pages.end).any(|s| s.value.hugetlb.is_some()) {
                    return Ok(Err(EventError::Invalid));
                }
                self.advise_huge(cx, pages, advice)?;
            }
            Advice::Collapse => self.collapse_all(cx, pages)?,
            Advice::Dontneed => {
                if self.cuts_hugetlb(pages) {
                    return Ok(Err(EventError::Invalid));
                }
                self.split_at(cx, pages.start)?;
                self.split_at(cx, pages.end)?;
                self.each_mapping(cx, pages, Self::zap);
            }
            Advice::Free => {
                // Of private anonymous memory only (`madvise_free_single_vma`: EINVAL).
                if self.vmas.over(pages.start, pages.end).any(|s| !s.value.is_anon() || s.value.hugetlb.is_some()) {
                    return Ok(Err(EventError::Invalid));
                }
                match cx.policy {
                    Policy::Freebsd(_) => self.free_freebsd(cx, pages)?,
                    _ => self.free(cx, pages)?,
                }
            }
            Advice::Willneed => self.will_need(cx, pages),
            // For loads or for stores by the mapping's rights, as with MAP_POPULATE.
            Advice::POPULATE_READ | Advice::POPULATE_WRITE => {
                for (start, end) in self.parts(pages, |_| true) {
                    if self.fill(cx, Pages { start, end }).is_err() {
                        return Ok(Err(EventError::PopulateShort));
                    }
                }
            }
            Advice::Other(_) => {}
        }
        Ok(if has_hole { Err(EventError::NoMemory) } else { Ok(()) })
    }

    /// The mapped parts of a range.
    pub(crate) fn parts(&self, pages: Pages, wanted: impl Fn(&Vma) -> bool) -> Vec<(u64, u64)> {
        let over = self.vmas.over(pages.start, pages.end).filter(|s| wanted(&s.value));
        over.map(|s| (s.start.max(pages.start), s.end.min(pages.end))).collect()
    }

    fn advise_huge(&mut self, cx: &mut Cx, pages: Pages, advice: HugeAdvice) -> Result<(), FaultError> {
        // A huge page may not lie across the new border of a mapping (`vma_adjust_trans_huge`).
        for (start, end) in self.parts(pages, |vma| vma.advice != advice) {
            self.split_at(cx, start)?;
            self.split_at(cx, end)?;
        }
        for mut span in self.vmas.cut(pages.start, pages.end) {
            span.value.advice = advice;
            self.vmas.insert(span.start, span.end, span.value);
        }
        Ok(())
    }

    /// MADV_FREE: the contents may go when memory is short. This kernel never takes them; what remains is that the
    /// pages look untouched (`madvise_free_pte_range`).
    fn free(&mut self, cx: &mut Cx, pages: Pages) -> Result<(), FaultError> {
        self.split_at(cx, pages.start)?;
        self.split_at(cx, pages.end)?;
        self.each_mapping(cx, pages, |space, cx, start, end, gather| {
            let mut at = start;
            while let Some((va, leaf)) = space.next_leaf(cx.mem, at, end) {
                if (leaf.accessed || leaf.dirty) && !cx.memory.is_zero(leaf.pfn) {
                    space.set(cx, va, Leaf { accessed: false, dirty: false, ..leaf }, gather);
                }
                at = va + leaf.order.bytes();
            }
        });
        Ok(())
    }

    /// Carries advice out on the mapped parts of a range, and flushes after each of them or after the last.
    fn each_mapping(
        &mut self,
        cx: &mut Cx,
        pages: Pages,
        mut carry_out: impl FnMut(&mut Self, &mut Cx, u64, u64, &mut Gather),
    ) {
        let mut gather = Gather::default();
        for (start, end) in self.parts(pages, |_| true) {
            carry_out(self, cx, start, end, &mut gather);
            if cx.linux.advice_flush == AdviceFlush::Mapping {
                self.finish(cx, std::mem::take(&mut gather));
            }
        }
        self.finish(cx, gather);
    }

    /// MADV_WILLNEED: the beginning of what is advised of each file is read into the page cache (`force_page_cache_ra`
    /// in mm/readahead.c). FreeBSD reads nothing (`vm_map_madvise` in sys/vm/vm_map.c).
    fn will_need(&mut self, cx: &mut Cx, pages: Pages) {
        if matches!(cx.policy, Policy::Freebsd(_)) {
            return;
        }
        let most = cx.linux.largest_read.0.max(cx.linux.read_around.0) >> BASE_SHIFT;
        let spans: Vec<Span<Vma>> = self.vmas.over(pages.start, pages.end).cloned().collect();
        for span in spans {
            if let Back::Object(id, first) = span.value.back
                && !cx.memory.cache.is_memory(id)
            {
                cx.memory.resident.act_for(self.region(span.start));
                let page = |va: u64| first + ((va - span.start) >> BASE_SHIFT);
                let from = page(span.start.max(pages.start));
                self.read(cx, id, from, page(span.end.min(pages.end)).min(from.saturating_add(most)));
            }
        }
    }

    /// MADV_COLLAPSE: each aligned 2 MiB of the range becomes a huge page, whatever `enabled` says
    /// (`madvise_collapse` in mm/khugepaged.c), where the policy knows huge pages.
    fn collapse_all(&mut self, cx: &mut Cx, pages: Pages) -> Result<(), FaultError> {
        let size = PageOrder::P2M.bytes();
        if !matches!(cx.policy, Policy::Thp(_)) {
            cx.refuse(Refusal::ThpNever, pages.start);
            return Ok(());
        }
        for span in self.vmas.over(pages.start, pages.end).cloned().collect::<Vec<_>>() {
            let start = span.start.max(pages.start).checked_next_multiple_of(size).unwrap_or(u64::MAX);
            let end = span.end.min(pages.end) & !(size - 1);
            let why = if !span.value.is_anon() {
                Some(Refusal::ThpNotAnonymous)
            } else if span.value.advice == HugeAdvice::NoHuge {
                Some(Refusal::ThpNohugepage)
            } else if span.value.prot == Prot::NONE {
                Some(Refusal::CollapseEmpty)
            } else if start >= end {
                Some(Refusal::ThpOutsideVma)
            } else {
                None
            };
            if let Some(why) = why {
                cx.refuse(why, span.start.max(pages.start));
                continue;
            }
            for at in (start..end).step_by(size as usize) {
                self.collapse(cx, &span.value, at)?;
            }
        }
        Ok(())
    }

    /// Copies the base pages at `at` into one huge page (`collapse_huge_page`); whether it was done.
    pub(crate) fn collapse(&mut self, cx: &mut Cx, vma: &Vma, at: u64) -> Result<bool, FaultError> {
        let order = PageOrder::P2M;
        if matches!(self.probe(cx.mem, VirtAddr::new(at)), Found::Leaf(leaf) if leaf.order >= order) {
            return Ok(false);
        }
        let end = at + order.bytes();
        let mut present = 0;
        let mut dirty = false;
        let mut next = at;
        while let Some((va, leaf)) = self.next_leaf(cx.mem, next, end) {
            let has_contents = !cx.memory.is_zero(leaf.pfn);
            present += u64::from(has_contents);
            dirty |= leaf.dirty;
            next = va + leaf.order.bytes();
        }
        if next == at {
            cx.refuse(Refusal::CollapseEmpty, at);
            return Ok(false);
        }
        cx.memory.resident.act_for(self.region(at));
        let Some(pfn) = cx.memory.take_anon(order) else {
            cx.refuse(Refusal::ThpNoBlock, at);
            return Ok(false);
        };
        cx.work(WorkKind::CopyBytes, present * BASE_BYTES);
        cx.work(WorkKind::ZeroBytes, order.bytes() - present * BASE_BYTES);
        let mut gather = Gather::default();
        self.zap(cx, at, end, &mut gather);
        // `collapse_huge_page` clears the PMD and flushes its whole span at once.
        gather.note(at, order);
        self.finish(cx, gather);
        let leaf = Self::leaf(vma, pfn, order, vma.prot, dirty);
        self.map(cx, at, leaf).inspect_err(|_| cx.memory.drop_mapping(pfn, order))?;
        self.mark_private(at);
        cx.counts.happenings.add(Happening::Collapse, 1);
        cx.tell(|| Told::Collapsed { va: VirtAddr::new(at), size: order, pfn });
        Ok(true)
    }
}
