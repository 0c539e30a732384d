//! Pages of a file that are in memory when it is mapped: the mapping has them from its beginning.
//!
//! ```text
//!   mmap  |###.##|..............|      # in memory: mapped at once, of the first `mmap_prefault` pages
//!   exec  |###.##|..#####...####|      # all that is in memory, of the program's and the interpreter's files
//! ```
//!
//! Source: `vm_map_pmap_enter` in sys/vm/vm_map.c, `pmap_enter_object` in sys/amd64/amd64/pmap.c. Nothing is read, and
//! nothing is promoted. If memory is short, what is left is not mapped.

use super::Freebsd;
use super::code::SUPERPAGE;
use crate::FaultError;
use crate::ranges::Span;
use crate::report::counts::EventKind;
use crate::space::range::PageRange;
use crate::space::vma::{Back, Vma};
use crate::space::{AddressSpace, Cx, Found};
use mmulab_addr::{BASE_BYTES, BASE_SHIFT, PageOrder, Prot, VirtAddr};

impl Freebsd {
    /// Maps what is in memory of the new mapping `pages` in `span`, and offers its tables of the sizes in `shared` to
    /// others.
    pub(super) fn enter_resident(
        &self,
        space: &mut AddressSpace,
        cx: &mut Cx,
        span: &Span<Vma>,
        pages: PageRange,
        shared: &[PageOrder],
    ) -> Result<(), FaultError> {
        let vma = &span.value;
        let Back::Object(id, first) = vma.back else { return Ok(()) };
        let is_exec = space.is_loading && self.desc.exec_prefault;
        let most = if is_exec { u64::MAX } else { u64::from(self.desc.mmap_prefault) };
        if vma.hugetlb.is_some() || !(vma.prot.has(Prot::R) || vma.prot.has(Prot::X)) {
            return Ok(());
        }
        let first = first + ((pages.start - span.start) >> BASE_SHIFT);
        let all = (pages.end - pages.start) >> BASE_SHIFT;
        // A superpage counts as one page.
        let mut end = most.min(all);
        // One page of each 2 MiB.
        let mut mapped = Vec::new();
        let mut index = 0;
        while index < end && space.has_room_for_tables(cx) {
            let (va, page) = (pages.start + index * BASE_BYTES, first + index);
            let Some(pfn) = cx.memory.cache.get(id, page) else {
                // A mapping may reserve terabytes of which next to nothing is in memory.
                let next = cx.memory.cache.next(id, page, first.saturating_add(end));
                index = next.map_or(end, |next| next - first);
                continue;
            };
            if !matches!(space.probe(cx.mem, VirtAddr::new(va)), Found::Hole(_)) {
                index += 1;
                continue;
            }
            let is_aligned = va.is_multiple_of(SUPERPAGE.bytes());
            let accessed = self.desc.prefaulted_accessed;
            if is_aligned && self.map_whole(space, cx, span, (id, page), va, accessed)?.is_some() {
                let rest = SUPERPAGE.base_pages() - 1;
                index += rest + 1;
                end = end.saturating_add(rest).min(all);
            } else {
                self.map_ahead(space, cx, vma, va, pfn)?;
                index += 1;
            }
            cx.counts.events.add(EventKind::MappedAhead, 1);
            if mapped.last().is_none_or(|last| (last ^ va) >= SUPERPAGE.bytes()) {
                mapped.push(va);
            }
        }
        mapped.into_iter().for_each(|va| space.offer_table(cx, span, va, shared));
        Ok(())
    }
}
