//! Folded ranges: sixteen neighbouring entries with the contiguous bit. They translate as one page of sixteen times the
//! size while their pages stay sixteen (paper 3, Elastic Translations, section IV-A and Figure 4).
//!
//! ```text
//! map, set, widen, split --> refold: do all sixteen entries qualify?   no: they stay as they are
//!                                         | yes
//!                                         v
//!                            one leaf of 64K or 32M in the table; no flush, since the sixteen translations that a
//!                            TLB may hold stay true
//!                                         |
//! an operation on a part ----> unfold: sixteen leaves again. Break before make: the entries are cleared, the range is
//!                            flushed once, and the entries are written without the bit
//! ```
//!
//! A leaf of the table is folded if it is larger than the page it shows. That page is one of sixteen with users of
//! their own, unlike a page of 64 KiB that was allocated whole. Only this file distinguishes the two:
//! - Work on a whole leaf treats it as any other leaf.
//! - Work that keeps, moves, shares or releases pages asks [`AddressSpace::pages_of`], and a look at one page
//!   [`AddressSpace::page`].
//! - Work that changes one page calls [`AddressSpace::alone`] or `split_at` first, which unfold.

use super::{AddressSpace, Cx, Found, Gather};
use crate::memory::pages::Pages;
use crate::parts::bit::{ENTRIES, Sixteen};
use crate::report::counts::{EventKind, Refusal};
use crate::{FaultError, Note, Wanted, WorkKind};
use mmulab_addr::{PageOrder, Pfn, VirtAddr};
use mmulab_frames::PhysMem;
use mmulab_pagetable::Leaf;

impl AddressSpace {
    /// The size of the pages that a leaf shows, if it is a folded range of them.
    #[inline]
    fn folded(&self, pages: &Pages, leaf: &Leaf) -> Option<PageOrder> {
        self.contiguous.page_of(leaf.order).filter(|_| !pages.is_whole(leaf.pfn, leaf.order))
    }

    /// The size of the pages that a leaf shows: its own, or a sixteenth of a folded range.
    #[inline]
    pub(crate) fn page_size(&self, pages: &Pages, leaf: &Leaf) -> PageOrder {
        self.folded(pages, leaf).unwrap_or(leaf.order)
    }

    /// The pages that the leaf at `va` shows, each as a leaf of its own: the sixteen of a folded range, else the one.
    pub(crate) fn pages_of(&self, pages: &Pages, va: u64, leaf: Leaf) -> impl Iterator<Item = (u64, Leaf)> + use<> {
        let order = self.page_size(pages, &leaf);
        (0..leaf.order.base_pages() / order.base_pages()).map(move |i| {
            (va + i * order.bytes(), Leaf { pfn: Pfn(leaf.pfn.0 + i * order.base_pages()), order, ..leaf })
        })
    }

    /// The page at `va`: what is mapped there, but of a folded range the one page.
    #[inline]
    pub(crate) fn page(&self, mem: &PhysMem, pages: &Pages, va: VirtAddr) -> Found {
        match self.probe(mem, va) {
            Found::Leaf(leaf) => Found::Leaf(self.page_of(pages, va, leaf)),
            hole => hole,
        }
    }

    /// The page at `va`, which `leaf` maps.
    #[inline]
    pub(crate) fn page_of(&self, pages: &Pages, va: VirtAddr, leaf: Leaf) -> Leaf {
        match self.folded(pages, &leaf) {
            Some(order) => Leaf { pfn: leaf.translate(va).pfn().align_down(order), order, ..leaf },
            None => leaf,
        }
    }

    /// The pages of an address range, in order, each with its first address. For work that leaves the table as it is.
    pub(crate) fn pages<'a>(
        &'a self,
        mem: &'a PhysMem,
        pages: &'a Pages,
        start: u64,
        end: u64,
    ) -> impl Iterator<Item = (u64, Leaf)> + use<'a> {
        self.leaves(mem, start, end).flat_map(move |(va, leaf)| {
            // A page may begin before the range, but a folded range has pages that end before it.
            self.pages_of(pages, va, leaf).filter(move |(at, page)| at + (page.order.bytes() - 1) >= start && *at < end)
        })
    }

    /// Looks at the sixteen entries around `va` after a page of `order` there was mapped or changed, and folds them if
    /// they qualify.
    #[inline]
    pub(crate) fn refold(&mut self, cx: &mut Cx, va: u64, order: PageOrder) {
        if let Some(range) = self.contiguous.range_of(order) {
            self.fold(cx, VirtAddr::new(va).align_down(range).raw(), order, range);
        }
    }

    fn fold(&mut self, cx: &mut Cx, start: u64, order: PageOrder, range: PageOrder) {
        let Some(entries) = self.sixteen(cx, start, order, range) else {
            return cx.counts.events.add(EventKind::ContiguousPartial, 1);
        };
        let whole = match self.contiguous.joined(&entries, cx.memory) {
            Ok(Some(whole)) => whole,
            Ok(None) => return,
            Err(why) => return cx.refuse(why, start),
        };
        // Ours: the kernel works mapping by mapping, and counts region by region.
        let is_inside = self.vmas.find(start).is_some_and(|s| s.end - start >= range.bytes())
            && self.places.find(start).is_some_and(|s| s.end - start >= range.bytes());
        if !is_inside {
            return cx.refuse(Refusal::ContiguousOutsideVma, start);
        }
        let vpn = VirtAddr::new(start).vpn();
        match self.table.join(cx.mem, vpn, whole) {
            Ok(flush) => flush.lazy("the sixteen translations that TLBs may hold stay true"),
            Err(other) => unreachable!("sixteen entries that follow each other can be joined: {other}"),
        }
        for i in 0..ENTRIES as u64 {
            self.count_out(cx, start + i * order.bytes(), order, false);
        }
        self.count_in(cx, start, range, false);
        cx.work(WorkKind::EntryWrite, ENTRIES as u64);
        let size = if range == PageOrder::P64K { EventKind::Contiguous64K } else { EventKind::Contiguous32M };
        cx.counts.events.add(size, 1);
        cx.tell(|| Note::ContiguousSet { va: VirtAddr::new(start), size: range, pfn: whole.pfn });
    }

    /// The sixteen entries from `start` on, if each maps a page of `order`.
    fn sixteen(&self, cx: &mut Cx, start: u64, order: PageOrder, range: PageOrder) -> Option<Sixteen> {
        let mut found = [None; ENTRIES];
        let looked = self.table.row(cx.mem, VirtAddr::new(start).vpn(), order, &mut found);
        cx.work(WorkKind::EntryScan, looked as u64);
        let mut leaves = [found[0]?; ENTRIES];
        for (leaf, found) in leaves.iter_mut().zip(found) {
            *leaf = found?;
        }
        Some(Sixteen { range, leaves })
    }

    /// Makes sixteen leaves of the leaf at `va` if it is a folded range; whether it was.
    ///
    /// # Errors
    /// None on tables that join entries in place: they need no frame for it.
    pub(crate) fn unfold(&mut self, cx: &mut Cx, va: u64, leaf: Leaf) -> Result<bool, FaultError> {
        let Some(order) = self.folded(&cx.memory.pages, &leaf) else { return Ok(false) };
        match self.table.split(cx.mem, cx.memory, VirtAddr::new(va).vpn()) {
            Ok(flush) => flush.lazy("the range is flushed next, before anything else is written"),
            Err(_) => return Err(cx.out_of_memory(va, Wanted::Table)),
        }
        let mut gather = Gather::default();
        gather.note_range(va, leaf.order, order);
        gather.note_global(leaf.global);
        self.finish(cx, gather);
        self.count_out(cx, va, leaf.order, false);
        for i in 0..ENTRIES as u64 {
            self.count_in(cx, va + i * order.bytes(), order, false);
        }
        // Each entry is cleared before the flush and written after it.
        cx.work(WorkKind::EntryWrite, 2 * ENTRIES as u64);
        let is_64k = leaf.order == PageOrder::P64K;
        let size = if is_64k { EventKind::ContiguousCleared64K } else { EventKind::ContiguousCleared32M };
        cx.counts.events.add(size, 1);
        cx.counts.events.add(EventKind::ContiguousFlush, u64::from(self.asid.is_some()));
        cx.tell(|| Note::ContiguousCleared { va: VirtAddr::new(va), size: leaf.order, pfn: leaf.pfn });
        Ok(true)
    }

    /// The page at `va`, which `leaf` maps, alone in its entry from now on.
    ///
    /// # Errors
    /// Those of [`Self::unfold`].
    pub(crate) fn alone(&mut self, cx: &mut Cx, va: VirtAddr, leaf: Leaf) -> Result<Leaf, FaultError> {
        let page = self.page_of(&cx.memory.pages, va, leaf);
        self.unfold(cx, va.align_down(leaf.order).raw(), leaf)?;
        Ok(page)
    }

    /// Maps the pages of a leaf that was taken out of the table elsewhere; those that find no frame for a table go.
    ///
    /// # Errors
    /// No frame is left for a table.
    pub(crate) fn map_pages(&mut self, cx: &mut Cx, pages: Vec<(u64, Leaf)>) -> Result<(), FaultError> {
        for (i, &(va, page)) in pages.iter().enumerate() {
            self.map(cx, va, page).inspect_err(|_| {
                pages[i..].iter().for_each(|(_, rest)| Self::release(cx, rest));
            })?;
        }
        Ok(())
    }
}
