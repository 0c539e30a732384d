//! Mappings that come and go.

use crate::FaultError;
use crate::Told;
use crate::events::Pages;
use crate::gather::Gather;
use crate::region::{Identity, Lies, Prot3, RegionId, RegionKind};
use crate::space::{Cx, Found, Space};
use crate::spans::Span;
use crate::vma::Vma;
use mmulab_addr::{Access, Prot, VirtAddr};
use mmulab_pagetable::Leaf;
use mmulab_trace::{Backing, MapFlags};
use std::sync::Arc;

/// What region a new mapping belongs to.
pub(crate) fn identity(flags: &MapFlags, backing: &Backing, prot: Prot, start: u64) -> Identity {
    let label = flags.label.clone();
    let is_stack = flags.grows_down || label.as_deref().is_some_and(|l| l.starts_with("[stack"));
    let (kind, name, origin): (_, Arc<str>, _) = match backing {
        Backing::File { path, offset } => (RegionKind::File, path.clone(), start.wrapping_sub(*offset)),
        Backing::Anon if is_stack => (RegionKind::Stack, label.unwrap_or_else(|| "[stack]".into()), 0),
        Backing::Anon => match label {
            Some(label) if &*label == "[heap]" => (RegionKind::Heap, label, 0),
            Some(label) => (RegionKind::Special, label, 0),
            None if flags.shared => (RegionKind::Shared, "shared".into(), 0),
            None => (RegionKind::Anon, "anon".into(), 0),
        },
    };
    Identity { kind, name, prot: Prot3(prot.bits()), origin }
}

impl Space {
    /// Puts a mapping where nothing is.
    pub(crate) fn lay(&mut self, cx: &mut Cx, pages: Pages, vma: Vma, identity: &Identity) {
        let region = cx.regions.place(self.program, identity, pages.start, pages.end, cx.pid);
        self.count_program(cx);
        self.occupy(cx, pages, region);
        self.vmas.insert(pages.start, pages.end, vma);
        self.table.requested(pages.range());
    }

    /// Faults all pages of a new mapping in (`populate_vma_page_range`): for stores, if it is private and may be stored
    /// to.
    pub(crate) fn fill(&mut self, cx: &mut Cx, pages: Pages) -> Result<(), FaultError> {
        let Some(span) = self.vmas.find(pages.start) else { return Ok(()) };
        let vma = &span.value;
        if vma.prot == Prot::NONE {
            return Ok(());
        }
        let access = if vma.prot.has(Prot::W) && !vma.shared { Access::Write } else { Access::Read };
        let mut at = pages.start;
        while at < pages.end && !cx.memory.stop.is_asked() {
            let step = match self.probe(cx.mem, VirtAddr::new(at)) {
                Found::Leaf(leaf) => leaf.order,
                Found::Hole(_) => self.serve(cx, VirtAddr::new(at), access)?.order,
            };
            at = (at & !(step.bytes() - 1)) + step.bytes();
        }
        if cx.fx.narrate {
            self.tell_populated(cx, pages);
        }
        Ok(())
    }

    /// Reports where the pages of a new mapping lie, a run of frames at a time.
    fn tell_populated(&self, cx: &mut Cx, pages: Pages) {
        let mut run: Option<(u64, Leaf, u64)> = None;
        let mut at = pages.start;
        while let Some((va, leaf)) = self.next_leaf(cx.mem, at, pages.end) {
            at = va + leaf.order.bytes();
            match &mut run {
                Some((first, of, count))
                    if (of.order, of.prot) == (leaf.order, leaf.prot)
                        && va == *first + *count * leaf.order.bytes()
                        && leaf.pfn.0 == of.pfn.0 + *count * leaf.order.base_pages() =>
                {
                    *count += 1;
                }
                _ => {
                    if let Some(done) = run.replace((va, leaf, 1)) {
                        Self::tell_run(cx, done);
                    }
                }
            }
        }
        if let Some(done) = run {
            Self::tell_run(cx, done);
        }
    }

    fn tell_run(cx: &mut Cx, (va, leaf, pages): (u64, Leaf, u64)) {
        let Leaf { order: size, pfn, prot, .. } = leaf;
        cx.tell(|| Told::Populated { va: VirtAddr::new(va), size, pages, pfn, prot });
    }

    /// Whether an end of the range lies inside a page of a MAP_HUGETLB mapping (`hugetlb_vm_op_split`: EINVAL).
    pub(crate) fn cuts_hugetlb(&self, pages: Pages) -> bool {
        [pages.start, pages.end].into_iter().any(|at| {
            let inside = self.vmas.find(at).filter(|s| s.start < at);
            inside.and_then(|s| s.value.hugetlb).is_some_and(|order| at % order.bytes() != 0)
        })
    }

    /// Removes all mappings of a range, and returns what they were.
    pub(crate) fn clear(&mut self, cx: &mut Cx, pages: Pages) -> Result<Vec<Span<Vma>>, FaultError> {
        if self.vmas.over(pages.start, pages.end).next().is_none() {
            return Ok(Vec::new());
        }
        self.split_at(cx, pages.start)?;
        self.split_at(cx, pages.end)?;
        self.table.forgotten(pages.range());
        let mut gather = Gather::default();
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
    pub(crate) fn occupy(&mut self, cx: &mut Cx, pages: Pages, region: RegionId) {
        self.places.insert(pages.start, pages.end, Lies(region));
        cx.regions.lay(region, pages.end - pages.start);
    }

    /// An address space runs its program once it has a mapping: before, it may be only on its way to an exec.
    fn count_program(&mut self, cx: &mut Cx) {
        if !std::mem::replace(&mut self.is_counted, true) {
            cx.regions.runs(self.program, self.pid);
        }
    }
}
