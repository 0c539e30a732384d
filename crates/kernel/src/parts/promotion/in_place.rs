//! Promotion *in place*: the base pages of a reservation that agree become one larger page, at the fault that completes
//! them. FreeBSD: `pmap_promote_pde` in sys/amd64/amd64/pmap.c, and for 64 KiB `pmap_promote_l3c` in
//! sys/arm64/arm64/pmap.c.

use crate::memory::pages::{Page, Use};
use crate::parts::part::{Part, Wrong};
use crate::parts::settings::PromotionSettings;
use crate::parts::traits::Promotion;
use crate::report::counts::{EventKind, Refusal};
use crate::space::{AddressSpace, Cx, Found};
use crate::{FaultError, WorkKind};
use mmulab_addr::{BASE_BYTES, BASE_SHIFT, PageOrder, Pfn, Prot, VirtAddr, Vpn};
use mmulab_pagetable::Leaf;

/// Promotion of the base pages of a reservation, which stay in their frames.
#[derive(Clone, Copy, Debug)]
pub(crate) struct InPlace {
    size: PageOrder,
    /// Pages of the reservation in use that are enough; the others are then zeroed and mapped first.
    threshold: u32,
    needs_accessed: bool,
    takes_filled: bool,
}

impl Part<PromotionSettings> for InPlace {
    const NAME: &'static str = "in-place";
    const ABOUT: &'static str = "They stay in their frames, which lie together: with `when = \"full\"` or \
         `\"threshold\"`, or by a daemon that can.";

    fn new(settings: &PromotionSettings) -> Result<Self, Wrong> {
        let &PromotionSettings { size, threshold, needs_accessed, takes_filled } = settings;
        Ok(Self { size, threshold, needs_accessed, takes_filled })
    }
}

impl Promotion for InPlace {
    fn promote(&self, space: &mut AddressSpace, cx: &mut Cx, at: u64) -> Result<Option<PageOrder>, FaultError> {
        let order = self.size;
        let Found::Leaf(leaf) = space.probe(cx.mem, VirtAddr::new(at)) else { return Ok(None) };
        if leaf.order != PageOrder::P4K || leaf.global {
            return Ok(None);
        }
        let used = cx.memory.reservations.used_in(leaf.pfn, order);
        if used < self.threshold {
            return Ok(None);
        }
        let start = VirtAddr::new(at).align_down(order).raw();
        let head = leaf.pfn.align_down(order);
        let made = if leaf.pfn.0 - head.0 != (at - start) >> BASE_SHIFT {
            Err(Refusal::PromoteMisaligned)
        } else if space.vmas.find(at).is_none_or(|s| s.start > start || s.end - start < order.bytes()) {
            Err(Refusal::PromoteOutsideVma)
        } else if u64::from(used) < order.base_pages() {
            self.fill_rest(space, cx, start, head)
        } else if self.takes_filled && Self::has_filled(space, start, order) {
            self.take_filled(space, cx, start, head)
        } else {
            self.agree(space, cx, start, head)
        };
        let whole = match made {
            Ok(whole) => whole,
            Err(why) => {
                cx.refuse(why, at);
                return Ok(None);
            }
        };
        space.join(cx, start, whole)?;
        Ok(Some(order))
    }
}

impl InPlace {
    /// The superpage that the base pages from `start` make, if all are mapped in order and agree in everything.
    ///
    /// Pages that may be stored to and are clean lose that right first, whether promotion succeeds or not. So a store
    /// to one faults, and promotion is tried again when it is dirty. No flush is owed: hardware reads the entry again
    /// before it sets D.
    fn agree(&self, space: &mut AddressSpace, cx: &mut Cx, start: u64, head: Pfn) -> Result<Leaf, Refusal> {
        let pages = self.size.base_pages();
        let mut first: Option<Leaf> = None;
        let mut all_accessed = true;
        // The first page is looked at first, the others from the last down.
        for i in std::iter::once(0).chain((1..pages).rev()) {
            let va = start + i * BASE_BYTES;
            let Found::Leaf(mut leaf) = space.probe(cx.mem, VirtAddr::new(va)) else {
                return Err(Refusal::PromoteGap);
            };
            if leaf.order != PageOrder::P4K || leaf.pfn.0 != head.0 + i {
                return Err(Refusal::PromoteScattered);
            }
            if self.needs_accessed && !leaf.accessed {
                return Err(Refusal::PromoteNotAccessed);
            }
            if leaf.prot.has(Prot::W) && !leaf.dirty {
                leaf.prot = leaf.prot.without(Prot::W);
                let vpn = VirtAddr::new(va).vpn();
                space.table.set(cx.mem, vpn, leaf).lazy("hardware reads a clean entry again before it stores");
                cx.work(WorkKind::EntryWrite, 1);
            }
            all_accessed &= leaf.accessed;
            let first = first.get_or_insert(leaf);
            if (first.prot, first.dirty, first.user, first.global) != (leaf.prot, leaf.dirty, leaf.user, leaf.global) {
                return Err(Refusal::PromoteMixed);
            }
        }
        let Some(first) = first else { return Err(Refusal::PromoteGap) };
        Ok(Leaf { pfn: head, order: self.size, accessed: all_accessed, ..first })
    }

    /// Takes, zeroes and maps what a partly used reservation lacks (Quicksilver's early promotion), of anonymous
    /// memory.
    fn fill_rest(&self, space: &AddressSpace, cx: &mut Cx, start: u64, head: Pfn) -> Result<Leaf, Refusal> {
        let order = self.size;
        let (whole, present, object) = self.whole_of(space, cx, start, head)?;
        // A page in use that is not mapped here is somebody else's.
        if present != u64::from(cx.memory.reservations.used_in(head, order)) {
            return Err(Refusal::PromoteGap);
        }
        let region = cx.memory.resident.acting();
        for i in 0..order.base_pages() {
            let va = VirtAddr::new(start + i * BASE_BYTES);
            if matches!(space.probe(cx.mem, va), Found::Hole(_)) {
                *cx.memory.pages.get_mut(Pfn(head.0 + i)) =
                    Page { refs: 1, used: Use::Anon, object, region, ..Page::default() };
            }
        }
        cx.memory.reservations.fill(head, order);
        let missing = order.base_pages() - present;
        cx.memory.hold(missing);
        cx.work(WorkKind::ZeroBytes, missing * BASE_BYTES);
        cx.counts.events.add(EventKind::PromotionFill, missing);
        Ok(whole)
    }

    /// The larger page that the mapped base pages from `start` are part of, how many they are, and their object. All of
    /// them must be the mapping's own and at their places.
    fn whole_of(&self, space: &AddressSpace, cx: &Cx, start: u64, head: Pfn) -> Result<(Leaf, u64, u32), Refusal> {
        let Some(span) = space.vmas.find(start) else { return Err(Refusal::PromoteOutsideVma) };
        if !span.value.is_anon() {
            return Err(Refusal::PromoteNotFull);
        }
        let mut whole = AddressSpace::leaf(&span.value, head, self.size, span.value.prot, false);
        whole.accessed = false;
        let (mut present, mut object) = (0, 0);
        for (va, leaf) in space.leaves(cx.mem, start, start + self.size.bytes()) {
            object = Self::own(cx, &leaf, head, (va - start) >> BASE_SHIFT)?;
            whole.dirty |= leaf.dirty;
            whole.accessed |= leaf.accessed;
            present += 1;
        }
        Ok((whole, present, object))
    }

    /// The object of a base page that only this mapping has, and that lies `index` frames behind `head`.
    fn own(cx: &Cx, leaf: &Leaf, head: Pfn, index: u64) -> Result<u32, Refusal> {
        if leaf.order != PageOrder::P4K || leaf.pfn.0 != head.0 + index {
            return Err(Refusal::PromoteScattered);
        }
        let page = cx.memory.pages.get(leaf.pfn);
        match page.refs == 1 && page.used == Use::Anon {
            true => Ok(page.object),
            false => Err(Refusal::PromoteMixed),
        }
    }

    /// The numbers of the base pages of the larger page at `start`.
    fn numbers(start: u64, order: PageOrder) -> std::ops::Range<Vpn> {
        VirtAddr::new(start).vpn()..VirtAddr::new(start + order.bytes()).vpn()
    }

    /// Whether pages of the larger page at `start` are in memory but not in the page table.
    fn has_filled(space: &AddressSpace, start: u64, order: PageOrder) -> bool {
        space.hidden.range(Self::numbers(start, order)).next().is_some()
    }

    /// The superpage of base pages that a daemon completed. Pages that are dirty and pages that are not make one: the
    /// fault maps the whole reservation anew (`vm.relax` of Quicksilver's published configurations).
    fn take_filled(&self, space: &mut AddressSpace, cx: &mut Cx, start: u64, head: Pfn) -> Result<Leaf, Refusal> {
        let (whole, mut present, _) = self.whole_of(space, cx, start, head)?;
        for (vpn, leaf) in space.hidden.range(Self::numbers(start, self.size)) {
            Self::own(cx, leaf, head, (vpn.addr().raw() - start) >> BASE_SHIFT)?;
            present += 1;
        }
        if present != self.size.base_pages() {
            return Err(Refusal::PromoteGap);
        }
        space.take_hidden(start, start + self.size.bytes());
        Ok(whole)
    }
}
