//! Text in an address space. File mappings become pages of the process's own at the same addresses. Entries of the page
//! cache are taken out of the table, so that its pages can move.

use super::range::PageRange;
use super::vma::{Back, HugeAdvice, Vma};
use super::{AddressSpace, Cx, Gather};
use crate::FaultError;
use crate::memory::cache::ObjectId;
use crate::memory::pages::Use;
use crate::ranges::Span;
use crate::space::offsets::Offsets;
use mmulab_addr::{BASE_BYTES, BASE_SHIFT, PageOrder, Pfn, Prot};

/// Frames for a copy of 2 MiB of text.
pub(crate) enum Copy {
    /// A huge page.
    Huge(Pfn),
    /// A page of the pool.
    Pooled(Pfn),
    /// Its base pages, in order.
    Base(Vec<Pfn>),
}

impl AddressSpace {
    /// Whether nothing is lost if a range is mapped over. The range has no mappings, or gaps of the same file, which
    /// the dynamic linker keeps without rights between a library's segments.
    pub(crate) fn is_unused(&self, id: ObjectId, start: u64, end: u64) -> bool {
        let is_gap = |vma: &Vma| vma.prot == Prot::NONE && matches!(vma.back, Back::Object(of, _) if of == id);
        self.is_canonical(end - 1) && self.vmas.over(start, end).all(|span| is_gap(&span.value))
    }

    /// Makes what lies between the end of text and `end` a part of it, which goes when the text does.
    ///
    /// # Errors
    /// Frames for page tables ran out.
    pub(crate) fn extend_text(&mut self, cx: &mut Cx, span: &Span<Vma>, end: u64) -> Result<(), FaultError> {
        let range = PageRange { start: span.end, end };
        self.clear(cx, range)?;
        let region = self.region(span.end - 1);
        self.occupy(cx, range, region);
        self.paddings.insert(range.start, range.end);
        Ok(())
    }

    /// Replaces the 2 MiB of text at `at`, as `vma` maps it, by a copy in memory of the process's own. So does mremap
    /// when it puts a copy in the place of the original. No page lies across the ends of the 2 MiB.
    ///
    /// # Errors
    /// Frames for page tables ran out.
    pub(crate) fn own_text(&mut self, cx: &mut Cx, vma: &Vma, at: u64, copy: Copy) -> Result<(), FaultError> {
        let end = at + PageOrder::P2M.bytes();
        let mut gather = Gather::default();
        self.zap(cx, at, end, &mut gather);
        self.finish(cx, gather);
        self.vmas.cut(at, end);
        let own = Vma {
            back: Back::Anon,
            advice: HugeAdvice::Huge,
            has_private: true,
            anon: None,
            offsets: Offsets::default(),
            text_moved: false,
            hugetlb: matches!(copy, Copy::Pooled(_)).then_some(PageOrder::P2M),
            ..vma.clone()
        };
        self.vmas.insert(at, end, own.clone());
        self.table.requested(PageRange { start: at, end }.range());
        let leaf = |pfn, order| Self::leaf(&own, pfn, order, own.prot, true);
        match copy {
            Copy::Huge(pfn) | Copy::Pooled(pfn) => {
                let order = PageOrder::P2M;
                self.map(cx, at, leaf(pfn, order)).inspect_err(|_| cx.memory.drop_mapping(pfn, order))
            }
            Copy::Base(pages) => {
                let places = (at..end).step_by(BASE_BYTES as usize);
                self.map_pages(cx, places.zip(pages.into_iter().map(|pfn| leaf(pfn, PageOrder::P4K))).collect())
            }
        }
    }

    /// Takes the page cache's pages `from..to` of a file out of the table, wherever they are mapped. Leaves pages that
    /// are the process's own (`try_to_unmap` and `retract_page_tables` in mm/khugepaged.c, `collapse_file`).
    ///
    /// # Errors
    /// Frames for page tables ran out.
    pub(crate) fn unmap_cached(&mut self, cx: &mut Cx, id: ObjectId, from: u64, to: u64) -> Result<(), FaultError> {
        let shown = |span: &Span<Vma>| match span.value.back {
            Back::Object(of, first) if of == id => {
                let pages = (span.end - span.start) >> BASE_SHIFT;
                let (low, high) = (from.max(first), to.min(first + pages));
                let va = |page: u64| span.start + ((page - first) << BASE_SHIFT);
                (low < high).then(|| (va(low), va(high)))
            }
            Back::Object(..) | Back::Anon => None,
        };
        let places: Vec<(u64, u64)> = self.vmas.iter().filter_map(shown).collect();
        let mut gather = Gather::default();
        for (start, end) in places {
            self.split_at(cx, start)?;
            self.split_at(cx, end)?;
            let mut at = start;
            while let Some((va, leaf)) = self.next_leaf(cx.mem, at, end) {
                if cx.memory.pages.get(leaf.pfn).used == Use::Cache {
                    self.unmap(cx, va, leaf.order, &mut gather);
                    for (_, page) in self.pages_of(&cx.memory.pages, va, leaf) {
                        Self::release(cx, &page);
                    }
                }
                at = va + leaf.order.bytes();
            }
            for (vpn, leaf) in self.take_hidden(start, end) {
                match cx.memory.pages.get(leaf.pfn).used {
                    Use::Cache => Self::release(cx, &leaf),
                    Use::Anon | Use::None => {
                        self.hidden.insert(vpn, leaf);
                    }
                }
            }
        }
        self.finish(cx, gather);
        Ok(())
    }
}
