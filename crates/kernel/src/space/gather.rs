//! Changes to many entries, flushed together (Linux's `mmu_gather`).

use crate::report::tally::Tally;
use crate::{Effects, WorkKind};
use mmulab_addr::{Asid, PageOrder, VirtAddr, VirtRange};
use mmulab_pagetable::{Flush, Invalidate};

/// The addresses whose translations must be dropped before the operation ends.
///
/// As `flush_tlb_mm_range` in arch/x86/mm/tlb.c: the range runs from the first to the last changed entry. If it holds
/// more pages than the ceiling, the whole address space is flushed. Pages count in the smallest size changed.
#[derive(Debug, Default)]
pub struct Gather {
    touched: Option<(u64, u64, PageOrder)>,
    all: bool,
    global: bool,
}

impl Gather {
    /// An entry of `order` at `va` was changed so that a stale copy could be used wrongly.
    pub fn note(&mut self, va: u64, order: PageOrder) {
        self.note_range(va, order, order);
    }

    /// The entries of all pages of size `page` in the aligned range of size `whole` at `va` were changed so.
    pub fn note_range(&mut self, va: u64, whole: PageOrder, page: PageOrder) {
        let end = va.wrapping_add(whole.bytes());
        self.touched = Some(match self.touched {
            None => (va, end, page),
            Some((a, b, o)) => (a.min(va), b.max(end), o.min(page)),
        });
    }

    /// One of the entries was global: a flush of the address space alone would spare it.
    pub fn note_global(&mut self, global: bool) {
        self.global |= global;
    }

    /// Takes an edit's debt over; the page it changed is noted beside, where one was. Tables that moved may have been
    /// cached for any of their pages, which are more than any ceiling.
    pub fn take(&mut self, flush: Flush) {
        self.all |= flush.moves_tables();
        flush.lazy("gathered, and sent before the operation ends");
    }

    /// The whole address space changed.
    pub fn note_all(&mut self) {
        self.all = true;
    }

    /// Sends what was gathered.
    pub fn finish(self, asid: Asid, ceiling: u64, work: &mut Tally<WorkKind>, effects: &mut Effects) {
        let whole = if self.global { Invalidate::All } else { Invalidate::Asid(asid) };
        let (kind, what) = match (self.all, self.touched) {
            (true, _) => (WorkKind::FlushSpace, whole),
            (false, None) => return,
            (false, Some((start, end, order))) => {
                let pages = end.wrapping_sub(start) >> order.shift();
                let va = VirtAddr::new(start);
                if pages == 1 {
                    (WorkKind::FlushPage, Invalidate::Page { asid, va, order })
                } else if pages <= ceiling {
                    (
                        WorkKind::FlushRange,
                        Invalidate::Range {
                            asid,
                            range: VirtRange { start: va, end: VirtAddr::new(end) },
                            stride: order,
                        },
                    )
                } else {
                    (WorkKind::FlushSpace, whole)
                }
            }
        };
        work.add(kind, 1);
        effects.invalidations.push(what);
    }
}
