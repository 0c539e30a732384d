//! madvise(2).

use super::populate::fill;
use crate::FaultError;
use crate::manager::Manager;
use crate::report::counts::{EventError, EventKind, Refusal};
use crate::space::hints::SizeHint;
use crate::space::range::PageRange;
use crate::space::vma::HugeAdvice;
use crate::space::{AddressSpace, Cx};
use mmulab_trace::Advice;

/// Takes advice on a range. Parts that are not mapped are passed over, and make the result ENOMEM.
pub(super) fn advise(
    manager: &impl Manager,
    space: &mut AddressSpace,
    cx: &mut Cx,
    pages: PageRange,
    advice: Advice,
) -> Result<Result<(), EventError>, FaultError> {
    if pages.start == pages.end {
        return Ok(Ok(()));
    }
    if let Advice::PageSize(size) = advice {
        // A hint is for addresses, so that it can come before there is a mapping.
        take_hint(manager, space, cx, SizeHint { start: pages.start, end: pages.end, size });
        return Ok(Ok(()));
    }
    let has_hole = space.vmas.first_hole(pages.start, pages.end) < pages.end;
    match advice {
        Advice::Hugepage | Advice::Nohugepage => {
            let advice = if advice == Advice::Hugepage { HugeAdvice::Huge } else { HugeAdvice::NoHuge };
            if space.vmas.over(pages.start, pages.end).any(|s| s.value.hugetlb.is_some()) {
                return Ok(Err(EventError::Invalid));
            }
            if manager.takes_hints() {
                advise_huge(space, cx, pages, advice)?;
            }
        }
        Advice::Collapse => manager.collapse(space, cx, pages)?,
        Advice::Dontneed => {
            if space.cuts_hugetlb(pages) {
                return Ok(Err(EventError::Invalid));
            }
            space.split_at(cx, pages.start)?;
            space.split_at(cx, pages.end)?;
            space.stored.remove(pages.start, pages.end);
            space.each_mapping(cx, pages, manager.advice_flush(), AddressSpace::zap);
        }
        Advice::Free => {
            // Of private anonymous memory only (`madvise_free_single_vma`: EINVAL).
            if space.vmas.over(pages.start, pages.end).any(|s| !s.value.is_anon() || s.value.hugetlb.is_some()) {
                return Ok(Err(EventError::Invalid));
            }
            manager.free(space, cx, pages)?;
        }
        Advice::Willneed => manager.will_need(space, cx, pages),
        // For loads or for stores by the mapping's rights, as with MAP_POPULATE.
        Advice::POPULATE_READ | Advice::POPULATE_WRITE => {
            for (start, end) in space.parts(pages, |_| true) {
                if fill(manager, space, cx, PageRange { start, end }).is_err() {
                    return Ok(Err(EventError::PopulateShort));
                }
            }
        }
        Advice::PageSize(_) | Advice::Other(_) => {}
    }
    Ok(if has_hole { Err(EventError::NoMemory) } else { Ok(()) })
}

/// Keeps a hint of a page size, or counts why not.
pub(super) fn take_hint(manager: &impl Manager, space: &mut AddressSpace, cx: &mut Cx, hint: SizeHint) {
    let why = if manager.hint_sizes().is_empty() {
        Refusal::HintIgnored
    } else if !manager.hint_sizes().contains(&hint.size) {
        Refusal::HintSize
    } else if hint.block_from(hint.start).is_none() {
        Refusal::HintTooSmall
    } else {
        let replaced = space.hints.add(hint, manager.hints_guide_faults());
        cx.counts.events.add(EventKind::HintTaken, 1);
        cx.counts.events.add(EventKind::HintReplaced, replaced);
        return;
    };
    cx.refuse(why, hint.start);
}

fn advise_huge(space: &mut AddressSpace, cx: &mut Cx, pages: PageRange, advice: HugeAdvice) -> Result<(), FaultError> {
    // A huge page may not lie across the new border of a mapping (`vma_adjust_trans_huge`).
    for (start, end) in space.parts(pages, |vma| vma.advice != advice) {
        space.split_at(cx, start)?;
        space.split_at(cx, end)?;
    }
    for mut span in space.vmas.cut(pages.start, pages.end) {
        span.value.advice = advice;
        space.vmas.insert(span.start, span.end, span.value);
    }
    Ok(())
}
