//! Faults on text that gets larger pages. This is code that a program moves onto huge pages of its own, and text of the
//! page cache that lies in blocks.
//!
//! ```text
//! first fetch from a mapping --> move_text --> whole 2M read, copied, mapped in place of the file
//! page not in memory ----------> read_blocks --> blocks of the page cache
//! block of 2M in memory -------> map_whole --> one entry, if mapping and file agree modulo 2M
//! ```

use super::Linux;
use crate::manager::Manager;
use crate::memory::cache::ObjectId;
use crate::parts::traits::{Hole, Zeroing};
use crate::ranges::Span;
use crate::report::counts::{EventKind, FaultKind, Refusal};
use crate::space::text::Copy;
use crate::space::vma::{Back, Vma};
use crate::space::{AddressSpace, Cx, Found};
use crate::{Fault, FaultError, Note, PageCache, Wanted, WorkKind};
use mmulab_addr::{BASE_BYTES, BASE_SHIFT, PageOrder, Pfn, Prot, VirtAddr};

/// The system calls that move a mapping: mmap, madvise, mprotect, mremap (hugify, and Intel's `large_page-c`).
const CALLS: u64 = 4;

impl Linux {
    /// Moves what can be moved of a mapping of text, at its first fetch. `None`: the fault is still to be served.
    pub(super) fn move_text(
        &self,
        space: &mut AddressSpace,
        cx: &mut Cx,
        hole: &Hole,
    ) -> Result<Option<Fault>, FaultError> {
        let (span, va) = (hole.span, hole.va.raw());
        let Some(remap) = self.text.remap(&span.value, hole.access) else { return Ok(None) };
        let Back::Object(id, first) = span.value.back else { return Ok(None) };
        if let Some(vma) = space.vmas.value_mut(va) {
            vma.text_moved = true;
        }
        cx.counts.events.add(EventKind::TextPages, (span.end - span.start) >> BASE_SHIFT);
        let Some((start, end)) = remap.piece(span, |from, to| space.is_unused(id, from, to)) else {
            cx.refuse(Refusal::TextTooSmall, span.start);
            return Ok(None);
        };
        let end = self.as_far_as_pages_last(cx, start, end);
        if start == end {
            return Ok(None);
        }
        cx.work(WorkKind::Syscall, CALLS);
        space.split_at(cx, start)?;
        if end > span.end {
            space.extend_text(cx, span, end)?;
            cx.counts.events.add(EventKind::TextPadding, (end - span.end) >> BASE_SHIFT);
        }
        let (size, read_before) = (PageOrder::P2M, cx.counts.events.get(EventKind::PagesRead));
        let mut huge = 0;
        for at in (start..end).step_by(size.bytes() as usize) {
            let from = first + ((at - span.start) >> BASE_SHIFT);
            let pages = ((at + size.bytes()).min(span.end).saturating_sub(at)) >> BASE_SHIFT;
            self.read_to_copy(cx, id, from, pages);
            space.split_at(cx, at + size.bytes())?;
            let copy = self.room_for_text(cx, at)?;
            huge += u64::from(!matches!(copy, Copy::Base(_)));
            cx.work(WorkKind::CopyBytes, pages * BASE_BYTES);
            space.own_text(cx, &span.value, at, copy)?;
        }
        let moved = (end - start) >> BASE_SHIFT;
        cx.counts.events.add(EventKind::TextMoved, 1);
        cx.counts.events.add(EventKind::TextPagesMoved, moved);
        cx.counts.events.add(EventKind::TextPagesHuge, huge * size.base_pages());
        cx.tell(|| Note::TextMoved { va: VirtAddr::new(start), pages: moved, huge });
        let read_pages = (cx.counts.events.get(EventKind::PagesRead) - read_before) as u32;
        match space.probe(cx.mem, hole.va) {
            Found::Leaf(leaf) => {
                let order = space.page_of(&cx.memory.pages, hole.va, leaf).order;
                Ok(Some(Fault { read_pages, ..Fault::of(FaultKind::TextMoved, order) }))
            }
            Found::Hole(_) => self.serve(space, cx, hole.va, hole.access).map(Some),
        }
    }

    /// Has pages of a file in memory, as a program that copies them all has: each fault maps `fault_around`.
    fn read_to_copy(&self, cx: &mut Cx, id: ObjectId, from: u64, pages: u64) {
        let around = (self.desc.fault_around.0 >> BASE_SHIFT).max(1);
        cx.work(WorkKind::FaultEntry, pages.div_ceil(around));
        cx.work(WorkKind::EntryWrite, pages);
        if (from..from + pages).all(|page| cx.memory.cache.get(id, page).is_some()) {
            return;
        }
        match cx.limits.page_cache {
            PageCache::Cold => {
                self.read(cx, id, from, from + pages);
            }
            PageCache::Warm => {
                for page in from..from + pages {
                    if cx.memory.cache.get(id, page).is_none() && cx.memory.take_warm(id, page).is_none() {
                        break;
                    }
                }
            }
        }
    }

    /// The end of what the pool has pages for, of the text from `start` to `end`, if text moves onto pages of the pool.
    fn as_far_as_pages_last(&self, cx: &mut Cx, start: u64, end: u64) -> u64 {
        let Some(pool) = cx.memory.pool.as_ref().filter(|_| self.text.uses_pool()) else { return end };
        let last = start + (pool.total - pool.used()) * PageOrder::P2M.bytes();
        if last < end {
            cx.refuse(Refusal::HugetlbPoolEmpty, last);
        }
        end.min(last)
    }

    /// Cleared memory for the copy of 2M of text. It is a page of the pool, or a huge page, else base pages, as a fault
    /// in memory advised MADV_HUGEPAGE gets them.
    fn room_for_text(&self, cx: &mut Cx, at: u64) -> Result<Copy, FaultError> {
        let size = PageOrder::P2M;
        if self.text.uses_pool()
            && let Some(pfn) = cx.memory.take_pooled()
        {
            cx.work(WorkKind::FaultEntry, 1);
            self.zeroing.zero(cx, pfn, size);
            return Ok(Copy::Pooled(pfn));
        }
        if let Some(pfn) = cx.memory.take_anon(size) {
            cx.work(WorkKind::FaultEntry, 1);
            self.zeroing.zero(cx, pfn, size);
            return Ok(Copy::Huge(pfn));
        }
        cx.refuse(Refusal::TextNoBlock, at);
        let mut pages: Vec<Pfn> = Vec::with_capacity(size.base_pages() as usize);
        for i in 0..size.base_pages() {
            let Some(pfn) = cx.memory.take_anon(PageOrder::P4K) else {
                pages.iter().for_each(|&pfn| cx.memory.drop_mapping(pfn, PageOrder::P4K));
                return Err(cx.out_of_memory(at + i * BASE_BYTES, Wanted::Page(PageOrder::P4K)));
            };
            cx.work(WorkKind::FaultEntry, 1);
            self.zeroing.zero(cx, pfn, PageOrder::P4K);
            pages.push(pfn);
        }
        Ok(Copy::Base(pages))
    }

    /// Reads text around a page that is not in memory, in aligned blocks of `size`, as far as the file goes. Blocks
    /// below 2M are read only as far as the mapping goes. Gives the pages read.
    ///
    /// `do_sync_mmap_readahead` in mm/filemap.c asks for blocks below 2M for VM_EXEC (`exec_folio_order`), and for 2M
    /// for VM_HUGEPAGE; tmpfs with huge=always has those of 2M.
    pub(super) fn read_blocks(&self, cx: &mut Cx, id: ObjectId, span: &Span<Vma>, page: u64, size: PageOrder) -> u32 {
        let Back::Object(_, first) = span.value.back else { return 0 };
        let block = size.base_pages();
        let (start, file_end) = (page & !(block - 1), cx.memory.cache.end(id));
        let (from, to) = if size < PageOrder::P2M {
            let from = start.max(first);
            let to = (from + (self.desc.read_around.0 >> BASE_SHIFT)).next_multiple_of(block);
            (from, to.min(first + ((span.end - span.start) >> BASE_SHIFT)).min(file_end))
        } else {
            (start, (start + block).min(file_end))
        };
        let (mut at, mut read) = (from, 0);
        while at < to {
            if cx.memory.cache.get(id, at).is_some() {
                at += 1;
                continue;
            }
            let Some(got) = read_block(cx, id, at, to, size) else { break };
            read += got;
            at += got;
        }
        if cx.limits.page_cache == PageCache::Warm {
            // They were there before; the model gives them frames when first looked at.
            return 0;
        }
        cx.work(WorkKind::ReadBytes, read * BASE_BYTES);
        cx.counts.events.add(EventKind::PagesRead, read);
        cx.tell(|| Note::Read { page: from, pages: read });
        read as u32
    }

    /// Maps the 2M around a fault by one entry (`filemap_map_pmd`, `do_set_pmd` in mm/memory.c). They must lie in one
    /// block of the page cache, and mapping and file must agree modulo 2M.
    pub(super) fn map_whole(
        &self,
        space: &mut AddressSpace,
        cx: &mut Cx,
        hole: &Hole,
        id: ObjectId,
        page: u64,
    ) -> Result<Option<Fault>, FaultError> {
        let (vma, size) = (&hole.span.value, PageOrder::P2M);
        if !self.text.maps_huge() || vma.shared {
            return Ok(None);
        }
        let pfn = cx.memory.cache.get(id, page);
        if pfn.is_none_or(|pfn| cx.memory.pages.get(pfn).folio != size.get()) || hole.room < size {
            return Ok(None);
        }
        if !hole.fits(size) {
            cx.refuse(Refusal::TextOutsideVma, hole.va.raw());
            return Ok(None);
        }
        let start = hole.start(size);
        let before = (hole.start(PageOrder::P4K) - start) >> BASE_SHIFT;
        let Some(first) = page.checked_sub(before).filter(|first| first.is_multiple_of(size.base_pages())) else {
            cx.refuse(Refusal::TextMisaligned, hole.va.raw());
            return Ok(None);
        };
        let Some(head) = cx.memory.whole_block(id, first, size) else { return Ok(None) };
        cx.memory.share(head, size);
        let leaf = AddressSpace::leaf(vma, head, size, vma.prot.without(Prot::W), false);
        space.map(cx, start, leaf).inspect_err(|_| cx.memory.drop_mapping(head, size))?;
        cx.counts.events.add(EventKind::TextMapped, 1);
        Ok(Some(Fault::of(FaultKind::FileCached, size)))
    }
}

/// Brings the page `at` of a file into memory, in the largest aligned block that ends before `to` and holds no page
/// that is there already. Gives the pages of the block; `None` if memory ended.
fn read_block(cx: &mut Cx, id: ObjectId, at: u64, to: u64, size: PageOrder) -> Option<u64> {
    let mut order = size.get();
    let is_good = |order: u8| {
        let pages = 1 << order;
        at.is_multiple_of(pages)
            && at + pages <= to
            && !(at + 1..at + pages).any(|p| cx.memory.cache.get(id, p).is_some())
    };
    while order > 0 && !is_good(order) {
        order -= 1;
    }
    if order > 0 {
        let block = PageOrder::new(order);
        if cx.memory.take_cached_block(id, at, block).is_some() {
            cx.counts.events.add(EventKind::TextBlock, 1);
            return Some(block.base_pages());
        }
        cx.refuse(Refusal::TextNoBlock, at << BASE_SHIFT);
    }
    cx.memory.take_cached(id, at).map(|_| 1)
}
