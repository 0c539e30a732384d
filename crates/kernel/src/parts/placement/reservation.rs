//! Placement *reservation*: a page gets its own place in an aligned block that is reserved for its surroundings.
//! Sources: FreeBSD (sys/vm/vm_reserv.c); Navarro and others, "Practical, transparent operating system support for
//! superpages" (OSDI 2002).

use crate::memory::cache::ObjectId;
use crate::memory::objects::{Anon, Objects};
use crate::memory::pages::{Page, Pages, Use};
use crate::memory::reservations::{LEVEL_MAX, Place, ReservationOutcome};
use crate::parts::part::{Part, Wrong};
use crate::parts::traits::Placement;
use crate::ranges::Span;
use crate::report::counts::{EventKind, Refusal};
use crate::space::vma::{Back, Vma};
use crate::space::{AddressSpace, Cx};
use crate::{Note, WorkKind};
use mmulab_addr::{BASE_BYTES, BASE_SHIFT, PageOrder, Pfn, VirtAddr, Vpn};
use mmulab_frames::PhysMem;

/// Frames out of reservations, whose sizes the memory of the run knows; out of the allocator where none can serve.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reservation;

impl Part for Reservation {
    const NAME: &'static str = "reservation";
    const ABOUT: &'static str = "The page's own place in an aligned block that is reserved for its surroundings.";

    fn new(_: &()) -> Result<Self, Wrong> {
        Ok(Self)
    }
}

impl Reservation {
    /// Whether reservations can have these sizes.
    ///
    /// # Errors
    /// The fault and the remedy.
    pub fn check(levels: &[PageOrder], memory_bytes: u64) -> Result<(), String> {
        for (i, &level) in levels.iter().enumerate() {
            if level == PageOrder::P4K || level > LEVEL_MAX {
                return Err(format!("a reservation of {level} cannot be: give sizes from 8K to {LEVEL_MAX}"));
            }
            if level.bytes() > memory_bytes / 2 {
                return Err(format!("a reservation of {level} is more than half of memory: give a smaller one"));
            }
            if levels[..i].contains(&level) {
                return Err(format!("{level} is given twice"));
            }
        }
        Ok(())
    }
}

impl Placement for Reservation {
    /// A frame for a page of the mapping's own (`vm_page_alloc` for an anonymous object). Reservations give base pages
    /// one by one; a larger block comes out of the allocator.
    fn take(&self, space: &mut AddressSpace, cx: &mut Cx, span: &Span<Vma>, at: u64, order: PageOrder) -> Option<Pfn> {
        if order > PageOrder::P4K {
            return cx.memory.take_anon(order);
        }
        let got = if !cx.memory.reservations.is_on() {
            None
        } else if span.value.grows_down {
            // Each growth of a stack is an object of its own, which begins inside 2 MiB.
            Some((0, ReservationOutcome::Refused(Refusal::ReservStack)))
        } else {
            let place = Self::own_place(space, cx, span, at);
            let Cx { mem, memory, .. } = cx;
            let (pages, cpu) = (&memory.pages, memory.cpu);
            let near = |from: u64, to: u64| Self::has_pages(space, mem, pages, place, at, (from, to));
            Some((place.object, memory.reservations.take(place, &mut memory.frames, cpu, near)))
        };
        let (object, pfn) = Self::reserved_or_free(cx, at, got)?;
        let region = cx.memory.resident.acting();
        *cx.memory.pages.get_mut(pfn) = Page { refs: 1, used: Use::Anon, object, region, ..Page::default() };
        cx.memory.hold(1);
        Some(pfn)
    }
}

impl Reservation {
    /// A frame for a page of a file or of shared memory, in the cache.
    pub fn take_cached(&self, cx: &mut Cx, id: ObjectId, page: u64, at: u64) -> Option<Pfn> {
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
        let (_, pfn) = Self::reserved_or_free(cx, at, got)?;
        cx.memory.keep_cached(id, page, pfn, object);
        Some(pfn)
    }

    /// Counts what a request to the reservations came to, and turns to the allocator if they have no page.
    fn reserved_or_free(cx: &mut Cx, at: u64, got: Option<(u32, ReservationOutcome)>) -> Option<(u32, Pfn)> {
        match got {
            Some((object, ReservationOutcome::Page { pfn, made })) => {
                if let Some(size) = made {
                    cx.work(WorkKind::LargeBlock, 1);
                    cx.counts.events.add(EventKind::ReservMade, 1);
                    cx.tell(|| Note::Reserved { va: VirtAddr::new(at), size });
                } else {
                    cx.work(WorkKind::BaseFrame, 1);
                }
                Some((object, pfn))
            }
            Some((object, ReservationOutcome::Refused(why))) => {
                cx.refuse(why, at);
                Some((object, cx.memory.take_base()?))
            }
            Some((object, ReservationOutcome::Taken)) => Some((object, cx.memory.take_base()?)),
            None => Some((0, cx.memory.take_base()?)),
        }
    }

    /// Where a page of a mapping's own belongs. The mapping gets its object with its first page; the object is as long
    /// as the mapping is then. Memory that two address spaces share since a fork gets a shadow object in each
    /// (`vm_object_shadow`).
    fn own_place(space: &mut AddressSpace, cx: &mut Cx, span: &Span<Vma>, at: u64) -> Place {
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
            && let Some(vma) = space.vmas.value_mut(at)
        {
            vma.anon = Some(anon);
        }
        let page = (at - span.start) >> BASE_SHIFT;
        Place { object: anon.object, at: anon.at + page, start, end: None }
    }

    /// Whether the object of `place`, whose page lies at `at`, has pages in memory from one number up to another.
    fn has_pages(
        space: &AddressSpace,
        mem: &PhysMem,
        pages: &Pages,
        place: Place,
        at: u64,
        (from, to): (u64, u64),
    ) -> bool {
        let Some(start) = at.checked_sub((place.at - from) * BASE_BYTES) else { return true };
        // An object that reaches the last address has pages up to there.
        let end = start.saturating_add((to - from) * BASE_BYTES);
        let is_of = |pfn: Pfn| pages.get(pfn).object == place.object;
        let (first, last) = (Vpn(start >> BASE_SHIFT), Vpn(end >> BASE_SHIFT));
        space.pages(mem, pages, start, end).any(|(_, page)| is_of(page.pfn))
            || space.hidden.range(first..last).any(|(_, leaf)| is_of(leaf.pfn))
    }
}
