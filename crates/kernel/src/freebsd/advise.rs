//! MADV_FREE (`pmap_advise` in sys/amd64/amd64/pmap.c).

use super::Freebsd;
use crate::FaultError;
use crate::report::counts::EventKind;
use crate::space::range::PageRange;
use crate::space::{AddressSpace, Cx, Gather};
use mmulab_addr::{BASE_BYTES, PageOrder, VirtAddr};
use mmulab_pagetable::Leaf;

impl Freebsd {
    /// The contents of the range may go. The pages stay until memory is short, which this kernel never waits for, but
    /// they look untouched: A and D are cleared. A superpage that the range meets is demoted. Its last page in the
    /// range is taken out of the page table. So the next touch of that page faults and tries promotion again.
    pub(super) fn advise_free(
        &self,
        space: &mut AddressSpace,
        cx: &mut Cx,
        pages: PageRange,
    ) -> Result<(), FaultError> {
        if !self.desc.madv_free {
            cx.counts.events.add(EventKind::FreeSuppressed, 1);
            return Ok(());
        }
        for (start, end) in space.parts(pages, |vma| vma.is_anon()) {
            // `vm_map_madvise` calls `pmap_advise` for each mapping, which flushes.
            let mut gather = Gather::default();
            let mut at = start;
            while let Some((va, leaf)) = space.next_leaf(cx.mem, at, end) {
                if leaf.order > PageOrder::P4K {
                    space.split(cx, va, leaf)?;
                    let whole = leaf.order.bytes();
                    let last = end.min(va + whole) - BASE_BYTES;
                    if let Some((_, part)) = space.next_leaf(cx.mem, last, last + BASE_BYTES) {
                        space.unmap(cx, last, part.order, &mut gather);
                        let parked = Leaf { accessed: false, dirty: false, ..part };
                        space.hidden.insert(VirtAddr::new(last).vpn(), parked);
                    }
                    at = va.max(at);
                    continue;
                }
                if leaf.accessed || leaf.dirty {
                    space.set(cx, va, Leaf { accessed: false, dirty: false, ..leaf }, &mut gather);
                }
                at = va + leaf.order.bytes();
            }
            space.finish(cx, gather);
        }
        Ok(())
    }
}
