//! Where a page of an object comes from: its reservation, or the allocator.

use super::{Anon, Objects, Place, reserv::Got};
use crate::cache::ObjectId;
use crate::counts::{Happening, Refusal};
use crate::pages::{Page, Use};
use crate::space::{Cx, Found, Space};
use crate::spans::Span;
use crate::vma::{Back, Vma};
use crate::{FaultError, Told, Wanted, WorkKind};
use mmulab_addr::{BASE_BYTES, BASE_SHIFT, PageOrder, Pfn, VirtAddr, Vpn};
use mmulab_frames::PhysMem;

impl Space {
    /// A frame for a page of the mapping's own (`vm_page_alloc` for an anonymous object), with one user. Its contents
    /// are the caller's to make.
    pub(crate) fn own_page(&mut self, cx: &mut Cx, span: &Span<Vma>, at: u64) -> Result<Pfn, FaultError> {
        let got = if !cx.memory.reservations.is_on() {
            None
        } else if span.value.grows_down {
            // Each growth of a stack is an object of its own, which begins inside 2 MiB.
            Some((0, Got::Refused(Refusal::ReservStack)))
        } else {
            let place = self.own_place(cx, span, at);
            let Cx { mem, memory, .. } = cx;
            let (pages, cpu) = (&memory.pages, memory.cpu);
            let near = |from: u64, to: u64| self.has_pages(mem, pages, place, at, (from, to));
            Some((place.object, memory.reservations.take(place, &mut memory.frames, cpu, near)))
        };
        let (object, pfn) = self.settle(cx, at, got)?;
        let region = cx.memory.resident.acting();
        *cx.memory.pages.get_mut(pfn) = Page { refs: 1, used: Use::Anon, object, region, ..Page::default() };
        cx.memory.hold(1);
        Ok(pfn)
    }

    /// A frame for a page of a file or of shared memory, in the cache.
    pub(crate) fn cache_page(&mut self, cx: &mut Cx, id: ObjectId, page: u64, at: u64) -> Result<Pfn, FaultError> {
        let object = Objects::shown(id);
        let got = cx.memory.reservations.is_on().then(|| {
            let memory = &mut *cx.memory;
            // Shared memory is coloured by where it is first touched and may grow; files are not and do not.
            let (colour, end) = match memory.cache.is_memory(id) {
                true => (memory.objects.colour(id, page, at >> BASE_SHIFT), None),
                false => (0, Some(memory.cache.end(id))),
            };
            let place = Place { object, at: page + colour, start: colour, end };
            let cache = &memory.cache;
            let near = |from: u64, to: u64| cache.has_any(id, from - colour, to - colour);
            (object, memory.reservations.take(place, &mut memory.frames, memory.cpu, near))
        });
        let (_, pfn) = self.settle(cx, at, got)?;
        cx.memory.keep_cached(id, page, pfn, object);
        Ok(pfn)
    }

    /// Counts what a request to the reservations came to, and turns to the allocator if they have no page.
    fn settle(&mut self, cx: &mut Cx, at: u64, got: Option<(u32, Got)>) -> Result<(u32, Pfn), FaultError> {
        let (object, pfn) = match got {
            Some((object, Got::Page { pfn, made })) => {
                if let Some(size) = made {
                    cx.work(WorkKind::LargeBlock, 1);
                    cx.counts.happenings.add(Happening::ReservMade, 1);
                    cx.tell(|| Told::Reserved { va: VirtAddr::new(at), size });
                } else {
                    cx.work(WorkKind::BaseFrame, 1);
                }
                return Ok((object, pfn));
            }
            Some((object, Got::Refused(why))) => {
                cx.refuse(why, at);
                (object, cx.memory.take_base())
            }
            Some((object, Got::Taken)) => (object, cx.memory.take_base()),
            None => (0, cx.memory.take_base()),
        };
        match pfn {
            Some(pfn) => Ok((object, pfn)),
            None => Err(cx.out_of_memory(at, Wanted::Page(PageOrder::P4K))),
        }
    }

    /// Where a page of a mapping's own belongs. The mapping gets its object with its first page, as long as it is then;
    /// what two address spaces share since a fork gets a shadow object each (`vm_object_shadow`).
    fn own_place(&mut self, cx: &mut Cx, span: &Span<Vma>, at: u64) -> Place {
        let objects = &mut cx.memory.objects;
        let kept = span.value.anon.filter(|a| !objects.is_shared(a.object));
        let anon = kept.unwrap_or_else(|| {
            let start = match (span.value.anon, span.value.back) {
                (Some(shared), _) => shared.at,
                (None, Back::Anon) => span.start >> BASE_SHIFT,
                // A shadow of a file has the file's colour.
                (None, Back::Object(_, first)) => first,
            };
            Anon { object: objects.make(start), at: start }
        });
        let start = objects.start(anon.object);
        if kept.is_none()
            && let Some(vma) = self.vmas.value_mut(at)
        {
            vma.anon = Some(anon);
        }
        let page = (at - span.start) >> BASE_SHIFT;
        Place { object: anon.object, at: anon.at + page, start, end: None }
    }

    /// Whether the object of `place`, whose page lies at `at`, has pages in memory from one number up to another.
    fn has_pages(
        &self,
        mem: &PhysMem,
        pages: &crate::pages::Pages,
        place: Place,
        at: u64,
        (from, to): (u64, u64),
    ) -> bool {
        let Some(start) = at.checked_sub((place.at - from) * BASE_BYTES) else { return true };
        // An object that reaches the last address has pages up to there.
        let end = start.saturating_add((to - from) * BASE_BYTES);
        let is_of = |pfn: Pfn| pages.get(pfn).object == place.object;
        let mut next = start;
        while let Some((va, leaf)) = self.next_leaf(mem, next, end) {
            if is_of(leaf.pfn) {
                return true;
            }
            let Some(above) = va.checked_add(leaf.order.bytes()) else { break };
            next = above;
        }
        let (first, last) = (Vpn(start >> BASE_SHIFT), Vpn(end >> BASE_SHIFT));
        self.hidden.range(first..last).any(|(_, leaf)| is_of(leaf.pfn))
    }

    /// A page of the mapping's own that is in memory and was taken out of the page table alone (`pmap_advise` takes one
    /// of a superpage it breaks): it is put back.
    pub(crate) fn put_back(&mut self, cx: &mut Cx, vma: &Vma, at: u64, store: bool) -> Result<bool, FaultError> {
        let vpn = VirtAddr::new(at).vpn();
        let Some(mut leaf) = self.hidden.remove(&vpn) else { return Ok(false) };
        leaf.prot = Self::rights(vma, &leaf, cx.memory);
        leaf.accessed = true;
        leaf.dirty |= store && leaf.prot.has(mmulab_addr::Prot::W);
        self.map(cx, at, leaf).inspect_err(|_| Self::release(cx, &leaf))?;
        Ok(true)
    }

    /// Whether the table that would hold a base page's entry exists (`pmap_is_prefaultable`), and the entry is empty.
    pub(crate) fn is_prefaultable(&self, mem: &PhysMem, va: u64) -> bool {
        matches!(self.probe(mem, VirtAddr::new(va)), Found::Hole(PageOrder::P4K))
    }
}
