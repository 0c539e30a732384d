//! Faults on files and shared memory: clusters, the neighbours mapped beside, and superpages of full reservations.

use super::Freebsd;
use super::code::SUPERPAGE;
use crate::memory::cache::ObjectId;
use crate::memory::objects::Objects;
use crate::parts::traits::Placement;
use crate::ranges::Span;
use crate::report::counts::{EventKind, FaultKind};
use crate::space::range::PageRange;
use crate::space::vma::{Back, Vma};
use crate::space::{AddressSpace, Cx, Found, Gather};
use crate::{Fault, FaultError, Note, PageCache, Wanted, WorkKind};
use mmulab_addr::{Access, BASE_BYTES, BASE_SHIFT, PageOrder, Pfn, Prot, VirtAddr};
use mmulab_frames::PhysMem;
use mmulab_pagetable::Leaf;

/// Pages of a file that one fault may concern, around the one that faulted.
#[derive(Clone, Copy)]
struct Window {
    behind: u64,
    ahead: u64,
}

impl Freebsd {
    /// A page of a file or of shared memory.
    pub(super) fn show_object(
        &self,
        space: &mut AddressSpace,
        cx: &mut Cx,
        span: &Span<Vma>,
        at: u64,
        access: Access,
    ) -> Result<Fault, FaultError> {
        let padded = self.pad(space, cx, span, at);
        let span = padded.as_ref().unwrap_or(span);
        let vma = &span.value;
        let Back::Object(id, first) = vma.back else { unreachable!("called for objects only") };
        let page = first + ((at - span.start) >> BASE_SHIFT);
        let copies = access == Access::Write && !vma.shared;
        let mut fault = Fault::of(FaultKind::FileCached, PageOrder::P4K);
        let shared = if copies { Vec::new() } else { self.shared_table_sizes(space, vma) };
        // A table above the lowest can map superpages; in the place of a lowest one, a superpage is better.
        let (upper, lowest) = shared.split_at(shared.partition_point(|&covers| covers > SUPERPAGE));
        if let Some(order) = space.join_table(cx, span, at, upper)? {
            return Ok(Fault { order, ..fault });
        }
        if !copies && self.map_whole(space, cx, span, (id, page), at, true)?.is_some() {
            cx.counts.events.add(EventKind::SuperpageMapped, 1);
            fault.order = SUPERPAGE;
            space.offer_table(cx, span, at, upper);
            return Ok(fault);
        }
        if let Some(order) = space.join_table(cx, span, at, lowest)? {
            return Ok(Fault { order, ..fault });
        }
        let read_before = cx.counts.events.get(EventKind::PagesRead);
        let (cluster, near) = (self.desc.cluster.0 >> BASE_SHIFT, u64::from(self.desc.prefault));
        let was_missing = cx.memory.cache.get(id, page).is_none();
        let (pfn, mut window) = self.find_or_read(cx, span, id, page, at, cluster)?;
        if was_missing && !copies && self.completes(cx, span, id, page, at, pfn) {
            cx.memory.drop_mapping(pfn, PageOrder::P4K);
            if let Some(head) = self.map_whole(space, cx, span, (id, page), at, true)? {
                let va = VirtAddr::new(at).align_down(SUPERPAGE);
                cx.counts.events.add(EventKind::Promotion, 1);
                cx.tell(|| Note::Promoted { va, size: SUPERPAGE, pfn: head });
                let read_pages = (cx.counts.events.get(EventKind::PagesRead) - read_before) as u32;
                space.offer_table(cx, span, at, upper);
                return Ok(Fault { order: SUPERPAGE, kind: FaultKind::FileRead, read_pages, ..fault });
            }
            cx.memory.share(pfn, PageOrder::P4K);
        }
        if let Some(window) = window {
            fault.read_pages = (window.behind + window.ahead + 1) as u32;
            fault.kind = FaultKind::FileRead;
        } else if !cx.memory.cache.is_memory(id) || near > 0 {
            window = Some(Window { behind: near, ahead: near });
        }
        if copies {
            let new = self.placement.base_page(space, cx, span, at);
            cx.memory.drop_mapping(pfn, PageOrder::P4K);
            let new = new?;
            cx.work(WorkKind::CopyBytes, BASE_BYTES);
            let leaf = AddressSpace::leaf(vma, new, PageOrder::P4K, vma.prot, true);
            space.map(cx, at, leaf).inspect_err(|_| cx.memory.drop_mapping(new, PageOrder::P4K))?;
            space.mark_private(at);
            fault.kind = FaultKind::FilePrivate;
        } else {
            // A shared page may be stored to at once: FreeBSD looks at its D bit later.
            let prot = if vma.shared { vma.prot } else { vma.prot.without(Prot::W) };
            let leaf = AddressSpace::leaf(vma, pfn, PageOrder::P4K, prot, access == Access::Write);
            space.map(cx, at, leaf).inspect_err(|_| cx.memory.drop_mapping(pfn, PageOrder::P4K))?;
        }
        // `vm_fault_prefault` is left out when the page alone was read.
        if let Some(window) = window.filter(|_| fault.read_pages != 1) {
            fault.around_pages = self.prefault(space, cx, span, at, window)?;
        }
        space.offer_table(cx, span, at, &shared);
        Ok(fault)
    }

    /// The frame of a page, and the pages read if it was not in memory. The frame has one more user (`vm_page_xbusy`),
    /// which the caller passes on or drops. The user keeps the page, which may not be mapped yet, if the next step
    /// takes the last frames.
    fn find_or_read(
        &self,
        cx: &mut Cx,
        span: &Span<Vma>,
        id: ObjectId,
        page: u64,
        at: u64,
        cluster: u64,
    ) -> Result<(Pfn, Option<Window>), FaultError> {
        if let Some(pfn) = cx.memory.cache.get(id, page) {
            cx.memory.share(pfn, PageOrder::P4K);
            return Ok((pfn, None));
        }
        let pfn = self.cache_page(cx, id, page, at)?;
        cx.memory.share(pfn, PageOrder::P4K);
        if cx.memory.cache.is_memory(id) {
            cx.work(WorkKind::ZeroBytes, BASE_BYTES);
            return Ok((pfn, None));
        }
        // A cluster aligned in the file, as far as the mapping and the file go, and as far as pages are not in memory.
        let offset = page % cluster;
        let behind = offset.min((at - span.start) >> BASE_SHIFT);
        let ahead = (cluster - 1 - offset).min(((span.end - at) >> BASE_SHIFT) - 1);
        let last = (page + ahead).min(cx.memory.cache.end(id).saturating_sub(1));
        let mut window = Window { behind: 0, ahead: 0 };
        for other in (page - behind..page).rev() {
            let va = at - (page - other) * BASE_BYTES;
            if cx.memory.cache.get(id, other).is_some() || self.cache_page(cx, id, other, va).is_err() {
                break;
            }
            window.behind += 1;
        }
        for other in page + 1..=last {
            let va = at + (other - page) * BASE_BYTES;
            if cx.memory.cache.get(id, other).is_some() || self.cache_page(cx, id, other, va).is_err() {
                break;
            }
            window.ahead += 1;
        }
        self.count_read(cx, id, page - window.behind, window.behind + window.ahead + 1);
        Ok((pfn, (cx.limits.page_cache == PageCache::Cold).then_some(window)))
    }

    /// Maps a base page of a file at `va` before anybody asked for it (`pmap_enter_quick`): without the right to store,
    /// and by default with A clear.
    pub(super) fn map_ahead(
        &self,
        space: &mut AddressSpace,
        cx: &mut Cx,
        vma: &Vma,
        va: u64,
        pfn: Pfn,
    ) -> Result<(), FaultError> {
        let leaf = AddressSpace::leaf(vma, pfn, PageOrder::P4K, vma.prot.without(Prot::W), false);
        let leaf = Leaf { accessed: self.desc.prefaulted_accessed, ..leaf };
        cx.memory.share(pfn, PageOrder::P4K);
        space.map(cx, va, leaf).inspect_err(|_| cx.memory.drop_mapping(pfn, PageOrder::P4K))
    }

    /// Maps the pages in memory around `at`, in an outward spiral, up to the first page that is not in memory
    /// (`vm_fault_prefault`).
    fn prefault(
        &self,
        space: &mut AddressSpace,
        cx: &mut Cx,
        span: &Span<Vma>,
        at: u64,
        window: Window,
    ) -> Result<u32, FaultError> {
        let Back::Object(id, first) = span.value.back else { return Ok(0) };
        let mut mapped = 0;
        'spiral: for step in 1..=window.behind.max(window.ahead) {
            for (reach, ahead) in [(window.behind, false), (window.ahead, true)] {
                let va = if ahead { at.checked_add(step * BASE_BYTES) } else { at.checked_sub(step * BASE_BYTES) };
                let Some(va) = va.filter(|&va| step <= reach && va >= span.start && va < span.end) else { continue };
                if !Self::is_prefaultable(space, cx.mem, va) || space.hidden.contains_key(&VirtAddr::new(va).vpn()) {
                    continue;
                }
                let page = first + ((va - span.start) >> BASE_SHIFT);
                let Some(pfn) = cx.memory.cache.get(id, page) else { break 'spiral };
                self.map_ahead(space, cx, &span.value, va, pfn)?;
                mapped += 1;
            }
        }
        if mapped > 0 {
            cx.counts.events.add(EventKind::FaultAround, u64::from(mapped));
            cx.tell(|| Note::Around { va: VirtAddr::new(at), pages: u64::from(mapped) });
        }
        Ok(mapped)
    }

    /// Maps 2 MiB at once if the page lies in a full reservation (`vm_fault_soft_fast`): what a second process that
    /// maps the same file gets. Not where stores are allowed, unless they copy: those are to be seen page by page.
    pub(super) fn map_whole(
        &self,
        space: &mut AddressSpace,
        cx: &mut Cx,
        span: &Span<Vma>,
        (id, page): (ObjectId, u64),
        at: u64,
        accessed: bool,
    ) -> Result<Option<Pfn>, FaultError> {
        let order = SUPERPAGE;
        let vma = &span.value;
        let is_allowed = self.has_superpages() && self.allows_superpages(vma);
        let Some(pfn) = cx.memory.cache.get(id, page).filter(|_| is_allowed) else { return Ok(None) };
        let start = VirtAddr::new(at).align_down(order).raw();
        let inside = start >= span.start && span.end - start >= order.bytes();
        let head = pfn.align_down(order);
        let congruent = pfn.0 - head.0 == (at - start) >> BASE_SHIFT;
        if (vma.shared && vma.prot.has(Prot::W)) || !inside || !congruent || !cx.memory.reservations.is_full(pfn, order)
        {
            return Ok(None);
        }
        // What is mapped there already goes, if it is the same file's.
        let object = Objects::shown(id);
        let mut is_empty = true;
        for (_, leaf) in space.leaves(cx.mem, start, start + order.bytes()) {
            if cx.memory.pages.get(leaf.pfn).object != object {
                return Ok(None);
            }
            is_empty = false;
        }
        let (first, last) = (VirtAddr::new(start).vpn(), VirtAddr::new(start + order.bytes()).vpn());
        if space.hidden.range(first..last).next().is_some() {
            return Ok(None);
        }
        if !is_empty {
            let mut gather = Gather::default();
            let pages = PageRange { start, end: start + order.bytes() };
            space.leave_tables(cx, pages, &mut gather)?;
            space.zap(cx, start, start + order.bytes(), &mut gather);
            gather.note(start, order);
            space.finish(cx, gather);
        }
        cx.memory.share(head, order);
        let leaf = Leaf { accessed, ..AddressSpace::leaf(vma, head, order, vma.prot.without(Prot::W), false) };
        space.map(cx, start, leaf).inspect_err(|_| cx.memory.drop_mapping(head, order))?;
        Ok(Some(head))
    }

    /// A frame for a page of a file or of shared memory, in the cache.
    pub(super) fn cache_page(&self, cx: &mut Cx, id: ObjectId, page: u64, at: u64) -> Result<Pfn, FaultError> {
        let pfn = self.placement.take_cached(cx, id, page, at);
        pfn.ok_or_else(|| cx.out_of_memory(at, Wanted::Page(PageOrder::P4K)))
    }

    /// Whether the table that would hold a base page's entry exists (`pmap_is_prefaultable`), and the entry is empty.
    fn is_prefaultable(space: &AddressSpace, mem: &PhysMem, va: u64) -> bool {
        matches!(space.probe(mem, VirtAddr::new(va)), Found::Hole(PageOrder::P4K))
    }
}
