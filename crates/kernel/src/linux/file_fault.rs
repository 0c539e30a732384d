//! Faults on files and shared memory: read-around into the page cache, fault-around out of it.

use super::Linux;
use crate::memory::cache::ObjectId;
use crate::parts::traits::{Hole, Placement};
use crate::ranges::Span;
use crate::report::counts::{EventKind, FaultKind};
use crate::space::vma::{Back, Vma};
use crate::space::{AddressSpace, Cx, Found};
use crate::{Fault, FaultError, Note, PageCache, Wanted, WorkKind};
use mmulab_addr::{Access, BASE_SHIFT, Pfn, Prot, VirtAddr};

impl Linux {
    /// A page of a file or of shared memory (`do_fault` in mm/memory.c).
    pub(super) fn map_object(&self, space: &mut AddressSpace, cx: &mut Cx, hole: &Hole) -> Result<Fault, FaultError> {
        let (span, vma, va, access) = (hole.span, &hole.span.value, hole.va, hole.access);
        let Back::Object(id, first) = vma.back else { unreachable!("called for objects only") };
        let base = cx.memory.base;
        let at = va.align_down(base).raw();
        let page = first + ((at - span.start) >> BASE_SHIFT);
        let mut fault = Fault::of(FaultKind::FileCached, base);
        if access != Access::Write {
            self.warm_window(cx, id, span, at)?;
            if let Some(whole) = self.map_whole(space, cx, hole, id, page)? {
                return Ok(whole);
            }
            // `do_read_fault`: neighbours first; if the page itself was among the cached ones, that is all.
            let around = self.map_around(space, cx, span, at)?;
            fault.around_pages = around.neighbours;
            if around.mapped {
                return Ok(fault);
            }
        }
        let (pfn, read) = self.bring(cx, id, span, page, at)?;
        fault.read_pages = read;
        if read > 0 {
            fault.kind = FaultKind::FileRead;
        }
        if read > 0
            && access != Access::Write
            && let Some(whole) = self.map_whole(space, cx, hole, id, page)?
        {
            return Ok(Fault { order: whole.order, ..fault });
        }
        if access == Access::Write && !vma.shared {
            // `do_cow_fault`
            let new = self.placement.base_page(space, cx, span, at)?;
            cx.work(WorkKind::CopyBytes, base.bytes());
            space.map_new(cx, vma, at, new, base, true)?;
            fault.kind = FaultKind::FilePrivate;
        } else {
            Self::map_cached(space, cx, vma, id, at, pfn, access == Access::Write, true)?;
        }
        Ok(fault)
    }

    #[expect(clippy::too_many_arguments, reason = "each is one property of the entry")]
    fn map_cached(
        space: &mut AddressSpace,
        cx: &mut Cx,
        vma: &Vma,
        id: ObjectId,
        at: u64,
        pfn: Pfn,
        store: bool,
        accessed: bool,
    ) -> Result<(), FaultError> {
        // A private page is copied at the first store, and a shared file's must be known to become dirty
        // (`vma_wants_writenotify`); shared memory need not.
        let stores = vma.shared && (store || cx.memory.cache.is_memory(id));
        let prot = if stores { vma.prot } else { vma.prot.without(Prot::W) };
        let base = cx.memory.base;
        let mut leaf = AddressSpace::leaf(vma, pfn, base, prot, store);
        leaf.accessed = accessed;
        // A user before the entry: making a table may reclaim cache pages nobody uses.
        cx.memory.share(pfn, base);
        space.map(cx, at, leaf).inspect_err(|_| cx.memory.drop_mapping(pfn, base))
    }

    /// The page in the cache, brought in with its neighbours if it is not there, and how many pages were read.
    fn bring(&self, cx: &mut Cx, id: ObjectId, span: &Span<Vma>, page: u64, at: u64) -> Result<(Pfn, u32), FaultError> {
        if let Some(pfn) = cx.memory.cache.get(id, page) {
            return Ok((pfn, 0));
        }
        let base = cx.memory.base;
        let no_frame = |cx: &mut Cx| cx.out_of_memory(at, Wanted::Page(base));
        if cx.memory.cache.is_memory(id) {
            let pfn = cx.memory.take_cached(id, page).ok_or_else(|| no_frame(cx))?;
            cx.work(WorkKind::ZeroBytes, base.bytes());
            return Ok((pfn, 0));
        }
        if cx.limits.page_cache == PageCache::Warm {
            let pfn = cx.memory.take_warm(id, page).ok_or_else(|| no_frame(cx))?;
            return Ok((pfn, 0));
        }
        if let Some(size) = self.text.folio(&span.value) {
            let read = self.read_blocks(cx, id, span, page, size);
            return cx.memory.cache.get(id, page).map(|pfn| (pfn, read)).ok_or_else(|| no_frame(cx));
        }
        // `do_sync_mmap_readahead` in mm/filemap.c: a window centred on the page.
        let window = (self.desc.read_around.0 >> BASE_SHIFT).max(base.base_pages());
        let from = page.saturating_sub(window / 2);
        let read = self.read(cx, id, from, from + window);
        match cx.memory.cache.get(id, page) {
            Some(pfn) => Ok((pfn, read)),
            None => Err(no_frame(cx)),
        }
    }

    /// Reads the base pages around `from..to` of a file that are not in the cache, as far as the file goes and frames
    /// last. Returns how many it read.
    pub(super) fn read(&self, cx: &mut Cx, id: ObjectId, from: u64, to: u64) -> u32 {
        let mut read = 0;
        let base = cx.memory.base;
        let from = from - from % base.base_pages();
        for page in (from..to.min(cx.memory.cache.end(id))).step_by(base.base_pages() as usize) {
            if cx.memory.cache.get(id, page).is_none() {
                if cx.memory.take_cached(id, page).is_none() {
                    break;
                }
                read += 1;
            }
        }
        cx.work(WorkKind::ReadBytes, u64::from(read) * base.bytes());
        cx.counts.events.add(EventKind::PagesRead, u64::from(read));
        cx.tell(|| Note::Read { page: from, pages: u64::from(read) });
        read
    }

    /// In a warm cache the pages around are there already; the model gives them frames when first looked at.
    fn warm_window(&self, cx: &mut Cx, id: ObjectId, span: &Span<Vma>, at: u64) -> Result<(), FaultError> {
        if cx.limits.page_cache != PageCache::Warm || cx.memory.cache.is_memory(id) {
            return Ok(());
        }
        let Back::Object(_, first) = span.value.back else { return Ok(()) };
        if let Some(size) = self.text.folio(&span.value) {
            let page = first + ((at - span.start) >> BASE_SHIFT);
            if cx.memory.cache.get(id, page).is_none() {
                self.read_blocks(cx, id, span, page, size);
            }
            return Ok(());
        }
        let (start, end) = window(self.desc.fault_around.0, span, at);
        for va in (start..end).step_by(cx.memory.base.bytes() as usize) {
            let page = first + ((va - span.start) >> BASE_SHIFT);
            if cx.memory.cache.get(id, page).is_none() && cx.memory.take_warm(id, page).is_none() {
                break;
            }
        }
        Ok(())
    }

    /// Maps what the cache holds of the window around `at` (`do_fault_around`, `filemap_map_pages`).
    fn map_around(
        &self,
        space: &mut AddressSpace,
        cx: &mut Cx,
        span: &Span<Vma>,
        at: u64,
    ) -> Result<Around, FaultError> {
        let mut around = Around { mapped: false, neighbours: 0 };
        let Back::Object(id, first) = span.value.back else { return Ok(around) };
        let (start, end) = window(self.desc.fault_around.0, span, at);
        let base = cx.memory.base.bytes();
        if end - start <= base && self.desc.fault_around.0 <= base {
            return Ok(around);
        }
        for va in (start..end).step_by(base as usize) {
            let page = first + ((va - span.start) >> BASE_SHIFT);
            let Some(pfn) = cx.memory.cache.get(id, page) else { continue };
            if matches!(space.probe(cx.mem, VirtAddr::new(va)), Found::Leaf(_)) {
                continue;
            }
            let young = va == at || self.desc.prefaulted_accessed;
            Self::map_cached(space, cx, &span.value, id, va, pfn, false, young)?;
            if va == at {
                around.mapped = true;
            } else {
                around.neighbours += 1;
            }
        }
        if around.neighbours > 0 {
            cx.counts.events.add(EventKind::FaultAround, u64::from(around.neighbours));
            let pages = u64::from(around.neighbours);
            cx.tell(|| Note::Around { va: VirtAddr::new(start), pages });
        }
        Ok(around)
    }
}

struct Around {
    /// Whether the page that faulted is mapped.
    mapped: bool,
    neighbours: u32,
}

/// The aligned window of `bytes` around `at`, as far as the mapping goes. As no window is larger than what one
/// page-table page maps, none crosses its border.
fn window(bytes: u64, span: &Span<Vma>, at: u64) -> (u64, u64) {
    let start = at & !(bytes - 1);
    (start.max(span.start), start.saturating_add(bytes).min(span.end))
}
