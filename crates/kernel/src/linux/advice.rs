//! madvise(2), as far as Linux differs: free, willneed, collapse.

use super::Linux;
use crate::FaultError;
use crate::ranges::Span;
use crate::report::counts::Refusal;
use crate::space::range::PageRange;
use crate::space::vma::{Back, HugeAdvice, Vma};
use crate::space::{AddressSpace, Cx};
use mmulab_addr::{BASE_SHIFT, PageOrder, Prot};
use mmulab_pagetable::Leaf;

impl Linux {
    /// MADV_FREE: the contents may go when memory is short. This kernel never takes them; what remains is that the
    /// pages look untouched (`madvise_free_pte_range`).
    pub(super) fn mark_free(&self, space: &mut AddressSpace, cx: &mut Cx, pages: PageRange) -> Result<(), FaultError> {
        space.split_at(cx, pages.start)?;
        space.split_at(cx, pages.end)?;
        space.each_mapping(cx, pages, self.desc.advice_flush, |space, cx, start, end, gather| {
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

    /// MADV_WILLNEED: the beginning of what is advised of each file is read into the page cache (`force_page_cache_ra`
    /// in mm/readahead.c).
    pub(super) fn read_ahead(&self, space: &AddressSpace, cx: &mut Cx, pages: PageRange) {
        let most = self.desc.largest_read.0.max(self.desc.read_around.0) >> BASE_SHIFT;
        let spans: Vec<Span<Vma>> = space.vmas.over(pages.start, pages.end).cloned().collect();
        for span in spans {
            if let Back::Object(id, first) = span.value.back
                && !cx.memory.cache.is_memory(id)
            {
                cx.memory.resident.act_for(space.region(span.start));
                let page = |va: u64| first + ((va - span.start) >> BASE_SHIFT);
                let from = page(span.start.max(pages.start));
                self.read(cx, id, from, page(span.end.min(pages.end)).min(from.saturating_add(most)));
            }
        }
    }

    /// MADV_COLLAPSE: each aligned 2 MiB of the range becomes a huge page, whatever `enabled` says
    /// (`madvise_collapse` in mm/khugepaged.c), where the policy has huge pages.
    pub(super) fn collapse_all(
        &self,
        space: &mut AddressSpace,
        cx: &mut Cx,
        pages: PageRange,
    ) -> Result<(), FaultError> {
        let size = PageOrder::P2M.bytes();
        if !self.collapses {
            cx.refuse(Refusal::ThpNever, pages.start);
            return Ok(());
        }
        for span in space.vmas.over(pages.start, pages.end).cloned().collect::<Vec<_>>() {
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
                space.collapse(cx, &span.value, at)?;
            }
        }
        Ok(())
    }
}
