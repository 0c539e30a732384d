//! Mappings that come and go.

use super::range::PageRange;
use super::vma::Vma;
use super::{AddressSpace, Cx, Gather};
use crate::ranges::Span;
use crate::report::region::{Identity, Lies, RegionId};
use crate::{AdviceFlush, FaultError};

impl AddressSpace {
    /// Puts a mapping where nothing is.
    pub(crate) fn lay(&mut self, cx: &mut Cx, pages: PageRange, vma: Vma, identity: &Identity) {
        let region = cx.regions.place(self.program, identity, pages.start, pages.end, cx.pid);
        self.count_program(cx);
        self.occupy(cx, pages, region);
        self.vmas.insert(pages.start, pages.end, vma);
        self.table.requested(pages.range());
    }

    /// Whether an end of the range lies inside a page of a MAP_HUGETLB mapping (`hugetlb_vm_op_split`: EINVAL).
    pub(crate) fn cuts_hugetlb(&self, pages: PageRange) -> bool {
        [pages.start, pages.end].into_iter().any(|at| {
            let inside = self.vmas.find(at).filter(|s| s.start < at);
            inside.and_then(|s| s.value.hugetlb).is_some_and(|order| at % order.bytes() != 0)
        })
    }

    /// The range, and what pads code that ends in it: padding goes with the code, for no program knows of it.
    fn with_padding(&mut self, pages: PageRange) -> PageRange {
        let Some((&end, &padded)) = self.paddings.range(pages.start + 1..=pages.end).next_back() else { return pages };
        let gone: Vec<u64> = self.paddings.range(pages.start + 1..=pages.end).map(|(&end, _)| end).collect();
        for end in gone {
            self.paddings.remove(&end);
        }
        // Behind a hole, or where the program mapped something since, it is not padding any more.
        let is_padding = padded > pages.end && self.vmas.find(end).is_some_and(|span| span.end == padded);
        PageRange { end: if is_padding { padded } else { pages.end }, ..pages }
    }

    /// Removes all mappings of a range, and returns what they were.
    pub(crate) fn clear(&mut self, cx: &mut Cx, pages: PageRange) -> Result<Vec<Span<Vma>>, FaultError> {
        let pages = self.with_padding(pages);
        self.stored.remove(pages.start, pages.end);
        if self.vmas.over(pages.start, pages.end).next().is_none() {
            return Ok(Vec::new());
        }
        let mut gather = Gather::default();
        self.leave_tables(cx, pages, &mut gather)?;
        self.split_at(cx, pages.start)?;
        self.split_at(cx, pages.end)?;
        self.table.forgotten(pages.range());
        let gone = self.vmas.cut(pages.start, pages.end);
        for span in &gone {
            self.zap(cx, span.start, span.end, &mut gather);
        }
        self.finish(cx, gather);
        for place in self.places.cut(pages.start, pages.end) {
            cx.regions.lift(place.value.0, place.end - place.start);
        }
        Ok(gone)
    }

    /// A range lies in a region from now on.
    pub(crate) fn occupy(&mut self, cx: &mut Cx, pages: PageRange, region: RegionId) {
        self.places.insert(pages.start, pages.end, Lies(region));
        cx.regions.lay(region, pages.end - pages.start);
    }

    /// An address space runs its program once it has a mapping: before, it may be only on its way to an exec.
    fn count_program(&mut self, cx: &mut Cx) {
        if !std::mem::replace(&mut self.is_counted, true) {
            cx.regions.runs(self.program, self.pid);
        }
    }

    /// The mapped parts of a range.
    pub(crate) fn parts(&self, pages: PageRange, wanted: impl Fn(&Vma) -> bool) -> Vec<(u64, u64)> {
        let over = self.vmas.over(pages.start, pages.end).filter(|s| wanted(&s.value));
        over.map(|s| (s.start.max(pages.start), s.end.min(pages.end))).collect()
    }

    /// Carries advice out on the mapped parts of a range, and flushes after each of them or after the last.
    pub(crate) fn each_mapping(
        &mut self,
        cx: &mut Cx,
        pages: PageRange,
        flush: AdviceFlush,
        mut carry_out: impl FnMut(&mut Self, &mut Cx, u64, u64, &mut Gather),
    ) {
        let mut gather = Gather::default();
        for (start, end) in self.parts(pages, |_| true) {
            carry_out(self, cx, start, end, &mut gather);
            if flush == AdviceFlush::Mapping {
                self.finish(cx, std::mem::take(&mut gather));
            }
        }
        self.finish(cx, gather);
    }
}
